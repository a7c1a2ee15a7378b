"""Drawing a run folder: `report.html`, `report.json` and `tables/*.csv`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from qt_bert.codec import encode
from qt_bert.files import atomic_write, read_json, write_json
from qt_bert.report.answer import answer_section
from qt_bert.report.blocks import (
    Badge,
    Block,
    Cell,
    Column,
    Folded,
    Interval,
    Link,
    Section,
    Table,
    columns,
    filled,
    wording,
)
from qt_bert.report.evaluation import card_section, evaluation_section, summary_cards
from qt_bert.report.frontier import smaller_section
from qt_bert.report.page import page
from qt_bert.report.probes import atlas_section, probe_section
from qt_bert.report.stored import Stored
from qt_bert.results.frontier import FRONTIER
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import REPORT, RunFolder, RunInputs, RunRecord
from qt_bert.shipped import installed_versions, source_hash
from qt_bert.text import Text, csv_bytes, plain

_SCHEMA = 1


def render(path: Path) -> Path:
    """Draw the report of the run in `path` from its result files; return the page's path.

    For an interrupted run, the sections with results and a list of what is missing. Raises
    RunFolderError where `path` is no run folder or a file cannot be read.
    """
    folder = RunFolder.read(path)
    stored = Stored(folder)
    drawn, cards = sections(stored), summary_cards(stored)
    _remove_tables(folder)
    data = {
        "schema": _SCHEMA,
        "run": encode(folder.record),
        "summary": encode(cards),
        "claims": encode([row.worded.claim for row in stored.claims]),
        "sections": encode(drawn),
    }
    write_json(folder.file("report.json"), data)
    for table in _tables(block for section in drawn for block in section.blocks):
        write_csv(table, folder.file(f"tables/{table.name}.csv"))
    report = folder.file(REPORT)
    with atomic_write(report) as temporary:
        temporary.write_text(page(folder.record, cards, drawn), encoding="utf-8")
    return report


def render_probe(result: ProbeResult, inputs: RunInputs, out: Path) -> Path:
    """Draw `NAME.html` of one probe's result in the folder `out`; return its path."""
    record = RunRecord(
        versions=installed_versions(), source=source_hash(), inputs=inputs, complete=True
    )
    target = out / f"{result.probe}.html"
    with atomic_write(target) as temporary:
        temporary.write_text(
            page(record, (), [replace(probe_section(result), appendix=False)], tables=False),
            encoding="utf-8",
        )
    return target


def sections(stored: Stored) -> list[Section]:
    """The sections with results, the appendix last. Raises RunFolderError for a damaged one."""
    parts = (
        answer_section(stored),
        evaluation_section(stored),
        atlas_section(stored.probes),
        *map(probe_section, stored.probes),
        smaller_section(stored.frontier, stored.plan, str(stored.folder.path / "plan" / FRONTIER)),
        card_section(stored),
        run_section(stored),
    )
    drawn = [section for section in parts if section is not None]
    return sorted(drawn, key=lambda section: section.appendix)


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
        title=wording("run_facts"),
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


def _tables(blocks: Iterable[Block]) -> Iterator[Table]:
    """The tables among these blocks, also in folded ones."""
    for block in blocks:
        if isinstance(block, Folded):
            yield from _tables(block.blocks)
        elif isinstance(block, Table):
            yield block


def _remove_tables(folder: RunFolder) -> None:
    """Remove the tables of the last drawing, some of which the new one may lack."""
    old = folder.file("report.json")
    try:
        sections = read_json(old)["sections"] if old.exists() else []
        listed = [b for part in sections for b in part["blocks"]]
        listed += [b for block in listed if block["kind"] == "folded" for b in block["blocks"]]
        names = [b["name"] for b in listed if b["kind"] == "table"]
    except (ValueError, KeyError, TypeError):  # not a report of this program
        return
    for name in names:
        folder.file(f"tables/{name}.csv").unlink(missing_ok=True)


def write_csv(table: Table, path: Path) -> None:
    """Write `table` as UTF-8 with a byte order mark, so that Excel shows Chinese.

    An interval takes three columns and those of its unit, a bilingual text two. A text that a
    spreadsheet would take for a formula gets a leading apostrophe.
    """
    cells = list(zip(*table.rows, strict=True)) or [()] * len(table.columns)
    expanded = [
        pair
        for column, values in zip(table.columns, cells, strict=True)
        for pair in _expand(column.name, values)
    ]
    rows = zip(*(values for _, values in expanded), strict=True)
    with atomic_write(path) as temporary:
        temporary.write_bytes(csv_bytes([[name for name, _ in expanded], *rows]))


def _expand(name: str, cells: Sequence[Cell]) -> Iterator[tuple[str, Sequence[object]]]:
    cells = [cell.text if isinstance(cell, Badge | Link) else cell for cell in cells]
    if any(isinstance(cell, Interval) for cell in cells):
        none = Interval(value=None, low=None, high=None)
        ends = [cell if isinstance(cell, Interval) else none for cell in cells]
        yield name, [cell.value for cell in ends]
        yield f"{name}_ci_low", [cell.low for cell in ends]
        yield f"{name}_ci_high", [cell.high for cell in ends]
        if any(cell.unit for cell in ends):
            yield from _expand(f"{name}_unit", [cell.unit for cell in ends])
    elif any(isinstance(cell, Text) for cell in cells):
        for language in ("zh", "en"):
            shown = [getattr(cell, language) if isinstance(cell, Text) else cell for cell in cells]
            yield f"{name}_{language}", shown
    else:
        yield name, cells
