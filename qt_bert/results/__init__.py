"""Results as plain data: probe results and evaluations, to and from JSON."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from qt_bert.text import Text

if TYPE_CHECKING:
    from qt_bert.results.evaluation import EvaluationResult
    from qt_bert.results.probe import HeadScores, ProbeResult

_MODULES = {"EvaluationResult": "evaluation"} | dict.fromkeys(
    ("HeadScores", "ProbeResult"), "probe"
)


def __getattr__(name: str) -> Any:
    # Probe results hold figures, and figures are made of this package's texts and numbers: were
    # both imported at once, neither could be.
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


__all__ = ["EvaluationResult", "HeadScores", "ProbeResult", "Text"]
