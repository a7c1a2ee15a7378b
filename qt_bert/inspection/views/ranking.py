"""Several titles under one query, ranked; and ranked again with heads left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.variant import NONE, Part, Variant
from qt_bert.encoder import ModelLabels
from qt_bert.encoder.heads import Head
from qt_bert.evaluation import METRICS
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.views.ranked_title import RankedTitle
from qt_bert.inspection.views.ranking_figures import ranking_figures
from qt_bert.inspection.views.titles import Title
from qt_bert.inspection.views.units import score_name
from qt_bert.pairs import Pair
from qt_bert.results import Bars, HeatMap, Text
from qt_bert.scoring.judge import judge_logits

NDCG = ("ndcg_at_3", "ndcg_at_10")


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Titles from the best score down; `score` says what they are ranked by.

    `tau` is Kendall's τ-b between both orders (None: no heads left out, or all scores equal);
    `ndcg` maps a metric's name to its value before and after, over the `labelled` titles; it is empty
    where these say nothing of an order.
    """

    titles: tuple[RankedTitle, ...]
    score: Text
    tau: float | None
    ndcg: dict[str, tuple[float | None, float | None]]
    labelled: int
    truncated: int
    figures: tuple[Bars | HeatMap, ...]

    def place_of(self, title: str) -> int:
        """Where `title` stands in `titles`; at the top where it is not among them."""
        return next((at for at, one in enumerate(self.titles) if one.title == title), 0)

    @property
    def moves(self) -> int:
        """How many titles change their place."""
        return sum(bool(title.moved) for title in self.titles)


def rank_titles(
    inspected: Inspected, query: str, titles: Sequence[Title], out: Sequence[Head], mode: str
) -> Ranking:
    """Grade every title under `query`, plainly and (where `out` names heads) without these."""
    key = (inspected.key, query, tuple(titles), tuple(out), mode)
    return _kept.get(key, lambda: _ranked(inspected, query, titles, out, mode))


_kept = Kept()


def _ranked(
    inspected: Inspected, query: str, titles: Sequence[Title], out: Sequence[Head], mode: str
) -> Ranking:
    part = inspected.part(tuple(out), mode)
    logits, truncated = _logits(inspected, query, titles, part)
    outputs = [inspected.outputs(one) for one in logits]
    scores = [one.ranking_score for one in outputs]
    places = [_places(one) for one in scores]
    order = np.argsort(-scores[0], kind="stable")
    masked = len(logits) > 1
    ranked = tuple(
        RankedTitle(
            title=titles[row].text,
            label=titles[row].label,
            score=float(scores[0][row]),
            place=int(places[0][row]),
            predicted=None if outputs[0].predicted is None else outputs[0].predicted[row],
            score_without=float(scores[1][row]) if masked else None,
            place_without=int(places[1][row]) if masked else None,
        )
        for row in order
    )
    return Ranking(
        titles=ranked,
        score=score_name(inspected.labels),
        tau=kendall(scores[0], scores[1]) if masked else None,
        ndcg=_ndcg(query, titles, logits, inspected.labels),
        labelled=sum(title.grades is not None for title in titles),
        truncated=truncated,
        figures=ranking_figures(ranked, outputs, order, inspected.labels),
    )


def ranking_rows(found: Ranking) -> list[dict[str, str | int | float | None]]:
    """The titles as rows of a table, with arrows where a place changes."""
    return [
        {
            "place": one.place,
            "moved": arrow(one),
            "title": one.title,
            "label": one.label,
            "predicted": one.predicted,
            "score": one.score,
            "without": one.score_without,
            "change": None if one.score_without is None else one.score_without - one.score,
        }
        for one in found.titles
    ]


def arrow(one: RankedTitle) -> str | None:
    """`3 ▲2`: the place without the heads, and how far up or down that is; None: none left out."""
    if one.place_without is None or one.moved is None:
        return None
    moved = f" {'▲' if one.moved > 0 else '▼'}{abs(one.moved)}" if one.moved else " ="
    return f"{one.place_without}{moved}"


def kendall(one: FloatArray, other: FloatArray) -> float | None:
    """Kendall's τ-b between two scores of the same titles [n]; None where it is undefined."""
    from scipy.stats import kendalltau

    if len(one) < 2:
        return None
    tau = float(kendalltau(one, other).statistic)
    return tau if np.isfinite(tau) else None


def _logits(
    inspected: Inspected, query: str, titles: Sequence[Title], part: Part | None
) -> tuple[list[np.ndarray], int]:
    """Logits [titles, K] of the plain model and of the masked one, and how many titles were cut."""
    variants = [NONE] if part is None else [NONE, Variant("heads out", (part,))]
    texts = [(query, title.text) for title in titles]
    truncated = sum(inspected.encode(*text).title_truncated for text in texts)
    return list(inspected.run(texts, variants).logits), truncated


def _places(scores: FloatArray) -> FloatArray:
    from scipy.stats import rankdata

    return np.asarray(rankdata(-scores, method="min"))


def _ndcg(
    query: str, titles: Sequence[Title], logits: Sequence[np.ndarray], labels: ModelLabels
) -> dict[str, tuple[float | None, float | None]]:
    """NDCG over the labelled titles, before and after; empty where fewer than two have a label."""
    rows = [row for row, title in enumerate(titles) if title.grades is not None]
    if len(rows) < 2:
        return {}
    pairs = [
        Pair(query, titles[row].text, titles[row].grades, str(row), row, titles[row].label, {})
        for row in rows
    ]
    judged = [judge_logits(one[rows], pairs, labels) for one in logits]
    values = {name: [METRICS[name].value(one) for one in judged] for name in NDCG}
    return {
        name: (both[0], both[1] if len(both) > 1 else None)
        for name, both in values.items()
        if both[0] is not None
    }
