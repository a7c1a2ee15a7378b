"""What one pair's attention maps say of order: offsets, and whether a map follows its characters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from qt_bert.data.tokenise import TITLE, EncodedPair
from qt_bert.stats.arrays import FloatArray, IntArray, ratio

OFFSETS = (-3, -2, -1, 1, 2, 3)
"""How far away the tokens stand whose weight is compared."""

FEWEST_CHARACTERS = 3
"""Of two characters each is all that the other can look at, whatever a head does."""

FEWEST_ALIGNED = 4
NO_VARIATION = 1e-6
"""A map that varies by less, as a share of its largest weight, is constant up to rounding."""


def offset_sums(attention: FloatArray, texts: Sequence[Sequence[int]]) -> FloatArray:
    """Sums over rows i of the characters of `texts` [heads, offsets + 1, 2].

    `attention` [heads, L, L]; a text is the tokens of its characters. At an offset d: the weight
    from i to i + d, and the mean weight from i to the other characters of its text, over the rows
    that have an i + d. In the last place: the weight from i to all other characters, and the number
    of rows.
    """
    sums = np.zeros((len(attention), len(OFFSETS) + 1, 2))
    for tokens in texts:
        if len(tokens) < FEWEST_CHARACTERS:
            continue
        places = {token: place for place, token in enumerate(tokens)}
        block = attention[:, tokens][:, :, tokens]
        others = block.sum(axis=2) - np.diagonal(block, axis1=1, axis2=2)
        for number, offset in enumerate(OFFSETS):
            rows = [place for token, place in places.items() if token + offset in places]
            columns = [places[tokens[row] + offset] for row in rows]
            sums[:, number, 0] += block[:, rows, columns].sum(axis=1)
            sums[:, number, 1] += others[:, rows].sum(axis=1) / (len(tokens) - 1)
        sums[:, -1, 0] += others.sum(axis=1)
        sums[:, -1, 1] += len(tokens)
    return sums


class Aligned(NamedTuple):
    """Title tokens of a shuffled pair, and for each two of the original pair.

    `after` are the tokens; `same_place` stand where they stand, `same_character` hold what they hold.
    """

    after: IntArray
    same_place: IntArray
    same_character: IntArray


def align(
    before: EncodedPair,
    after: EncodedPair,
    characters_before: Mapping[int, int],
    characters_after: Mapping[int, int],
    came_from: IntArray,
) -> Aligned:
    """The title's tokens that stand for one character in both pairs.

    `characters_…`: token → place of its character in the title, as `came_from` counts them.
    """
    tokens_before = {place: token for token, place in characters_before.items()}
    titles = [[t for t, side in enumerate(one.side) if side == TITLE] for one in (before, after)]
    found = [
        (token, same_place, tokens_before[came_from[characters_after[token]]])
        for same_place, token in zip(*titles, strict=False)
        if token in characters_after and came_from[characters_after[token]] in tokens_before
    ]
    return Aligned(*np.array(found, np.int64).reshape(-1, 3).T)


def identity_index(before: FloatArray, after: FloatArray, tokens: Aligned) -> FloatArray:
    """corr(A′, πA) − corr(A′, A) for every head [heads], off the diagonal.

    A′ is the shuffled title's map, A the original's, πA the original's moved as the characters
    were: above 0 a map follows the characters, below 0 their places. NaN where too few tokens stand
    for one character, or a map is constant.
    """
    if len(tokens.after) < FEWEST_ALIGNED:
        return np.full(len(before), np.nan)
    new = _off_diagonal(after, tokens.after)
    moved = _off_diagonal(before, tokens.same_character)
    return _correlation(new, moved) - _correlation(new, _off_diagonal(before, tokens.same_place))


def _off_diagonal(attention: FloatArray, tokens: IntArray) -> FloatArray:
    block = attention[:, tokens][:, :, tokens]
    return np.asarray(block[:, ~np.eye(len(tokens), dtype=bool)])


def _correlation(one: FloatArray, other: FloatArray) -> FloatArray:
    """Pearson's of each row [rows, n]; NaN where one of both is constant."""
    centred = []
    for values in (one, other):
        difference = values - values.mean(axis=1, keepdims=True)
        varies = np.abs(difference).max(axis=1) > NO_VARIATION * np.abs(values).max(axis=1)
        centred.append(difference * varies[:, None])
    norms = np.linalg.norm(centred[0], axis=1) * np.linalg.norm(centred[1], axis=1)
    return ratio((centred[0] * centred[1]).sum(axis=1), norms)
