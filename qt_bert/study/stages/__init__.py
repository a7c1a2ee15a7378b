"""The stages of `qt-bert report`: every module of this package registers one when imported."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from qt_bert.study.stage import STAGES, StageRegistry


def stages() -> StageRegistry:
    """All stages, in the order in which they run."""
    for info in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{info.name}")
    return STAGES


__all__ = ["stages"]
