"""What a budget will cost on new queries, free of the winner's luck.

What was chosen for its figure on some queries looks better on these than it is. So heads or layers are
chosen on each half of the queries and read on the other half: every query counts once, under a choice
that has not seen it (cross-fitting; Chernozhukov et al. 2018, "Double/debiased machine learning").
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from qt_bert.ablation.families import MaskOf
from qt_bert.errors import ArgumentError
from qt_bert.evaluation.intervals import RESAMPLES
from qt_bert.pairs import Pair
from qt_bert.pairs.splits import balanced_halves
from qt_bert.planning.choice.measure import Change, Changes, Removal, changes
from qt_bert.planning.choice.prediction import Prediction, Reading, Square, predict
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer

Choose = Callable[[Sequence[Pair]], Sequence[Removal]]
"""One half's pairs to one removal for each budget."""


def expected(
    scorer: Scorer,
    pairs: Sequence[Pair],
    budgets: Sequence[int],
    choose: Choose,
    *,
    mask: MaskOf,
    n_new: int | Sequence[int],
    metrics: Sequence[str] | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
    work: Path | None = None,
    shown: Progress = silent,
) -> list[dict[str, Prediction]]:
    """For each budget: metric → what it is expected to change, measured on `n_new` new queries.

    `n_new` is a number for each budget, or one for all.
    `choose` is called with each half of the pairs. Both halves' removals are measured on both halves;
    the estimate is the mean of the two readings on the half that did not choose. Its error is that of
    a bootstrap over the queries of each half. The prediction interval adds in variance

    - the error of the new sample: the estimate's own, times queries here over `n_new` (Hahn and Meeker
      1991, "Statistical Intervals", section 4: s²(1/n + 1/m) for the mean of m further values), and
    - that the one plan of all queries is another than those of the halves (`between_plans`).

    `metrics`, `resamples`, `seed`, `work` and `shown` are as in `changes`. Raises ArgumentError where the
    pairs cannot be halved by query, or `choose` does not give one removal for each budget.
    """
    halves = balanced_halves(pairs)
    plans = [list(choose(half)) for half in halves]
    news = [n_new] * len(budgets) if isinstance(n_new, int) else list(n_new)
    sizes = [*map(len, plans), len(news)]
    if any(size != len(budgets) for size in sizes) or min(news, default=1) < 1:
        raise ArgumentError(
            f"{len(budgets)} budgets on {news} new queries, and {[len(plan) for plan in plans]} "
            "removals were chosen on the two halves: give one a budget, and at least one query"
        )
    measured = [
        changes(
            scorer,
            half,
            [*plans[0], *plans[1]],
            mask=mask,
            metrics=metrics,
            resamples=resamples,
            seed=seed + place,  # two halves of one size must not share their resamples
            work=work,
            name=f"half-{place}",
            shown=shown,
        )
        for place, half in enumerate(halves)
    ]
    first, second = (len({pair.query for pair in half}) for half in halves)
    return _predicted(measured, (first, second), news)


def _predicted(
    measured: Sequence[Sequence[Changes]], queries: tuple[int, int], n_new: Sequence[int]
) -> list[dict[str, Prediction]]:
    """From `measured` [half][plan × budget] to a prediction for each budget and metric."""
    budgets = len(n_new)
    found: list[dict[str, Prediction]] = [{} for _ in n_new]
    names = dict.fromkeys(metric for half in measured for one in half for metric in one)
    for metric in names:
        squares: dict[int, Square] = {}
        for budget in range(budgets):
            cells = [half[budget + plan * budgets] for plan in (0, 1) for half in measured]
            if all(metric in cell for cell in cells):
                a, b, c, d = (_reading(cell[metric]) for cell in cells)
                squares[budget] = ((a, b), (c, d))
        made = predict(list(squares.values()), queries, [n_new[budget] for budget in squares])
        for budget, prediction in zip(squares, made, strict=True):
            found[budget][metric] = prediction
    return found


def _reading(change: Change) -> Reading:
    return Reading(change.absolute, change.samples)
