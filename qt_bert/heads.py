"""Attention heads: `L3H7` is layer 3, head 7, both counted from 0."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from qt_bert.errors import ArgumentError

_NAME = re.compile(r"L([0-9]{1,4})H([0-9]{1,4})")


class Shape(NamedTuple):
    """The number of layers and of heads a layer; `absent` heads were pruned."""

    layers: int
    heads: int
    absent: frozenset[tuple[int, int]] = frozenset()

    @property
    def all_heads(self) -> list[Head]:
        """The heads that are not absent, by layer."""
        return [
            Head(layer, head)
            for layer in range(self.layers)
            for head in range(self.heads)
            if (layer, head) not in self.absent
        ]

    @property
    def size(self) -> tuple[int, int]:
        """(layers, heads)."""
        return self.layers, self.heads

    def spread(self, values: Sequence[float] | np.ndarray) -> np.ndarray:
        """Values in the order of `all_heads` as an array [layers, heads]; NaN for absent heads."""
        array = np.full(self.size, np.nan)
        for head, value in zip(self.all_heads, values, strict=True):
            array[head] = value
        return array

    def blank(self, values: np.ndarray) -> None:
        """Set the numbers of absent heads to NaN, in values [n, layers, heads, …], in place."""
        for head in self.absent:
            values[:, *head] = np.nan


class Head(NamedTuple):
    """One head; sorts by layer, then by number.

    >>> head = Head.parse("L3H7")
    >>> head.layer, str(head), head < Head(10, 0)
    (3, 'L3H7', True)
    """

    layer: int
    head: int

    def __str__(self) -> str:
        return f"L{self.layer}H{self.head}"

    @classmethod
    def parse(cls, name: str) -> Head:
        """The head called `name`. Raises ArgumentError for anything but `L<layer>H<head>`."""
        match = _NAME.fullmatch(name)
        if match is None:
            raise ArgumentError(f"{name!r} is no head; write it as L3H7, both numbers from 0")
        return cls(int(match[1]), int(match[2]))


def parse_heads(text: str, shape: Shape) -> list[Head]:
    """The heads named in `text`, separated by spaces or commas; sorted, each once.

    Raises ArgumentError for none, and for one that a model of `shape` lacks.
    """
    heads = sorted({Head.parse(name) for name in re.split(r"[\s,]+", text.strip()) if name})
    if not heads:
        raise ArgumentError("no head is named; write them as 'L2H1 L3H7'")
    return checked_heads(heads, shape)


def checked_heads(heads: Iterable[Head], shape: Shape) -> list[Head]:
    """`heads` as a list. Raises ArgumentError for one that a model of `shape` lacks."""
    checked = list(heads)
    for head in checked:
        if not (0 <= head.layer < shape.layers and 0 <= head.head < shape.heads):
            raise ArgumentError(
                f"there is no head {head}: the model has {shape.layers} layers of {shape.heads} "
                f"heads, L0H0 to L{shape.layers - 1}H{shape.heads - 1}"
            )
        if head in shape.absent:
            raise ArgumentError(f"there is no head {head}: it was pruned from this model")
    return checked


def by_layer(heads: Iterable[Head]) -> dict[int, tuple[int, ...]]:
    """Layer → the numbers of its heads, sorted."""
    layers: dict[int, list[int]] = {}
    for head in sorted(set(heads)):
        layers.setdefault(head.layer, []).append(head.head)
    return {layer: tuple(numbers) for layer, numbers in layers.items()}


def names_of(heads: Iterable[Head]) -> tuple[str, ...]:
    """`L2H1`, `L3H7`, in the order of `heads`."""
    return tuple(map(str, heads))


def format_heads(heads: Iterable[Head]) -> str:
    """`L2H1 L3H7`, sorted."""
    return " ".join(map(str, sorted(heads)))
