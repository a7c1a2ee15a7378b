"""Other texts that share a word with a text, or none: found through an index of words."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cached_property
from random import Random

from qt_bert.pairs.segmenters import Segmenter
from qt_bert.training.rules.lookup import rows

_MOST_TEXTS = 400
"""A word of more texts than this says too little of any of them."""


class RelatedTexts:
    """Texts and the content words in them. A content word has two characters or more."""

    def __init__(self, texts: Sequence[str], segmenter: Segmenter) -> None:
        self._texts = texts
        self._segmenter = segmenter
        self._empty = {word for (word,) in rows("function_words")}

    def content_words(self, text: str) -> list[str]:
        """The different words of `text` that say what it is about, in their order."""
        words = dict.fromkeys(self._segmenter.words(text))
        return [w for w in words if len(w) > 1 and w not in self._empty and w.isalnum()]

    def rarity(self, word: str) -> int:
        """In how many of the texts `word` stands."""
        return self._counts[word]

    def sharing(self, text: str, word: str, rng: Random) -> str | None:
        """A text that shares `word`, and no other content word, with `text`."""
        candidates = self._holding.get(word, [])
        if not 2 <= len(candidates) <= _MOST_TEXTS:
            return None
        words = set(self.content_words(text))
        for _ in range(4):
            other = self._texts[rng.choice(candidates)]
            if words & set(self.content_words(other)) == {word} and other not in text:
                return other
        return None

    def unlike(self, text: str, rng: Random) -> str | None:
        """A text that shares no content word and hardly a character with `text`."""
        if not self._texts:
            return None
        words = self.content_words(text)
        characters = {c for word in words for c in word}
        for _ in range(8):
            other = rng.choice(self._texts)
            if not characters & set(other) and self.content_words(other):
                return other
        return None

    @cached_property
    def _holding(self) -> dict[str, list[int]]:
        holding: dict[str, list[int]] = defaultdict(list)
        for i, text in enumerate(self._texts):
            for word in self.content_words(text):
                holding[word].append(i)
        return dict(holding)

    @cached_property
    def _counts(self) -> Counter[str]:
        return Counter({word: len(where) for word, where in self._holding.items()})
