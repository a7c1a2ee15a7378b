"""The report's sections: every module of this package holds one as `SECTION`, or, in `sections_of`,
a function that makes them of a run's results."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from importlib import import_module

from qt_bert.report.section import Section
from qt_bert.study import RunFolder


def sections(folder: RunFolder) -> tuple[Section, ...]:
    """All sections of this run, in the order of the page."""
    return tuple(sorted(_found(folder), key=lambda section: (section.order, section.name)))


def _found(folder: RunFolder) -> Iterator[Section]:
    for info in pkgutil.iter_modules(__path__):
        module = import_module(f"{__name__}.{info.name}")
        if hasattr(module, "SECTION"):
            yield module.SECTION
        else:
            yield from module.sections_of(folder)


__all__ = ["sections"]
