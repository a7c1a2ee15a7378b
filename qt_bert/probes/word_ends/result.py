"""The study of word boundaries as a probe's result."""

from __future__ import annotations

from typing import Any

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.evaluation.intervals import percentile_interval
from qt_bert.probes.common.naming import comes_back
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.word_ends.calibrate import LEAST_BALANCED
from qt_bert.probes.word_ends.claims import findings
from qt_bert.probes.word_ends.decisions import Decisions
from qt_bert.probes.word_ends.figures import answers, figures, preferred
from qt_bert.probes.word_ends.judge import MEASURES, Judged, counts_of, measured
from qt_bert.probes.word_ends.leaving_out import POINT, LeftOut
from qt_bert.probes.word_ends.study import GRADED, PRETRAINED, RANDOM_ORDERS, Studies, Study
from qt_bert.probes.word_ends.union import SHIFTS
from qt_bert.results import HeadScores, ProbeResult, Text


def result(found: Studies, context: ProbeContext) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    study = found.main
    drawn = figures(study) if len(study.texts.validation) else ()
    if found.gold is not None and len(found.gold.texts.validation):
        drawn += figures(found.gold, "boundary_gold")
    sets = {
        "boundary": study.graded.calibrated.named.heads(),
        "boundary_vote": list(study.graded.voters),
    }
    return ProbeResult(
        probe="boundary",
        model=context.model_ref,
        pairs=context.pairs_ref,
        settings=_settings(found),
        summary=_summary(found),
        findings=tuple(findings(found)),
        heads=_heads(study),
        sets={name: tuple(map(str, heads)) for name, heads in sets.items()},
        figures=drawn,
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    readers, decisions = study.graded, study.texts.validation
    named = readers.calibrated.named
    columns: dict[str, FloatArray] = {
        "discovery_balanced": named.score,
        "null_balanced": readers.calibrated.null,
        "p": named.p,
        "q": named.q,
        "weight_on_text": readers.own,
        "auc": readers.auc,
    }
    columns |= {f"balanced_{name}": both.validation for name, both in readers.granularity.items()}
    for prefix, said in (("", readers.said), ("rule_", readers.by_rule)):
        counts = np.array(
            [[counts_of(one, study.truth, decisions).sum(0) for one in layer] for layer in said]
        )
        columns |= {f"{prefix}{measure}": measured(measure, counts) for measure in MEASURES}
    return tuple(
        HeadScores(
            head=str(Head(*place)),
            scores={name: _known(float(column[place])) for name, column in columns.items()},
            selected=bool(named.named[place]),
        )
        for place in np.ndindex(*named.score.shape)
    )


def _settings(found: Studies) -> dict[str, Any]:
    study = found.main
    described = {"segmenter": _described(study)}
    if found.gold is not None:
        described["gold"] = _described(found.gold)
    return {
        "least_balanced": LEAST_BALANCED,
        "shifts": study.shifts,
        "union_shifts": SHIFTS,
        "random_orders": RANDOM_ORDERS,
        "texts": described,
        "comes_back": _comes_back(study),
        "pretrained": None
        if PRETRAINED in study.models
        else {
            "zh": "没有给出微调前的模型（--base），因此没有与预训练的比较。",
            "en": "No model before fine-tuning was given (--base), so that pretraining is not "
            "compared.",
        },
        "leaving_out": None if found.left_out is None else _left_out(found.left_out),
        "resolution": _resolution(study.best(GRADED)),
    }


def _described(study: Study) -> dict[str, Any]:
    """Sizes of both halves, how heads are read, and what each answer reaches on validation."""
    texts, readers = study.texts, study.graded
    chosen = preferred(study)
    models = study.models.items()
    return {
        "discovery": _sizes(texts.discovery),
        "validation": _sizes(texts.validation) | {"shared_with_discovery": texts.shared},
        "best_head": {name: str(one.best) for name, one in models},
        "reading": readers.calibrated.described(*readers.best),
        "named": {name: int(one.calibrated.named.named.sum()) for name, one in models},
        "union_k": study.k,
        "vote": [str(head) for head in readers.voters],
        "answers": {
            name: {measure: _known(judged.value(measure)) for measure in MEASURES}
            for name, (_, judged) in answers(study).items()
        },
        "granularity": {head: one[0] for head, one in chosen.items()},
        "granularity_holds": sum(one == other for one, other in chosen.values()),
    }


def _sizes(decisions: Decisions) -> dict[str, Any]:
    return {
        "pairs": len(decisions.pairs),
        "texts": len(decisions.asked),
        "queries": decisions.n_queries,
        "decisions": len(decisions),
        "coverage": decisions.coverage,
        "short_texts_left_out": decisions.short,
    }


def _comes_back(study: Study) -> dict[str, dict[str, float]]:
    calibrated = study.graded.calibrated
    found = comes_back(calibrated.per_query, calibrated.named.heads(), seed=study.seed)
    return {} if found is None else {"boundary": {"share": found.share, "chance": found.chance}}


def _left_out(found: LeftOut) -> dict[str, Any]:
    relative = {
        name: loss.change * POINT / found.base if found.base > 0 else None
        for name, loss in found.losses.items()
        if name.endswith(":matched")
    }
    return {
        "heads": [str(head) for head in found.heads],
        "metric": found.metric,
        "base": _known(found.base),
        "pairs": len(found.pairs),
        "change": {name: _known(loss.change) for name, loss in found.losses.items()},
        "relative": relative,
        "draws": {name: loss.draws for name, loss in found.losses.items()},
    }


def _resolution(best: Judged) -> dict[str, str] | None:
    ends = percentile_interval(best.samples("balanced"))
    if ends is None:
        return None
    half = (ends[1] - ends[0]) / 2 / POINT
    return {
        "zh": f"最好的头的平衡准确率的区间半宽为 {half:.1f} 个百分点，更小的差别看不出来。",
        "en": f"The interval of the best head's balanced accuracy is ± {half:.1f} points; less than "
        "that could not be seen.",
    }


def _summary(found: Studies) -> Text:
    study = found.main
    if not len(study.texts.validation) or not len(study.texts.discovery):
        return Text(
            "文本里没有相邻且各成一个词元的汉字，无从判断词边界。",
            "The texts have no neighbouring Chinese characters that are tokens of their own, so "
            "there are no word ends to tell.",
        )
    readers, best, named = study.graded, study.best(GRADED), study.graded.calibrated.named.heads()
    others = {name: judged for name, (_, judged) in answers(study).items()}
    union, last = study.union, len(readers.order)
    plain, table = (others[name].value("accuracy") for name in ("majority", "characters"))
    zh, en = _losses(found.left_out)
    return Text(
        f"被命名的词边界头有 {len(named)} 个。最好的一个（{readers.best}）在验证集上的准确率为 "
        f"{best.value('accuracy'):.1%}（总猜多数 {plain:.1%}，每个字的词尾率 {table:.1%}），平衡准确率 "
        f"{best.value('balanced'):.3f}，词 F1 {best.value('word_f1'):.3f}。“有一个头正确”为 "
        f"{union.share[last]:.1%}，其中碰巧就有 {union.chance[last]:.1%}。{zh}",
        f"{len(named)} heads are named. The best ({readers.best}) has an accuracy of "
        f"{best.value('accuracy'):.1%} on validation (majority {plain:.1%}, each character's own "
        f"rate {table:.1%}), a balanced accuracy of {best.value('balanced'):.3f} and a word F1 of "
        f"{best.value('word_f1'):.3f}. One of all heads is right on {union.share[last]:.1%}; by luck "
        f"alone it would be {union.chance[last]:.1%}. {en}",
    )


def _losses(found: LeftOut | None) -> tuple[str, str]:
    """What leaving them out does, and how much of it is theirs."""
    loss = None if found is None else found.losses["zero:matched"]
    if found is None or loss is None or np.isnan(loss.change):
        return "", ""
    relative = f"{loss.change * POINT / found.base:+.1%}" if found.base > 0 else "—"
    less = "" if np.isnan(loss.value) else f"{loss.value:+.1f}"
    zh = f"，比同层随机头多 {less} 个百分点" if less else ""
    en = f", {less} points beside random heads of the same layers" if less else ""
    return (
        f"去掉其中最好的 {len(found.heads)} 个，准确率变化 {loss.change:+.1f} 个百分点"
        f"（相对 {relative}）{zh}。",
        f"Without the best {len(found.heads)} of them accuracy changes by {loss.change:+.1f} points "
        f"({relative} relative){en}.",
    )


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)
