"""The probes there are: each module `NAME`, or `NAME.probe` of a package, that holds a
`PROBE`, and each that a `NAME.toml` declares.

Listing them imports the modules that hold one, so what needs torch stands there inside functions, or
in the package beside `probe`. What TOML declares is imported when it runs.
"""

from __future__ import annotations

import pkgutil
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from qt_bert import probes as _room
from qt_bert.errors import ArgumentError
from qt_bert.probes.base import Context, Probe, Result
from qt_bert.probes.texts import FOLDER, Texts, texts_of


@cache
def probes() -> tuple[Probe, ...]:
    """All probes, in the order of the report.

    Raises ArgumentError where a probe is named otherwise than its file.
    """
    declared = (path.stem for path in sorted(FOLDER.glob("*.toml")))
    found = [_declared(name) for name in declared if texts_of(name).value("order") is not None]
    for info in pkgutil.iter_modules(_room.__path__):
        module = f"{_room.__name__}.{info.name}" + (".probe" if info.ispkg else "")
        if not _holds_probe(module):
            continue
        probe = import_module(module).PROBE
        if probe.name != info.name:
            raise ArgumentError(f"probes/{info.name}.py holds a probe named {probe.name!r}")
        found.append(probe)
    return tuple(sorted(found, key=lambda probe: (probe.order, probe.name)))


def _holds_probe(module: str) -> bool:
    """Whether the module says `PROBE = ` in its text: no other is imported, for it may need torch."""
    spec = find_spec(module)
    if spec is None or spec.origin is None:
        return False
    return "\nPROBE = " in Path(spec.origin).read_text(encoding="utf-8")


def probe_named(name: str) -> Probe:
    """The probe called `name`. Raises ArgumentError, listing the names, where there is none."""
    for probe in probes():
        if probe.name == name:
            return probe
    names = ", ".join(probe.name for probe in probes())
    raise ArgumentError(f"no probe {name!r}; there are {names or 'none'} (qt-bert probe --list)")


def _declared(name: str) -> Probe:
    """The probe that `NAME.toml` declares; its `measure` is imported when it runs."""

    def run(context: Context) -> Result:
        found: Result = import_module(f"{_room.__name__}.{name}").measure(context)
        return found

    texts: Texts = texts_of(name)
    return Probe(
        name=name,
        order=texts.value("order"),
        title=texts.text("title"),
        question=texts.text("question"),
        run=run,
        quick_seconds=texts.value("quick_seconds"),
        uses=tuple(texts.value("uses", ())),
        needs_base=texts.value("needs_base", False),
        reads=tuple(texts.value("reads", ())),
        needs=tuple(texts.value("needs", ())),
        shows={
            figure: tuple(shown)
            for figure in texts.ids("figures")
            if (shown := texts.value(f"figures.{figure}.sets"))
        },
    )
