"""Results as plain data: findings, probe results, evaluations and figures, to and from JSON."""

from qt_bert.results.evaluation import EvaluationResult
from qt_bert.results.figures import (
    Bars,
    Curve,
    Figure,
    Graph,
    HeatMap,
    Scatter,
    Tokens,
    figure_from_json,
)
from qt_bert.results.probe import Finding, HeadScores, ProbeResult
from qt_bert.results.text import Text

__all__ = [
    "Bars",
    "Curve",
    "EvaluationResult",
    "Figure",
    "Finding",
    "Graph",
    "HeadScores",
    "HeatMap",
    "ProbeResult",
    "Scatter",
    "Text",
    "Tokens",
    "figure_from_json",
]
