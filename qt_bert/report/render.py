"""Drawing a run folder: `report.html`, `report.json` and `tables/*.csv`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from qt_bert.codec import encode
from qt_bert.files import atomic_write, read_json, write_json
from qt_bert.probes.wording import question_of
from qt_bert.report.answer import all_claims
from qt_bert.report.blocks import (
    Badge,
    Block,
    Card,
    Cell,
    Column,
    Drawn,
    Folded,
    Interval,
    Link,
    Table,
)
from qt_bert.report.page import page
from qt_bert.report.probes import probe_blocks
from qt_bert.report.sections import probe_section, sections
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import RunFolder, RunInputs, RunRecord
from qt_bert.sources import installed_versions, source_hash
from qt_bert.text import Text, csv_bytes

# Tables as CSV files that a spreadsheet opens, with nothing in them that it would run.


def write_csv(table: Table, path: Path) -> None:
    """Write `table` as UTF-8 with a byte order mark, so that Excel shows Chinese.

    An interval takes three columns and those of its unit, a bilingual text two. A text that a spreadsheet would take
    for a formula gets a leading apostrophe.
    """
    columns = list(zip(table.columns, zip(*table.rows, strict=True), strict=False))
    if not table.rows:
        columns = [(column, ()) for column in table.columns]
    expanded = [pair for column, cells in columns for pair in _expand(column, cells)]
    names, cells = (
        [name for name, _ in expanded],
        zip(*(cells for _, cells in expanded), strict=True),
    )
    with atomic_write(path) as temporary:
        temporary.write_bytes(csv_bytes([names, *cells]))


def _expand(column: Column, cells: tuple[Cell, ...]) -> Iterator[tuple[str, list[object]]]:
    if any(isinstance(cell, Interval) for cell in cells):
        ends = [
            cell if isinstance(cell, Interval) else Interval(value=None, low=None, high=None)
            for cell in cells
        ]
        yield column.name, [cell.value for cell in ends]
        yield f"{column.name}_ci_low", [cell.low for cell in ends]
        yield f"{column.name}_ci_high", [cell.high for cell in ends]
        if any(cell.unit for cell in ends):
            units = Column(f"{column.name}_unit", column.title)
            yield from _expand(units, tuple(cell.unit for cell in ends))
    elif any(isinstance(cell, Badge) for cell in cells):
        words = tuple(cell.text if isinstance(cell, Badge) else cell for cell in cells)
        yield from _expand(column, words)
    elif any(isinstance(cell, Link) for cell in cells):
        texts = tuple(cell.text if isinstance(cell, Link) else cell for cell in cells)
        yield from _expand(column, texts)
    elif any(isinstance(cell, Text) for cell in cells):
        for language in ("zh", "en"):
            shown = [getattr(cell, language) if isinstance(cell, Text) else cell for cell in cells]
            yield f"{column.name}_{language}", shown
    else:
        yield column.name, list(cells)


# Drawing a run folder: `report.html`, `report.json` and `tables/*.csv`.


_SCHEMA = 1


def render(path: Path) -> Path:
    """Draw the report of the run in `path` from its result files; return the page's path.

    A run that was interrupted gives the sections that it has, and says what is missing.
    Raises RunFolderError when `path` is no run folder or one of its files cannot be read.
    """
    folder = RunFolder.read(Path(path))
    drawn = []
    cards: list[Card] = []
    for section in sections(folder):
        if (blocks := section.build(folder)) is not None:
            drawn.append(Drawn(section, blocks))
        cards += section.cards(folder)
    _remove_tables(folder)
    write_json(folder.file("report.json"), _as_data(folder, cards, drawn))
    for table in _tables(block for part in drawn for block in part.blocks):
        write_csv(table, folder.file(f"tables/{table.name}.csv"))
    report = folder.file("report.html")
    with atomic_write(report) as temporary:
        temporary.write_text(page(folder.record, cards, drawn), encoding="utf-8")
    return report


def _tables(blocks: Iterable[Block]) -> Iterator[Table]:
    """The tables among these blocks, those in folded ones too."""
    for block in blocks:
        if isinstance(block, Folded):
            yield from _tables(block.blocks)
        elif isinstance(block, Table):
            yield block


def _remove_tables(folder: RunFolder) -> None:
    """Remove the tables of the last drawing: one whose section is gone must not stay behind."""
    old = folder.file("report.json")
    try:
        sections = read_json(old)["sections"] if old.exists() else []
        listed = [b for part in sections for b in part["blocks"]]
        listed += [b for one in listed if one["kind"] == "folded" for b in one["blocks"]]
        names = [b["name"] for b in listed if b["kind"] == "table"]
    except (ValueError, KeyError, TypeError):  # no report of this program; nothing is known of it
        return
    for name in names:
        folder.file(f"tables/{name}.csv").unlink(missing_ok=True)


def _as_data(folder: RunFolder, cards: list[Card], drawn: list[Drawn]) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "run": encode(folder.record),
        "summary": encode(cards),
        "claims": encode([one.said.claim for one in all_claims(folder)]),
        "sections": [
            {
                "name": part.section.name,
                "title": encode(part.section.title),
                "blocks": encode(part.blocks),
            }
            for part in drawn
        ],
    }


def render_probe(result: ProbeResult, inputs: RunInputs, out: Path) -> Path:
    """Draw `NAME.html` of one probe's result in the folder `out`; return its path."""
    record = RunRecord(
        versions=installed_versions(), source=source_hash(), inputs=inputs, complete=True
    )
    drawn = Drawn(probe_section(result, 0), probe_blocks(result, question_of(result.probe)))
    target = out / f"{result.probe}.html"
    with atomic_write(target) as temporary:
        temporary.write_text(page(record, (), [drawn]), encoding="utf-8")
    return target
