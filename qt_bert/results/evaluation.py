"""How well a model grades a file: `evaluation.json`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from qt_bert.codec import decode
from qt_bert.figures import Curve, HeatMap, Point, Series
from qt_bert.results import ResultFile
from qt_bert.stats.evaluation import (
    GradeScores,
    MetricValue,
    PairCounts,
    ReliabilityBin,
    SliceErrors,
)
from qt_bert.text import Text, counted

Grade = str | int | float
"""A label as the file has it, or a grade or level as the model gives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedModel:
    """The model and its size: heads a layer, hidden units, `max_length` in tokens."""

    name: str
    sha256: str
    parameters: int
    layers: int
    heads: int
    hidden: int
    max_length: int
    dtype: str
    device: str = "cpu"


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedPairs:
    """The judged pairs: `rejected` rows are no pairs, `unjudged` ones lack a label."""

    name: str
    sha256: str
    n_pairs: int
    n_queries: int
    rejected: int = 0
    unjudged: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TermChange:
    """How the expected grade (or score) changes with a term filled; `moved` if not negligible."""

    side: Literal["query", "title"]
    term: str
    change: float
    moved: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class CarryingHead:
    """A head, and the share of a term's change that patching in its output on the unchanged pair restores."""

    head: str
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Reason:
    """Why a pair has its grade: the effect of each term, in text order, when `filler` replaces it.

    `told_by` indexes the term with the largest effect, if large enough; `carried_by` are the heads
    that restore most of it, where they were measured.
    """

    filler: str
    terms: tuple[TermChange, ...] = ()
    told_by: int | None = None
    carried_by: tuple[CarryingHead, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedPair:
    """A pair as the model graded it; `p` holds one probability a logit of the model.

    A model of one logit has a `score` instead. Some examples have a `reason`.
    """

    omit_none: ClassVar = ("p", "predicted_grade", "expected_grade", "score", "reason")

    id: str | None = None
    line: int | None = None
    query: str
    title: str
    grade: Grade | None
    p: tuple[float, ...] | None = None
    predicted_grade: Grade | None = None
    expected_grade: float | None = None
    score: float | None = None
    reason: Reason | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricDescription:
    """One sentence on a metric, its display name, and which direction is better."""

    zh: str
    en: str
    title: Text | None = None
    direction: Literal["higher", "lower", "zero"]


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult(ResultFile):
    """Everything measured on one file of pairs.

    `model` is what its scorer's `describe` gives, of a checkpoint a `JudgedModel` and more. `outputs` says what each
    of its outputs means, `3` or `1-2`, or which level it is; it is empty for a score.
    `confusion[true level][predicted level]` counts pairs; `slices[column][value][metric]`;
    `without_grade_1` is by metric, of the pairs whose label is not grade 1 alone; `alike` is a
    warning where scores hardly differ; `guards` are the figures of the checks of ablated heads;
    `card` is the README of the checkpoint.
    """

    omit_none: ClassVar = ("auto_slices", "few_labels", "guards", "card")

    schema: Literal[1] = 1
    model: Mapping[str, Any]
    pairs: JudgedPairs
    outputs: tuple[str, ...]
    mode: str = "grades"
    levels: tuple[str, ...] = ()
    confusion: tuple[tuple[int, ...], ...] | None = None
    per_grade: tuple[GradeScores, ...] | None = None
    reliability: tuple[ReliabilityBin, ...] | None = None
    pnr_counts: PairCounts | None = None
    settings: Mapping[str, float] = field(default_factory=dict)
    metrics: dict[str, MetricValue]
    descriptions: dict[str, MetricDescription] = field(default_factory=dict)
    without_grade_1: dict[str, MetricValue] = field(default_factory=dict)
    slices: dict[str, dict[str, dict[str, MetricValue]]] = field(default_factory=dict)
    errors: tuple[GradedPair, ...] = ()
    examples: tuple[GradedPair, ...] = ()
    alike: str | None = None
    truncated_titles: int = 0
    truncated_queries: int = 0
    auto_slices: tuple[SliceErrors, ...] | None = None
    few_labels: Mapping[str, Any] | None = None
    guards: Mapping[str, Any] | None = None
    card: str | None = None

    def judged_model(self) -> JudgedModel:
        """The checkpoint's facts. Raises RunFolderError for another scorer, or a missing fact."""
        return decode(JudgedModel, self.model, "evaluation.json: model")  # type: ignore[no-any-return]


def confusion_map(levels: Sequence[str], counts: Sequence[Sequence[int]]) -> HeatMap:
    """`counts[true level][predicted level]` as shares of each true level, in percent."""
    return HeatMap(
        name="confusion",
        title=Text("混淆矩阵", "Confusion matrix"),
        x_label=Text("预测等级", "predicted grade"),
        y_label=Text("标注等级", "true grade"),
        unit=Text("行内占比 %（括号内为对数）", "% of the row (pairs in brackets)"),
        columns=tuple(levels),
        rows=tuple(levels),
        values=tuple(_shares(row) for row in counts),
        annotations=tuple(tuple(f"({count:,})" for count in row) for row in counts),
        marked=tuple((i, i) for i in range(len(levels))),
        low=0.0,
        high=100.0,
        digits=0,
        note=Text("框出的对角线为判对。", "The outlined diagonal is right."),
    )


def _shares(row: Sequence[int]) -> tuple[float | None, ...]:
    total = sum(row)
    return tuple(100 * count / total if total else None for count in row)


def reliability_curve(bins: Iterable[ReliabilityBin]) -> Curve | None:
    """Accuracy over confidence, beside the perfect diagonal. None where no bin holds a pair."""
    points = [point for item in bins if (point := _point(item))]
    if not points:
        return None
    pairs = sum(point.n or 0 for point in points)
    diagonal = (Point(x=0.0, y=0.0), Point(x=1.0, y=1.0))
    return Curve(
        name="reliability",
        title=Text("置信度与准确率", "Confidence and accuracy"),
        x_label=Text("平均最大概率", "mean top probability"),
        y_label=Text("准确率", "accuracy"),
        x_unit="0–1",
        unit="0–1",
        series=(
            Series(name=Text("模型", "model"), points=tuple(points)),
            Series(name=Text("完全校准", "perfectly calibrated"), points=diagonal, dashed=True),
        ),
        note=Text(
            f"点在虚线之下：模型比它的实际表现更自信。依据：{pairs:,} 对。",
            f"Points below the dashed line: more confident than right. Base: {counted(pairs, 'pair')}.",
        ),
    )


def _point(item: ReliabilityBin) -> Point | None:
    if not item.count or item.confidence is None or item.accuracy is None:
        return None
    return Point(x=item.confidence, y=item.accuracy, n=item.count)
