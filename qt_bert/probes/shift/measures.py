"""The metrics that sections on layers set back and on starts report: names, units, sizes."""

from __future__ import annotations

from typing import NamedTuple

from qt_bert.probes.claims import POINT, POINTS
from qt_bert.text import Label, Text


class Measure(NamedTuple):
    """What a metric is called, and how much of it is one `unit` of changes."""

    title: Text
    unit: Label
    scale: float


MEASURES = {
    "accuracy": Measure(Text("准确率", "accuracy"), POINTS, POINT),
    "qwk": Measure(Text("QWK", "QWK"), "QWK", 1.0),
    "spearman": Measure(Text("期望等级的秩相关（ρ）", "ρ of the expected grade"), "ρ", 1.0),
}
OWN_ORDER = MEASURES["spearman"]._replace(
    title=Text("与原来得分的秩相关（ρ）", "ρ with its own scores")
)
"""Of a model with one logit, whose scores are compared with those that it gives untouched."""
