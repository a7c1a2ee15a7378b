"""The report's sections in their order, and the last one, on the run itself."""

from __future__ import annotations

from qt_bert.report.answer import answer_section
from qt_bert.report.blocks import Column, Section, Table, columns, filled, wording
from qt_bert.report.evaluation import card_section, evaluation_section
from qt_bert.report.plan import plan_section
from qt_bert.report.probes import atlas_section, probe_section
from qt_bert.report.stored import Stored
from qt_bert.text import plain


def sections(stored: Stored) -> list[Section]:
    """All sections that the run has results for, in the order of the page.

    Raises RunFolderError for a damaged result.
    """
    found = (
        answer_section(stored),
        evaluation_section(stored),
        atlas_section(stored.probes),
        None if stored.plan is None else plan_section(stored.plan),
        *map(probe_section, stored.probes),
        card_section(stored),
        run_section(stored),
    )
    return [section for section in found if section is not None]


_STATES = {
    "done": wording("done"),
    "running": wording("interrupted"),
    "pending": wording("not_run"),
}


def run_section(stored: Stored) -> Section:
    """Stages and their times, arguments, versions, equivalence checks."""
    record = stored.folder.record
    stages = Table(
        name="stages",
        title=wording("stages"),
        columns=(
            *columns(stage="stage", status="status"),
            Column("seconds", wording("time_s"), digits=1),
        ),
        rows=tuple((n, _STATES[s.status], s.seconds) for n, s in record.stages.items()),
        folded=True,
    )
    groups = {
        "arguments": record.inputs.arguments,
        "versions": {**record.versions, "source SHA-256": record.source},
        "equivalence_checks": record.guards,
    }
    facts = Table(
        name="run",
        title=wording("arguments_versions_equivalence_checks"),
        columns=columns(group="group", name="name", value="value_cell"),
        rows=tuple(
            (wording(group), name, plain(value))
            for group, values in groups.items()
            for name, value in values.items()
        ),
        grouped=True,
        folded=True,
    )
    return Section(name="run", title=wording("this_run"), blocks=filled(stages, facts))
