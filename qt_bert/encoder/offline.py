"""A cross-encoder whose lower layers read the texts apart, so that a title's half is computed once.

In the layers below `Offline.layers` no row sees the other text (MICE, Vast et al. 2026, keeps the
same rows apart), and a title's positions do not move with the query's length: what these layers make
of a title is the same whatever the query. What it does to tensors stands in `encoder.sides`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError, CheckpointError

LEAST = {"layers": 0, "title_start": 3, "title_tokens": 1}
"""The least numbers: before a title stand the first token, one of the query, and a separator."""


@dataclass(frozen=True)
class Offline:
    """The block of an offline model.

    The layers 0 … `layers` − 1 read the texts apart (0: none does, and the positions alone are
    moved); a title begins at position `title_start`, or behind its query where that is longer, and is
    cut to `title_tokens` tokens, separators not counted.
    """

    layers: int
    title_start: int
    title_tokens: int

    @classmethod
    def read(cls, value: Any, path: Path) -> Offline:
        """From the object in `qt_bert.json`, the file `path`.

        Raises CheckpointError for what is no such object.
        """
        if not isinstance(value, Mapping) or set(value) != set(LEAST):
            raise CheckpointError(
                f"{path}: `offline` is {value!r}, not an object of {', '.join(LEAST)}"
            )
        for name, least in LEAST.items():
            if type(value[name]) is not int or value[name] < least:
                raise CheckpointError(
                    f"{path}: `offline` has {name} {value[name]!r}, not a number from {least}"
                )
        return cls(**value)

    def checked(self, layers: int, where: str) -> Offline:
        """Itself. Raises ArgumentError where a model of `layers` layers has none left above."""
        if self.layers >= layers:
            raise ArgumentError(
                f"{where}: {self.layers} offline layers of {layers} leave no layer in which the "
                "texts meet"
            )
        return self

    def of_kept(self, layers: Sequence[int], where: str) -> Offline:
        """The block of a model that keeps these of the layers. Raises ArgumentError as `checked`."""
        below = sum(layer < self.layers for layer in layers)
        return Offline(below, self.title_start, self.title_tokens).checked(len(layers), where)

    def check_room(self, max_length: int, separators: int, name: str) -> None:
        """Raise ArgumentError where pairs of `max_length` tokens would cut titles query by query.

        `separators` are those of the title; `name` is the model's.
        """
        needed = self.title_start + self.title_tokens + separators
        if max_length < needed:
            raise ArgumentError(
                f"--max-length {max_length}: titles of {name} begin at position {self.title_start} "
                f"and have up to {self.title_tokens} tokens, whatever the query; give {needed} or "
                "more"
            )

    def describe(self) -> dict[str, int]:
        """The object in `qt_bert.json`."""
        return {name: getattr(self, name) for name in LEAST}


def layers_apart(offline: Offline | None) -> int:
    """How many layers read the texts apart; in a model without such a block none does."""
    return 0 if offline is None else offline.layers
