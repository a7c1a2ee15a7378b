"""The block of an offline model that a run trains: which layers, and where titles begin and end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.encoder.card import stored_block
from qt_bert.encoder.loading import load_config
from qt_bert.encoder.offline import LEAST, Offline
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair, PairTokenizer
from qt_bert.scoring.title_states.halves import title_at

COVERED = 0.95
"""Share of the pairs whose query ends before titles begin."""


@dataclass(frozen=True)
class AskedBlock:
    """What `--offline-layers`, `--title-start` and `--title-tokens` say; None where they say nothing.

    No layers is a plain model, whatever the base is.
    """

    offline_layers: int | None = None
    title_start: int | None = None
    title_tokens: int | None = None

    def describe(self) -> dict[str, int]:
        """What was said."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def check(self) -> None:
        """Raise ArgumentError for what cannot be meant of any model."""
        for name, value in self.describe().items():
            least = LEAST[name.removeprefix("offline_")]
            if value < least:
                raise ArgumentError(f"{_option(name)} {value}: give {least} or more")

    def of(self, base: Offline | None, measured: Measured, layers: int) -> Block | None:
        """The block of a run from a model of `layers` layers whose own block is `base`; None: plain.

        What is not asked for is as in `base`; without one, titles begin where the queries of
        `measured` end, and have what is left of the sequence. Raises ArgumentError for a block that
        the model has no layers or no room for, and where titles of a plain model are to be placed.
        """
        number = self.offline_layers
        if number is None and base is not None:
            number = base.layers
        if number is None or self.offline_layers == 0:
            self._check_titles_unplaced()
            return None
        start, source = self._start(base, measured)
        room, separators = measured.reading.max_length, measured.reading.title_separators
        left = room - start - separators
        if left < 1:
            raise ArgumentError(
                f"--max-length {room}: titles that begin at position {start} have no room; give "
                "more, or a smaller --title-start"
            )
        known = left if base is None else min(left, base.title_tokens)
        block = Offline(number, start, self.title_tokens or known)
        block.check_room(room, separators, "this run")
        return Block(block.checked(layers, "--offline-layers"), source)

    def _check_titles_unplaced(self) -> None:
        for name in ("title_start", "title_tokens"):
            if name in self.describe():
                raise ArgumentError(
                    f"{_option(name)} places titles of an offline model: give --offline-layers, too"
                )

    def _start(self, base: Offline | None, measured: Measured) -> tuple[int, str]:
        if self.title_start is not None:
            return self.title_start, "asked for"
        if base is not None:
            return base.title_start, "the base's own"
        return measured.title_start(), f"{COVERED:.0%} of the queries of {measured.name}"


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


@dataclass(frozen=True)
class Measured:
    """Pairs on which queries are measured, the file's name, and the tokenizer that reads them."""

    pairs: Sequence[Pair]
    name: str
    reading: PairTokenizer

    def title_start(self) -> int:
        """The 95th percentile of the tokens before a title: [CLS], query and first separator.

        Raises ArgumentError where there is no pair.
        """
        if not self.pairs:
            raise ArgumentError(f"{self.name}: no pair to measure queries on; give --title-start")
        before = np.quantile(self.before, COVERED, method="higher")
        return max(LEAST["title_start"], int(before))

    @cached_property
    def before(self) -> np.ndarray:
        """How many tokens stand before each pair's title [n]."""
        encoded = self.reading.encode([(p.query, p.title) for p in self.pairs], offsets=False)
        return np.array([title_at(one) for one in encoded])


@dataclass(frozen=True)
class Block:
    """The block that a run trains; `source` says what its title start rests on."""

    offline: Offline
    source: str

    def describe(self) -> dict[str, Any]:
        """For the run's records."""
        return {**self.offline.describe(), "title_start_from": self.source}


def block_from(base: Path, asked: AskedBlock, measured: Measured) -> Block | None:
    """The block of a run from the folder `base`, as `AskedBlock.of` has it.

    Raises CheckpointError where the folder's config or `qt_bert.json` cannot be read.
    """
    layers = int(load_config(base).num_hidden_layers)
    return asked.of(stored_block(base), measured, layers)
