"""Slices of a file's pairs: by a column's values, or by properties of their texts."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import BoolArray


def by_column(pairs: Sequence[Pair], column: str) -> dict[str, BoolArray]:
    """Value of a column → which pairs have it [n]; a cell may hold several comma-separated values.

    Raises ArgumentError for a missing column.
    """
    if not any(column in pair.extra for pair in pairs):
        columns = sorted({name for pair in pairs for name in pair.extra})
        raise ArgumentError(
            f"--by {column}: the file has no such column; it has {', '.join(columns) or 'none'}"
        )
    tags = [(pair.extra.get(column) or "").split(",") for pair in pairs]
    values = sorted({tag for row in tags for tag in row})
    return {value or "(none)": np.array([value in row for row in tags]) for value in values}


_PATTERNS = {
    "number": re.compile(r"\d"),
    "Latin letters": re.compile("[a-z]"),
    # Not in words without negation: 不锈钢, 无线, 未来, 特别, 别墅.
    "negation": re.compile(
        "不(?![锈同过仅但如错])|没|无(?![线锡])|勿|未(?!来)|禁止|"
        "(?<![特区类级性识分个告])别(?![墅名克人的])"
    ),
    "question word": re.compile("怎|如何|什么|啥|哪|谁|多少|几(?![何乎])|为何|吗|是否|还是|有没有"),
}


def character_overlap(query: str, title: str) -> float:
    """The share of the query's distinct characters, ignoring case, that the title has."""
    characters = set("".join(query.casefold().split()))
    return len(characters & set(title.casefold())) / len(characters) if characters else 0.0


def automatic(pairs: Sequence[Pair]) -> dict[str, BoolArray]:
    """Name → which pairs [n]: the lowest and highest quarter by lengths and shared characters; queries with
    numbers, Latin letters, negation or question words, full-width ones too."""
    queries = [unicodedata.normalize("NFKC", pair.query).casefold() for pair in pairs]
    slices: dict[str, BoolArray] = {}
    for name, values in (
        ("query length", [len(pair.query) for pair in pairs]),
        ("title length", [len(pair.title) for pair in pairs]),
        ("% of the query in the title", [100 * character_overlap(p.query, p.title) for p in pairs]),
    ):
        low, high = np.quantile(values, [0.25, 0.75])
        if low < high:
            slices[f"{name} ≤ {low:.0f}"] = np.asarray(values) <= low
            slices[f"{name} ≥ {high:.0f}"] = np.asarray(values) >= high
    for name, pattern in _PATTERNS.items():
        slices[name] = np.array([bool(pattern.search(query)) for query in queries])
    return slices
