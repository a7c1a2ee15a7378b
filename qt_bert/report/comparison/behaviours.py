"""The behaviour scores of both models, bar beside bar."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from qt_bert.report.blocks import Block, FigureBlock
from qt_bert.report.comparison.names import names
from qt_bert.results import Bars, ProbeResult, Text
from qt_bert.results.comparison import ComparisonResult

PROBE, SCORES = "behaviour", "scores_"
_NOTE = Text(
    "同样的案例，容差各按各的模型；线段为各自的 95% 区间，这里不检验两个模型之间的差别。",
    "The same cases, each model by its own band; lines are each model's own 95 % interval. Whether the "
    "two differ is not tested here.",
)


def both_behaviours(
    comparison: ComparisonResult, first: Sequence[ProbeResult], second: Sequence[ProbeResult]
) -> Iterator[Block]:
    """The scores by phenomenon that both have, of the same cases."""
    a, b = (_of(results) for results in (first, second))
    if a is None or b is None or a.pairs.sha256 != b.pairs.sha256:
        return
    others = {figure.name: figure for figure in b.figures}
    for figure in a.figures:
        other = others.get(figure.name)
        if isinstance(figure, Bars) and isinstance(other, Bars) and _alike(figure, other):
            label_a, label_b = names(comparison)
            (own,), (others_own,) = figure.series, other.series
            yield FigureBlock(
                figure=replace(
                    figure,
                    name=f"comparison_{figure.name}",
                    series=(replace(own, name=label_a), replace(others_own, name=label_b)),
                    note=_NOTE,
                )
            )


def _of(results: Sequence[ProbeResult]) -> ProbeResult | None:
    return next((result for result in results if result.probe == PROBE), None)


def _alike(one: Bars, other: Bars) -> bool:
    return one.name.startswith(SCORES) and one.categories == other.categories
