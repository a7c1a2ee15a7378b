"""The tree that the best heads draw: each word's head is the word that they point to most.

As Clark et al. 2019 ("What Does BERT Look At?") attach words, one by one: what comes out need not be a
tree. Beside it two chains that look at nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from qt_bert.data.treebank import ROOT
from qt_bert.models.heads import Head
from qt_bert.probes.naming import resampled_ratio
from qt_bert.probes.relations.aligned import ALIGNED
from qt_bert.probes.relations.heads import Scores
from qt_bert.probes.relations.sentences import Read
from qt_bert.probes.relations.weights import Spans, Weights
from qt_bert.stats.arrays import FloatArray, IntArray

HEADS, RIGHT, LEFT = "heads", "right", "left"
WAYS = (HEADS, RIGHT, LEFT)
"""By the best heads; every word hangs on the one before it; on the one after it."""


@dataclass(frozen=True)
class Pointer:
    """A head that points from words to their heads (`upward`), or from these to their dependents.

    `usual` is what it gives linked words, by which its weights are divided.
    """

    head: Head
    upward: bool
    usual: float


@dataclass(frozen=True, eq=False)
class Tree:
    """Words attached rightly [sentences] by each of `WAYS`, and `words` [sentences] in all."""

    right: dict[str, FloatArray]
    words: FloatArray
    resamples: int
    seed: int

    def score(self, way: str) -> float:
        """The unlabelled attachment score; NaN without words."""
        total = float(self.words.sum())
        return float(self.right[way].sum()) / total if total else float("nan")

    def samples(self, way: str) -> FloatArray:
        """The same under resampled sentences [R]."""
        return resampled_ratio(self.right[way], self.words, self.resamples, self.seed)


def pointers_of(scores: Scores) -> list[Pointer]:
    """The best head of each relation of words, and which way it looks, as on the half of `scores`."""
    found = []
    for relation, one in scores.excesses.items():
        if relation != ALIGNED and one.linked[one.best] > 0:
            upward = bool(one.upward[one.best] >= 0)
            found.append(Pointer(scores.heads[one.best], upward, float(one.linked[one.best])))
    return found


def word_pairs(read: Read, heads: Sequence[Head]) -> Spans:
    """All pairs of words of all sentences, to be looked at in `heads`."""
    listed = [
        (pair, *first, *second)
        for (pair, _), words in zip(read.where, read.words, strict=True)
        for first, second in combinations([word for word in words if word is not None], 2)
    ]
    found = np.array(listed, np.int64).reshape(-1, 5)
    return Spans(found[:, 0], found[:, 1:3], found[:, 3:5], heads)


def tree_of(
    read: Read,
    weights: Weights,
    pointers: Sequence[Pointer],
    *,
    resamples: int,
    seed: int,
) -> Tree:
    """Attach every word of `read` (punctuation and roots aside) by the weights of `word_pairs`."""
    right = {way: np.zeros(len(read)) for way in WAYS}
    words = np.zeros(len(read))
    start = 0
    for number, (sentence, tokens) in enumerate(zip(read.sentences, read.words, strict=True)):
        kept = [place for place, word in enumerate(tokens) if word is not None]
        at = {place: place_kept for place_kept, place in enumerate(kept)}
        truth = [
            ROOT if (head := sentence.words[place].head) == ROOT else at.get(head, len(kept))
            for place in kept
        ]
        mine = slice(start, start + len(kept) * (len(kept) - 1) // 2)
        start = mine.stop
        said = attach(_points(weights, mine, len(kept), pointers))
        for way, heads in ((HEADS, said), (RIGHT, _chain(kept, -1)), (LEFT, _chain(kept, 1))):
            right[way][number] = rightly(heads, truth)
        words[number] = sum(head != ROOT for head in truth)
    return Tree(right, words, resamples, seed)


def attach(points: FloatArray) -> IntArray:
    """Each word's head [n]: the other word with the most points, of `points` [word, its head]."""
    others = points.astype(np.float64).copy()
    np.fill_diagonal(others, -np.inf)
    return np.asarray(others.argmax(axis=1))


def rightly(said: Sequence[int] | IntArray, truth: Sequence[int]) -> int:
    """How many words have the head that they should have; the root is not asked about."""
    return sum(one == other != ROOT for one, other in zip(said, truth, strict=True))


def _chain(kept: Sequence[int], step: int) -> list[int]:
    """Every word on its neighbour; the one at the end has none, and is wrong if it should."""
    return [place + step if 0 <= place + step < len(kept) else -2 for place in range(len(kept))]


def _points(weights: Weights, mine: slice, words: int, pointers: Sequence[Pointer]) -> FloatArray:
    """[word, its head]: the most that any pointer gives, in units of what it gives linked words."""
    left, right = np.triu_indices(words, 1)
    found = np.zeros((words, words))
    for one in pointers:
        column = weights.column(one.head)
        looking = np.zeros((words, words))
        looking[left, right] = weights.up[mine, column]
        looking[right, left] = weights.down[mine, column]
        found = np.maximum(found, (looking if one.upward else looking.T) / one.usual)
    return found
