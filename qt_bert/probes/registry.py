"""All probes, as declared by `NAME.toml`; `NAME.py` is imported when it runs."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from qt_bert import probes as _room
from qt_bert.errors import ArgumentError
from qt_bert.probes.base import Context, Probe, Result
from qt_bert.probes.texts import Texts, declared, texts_of


@cache
def probes() -> tuple[Probe, ...]:
    """All probes, in the order of the report."""
    every = [_declared(name) for name in declared() if texts_of(name).value("order") is not None]
    return tuple(sorted(every, key=lambda probe: (probe.order, probe.name)))


def probe_named(name: str) -> Probe:
    """The probe called `name`. Raises ArgumentError, listing the names, for an unknown name."""
    for probe in probes():
        if probe.name == name:
            return probe
    names = ", ".join(probe.name for probe in probes())
    raise ArgumentError(f"no probe {name!r}; there are {names or 'none'} (qt-bert probe --list)")


def _declared(name: str) -> Probe:
    """The probe declared by `NAME.toml`."""

    def run(context: Context) -> Result:
        result: Result = import_module(f"{_room.__name__}.{name}").measure(context)
        return result

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
