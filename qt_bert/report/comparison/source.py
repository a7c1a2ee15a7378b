"""Where the section finds its results."""

from __future__ import annotations

from qt_bert.report.probes.source import read_probes
from qt_bert.results import EvaluationResult, ProbeResult
from qt_bert.results.comparison import ComparisonResult
from qt_bert.study import RunFolder
from qt_bert.study.compared import COMPARED, COMPARISON, EVALUATION


def read_comparison(folder: RunFolder) -> ComparisonResult | None:
    """The run's `comparison.json`, or `None` where it has no second model, or has it not yet."""
    path = folder.file(COMPARISON)
    return ComparisonResult.read(path) if path.is_file() else None


def read_compared(folder: RunFolder) -> EvaluationResult | None:
    """The second model's evaluation."""
    path = folder.file(EVALUATION)
    return EvaluationResult.read(path) if path.is_file() else None


def read_compared_probes(folder: RunFolder) -> tuple[ProbeResult, ...]:
    """What the probes found of the second model; q is over its own primary findings."""
    return read_probes(folder, COMPARED)
