"""Explain and shrink the Chinese BERT models that decide whether a title answers a query.

>>> import qt_bert
>>> grader = qt_bert.load()
>>> grader.grade("京东小哥", "京东小哥最近在干嘛").grade  # doctest: +SKIP
'4'

Names are imported when first used, so that `import qt_bert` stays instant.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_HOME = {
    "load": "qt_bert.api",
    "Grader": "qt_bert.api",
    "Graded": "qt_bert.api",
    "open_checkpoint": "qt_bert.models.opening",
    "Checkpoint": "qt_bert.models.checkpoint",
    "PairReader": "qt_bert.data.reader",
    "read_pairs": "qt_bert.data.reader",
    "check_file": "qt_bert.data.check",
    "agree": "qt_bert.scoring.agreement",
    "GradeMap": "qt_bert.data.pairs",
    "PairTokenizer": "qt_bert.data.tokenise",
    "segmenter": "qt_bert.data.segmenters",
    "Judgements": "qt_bert.stats.judgements",
    "evaluate": "qt_bert.stats.evaluation",
    "compare": "qt_bert.stats.comparison",
    "METRICS": "qt_bert.stats.metrics",
    "QtBertError": "qt_bert.errors",
}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'qt_bert' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
