"""The probes there are: every module of this package that holds a `PROBE` is one.

Listing them imports these modules, so none may import torch at its top; what needs torch stands
inside functions, or in a sub-package, which is not searched.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module

from qt_bert import probes as _room
from qt_bert.errors import ArgumentError
from qt_bert.probes.probe import Probe


@cache
def probes() -> tuple[Probe, ...]:
    """All probes, in the order of the report.

    Raises ArgumentError where a probe is named otherwise than its file.
    """
    found = []
    for info in pkgutil.iter_modules(_room.__path__):
        if info.ispkg:
            continue
        probe = getattr(import_module(f"{_room.__name__}.{info.name}"), "PROBE", None)
        if probe is None:
            continue
        if probe.name != info.name:
            raise ArgumentError(f"probes/{info.name}.py holds a probe named {probe.name!r}")
        found.append(probe)
    return tuple(sorted(found, key=lambda probe: (probe.order, probe.name)))


def probe_named(name: str) -> Probe:
    """The probe called `name`. Raises ArgumentError, listing the names, where there is none."""
    for probe in probes():
        if probe.name == name:
            return probe
    names = ", ".join(probe.name for probe in probes())
    raise ArgumentError(f"no probe {name!r}; there are {names or 'none'} (qt-bert probe --list)")
