"""TSV: tabs separate the fields; there are no quotes and no escapes."""

from __future__ import annotations


def split_tsv(line: str) -> list[str]:
    """The fields of one line."""
    return line.split("\t")
