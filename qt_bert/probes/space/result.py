"""Where words and pairs lie, as a probe's result."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.claims import beyond
from qt_bert.probes.space.figures import figures
from qt_bert.probes.space.study import FULL_DRAWS, QUICK_DRAWS, Half, Study
from qt_bert.probes.space.words import CLAIMS, LABELLINGS, SCORE, SOURCE
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.text import Text, number

_NOTHING = Text(
    "这些文本对太少，没有两类以上的词或档位可以比较。",
    "These pairs are too few: there are no two classes of words or grades to compare.",
)


def result(study: Study, context: Context) -> ProbeResult:
    """Scores and pictures; the article gives no figure, so that nothing here gets a verdict."""
    places = study.validation.items.places
    return ProbeResult(
        probe="space",
        model=context.model_ref,
        pairs=replace(context.pairs_ref, n_pairs=len(places.texts), n_queries=places.n_groups),
        settings=_settings(study, context),
        summary=_summary(study),
        findings=tuple(_finding(name, study) for name in _known(study)),
        sets={},
        figures=figures(study),
    )


def _known(study: Study) -> list[str]:
    """The labellings whose best r discovery could choose."""
    return [name for name in study.validation.scores if name in study.best]


def _finding(name: str, study: Study) -> Finding:
    """The score above permuted labels, in the r chosen on discovery."""
    best = study.best[name]
    score = study.validation.scores[name][best]
    claim = CLAIMS[name]
    return beyond(
        f"together_{name}",
        Text(
            f"{claim.zh}：r{best}（在发现集上选出）的轮廓系数高于标签打乱时",
            f"{claim.en}: in r{best}, chosen on discovery, their silhouette is above that of "
            "permuted labels",
        ),
        SOURCE,
        score.above_chance,
        score.found.samples - score.permuted.mean(),
        p=score.p,
        n_queries=score.found.n_queries,
        unit=SCORE,
        primary=False,
    )


def _settings(study: Study, context: Context) -> dict[str, Any]:
    return {
        "score": "mean silhouette, Euclidean, in all dimensions",
        "permutations": context.choose(QUICK_DRAWS, FULL_DRAWS),
        "sample": {"discovery": _sample(study.discovery), "validation": _sample(study.validation)},
        "best_r": study.best,
        "left_out": {
            name: "fewer than two classes in these pairs"
            for name in LABELLINGS
            if name not in _known(study)
        },
        "resolution": _resolution(study),
    }


def _sample(half: Half) -> dict[str, Any]:
    return {
        "pairs": half.items.pairs,
        "classes": {
            name: {label: int((one.labels == i).sum()) for i, label in enumerate(one.classes)}
            for name, one in half.items.labellings.items()
        },
    }


def _resolution(study: Study) -> dict[str, str]:
    """How far permuted labels stray: less could not be told from chance."""
    strays = [
        float(np.quantile(np.abs(one.permuted - one.permuted.mean()), 0.95))
        for scores in study.validation.scores.values()
        for one in scores
    ]
    if not strays:
        return {"zh": _NOTHING.zh, "en": _NOTHING.en}
    least = max(strays)
    return {
        "zh": f"轮廓系数相差 {least:.2g} 以下的，与打乱标签分不开。",
        "en": f"Silhouettes under {least:.2g} above chance cannot be told from permuted labels.",
    }


def _summary(study: Study) -> Text:
    if not _known(study):
        return _NOTHING
    said = [_layers(name, study) for name in _known(study)]
    return Text(
        "轮廓系数（1 是各自成团；打乱标签时是多少见括号），取词嵌入、发现集上高出最多的一层和最后一层："
        f"{'；'.join(one.zh for one in said)}。",
        "Silhouettes (1 is apart; in brackets what permuted labels give) of embeddings, the layer "
        "furthest above that on discovery and the last layer: "
        f"{'; '.join(one.en for one in said)}.",
    )


def _layers(name: str, study: Study) -> Text:
    """A labelling's scores in r0, the best r and the last: `words by text r0 0.13 (0.00), …`."""
    scores = study.validation.scores[name]
    shown = sorted({0, study.best[name], len(scores) - 1})
    values = [
        f"r{i} {number(scores[i].found.value, 2)} ({number(float(scores[i].permuted.mean()), 2)})"
        for i in shown
    ]
    said = LABELLINGS[name]
    return Text(f"{said.zh} {'、'.join(values)}", f"{said.en} {', '.join(values)}")
