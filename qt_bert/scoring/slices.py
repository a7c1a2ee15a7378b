"""Which pairs of a file belong together: by the values of a column, or by what their texts show."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import BoolArray


def by_column(pairs: Sequence[Pair], column: str) -> dict[str, BoolArray]:
    """For each value of a column which pairs have it [n]; a cell of comma-separated tags counts for each.

    Raises ArgumentError where the file has no such column.
    """
    if not any(column in pair.extra for pair in pairs):
        known = sorted({name for pair in pairs for name in pair.extra})
        raise ArgumentError(
            f"--by {column}: the file has no such column; it has {', '.join(known) or 'none'}"
        )
    tags = [(pair.extra.get(column) or "").split(",") for pair in pairs]
    values = sorted({tag for row in tags for tag in row})
    return {value or "(none)": np.array([value in row for row in tags]) for value in values}


_SHOWN = {
    "number": re.compile(r"\d"),
    "Latin letters": re.compile("[a-z]"),
    # Not in words that negate nothing: 不锈钢, 无线, 未来, 特别, 别墅.
    "negation": re.compile(
        "不(?![锈同过仅但如错])|没|无(?![线锡])|勿|未(?!来)|禁止|"
        "(?<![特区类级性识分个告])别(?![墅名克人的])"
    ),
    "question word": re.compile("怎|如何|什么|啥|哪|谁|多少|几(?![何乎])|为何|吗|是否|还是|有没有"),
}


def character_overlap(query: str, title: str) -> float:
    """The share of the query's distinct characters, whatever their case, that the title has."""
    asked = set("".join(query.casefold().split()))
    return len(asked & set(title.casefold())) / len(asked) if asked else 0.0


def automatic(pairs: Sequence[Pair]) -> dict[str, BoolArray]:
    """Slices that nobody tagged, by name [n]: lengths and shared characters, parted at the quarters of the
    file; numbers, Latin letters, negation and question words in the query, full-width ones too."""
    queries = [unicodedata.normalize("NFKC", pair.query).casefold() for pair in pairs]
    found: dict[str, BoolArray] = {}
    for what, values in (
        ("query length", [len(pair.query) for pair in pairs]),
        ("title length", [len(pair.title) for pair in pairs]),
        ("% of the query in the title", [100 * character_overlap(p.query, p.title) for p in pairs]),
    ):
        low, high = np.quantile(values, [0.25, 0.75])
        if low < high:
            found[f"{what} ≤ {low:.0f}"] = np.asarray(values) <= low
            found[f"{what} ≥ {high:.0f}"] = np.asarray(values) >= high
    for what, pattern in _SHOWN.items():
        found[what] = np.array([bool(pattern.search(query)) for query in queries])
    return found
