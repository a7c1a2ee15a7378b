"""Shuffled texts, different from the original; None where there is no other order.

A character is a Unicode code point, as in the tokenizers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from qt_bert.errors import ArgumentError

if TYPE_CHECKING:
    import numpy as np

    from qt_bert.data.segmenters import Segmenter


def shuffle_characters(text: str, rng: np.random.Generator) -> str | None:
    """The characters in a random order, uniform over those that differ from `text`."""
    return _shuffled(text, rng)


def shuffle_words(text: str, segmenter: Segmenter, rng: np.random.Generator) -> str | None:
    """The words in a random order. Raises ArgumentError for overlapping words."""
    words = segmenter.words(text)
    if "".join(words) != text:
        raise ArgumentError(
            f"the segmenter {segmenter.name!r} gives overlapping words, which have no order to "
            "shuffle; use one that cuts the text, such as 'jieba'"
        )
    return _shuffled(words, rng)


def _shuffled(units: Sequence[str], rng: np.random.Generator) -> str | None:
    # Where all neighbours commute, all units do, and every order gives the same text.
    if all(a + b == b + a for a, b in pairwise(units)):
        return None
    original = "".join(units)
    while True:
        drawn = "".join(units[i] for i in rng.permutation(len(units)))
        if drawn != original:
            return drawn
