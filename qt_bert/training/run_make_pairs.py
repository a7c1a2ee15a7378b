"""`qt-bert make-pairs`: rule-made training pairs from the texts and good pairs a recipe names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.pairs import PairReader
from qt_bert.training.rules import MadePair, make_pairs, write_made
from qt_bert.training.sources import PairSource
from qt_bert.training.text import text_lines

TEXTS_A_SHARD = 4_000
GOOD = 4
"""A pair whose label means this grade or better has a title to change."""


@dataclass(frozen=True)
class MakeSettings:
    """How many pairs each rule makes (a number for all, or one for each rule named), and the seed."""

    per_rule: int | Mapping[str, int] = 4_000
    seed: int = 0


def run_make_pairs(
    sources: Sequence[PairSource],
    shards: Sequence[Path],
    forbidden: Sequence[Path],
    out: Path,
    settings: MakeSettings,
    *,
    overwrite: bool = False,
) -> Counter[str]:
    """Write the made pairs to `out`; returns how many each rule gave.

    Texts are the sources' queries and up to 4,000 lines of each shard, drawn by the seed. No query of
    the `forbidden` files is used or made. Raises RunFolderError where `out` is there, and what
    readers and rules raise.
    """
    if out.exists() and not overwrite:
        raise RunFolderError(f"{out} is there already; --overwrite replaces it")
    barred = {text for path in forbidden for pair in PairReader(path) for text in (pair.query,)}
    read = [pair for source in sources for pair in source.read()]
    texts = [pair.query for pair in read] + list(_drawn_lines(shards, settings.seed))
    good = [(p.query, p.title) for p in read if p.grades and min(p.grades) >= GOOD]
    counts: Counter[str] = Counter()

    def counted() -> Iterator[MadePair]:
        numbers = settings.per_rule
        if not isinstance(numbers, int | dict) or settings.seed < 0:
            raise ArgumentError("per_rule is a number or a table of numbers, the seed 0 or more")
        made = make_pairs(texts, good, per_rule=numbers, seed=settings.seed, forbidden=barred)
        for pair in made:
            counts[pair.rule] += 1
            yield pair

    write_made(out, counted())
    return counts


def _drawn_lines(shards: Sequence[Path], seed: int) -> Iterator[str]:
    for shard in shards:
        lines = list(text_lines(shard))
        chosen: Any = np.random.default_rng([seed, len(lines)]).permutation(len(lines))
        for i in sorted(chosen[:TEXTS_A_SHARD]):
            yield lines[int(i)]
