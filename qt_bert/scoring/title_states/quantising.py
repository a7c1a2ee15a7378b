"""States of tokens as float32, float16, or eight bits with a scale for each token."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from qt_bert.errors import ArgumentError

Format = Literal["float32", "float16", "int8"]
FORMATS: tuple[Format, ...] = get_args(Format)

_LARGEST = 127


@dataclass(frozen=True, eq=False)
class PackedStates:
    """States of n tokens: `values` [n, hidden] and, of int8 alone, `scales` [n], float16."""

    values: np.ndarray
    scales: np.ndarray | None = None

    def rows(self, index: np.ndarray) -> np.ndarray:
        """The states of some tokens, float32 [len(index), hidden]."""
        values = self.values[index].astype(np.float32)
        if self.scales is not None:
            values *= self.scales[index].astype(np.float32)[:, None]
        return values


def check_format(dtype: str) -> Format:
    """`dtype` itself. Raises ArgumentError naming the formats there are."""
    for known in FORMATS:
        if dtype == known:
            return known
    raise ArgumentError(f"--dtype {dtype!r}: title states are stored as {', '.join(FORMATS)}")


def pack(states: np.ndarray, dtype: Format) -> PackedStates:
    """States float32 [n, hidden] in a format.

    int8 is symmetric: value × scale, the scale of a token being its largest state over 127, so that
    no state moves by more than half a scale. Raises ArgumentError for states that are no finite
    numbers, or none in the format.
    """
    if dtype != "int8":
        return PackedStates(_cast(states, dtype, dtype))
    scales = _cast(np.abs(states).max(1) / _LARGEST, "float16", dtype)
    steps = states / np.where(scales == 0, 1, scales).astype(np.float32)[:, None]
    return PackedStates(np.clip(np.rint(steps), -_LARGEST, _LARGEST).astype(np.int8), scales)


def _cast(array: np.ndarray, kind: Literal["float32", "float16"], dtype: Format) -> np.ndarray:
    with np.errstate(over="ignore"):
        array = array.astype(kind)
    if not np.isfinite(array).all():
        advice = "the model is broken" if dtype == "float32" else "try --dtype float32"
        raise ArgumentError(f"some states of a title are no finite numbers in {dtype}; {advice}")
    return array
