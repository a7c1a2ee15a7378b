"""Where the section finds its result."""

from __future__ import annotations

from qt_bert.results import EvaluationResult
from qt_bert.study import RunFolder


def read_evaluation(folder: RunFolder) -> EvaluationResult | None:
    """The run's `evaluation.json`, or `None` where it is not written yet."""
    path = folder.file("evaluation.json")
    return EvaluationResult.read(path) if path.is_file() else None
