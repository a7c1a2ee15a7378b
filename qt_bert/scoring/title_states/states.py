"""Title states to read from: found by the titles' keys, in memory or mapped into it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from qt_bert.encoder.offline import Offline
from qt_bert.scoring.title_states.halves import KEY
from qt_bert.scoring.title_states.quantising import Format, PackedStates

UNKNOWN = -1
"""The place of a title that has no states."""


@dataclass(frozen=True, eq=False)
class Part:
    """Some of the titles: their `keys` [n] and `lengths` [n] in tokens, separators and all.

    `packed()` gives the states of their tokens, title after title.
    """

    keys: np.ndarray
    lengths: np.ndarray
    packed: Callable[[], PackedStates]

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each title's tokens begin [n]."""
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    @property
    def bytes(self) -> int:
        """Bytes that keys, lengths and states take."""
        packed = self.packed()
        arrays = (self.keys, self.lengths, packed.values, packed.scales)
        return sum(array.nbytes for array in arrays if array is not None)


@dataclass(frozen=True, eq=False)
class TitleStates:
    """What the model with the block `offline` made of titles: states of `hidden` numbers a token.

    `sha256` is that of the manifest they were opened by; None for states that were never stored.
    """

    offline: Offline
    dtype: Format
    hidden: int
    parts: tuple[Part, ...]
    sha256: str | None = None

    @property
    def titles(self) -> int:
        """How many titles there are."""
        return int(self._offsets[-1])

    @cached_property
    def bytes_per_title(self) -> float:
        """Bytes a title takes on average: states and their scales, its key and its length."""
        return sum(part.bytes for part in self.parts) / max(1, self.titles)

    def describe(self) -> dict[str, Any]:
        """The format, how many titles there are, and the hash of the manifest."""
        return {"dtype": self.dtype, "titles": self.titles, "sha256": self.sha256}

    def find(self, keys: Sequence[bytes]) -> np.ndarray:
        """The places of titles by their keys, int64 [n]; `UNKNOWN` where there are no states."""
        if not self.titles:
            return np.full(len(keys), UNKNOWN)
        wanted = np.array(keys, KEY)
        ordered, places = self._index
        at = np.searchsorted(ordered, wanted).clip(max=len(ordered) - 1)
        return np.where(ordered[at] == wanted, places[at], UNKNOWN)

    def read(self, places: np.ndarray) -> np.ndarray:
        """The states of the titles at `places`, one after the other, float32 [tokens, hidden]."""
        owners = np.searchsorted(self._offsets, places, side="right") - 1
        within = places - self._offsets[owners]
        lengths = np.empty(len(places), np.int64)
        for number in np.unique(owners):
            mine = owners == number
            lengths[mine] = self.parts[number].lengths[within[mine]]
        out = np.empty((lengths.sum(), self.hidden), np.float32)
        for number in np.unique(owners):
            part, mine = self.parts[number], owners == number
            rows = token_rows(part.starts[within[mine]], lengths[mine])
            out[np.repeat(mine, lengths)] = part.packed().rows(rows)
        return out

    @cached_property
    def _offsets(self) -> np.ndarray:
        """The place of each part's first title, and how many titles there are in all."""
        return np.cumsum([0, *(len(part.keys) for part in self.parts)])

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray]:
        """All keys in order, and the place of each."""
        keys = np.concatenate([part.keys for part in self.parts])
        places = np.argsort(keys, kind="stable")
        return keys[places], places


def token_rows(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The rows start … start + length − 1 of each title, one title after the other."""
    behind = np.cumsum(lengths)
    total = int(behind[-1]) if len(behind) else 0
    return np.arange(total) + np.repeat(starts - (behind - lengths), lengths)
