"""Maps whose kind is known, for they were made so."""

import numpy as np

from experiments.pattern_maps.stored import CLS, QUERY, SEP, TITLE, DrawnMap
from qt_bert.stats.arrays import FloatArray

QUERY_TOKENS, TITLE_TOKENS = 8, 18
GROUND = 0.15
"""The share of a row's weight that lies anywhere, unevenly."""


def kinds() -> np.ndarray:
    query, title = np.full(QUERY_TOKENS, QUERY), np.full(TITLE_TOKENS, TITLE)
    return np.concatenate([[CLS], query, [SEP], title, [SEP]]).astype(np.uint8)


def planted(kind: str, seed: int = 0) -> DrawnMap:
    """A map of a kind, or `whole` (a block over everything), `matching` (lines off the diagonal)."""
    rng = np.random.default_rng(seed)
    tokens = kinds()
    weights = normal(SHAPES[kind](tokens, rng))
    if kind not in ("block", "whole", "heterogeneous"):
        ground = normal(rng.dirichlet(np.full(len(tokens), 0.5), len(tokens)))
        weights = (1 - GROUND) * weights + GROUND * ground
    return DrawnMap(kind, "planted", 0, 0, "1", weights, tokens)


def normal(cells: FloatArray) -> FloatArray:
    return np.asarray(cells / cells.sum(axis=1, keepdims=True))


def _vertical(tokens: np.ndarray, rng: np.random.Generator) -> FloatArray:
    cells = np.zeros((len(tokens), len(tokens)))
    cells[:, tokens == SEP] = rng.uniform(0.6, 1.4, (len(tokens), 2))
    return cells


def _diagonal(tokens: np.ndarray, rng: np.random.Generator) -> FloatArray:
    places = np.arange(len(tokens))
    near = np.abs(places[:, None] - places) <= 1
    return near * rng.uniform(0.5, 1.5, near.shape)


def _both(tokens: np.ndarray, rng: np.random.Generator) -> FloatArray:
    return normal(_vertical(tokens, rng)) + normal(_diagonal(tokens, rng))


def _block(tokens: np.ndarray, rng: np.random.Generator) -> FloatArray:
    first = np.arange(len(tokens)) <= QUERY_TOKENS + 1
    own = first[:, None] == first
    return own * rng.uniform(0.8, 1.2, own.shape)


def _whole(tokens: np.ndarray, rng: np.random.Generator) -> FloatArray:
    return rng.uniform(0.9, 1.1, (len(tokens), len(tokens)))


def _heterogeneous(tokens: np.ndarray, rng: np.random.Generator) -> FloatArray:
    return rng.dirichlet(np.full(len(tokens), 0.3), len(tokens))


def _matching(tokens: np.ndarray, rng: np.random.Generator) -> FloatArray:
    """Every token attends to its own character in the other text; titles begin with their query."""
    cells = np.full((len(tokens), len(tokens)), 0.02)
    for place in range(1, QUERY_TOKENS + 1):
        other = place + QUERY_TOKENS + 1
        cells[place, other] = cells[other, place] = 1.0
    return cells


SHAPES = {
    "vertical": _vertical,
    "diagonal": _diagonal,
    "both": _both,
    "block": _block,
    "whole": _whole,
    "heterogeneous": _heterogeneous,
    "matching": _matching,
}
