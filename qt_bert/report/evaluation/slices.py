"""The same metrics on parts of the file."""

from __future__ import annotations

from qt_bert.report.blocks import Block, Column, Interval, Table
from qt_bert.report.evaluation.words import as_interval, headlines, metric_title
from qt_bert.results import EvaluationResult, Text
from qt_bert.results.evaluation import MetricValue

_NOTHING = Interval(value=None, low=None, high=None)


def slices(evaluation: EvaluationResult) -> tuple[Block, ...]:
    """One table a column of the file, one row a value of it."""
    return tuple(
        _table(evaluation, number, column, parts)
        for number, (column, parts) in enumerate(evaluation.slices.items(), start=1)
    )


def _table(
    evaluation: EvaluationResult,
    number: int,
    column: str,
    parts: dict[str, dict[str, MetricValue]],
) -> Table:
    present = {name for metrics in parts.values() for name in metrics}
    valued = {n for metrics in parts.values() for n, m in metrics.items() if m.value is not None}
    names = list(headlines(valued)) or sorted(present)
    return Table(
        name=f"slice_{number}",  # never the column's name, which is the user's, as a file name
        title=Text(f"按“{column}”分组", f"By “{column}”"),
        columns=(
            Column("value", column),
            Column("n", Text("对数", "pairs")),
            *(Column(name, metric_title(evaluation, name)) for name in names),
        ),
        rows=tuple(
            (
                value,
                max((m.n for m in metrics.values() if m.n is not None), default=None),
                *(as_interval(metrics[name]) if name in metrics else _NOTHING for name in names),
            )
            for value, metrics in parts.items()
        ),
        note=Text("方括号内为 95% 置信区间。", "Brackets hold 95 % intervals."),
    )
