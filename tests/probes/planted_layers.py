"""Vectors made by hand, in which a property stands in one layer and no other."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import torch

from qt_bert.probes.layers_reading import Positions, Unit, VectorReader, Vectors
from qt_bert.progress import Progress

LAYERS, WIDTH, BATCH = 4, 6, 50


def positions(count: int, unit: Unit = "token", per_text: int = 5) -> Positions:
    """So many places, five to a text, each text a query of its own."""
    texts = -(-count // per_text)
    return Positions(
        unit,
        tuple((f"query {n}", f"title {n}") for n in range(texts)),
        np.arange(count) // per_text,
        np.zeros((count, 1, 2), np.int64),
    )


def reader(values: Mapping[int, np.ndarray]) -> VectorReader:
    """Gives the `values` [layers, n, width] made for places, by the `id` of the places."""

    def read(properties: Sequence[Positions], shown: Progress) -> Iterator[tuple[Vectors, ...]]:
        longest = max(len(one) for one in properties)
        for start in range(0, longest, BATCH):
            yield tuple(_seen(one, values[id(one)], start) for one in properties)

    return read


def _seen(properties: Positions, values: np.ndarray, start: int) -> Vectors:
    # Backwards within a batch: rows are not in order where a model reads the longest first.
    rows = np.arange(start, min(start + BATCH, len(properties)))[::-1].copy()
    return Vectors(rows, torch.from_numpy(values[:, rows]).float())


def noise(count: int, seed: int) -> np.ndarray:
    """Vectors [layers, n, width] that hold nothing."""
    return np.random.default_rng(seed).standard_normal((LAYERS, count, WIDTH))
