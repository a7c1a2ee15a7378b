"""What query and title share in their letters alone: the features of the lexical baseline."""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache

import numpy as np

from qt_bert.errors import ArgumentError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.pairs import segmenter
from qt_bert.pairs.segmenters import Segmenter

TextPair = tuple[str, str]
"""Query and title."""

UNITS = ("character", "bigram", "word")

_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_LATIN = re.compile("[a-z]+")
_QUERIES_KEPT = 1024


@dataclass(frozen=True, slots=True)
class TextUnits:
    """A text taken apart: its letters and digits in order, and its distinct units of each kind."""

    letters: str
    units: Mapping[str, frozenset[str]]
    numbers: frozenset[str]
    latin: frozenset[str]


def word_segmenter() -> Segmenter:
    """`rjieba` where it is installed, else `jieba`: the same dictionary, cut alike."""
    try:
        return segmenter("rjieba")
    except ArgumentError:
        return segmenter("jieba")


def take_apart(text: str, words: Segmenter) -> TextUnits:
    """The units of `text` after NFKC and case folding; punctuation and spaces are none."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    letters = "".join(filter(str.isalnum, folded))
    units = {
        "character": frozenset(letters),
        "bigram": frozenset(map("".join, zip(letters, letters[1:], strict=False))),
        "word": frozenset(w for w in words.words(folded) if any(map(str.isalnum, w))),
    }
    numbers, latin = _NUMBER.findall(folded), _LATIN.findall(folded)
    return TextUnits(letters, units, frozenset(numbers), frozenset(latin))


@dataclass(frozen=True)
class Idf:
    """Inverse document frequency, smoothed: ln((1 + documents) / (1 + documents with it)) + 1."""

    documents: int
    frequency: Mapping[str, int]

    def total(self, units: Iterable[str]) -> float:
        """Sum of the weights of `units`; one never seen has the greatest weight."""
        get, documents = self.frequency.get, 1 + self.documents
        return math.fsum(math.log(documents / (1 + get(unit, 0))) + 1 for unit in units)


class LexicalFeatures:
    """The features of (query, title) pairs; made by `fit`, which learns the idf weights.

    Shares are of distinct units and lie in 0..1; the share of nothing is 0.
    """

    def __init__(self, idf: Mapping[str, Idf], words: Segmenter) -> None:
        self._idf = idf
        self._words = words

    @classmethod
    def fit(cls, pairs: Iterable[TextPair], words: Segmenter) -> LexicalFeatures:
        """Count in how many of the distinct texts of `pairs` each unit occurs."""
        texts = {text for pair in pairs for text in pair}
        counts: dict[str, Counter[str]] = {kind: Counter() for kind in UNITS}
        for text in texts:
            for kind, units in take_apart(text, words).units.items():
                counts[kind].update(units)
        return cls({kind: Idf(len(texts), count) for kind, count in counts.items()}, words)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns of `table`."""
        return tuple(self._features(take_apart("", self._words), take_apart("", self._words)))

    def table(self, pairs: Sequence[TextPair]) -> FloatArray:
        """The features of each pair [n, F]."""
        apart = lru_cache(_QUERIES_KEPT)(lambda query: take_apart(query, self._words))
        rows = [
            list(self._features(apart(query), take_apart(title, self._words)).values())
            for query, title in pairs
        ]
        return np.array(rows, dtype=np.float64).reshape(len(rows), len(self.names))

    def _features(self, query: TextUnits, title: TextUnits) -> dict[str, float]:
        return {
            **self._coverage(query, title),
            **_longest_common(query.letters, title.letters),
            **_lengths(query.letters, title.letters),
            **_equal_strings("number", query.numbers, title.numbers),
            **_equal_strings("latin", query.latin, title.latin),
        }

    def _coverage(self, query: TextUnits, title: TextUnits) -> dict[str, float]:
        """Both ways, for each kind of unit: the share of units, and of their idf weight."""
        found: dict[str, float] = {}
        for kind, idf in self._idf.items():
            asked, given = query.units[kind], title.units[kind]
            shared = asked & given
            weight = idf.total(shared)
            found[f"{kind}_of_query"] = _share(len(shared), len(asked))
            found[f"{kind}_of_title"] = _share(len(shared), len(given))
            found[f"{kind}_of_query_idf"] = _share(weight, idf.total(asked))
            found[f"{kind}_of_title_idf"] = _share(weight, idf.total(given))
        return found


def longest_common_substring(a: str, b: str) -> int:
    """Characters of the longest run that stands in both texts."""
    return SequenceMatcher(None, a, b, autojunk=False).find_longest_match().size


def longest_common_subsequence(a: str, b: str) -> int:
    """Characters of the longest text that both hold in this order, gaps allowed.

    H. Hyyrö, "Bit-parallel LCS-length computation revisited", AWOCA 2004, section 3: bit i of
    `free` is 0 where the subsequence grows at character i of `a`.
    """
    places: dict[str, int] = {}
    for i, character in enumerate(a):
        places[character] = places.get(character, 0) | 1 << i
    free = everywhere = (1 << len(a)) - 1
    for character in b:
        matched = free & places.get(character, 0)
        free = ((free + matched) | (free - matched)) & everywhere
    return len(a) - free.bit_count()


def _longest_common(query: str, title: str) -> dict[str, float]:
    substring = longest_common_substring(query, title)
    subsequence = longest_common_subsequence(query, title)
    return {
        "substring_of_query": _share(substring, len(query)),
        "substring_of_title": _share(substring, len(title)),
        "subsequence_of_query": _share(subsequence, len(query)),
        "subsequence_of_title": _share(subsequence, len(title)),
    }


def _lengths(query: str, title: str) -> dict[str, float]:
    return {
        "query_length": float(len(query)),
        "title_length": float(len(title)),
        "query_log_length": math.log1p(len(query)),
        "title_log_length": math.log1p(len(title)),
    }


def _equal_strings(kind: str, query: frozenset[str], title: frozenset[str]) -> dict[str, float]:
    shared = len(query & title)
    return {
        f"{kind}_of_query": _share(shared, len(query)),
        f"{kind}_of_title": _share(shared, len(title)),
        f"query_without_{kind}": float(not query),
        f"title_without_{kind}": float(not title),
    }


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0
