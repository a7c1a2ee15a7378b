"""What heads look at, as a probe's result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from qt_bert.encoder.heads import names_of
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.probes.common.averages import means
from qt_bert.probes.common.maps import known
from qt_bert.probes.common.naming import comes_back
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.linguistic import words
from qt_bert.probes.linguistic.claims import findings, rival
from qt_bert.probes.linguistic.figures import figures, kinds_of
from qt_bert.probes.linguistic.kinds import TUNED
from qt_bert.probes.linguistic.looking import Looking
from qt_bert.probes.linguistic.measures import (
    empty_heads,
    known_mean,
    last_cls,
    over_heads,
)
from qt_bert.probes.linguistic.study import LEAST_LIFT, Part, Study, by_lift
from qt_bert.results import Finding, HeadScores, ProbeResult, Text

COMES_BACK_RESAMPLES = 200
NO_TREEBANK = {
    "zh": "没有给出树库（--treebank），所以没有主语和宾语，词性只有 jieba 的标注。",
    "en": "No treebank was given (--treebank), so there are no subjects and objects, and parts of "
    "speech are jieba's alone.",
}
NO_BASE = {
    "zh": "没有给出微调前的模型（--base），所以不知道微调改变了什么。",
    "en": "No model before fine-tuning was given (--base), so what tuning changes is not known.",
}


def result(study: Study, context: ProbeContext) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    found = findings(study, context)
    queries = study.pairs.validation.queries
    over_half = empty_heads(study.pairs.validation, study.shape)
    return ProbeResult(
        probe="features",
        model=context.model_ref,
        pairs=replace(context.pairs_ref, n_pairs=len(queries), n_queries=len(set(queries))),
        settings=_settings(study, found, context),
        summary=_summary(study),
        findings=tuple(found),
        heads=_heads(study),
        sets={
            **{
                f"{kind}_{name}": names_of(one.heads())
                for name, part in study.parts.items()
                for kind, one in part.named.items()
            },
            "over_half": names_of(over_half),
        },
        figures=figures(study, context),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    columns: dict[str, FloatArray] = {}
    for name, part in study.parts.items():
        seen = part.validation
        for kind in kinds_of(seen):
            columns[f"{kind}_{name}"] = means(seen.of(kind))
            columns[f"{kind}_{name}_lift"] = seen.lift(kind)
            if seen.before is not None:
                columns[f"{kind}_{name}_before"] = means(seen.of(kind, "before"))
        for kind, one in part.named.items():
            columns[f"{kind}_{name}_q"] = one.q
    chosen = {
        head for part in study.parts.values() for one in part.named.values() for head in one.heads()
    }
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: known(column[head]) for name, column in columns.items()},
            selected=head in chosen,
        )
        for head in study.shape.all_heads
    )


def _settings(study: Study, found: Sequence[Finding], context: ProbeContext) -> dict[str, Any]:
    base = study.base
    return {
        "base": NO_BASE if base is None else {"name": base.name, "sha256": base.sha256},
        "treebank": NO_TREEBANK
        if study.treebank is None
        else [path.name for path in context.treebanks],
        "rows": "all tokens, special ones too",
        "sample": {
            name: {half: _sample(getattr(part, half)) for half in ("discovery", "validation")}
            for name, part in study.parts.items()
        },
        "least_lift": LEAST_LIFT,
        "comes_back": {
            f"{kind}_{name}": back
            for name, part in study.parts.items()
            for kind, back in _comes_back(part, study, context).items()
        },
        "resolution": _resolution(found),
    }


def _sample(seen: Looking) -> dict[str, Any]:
    return {
        "reads": len(seen.queries),
        "queries": len(set(seen.queries)),
        "share_of_tokens": {kind: round(known_mean(seen.rate(kind)), 4) for kind in kinds_of(seen)},
    }


def _comes_back(part: Part, study: Study, context: ProbeContext) -> dict[str, dict[str, float]]:
    queries = len(set(part.discovery.queries))
    found = {
        kind: comes_back(
            by_lift(part.discovery, kind),
            one.heads(),
            queries,
            len(study.shape.all_heads),
            resamples=COMES_BACK_RESAMPLES,
            seed=context.seed,
        )
        for kind, one in part.named.items()
    }
    return {kind: asdict(one) for kind, one in found.items() if one is not None}


def _resolution(found: Sequence[Finding]) -> dict[str, str]:
    """Half the widest interval of the claims in points of attention: less could not be seen."""
    halves = [
        (one.ci_high - one.ci_low) / 2
        for one in found
        if one.primary
        and one.unit == words.POINTS
        and one.ci_low is not None
        and one.ci_high is not None
    ]
    least = f"{max(halves):.2g}" if halves else "–"
    return {
        "zh": f"小于 {least} 个百分点注意力的差别看不出来。",
        "en": f"Differences under {least} points of attention could not be seen.",
    }


def _summary(study: Study) -> Text:
    seen = study.pairs.validation
    heads = len(study.shape.all_heads)
    over = len(empty_heads(seen, study.shape))
    cls, sep = (100 * known_mean(over_heads(seen.of(kind))) for kind in ("cls", "sep"))
    lift = _most_looked_at(seen)
    other = words.NAMES[rival(seen)]
    first, next_ = (100 * known_mean(last_cls(seen, kind)) for kind in ("sep", rival(seen)))
    without = "" if study.treebank is not None else NO_TREEBANK["zh"]
    without_en = "" if study.treebank is not None else f" {NO_TREEBANK['en']}"
    change = _change(study)
    return Text(
        f"全部头平均，[CLS] 得到 {cls:.1f} % 的注意力，[SEP] 得到 {sep:.1f} %；{heads} 个头里有 {over} 个把一半以上"
        f"给了 [CLS]、[SEP] 和标点。{lift.zh}{change.zh}最后一层的 [CLS] 给最看的 [SEP] {first:.1f} %，给最看的"
        f"{other.zh}词元 {next_:.1f} %。{without}",
        f"On average over all heads [CLS] gets {cls:.1f} % of the attention and [SEP] {sep:.1f} %; {over} of "
        f"{heads} heads give over half to [CLS], [SEP] and punctuation. {lift.en}{change.en}In the last "
        f"layer [CLS] gives {first:.1f} % to the [SEP] it looks at most, and {next_:.1f} % to such a token "
        f"of {other.en}.{without_en}",
    )


def _most_looked_at(seen: Looking) -> Text:
    """The kind of word whose attention is furthest above its share of the tokens, over all heads."""
    lifts = {
        kind: known_mean(over_heads(seen.of(kind))) / known_mean(seen.rate(kind))
        for kind in kinds_of(seen)
        if kind not in ("cls", "sep", "punctuation", "other")
    }
    if not lifts:
        return Text("", "")
    best = max(lifts, key=lambda kind: lifts[kind])
    name, value = words.NAMES[best], lifts[best]
    return Text(
        f"词里最受注意的是{name.zh}，是其词元占比的 {value:.2f} 倍。",
        f"Of words, most attention beside their share of the tokens goes to {name.en}: {value:.2f} "
        "times it. ",
    )


def _change(study: Study) -> Text:
    """What fine-tuning changed for [CLS] and [SEP] together, and for nouns, objects and negation."""
    seen = study.pairs.validation
    if seen.before is None:
        return Text(NO_BASE["zh"], f"{NO_BASE['en']} ")
    parts = [
        100 * sum(known_mean(over_heads(seen.of(kind) - seen.of(kind, "before"))) for kind in kinds)
        for kinds in (("cls", "sep"), (TUNED,))
        if all(seen.has(kind) for kind in kinds)
    ]
    if len(parts) < 2:
        return Text("", "")
    return Text(
        f"微调使 [CLS] 和 [SEP] 合计变化 {parts[0]:+.1f} 个百分点，名词和否定词合计变化 {parts[1]:+.1f} 个。",
        f"Fine-tuning changes [CLS] and [SEP] together by {parts[0]:+.1f} points, nouns and negation "
        f"by {parts[1]:+.1f}. ",
    )
