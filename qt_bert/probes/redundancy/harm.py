"""Heads without which the model grades better: the article's open question (结语)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from qt_bert.ablation.effects import EffectRow
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.claims import POINT, POINTS, Spread, beyond
from qt_bert.probes.naming import VALIDATION, Elsewhere, Rule, stability
from qt_bert.probes.redundancy.study import Study, Sweep
from qt_bert.probes.redundancy.words import ARTICLE, id_of, of_metric
from qt_bert.results.probe import Finding, Source, Stability
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.multiplicity import FALSE_DISCOVERY_RATE
from qt_bert.stats.tests import q_values
from qt_bert.text import Text

LEAST_GAIN = 1.0
"""Points that a head's absence must gain before the head is said to harm."""
_CANDIDATES = ("harmful_candidates",)


def candidates(study: Study) -> list[str]:
    """Heads that gain on discovery by q < 0.05 over all heads, the largest gain first."""
    sweep = study.discovery
    rows = [sweep.rows[sweep.name(row), sweep.metric] for row in sweep.by_family["single"]]
    return _gaining(rows, [row.q for row in rows])


def confirmed(study: Study) -> list[str]:
    """Those of `candidates` that gain on validation by q < 0.05 over the candidates."""
    rows = _on_validation(study, candidates(study))
    return _gaining(rows, q_values([row.p for row in rows]))


def least_queries(study: Study) -> int:
    """How many queries must move one way, each by one pair, before one head can reach q < 0.05.

    Swaps of n queries give no p below 2 / 2ⁿ.
    """
    return int(np.ceil(1 + np.log2(len(study.shape.all_heads) / FALSE_DISCOVERY_RATE)))


def harmful(study: Study) -> list[Finding]:
    """Whether one of the candidates gains on validation, and what they gain on average."""
    names, sweep = candidates(study), study.validation
    rows = _on_validation(study, names)
    gaining = [
        q for row, q in zip(rows, q_values([r.p for r in rows]), strict=True) if _gain(row) > 0
    ]
    metric, first = sweep.metric_name, rows[0] if rows else None
    chosen = f"{len(names)}" + (f", {names[0]}" if names else "")
    return [
        beyond(
            id_of("harmful_head"),
            Text(
                f"有的头有害：在发现集上去掉后{metric.zh}提高的头（{chosen}），在验证集上也如此",
                f"Some head harms: without it {of_metric(metric)} rises, on discovery ({chosen}) "
                "and on validation",
            ),
            Source(article=ARTICLE, section="结语", value=None),
            None if first is None else _gain(first),
            _ends(first),
            p=min((q for q in gaining if q is not None), default=1.0) if names else None,
            n_queries=sweep.n_queries,
            unit=POINTS,
            conclusions={"inconclusive": _undecided(study, names)},
            sets=_CANDIDATES,
        ),
        *_mean_gain(sweep, names),
    ]


def _undecided(study: Study, names: Sequence[str]) -> Text:
    if names:
        return Text(
            "在发现集上有候选，验证集不足以证实或否定。",
            "There are candidates on discovery; validation neither confirms nor refutes them.",
        )
    queries, needed = study.discovery.n_queries, least_queries(study)
    return Text(
        f"在发现集的 {queries} 个查询上没有候选；一个头要被选出，至少要有 {needed} 个查询同向变化。",
        f"No candidate on the {queries} queries of discovery, where at least {needed} would have to "
        "move one way before a head could be named.",
    )


def _mean_gain(sweep: Sweep, names: Sequence[str]) -> list[Finding]:
    if not names:
        return []
    resampled = sweep.resampled([sweep.folder.row(name) for name in names]) / POINT
    return [
        beyond(
            id_of("harmful_mean"),
            Text("这些候选在验证集上的平均变化", "Mean change of these candidates on validation"),
            Source(article=ARTICLE, section="结语", value=None),
            float(sweep.change(names).mean()) / POINT,
            resampled.mean(axis=0),
            p=None,
            n_queries=sweep.n_queries,
            unit=POINTS,
            primary=False,
            sets=_CANDIDATES,
        )
    ]


def known_of(study: Study, head: str) -> tuple[float, float, int]:
    """A head's gain on discovery and on validation, in points, and the rank of its importance."""
    gains = [_gain(one.rows[head, one.metric]) for one in (study.discovery, study.validation)]
    order = np.argsort(-study.importance.raw.ravel(), kind="stable")
    place = [str(one) for one in study.shape.all_heads].index(head)
    return gains[0], gains[1], 1 + int(np.flatnonzero(order == place)[0])


def stable_harm(study: Study, names: Sequence[str], seed: int) -> Stability | None:
    """How much of some heads is again among those of the largest gain, beside validation."""
    sweep, again = study.discovery, study.validation
    heads = [Head.parse(name) for name in names]
    beside = Elsewhere(VALIDATION, by_gain(again, study.shape), again.n_queries)
    rule = by_gain(sweep, study.shape)
    return stability(rule, heads, sweep.n_queries, elsewhere=[beside], seed=seed)


def by_gain(sweep: Sweep, shape: Shape) -> Rule:
    """What each head's absence gains, for any weights of the queries."""
    rows = {Head.parse(sweep.name(row)): row for row in sweep.by_family["single"]}

    def score(weights: FloatArray) -> FloatArray:
        found = np.full((len(weights), *shape.size), np.nan)
        for head, row in rows.items():
            found[:, head.layer, head.head] = sweep.effects.under(weights, row, sweep.metric)
        return found

    return score


def _on_validation(study: Study, names: Sequence[str]) -> list[EffectRow]:
    sweep = study.validation
    return [sweep.rows[name, sweep.metric] for name in names]


def _gaining(rows: Sequence[EffectRow], q: Sequence[float | None]) -> list[str]:
    pairs = zip(rows, q, strict=True)
    found = [r for r, one in pairs if one is not None and one < FALSE_DISCOVERY_RATE]
    found = [row for row in found if _gain(row) >= LEAST_GAIN]
    return [row.name for row in sorted(found, key=_gain, reverse=True)]


def _gain(row: EffectRow) -> float:
    return float("nan") if row.absolute is None else row.absolute / POINT


def _ends(row: EffectRow | None) -> Spread:
    if row is None or row.ci_low is None or row.ci_high is None:
        return None
    return row.ci_low / POINT, row.ci_high / POINT
