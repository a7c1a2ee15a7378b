"""The report's sections: every module of this package that holds a `SECTION` is one."""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from qt_bert.report.section import Section


@cache
def sections() -> tuple[Section, ...]:
    """All sections in the order of the page."""
    modules = [import_module(f"{__name__}.{info.name}") for info in pkgutil.iter_modules(__path__)]
    return tuple(sorted((module.SECTION for module in modules), key=lambda s: (s.order, s.name)))


__all__ = ["sections"]
