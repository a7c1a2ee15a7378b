"""The shape of a probe."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from qt_bert.errors import ArgumentError
from qt_bert.probes.common.base import ending_with
from qt_bert.probes.context import ProbeContext
from qt_bert.results import Figure, Finding, ProbeResult, Text
from qt_bert.results.stability import said_not_stable, said_of
from qt_bert.results.text import joined
from qt_bert.results.verdicts import settle

Input = Literal[
    "base",
    "second",
    "gold",
    "reference",
    "treebanks",
    "texts",
    "held_out_files",
    "initialisations",
    "baseline_table",
    "heads",
    "cases",
    "band_from",
    "corpus",
]
"""What a probe may read besides model and pairs; `ProbeContext` says what each is."""

_NAME = re.compile("[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One question about a model, and the function that answers it.

    `name` is the file's, the command's and the result's; `order` its place in the report; `title`
    heads its section. `quick_seconds` is its share of the profile `quick` on two cores.
    `uses` names what else it reads where the user gave it; what it does not name it does not get, and
    its result does not depend on. `needs_base`: without a model before fine-tuning it says nothing.
    `reads` are files that ship and that its result rests on, by their names in `data/`. `needs` are
    probes of a lower `order` whose results it reads (`ProbeContext.found`). `shows` are the named sets
    that its figures show, by the figure's name; None stands for all of them.
    """

    name: str
    order: int
    title: Text
    question: Text
    run: Callable[[ProbeContext], ProbeResult]
    quick_seconds: float
    uses: tuple[Input, ...] = ()
    needs_base: bool = False
    reads: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    shows: Mapping[str, tuple[str, ...] | None] = field(default_factory=dict, hash=False)

    @property
    def inputs(self) -> tuple[Input, ...]:
        """What it reads besides model and pairs."""
        return tuple(dict.fromkeys((*self.uses, *(("base",) if self.needs_base else ()))))

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise ArgumentError(f"{self.name!r} names no probe; use small letters, digits and _")


def run_probe(probe: Probe, context: ProbeContext) -> ProbeResult:
    """The probe's result, with what is the same for every probe filled in.

    That is: name, title and place; a word on sets that are not stable, in the summary, behind the
    claims about them and under the figures that show them; the settings of the context beside the
    probe's own; the guards' figures; q and verdict of its findings, which are one family here (a
    report settles anew the findings of all its probes together).
    """
    found = probe.run(context)
    settings = {**context.settings(), **found.settings}
    if context.guards:
        settings["guards"] = dict(context.guards)
    unstable = said_not_stable(found.stability)
    return replace(
        found,
        summary=found.summary if unstable is None else joined([found.summary, unstable]),
        probe=probe.name,
        title=probe.title,
        order=probe.order,
        settings=settings,
        findings=settle(_said_of_sets(found)),
        figures=tuple(_noted(figure, probe, found) for figure in found.figures),
        **_as_in_teacher(found, context),
    )


def _said_of_sets(found: ProbeResult) -> list[Finding]:
    """The findings, with a word behind claims about sets that are not stable."""
    return [
        replace(one, claim=said_of(one.claim, one.sets, found.stability)) for one in found.findings
    ]


def _noted(figure: Figure, probe: Probe, found: ProbeResult) -> Figure:
    """A figure, with a word under it on sets that it shows and that are not stable."""
    shown = probe.shows.get(figure.name, ())
    of_them = {name: one for name, one in found.stability.items() if shown is None or name in shown}
    unstable = said_not_stable(of_them)
    return figure if unstable is None else ending_with(unstable, figure)


def _as_in_teacher(found: ProbeResult, context: ProbeContext) -> dict[str, Any]:
    """Of a smaller model the heads that are there, each with its name in the teacher."""
    kept = context.model.checkpoint.kept
    if kept is None:
        return {}
    names = kept.names
    return {
        "heads": tuple(
            replace(one, teacher=names[one.head]) for one in found.heads if one.head in names
        ),
        "sets": {name: tuple(h for h in heads if h in names) for name, heads in found.sets.items()},
    }
