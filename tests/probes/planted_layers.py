"""Vectors made by hand, in which a property stands in one layer and no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from qt_bert.probes.layers_reading import Places, Reader, Seen, Unit
from qt_bert.progress import Progress

LAYERS, WIDTH, BATCH = 4, 6, 50


def places(count: int, unit: Unit = "token", per_text: int = 5) -> Places:
    """So many places, five to a text, each text a query of its own."""
    texts = -(-count // per_text)
    return Places(
        unit,
        tuple((f"query {n}", f"title {n}") for n in range(texts)),
        np.arange(count) // per_text,
        np.zeros((count, 1, 2), np.int64),
        np.arange(texts),
    )


def reader(values: Mapping[int, np.ndarray]) -> Reader:
    """Gives the `values` [layers, n, width] made for places, by the `id` of the places."""

    def read(asked: Sequence[Places], shown: Progress) -> Iterator[tuple[Seen, ...]]:
        longest = max(len(one) for one in asked)
        for start in range(0, longest, BATCH):
            yield tuple(_seen(one, values[id(one)], start) for one in asked)

    return read


def _seen(asked: Places, values: np.ndarray, start: int) -> Seen:
    # Backwards within a batch: rows are not in order where a model reads the longest first.
    rows = np.arange(start, min(start + BATCH, len(asked)))[::-1].copy()
    return Seen(rows, torch.from_numpy(values[:, rows]).float())


def noise(count: int, seed: int) -> np.ndarray:
    """Vectors [layers, n, width] that hold nothing."""
    return np.random.default_rng(seed).standard_normal((LAYERS, count, WIDTH))
