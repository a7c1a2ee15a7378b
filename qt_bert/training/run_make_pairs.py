"""`qt-bert make-pairs`: rule-made training pairs from the texts and good pairs a recipe names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.errors import RunFolderError
from qt_bert.pairs import PairReader
from qt_bert.training.rules import RULES, MadePair, make_pairs, write_made
from qt_bert.training.sources import PairSource
from qt_bert.training.text import text_lines

TEXTS_A_SHARD = 4_000
GOOD = 4
"""A pair whose label means this grade or better has a title to change."""


def run_make_pairs(
    sources: Sequence[PairSource],
    shards: Sequence[Path],
    forbidden: Sequence[Path],
    out: Path,
    *,
    per_rule: int | Mapping[str, int] = 4_000,
    rules: Sequence[str] = tuple(RULES),
    seed: int = 0,
    overwrite: bool = False,
) -> Counter[str]:
    """Write the made pairs to `out`; returns how many each rule gave.

    Texts are the sources' queries and up to 4,000 lines of each shard, drawn by `seed`. No query of
    the `forbidden` files is used or made. Raises RunFolderError where `out` is there, and what
    readers and rules raise.
    """
    if out.exists() and not overwrite:
        raise RunFolderError(f"{out} is there already; --overwrite replaces it")
    barred = {text for path in forbidden for pair in PairReader(path) for text in (pair.query,)}
    read = [pair for source in sources for pair in source.read()]
    texts = [pair.query for pair in read] + list(_drawn_lines(shards, seed))
    good = [(p.query, p.title) for p in read if p.grades and min(p.grades) >= GOOD]
    counts: Counter[str] = Counter()

    def counted() -> Iterator[MadePair]:
        made = make_pairs(texts, good, rules=rules, per_rule=per_rule, seed=seed, forbidden=barred)
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
