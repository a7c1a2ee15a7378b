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


_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LATIN = re.compile(r"[a-z]+")
# Not in words that negate nothing: 不锈钢, 无线, 未来, 特别, 别墅.
_NEGATION = re.compile(
    "不(?![锈同过仅但如错])|没|无(?![线锡])|勿|未(?!来)|禁止|"
    "(?<![特区类级性识分个告])别(?![墅名克人的])"
)
_QUESTIONS = {
    "how": re.compile("怎|如何|咋"),
    "what": re.compile("什么|啥|是谁|哪"),
    "how many": re.compile("多少|几(?![何乎])|多[久大长高远重]"),
    "why": re.compile("为什么|为何|为啥|原因"),
    "whether": re.compile(r"吗|([能会可是])不\1|[是能可]否|有没有|还是"),
}


def character_overlap(query: str, title: str) -> float:
    """The share of the query's distinct characters, whatever their case, that the title has."""
    asked = set("".join(query.casefold().split()))
    return len(asked & set(title.casefold())) / len(asked) if asked else 0.0


def automatic(pairs: Sequence[Pair]) -> dict[str, BoolArray]:
    """Slices that nobody tagged, by name [n]: lengths, shared characters, numbers, Latin letters,
    negation, question words.

    Lengths and shares part at the quarters of the file. What is asked or negated is told by words in the
    text, not by its meaning. Full-width digits and letters count as plain ones.
    """
    texts = [
        tuple(unicodedata.normalize("NFKC", text).casefold() for text in (pair.query, pair.title))
        for pair in pairs
    ]
    found: dict[str, BoolArray] = {}

    def quarters(what: str, unit: str, values: Sequence[float], few: str, many: str) -> None:
        low, high = np.quantile(values, [0.25, 0.75])
        if low < high:
            found[f"{what}: {few} (≤ {low:g}{unit})"] = np.asarray(values) <= low
            found[f"{what}: {many} (≥ {high:g}{unit})"] = np.asarray(values) >= high

    def told(name: str, holds: Sequence[bool]) -> None:
        found[name] = np.asarray(holds, dtype=np.bool_)

    quarters("query length", "", [len(query) for query, _ in texts], "short", "long")
    quarters("title length", "", [len(title) for _, title in texts], "short", "long")
    shared = [round(100 * character_overlap(*both), 1) for both in texts]
    quarters("query's characters in the title", " %", shared, "few", "many")
    for name, pattern in (("number", _NUMBER), ("Latin word", _LATIN)):
        asked = [set(pattern.findall(query)) for query, _ in texts]
        there = [set(pattern.findall(title)) for _, title in texts]
        told(f"{name} in the query", [bool(one) for one in asked])
        told(
            f"{name} of the query not in the title",
            [bool(a - t) for a, t in zip(asked, there, strict=True)],
        )
    negated = [tuple(bool(_NEGATION.search(text)) for text in both) for both in texts]
    told("negation in the query", [query for query, _ in negated])
    told("negation in one text alone", [query != title for query, title in negated])
    for name, pattern in _QUESTIONS.items():
        told(f"question: {name}", [bool(pattern.search(query)) for query, _ in texts])
    told(
        "no question word",
        [not any(p.search(query) for p in _QUESTIONS.values()) for query, _ in texts],
    )
    return found
