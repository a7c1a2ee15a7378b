"""Texts in another order: characters whose way is known, and the kinds of disturbance compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import numpy as np

from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.data.shuffles import (
    reverse_characters,
    shuffle_characters,
    shuffle_words,
    swap_adjacent_characters,
)
from qt_bert.probes.base import Context
from qt_bert.stats.arrays import IntArray
from qt_bert.text import Text

SIDES: Mapping[str, Text] = {"title": Text("标题", "title"), "query": Text("查询", "query")}

KINDS: Mapping[str, Text] = {
    "characters": Text("打乱字", "characters shuffled"),
    "words": Text("打乱词", "words shuffled"),
    "reversal": Text("倒写", "reversed"),
    "swap": Text("换一对邻字", "two neighbours swapped"),
}

Disturb = Callable[[str, np.random.Generator], str | None]
"""A text in another order; None for a text that has no other."""


class Moved(NamedTuple):
    """A shuffled text, and where each of its characters stood before."""

    text: str
    came_from: IntArray


def move_characters(text: str, rng: np.random.Generator) -> Moved | None:
    """A draw as in `data.shuffles.shuffle_characters`, of which the way of each character is known."""
    if len(set(text)) < 2:
        return None
    while True:
        came_from = rng.permutation(len(text))
        drawn = "".join(text[at] for at in came_from)
        if drawn != text:
            return Moved(drawn, came_from)


def disturbances(words: Segmenter) -> dict[str, Disturb]:
    """How each of `KINDS` is drawn."""
    return {
        "characters": shuffle_characters,
        "words": lambda text, rng: shuffle_words(text, words, rng),
        "reversal": lambda text, rng: reverse_characters(text),
        "swap": swap_adjacent_characters,
    }


def cutting(context: Context) -> Segmenter:
    """The segmenter asked for in its precise mode, whose words follow each other."""
    return segmenter(context.segmenter_name.partition("-")[0], userdict=context.userdict)
