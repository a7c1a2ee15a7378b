"""Spans of query and title that say the same in other words, where the pair is one that ships."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import NamedTuple

from qt_bert.pairs.options import ReaderOptions
from qt_bert.shipped import shipped

ALIGNMENTS = "pairs/alignments.tsv"
SPLITS = ("pairs/train.tsv", "pairs/dev.tsv", "pairs/test.tsv")


class Aligned(NamedTuple):
    """Characters [start, end) of the query and of the title with one meaning."""

    q_start: int
    q_end: int
    t_start: int
    t_end: int


@cache
def alignments() -> Mapping[tuple[str, str], tuple[Aligned, ...]]:
    """(query, title) → its aligned spans, of every pair that ships and has some.

    Pairs are known by their texts, so that ids of another file cannot be mistaken for ours.
    """
    by_id: dict[str, list[Aligned]] = {}
    lines = shipped(ALIGNMENTS).read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        id, _, *places = line.split("\t")
        by_id.setdefault(id, []).append(Aligned(*map(int, places)))
    return {
        (pair.query, pair.title): tuple(by_id[pair.id])
        for split in SPLITS
        for pair in ReaderOptions().open(shipped(split))
        if pair.id in by_id
    }
