"""The part of `benchmarks/README.md` that a command rewrites."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write


def rewrite_section(path: Path, name: str, text: str) -> None:
    """Put `text` between the comments `<!-- NAME: begin -->` and `<!-- NAME: end -->` of `path`.

    Raises ArgumentError unless the file has each of them once, in this order.
    """
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    content = path.read_text(encoding="utf-8")
    before, _, rest = content.partition(begin)
    _, _, after = rest.partition(end)
    if (content.count(begin), content.count(end), rest.count(end)) != (1, 1, 1):
        raise ArgumentError(f"{path}: the lines {begin} and {end} must stand there once, in order")
    with atomic_write(path) as temporary:
        temporary.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")


def markdown_table(rows: Sequence[Sequence[str]]) -> str:
    """Rows as a Markdown table; the first is the header."""
    head, *body = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body])
