"""Drawing a run folder: `report.html`, `report.json` and `tables/*.csv`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from qt_bert.files import atomic_write, read_json, write_json
from qt_bert.report.blocks import Card, Table
from qt_bert.report.page import page
from qt_bert.report.section import Drawn
from qt_bert.report.sections import sections
from qt_bert.report.tables import write_csv
from qt_bert.results.codec import encode
from qt_bert.study import RunFolder

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
    for table in (block for part in drawn for block in part.blocks if isinstance(block, Table)):
        write_csv(table, folder.file(f"tables/{table.name}.csv"))
    report = folder.file("report.html")
    with atomic_write(report) as temporary:
        temporary.write_text(page(folder.record, cards, drawn), encoding="utf-8")
    return report


def _remove_tables(folder: RunFolder) -> None:
    """Remove the tables of the last drawing: one whose section is gone must not stay behind."""
    old = folder.file("report.json")
    try:
        sections = read_json(old)["sections"] if old.exists() else []
        names = [b["name"] for part in sections for b in part["blocks"] if b["kind"] == "table"]
    except (ValueError, KeyError, TypeError):  # no report of this program; nothing is known of it
        return
    for name in names:
        folder.file(f"tables/{name}.csv").unlink(missing_ok=True)


def _as_data(folder: RunFolder, cards: list[Card], drawn: list[Drawn]) -> dict[str, Any]:
    return {
        "schema": _SCHEMA,
        "run": encode(folder.record),
        "summary": encode(cards),
        "sections": [
            {
                "name": part.section.name,
                "title": encode(part.section.title),
                "blocks": encode(part.blocks),
            }
            for part in drawn
        ],
    }
