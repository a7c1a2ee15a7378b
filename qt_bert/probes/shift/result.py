"""What fine-tuning changes, as a probe's result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.heads import Head, names_of
from qt_bert.probes.base import Context
from qt_bert.probes.display import known
from qt_bert.probes.matching_scores import stable_matching
from qt_bert.probes.naming import VALIDATION, Elsewhere, by_mean, known_stability, means, stability
from qt_bert.probes.shift.claims import findings, of_heads
from qt_bert.probes.shift.compare import LIKENESS, WEIGHTS
from qt_bert.probes.shift.figures import figures
from qt_bert.probes.shift.set_back_report import set_back_settings, set_back_summary
from qt_bert.probes.shift.starts_report import NO_RECORD, start_settings, start_summary
from qt_bert.probes.shift.study import LEAST_CHANGE, Choice, Study
from qt_bert.probes.shift.words import WEIGHT_NAMES
from qt_bert.probes.split import reference
from qt_bert.results.probe import Finding, HeadScores, ProbeResult, Stability
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text, signed

SECOND_SEED = {
    "cosine": "cosine_second_seed",
    "cosine_texts": "cosine_texts_second_seed",
    "js_distance": "js_second_seed",
}
"""Scores of the likeness to a second model, by those of the likeness to the base."""
NO_SECOND = {
    "zh": "没有给出另一个种子微调的模型（--second），所以不知道换个种子注意力图会差多少。",
    "en": "No model tuned with a second seed was given (--second), so how far another seed alone "
    "moves the maps is not known.",
}


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    found = findings(study, context)
    return ProbeResult(
        probe="shift",
        model=context.model_ref,
        pairs=reference(context.files.pairs, list(study.validation.pairs)),
        settings=_settings(study, found),
        summary=_summary(study),
        findings=tuple(found),
        heads=_heads(study),
        sets={
            "matching_before": names_of(study.on_base.heads),
            "matching_after_biased": names_of(study.on_model.heads),
            "strengthened": names_of(study.strengthened.heads()),
        },
        stability=_stability(study, context),
        figures=figures(study, context),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    seen = study.validation
    columns: dict[str, FloatArray] = {}
    for name, choice in (("score_before", study.on_base), ("score_after", study.on_model)):
        if choice.scores is not None:
            columns[name] = choice.scores.score
    for weight in WEIGHTS:
        for when in ("before", "after"):
            columns[f"{weight}_{when}"] = means(seen.weight(when, weight))
    for name in LIKENESS:
        columns[name] = means(seen.alike(name))
    if study.beside is not None:
        for name, score in SECOND_SEED.items():
            columns[score] = means(study.beside.alike(name))
    columns["strengthened_q"] = study.strengthened.q
    chosen = set(study.on_base.heads)
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: known(column[head]) for name, column in columns.items()},
            selected=head in chosen,
        )
        for head in study.shape.all_heads
    )


def _settings(study: Study, found: Sequence[Finding]) -> dict[str, Any]:
    splits = {"discovery": study.discovery, "validation": study.validation}
    return {
        "base": _named(study.base),
        "set_back": set_back_settings(study.set_back),
        "initialisations": NO_RECORD if study.starts is None else start_settings(study.starts),
        "second_seed": NO_SECOND if study.second is None else _named(study.second),
        "rows": "tokens of query and title; for `matched`, tokens of terms in both texts",
        "sample": {
            name: {
                "pairs": len(one.pairs),
                "queries": len({pair.query for pair in one.pairs}),
                "pairs_with_a_matched_term": one.pairs_with_terms,
                "of_these_with_tokens_of_their_own": one.pairs_with_tokens,
            }
            for name, one in splits.items()
        },
        "scored": {
            name: asdict(choice.scores.sample)
            for name, choice in _choices(study).items()
            if choice.scores is not None
        },
        "least_change": LEAST_CHANGE,
        "layer_matched_draws": len(study.controls),
        "case_head": None if study.case is None else str(study.case.head),
        "resolution": _resolution(found),
    }


def _named(checkpoint: Checkpoint) -> dict[str, str]:
    return {"name": checkpoint.name, "sha256": checkpoint.sha256}


def _choices(study: Study) -> dict[str, Choice]:
    return {"matching_before": study.on_base, "matching_after_biased": study.on_model}


def _stability(study: Study, context: Context) -> dict[str, Stability]:
    """Of the matching heads beside files held out, of those strengthened beside validation."""
    matching = {
        name: stable_matching(
            choice.scores, choice.heads, seed=context.seed, elsewhere=choice.held_out
        )
        for name, choice in _choices(study).items()
    }
    rise, again = (one.change("matched") for one in (study.discovery, study.validation))
    strengthened = stability(
        by_mean(rise),
        study.strengthened.heads(),
        len(rise),
        pool=study.shape.all_heads,
        elsewhere=[Elsewhere(VALIDATION, by_mean(again), len(again))],
        seed=context.seed,
    )
    return known_stability(**matching, strengthened=strengthened)


def _resolution(found: Sequence[Finding]) -> dict[str, str]:
    """Half the widest interval of the claims about each set of heads: less could not be seen."""
    halves = {}
    for name in ("matching", "all"):
        widths = [
            one.ci_high - one.ci_low
            for one in found
            if one.primary
            and one.id.startswith(f"{name}_")
            and one.ci_low is not None
            and one.ci_high is not None
        ]
        halves[name] = f"{max(widths) / 2:.2g} %" if widths else "–"
    return {
        "zh": f"变化小于下列注意力份额的看不出来：匹配头 {halves['matching']}，全部头 {halves['all']}。",
        "en": "Changes under these shares of attention could not be seen: matching heads "
        f"{halves['matching']}, all heads {halves['all']}.",
    }


def _summary(study: Study) -> Text:
    zh_matching, en_matching = _of_matching_heads(study)
    zh_all, en_all = _weights(study, study.shape.all_heads, ("matched", "cls", "sep"))
    cosine = means(study.validation.alike("cosine"))
    most = min(study.shape.all_heads, key=lambda head: float(cosine[head]))
    zh_second, en_second = _of_second_seed(study)
    further = [set_back_summary(study.set_back)]
    further += [] if study.starts is None else [start_summary(study.starts)]
    return Text(
        f"{zh_matching}全部头平均：{zh_all}。变化最大的头是 {most}（余弦 {cosine[most]:.2f}）。{zh_second}"
        + "".join(one.zh for one in further),
        f"{en_matching} Mean of all heads: {en_all}. The head that changed most is {most} "
        f"(cosine {cosine[most]:.2f}).{en_second}" + "".join(one.en for one in further),
    )


def _of_second_seed(study: Study) -> tuple[str, str]:
    """How alike the maps are over all heads, beside those of two seeds; nothing without a second."""
    if study.beside is None:
        return "", ""
    base, seed = (
        f"{means(one.alike('cosine')).mean():.2f}" for one in (study.validation, study.beside)
    )
    return (
        f"全部头的平均余弦：微调前后 {base}，换一个种子微调 {seed}。",
        f" Mean cosine of all heads: {base} before and after, {seed} between two seeds of fine-tuning.",
    )


def _of_matching_heads(study: Study) -> tuple[str, str]:
    heads = study.on_base.heads
    if not heads:
        return (
            "这些文本对没有可供打分的共同字词，选不出匹配头。",
            "These pairs share nothing to score matching by, so no matching heads were chosen.",
        )
    zh, en = _weights(study, heads, ("matched", "self", "sep"))
    rise = 100 * means(study.validation.change("matched"))
    each = [f"{head} {signed(float(rise[head]), 1)}" for head in heads]
    return (
        f"微调前选出的 {len(heads)} 个匹配头，平均给出的注意力：{zh}；逐头看，给相同的词的变化为 "
        f"{'、'.join(each)}。",
        f"The {len(heads)} matching heads chosen before fine-tuning give, on average: {en}; head by "
        f"head, matched terms change by {', '.join(each)}.",
    )


def _weights(study: Study, heads: Sequence[Head], weights: Sequence[str]) -> tuple[str, str]:
    """`[SEP] 12.3 % → 8.1 %` of each weight, in both languages."""
    parts = []
    for weight in weights:
        before, after = (
            100 * float(means(of_heads(study.validation.weight(when, weight), heads)))
            for when in ("before", "after")
        )
        parts.append((WEIGHT_NAMES[weight], f"{before:.1f} % → {after:.1f} %"))
    return (
        "，".join(f"{name.zh} {figures}" for name, figures in parts),
        ", ".join(f"{name.en} {figures}" for name, figures in parts),
    )
