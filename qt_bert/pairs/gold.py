"""Words from a file that people segmented."""

from __future__ import annotations

from itertools import accumulate, pairwise
from pathlib import Path

from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs.formats.source import TextSource
from qt_bert.pairs.pair import Reject


class GoldSegmenter:
    """The segmentation of exactly the texts of a file: a text a line, white space between words.

    White space itself is no word; a text is found whether or not it has any. Where a text stands
    twice, its first segmentation counts. Raises PairFileError where the file cannot be read.
    """

    name = "gold"

    def __init__(self, path: Path) -> None:
        self._path = path
        self._ends: dict[str, list[int]] = {}
        for item in TextSource(path).lines():
            if isinstance(item, Reject):
                raise PairFileError(f"{path}: line {item.line}: {item.reason}")
            words = item[1].split()
            self._ends.setdefault("".join(words), list(accumulate(map(len, words))))

    def __contains__(self, text: str) -> bool:
        return "".join(text.split()) in self._ends

    def spans(self, text: str) -> list[tuple[int, int]]:
        """The words of `text` as half-open character spans, by start.

        Raises ArgumentError where the file does not have the text.
        """
        places = [at for at, character in enumerate(text) if not character.isspace()]
        ends = self._ends.get("".join(text[at] for at in places))
        if ends is None:
            raise ArgumentError(
                f"{self._path}: no gold segmentation of {text[:40]!r}; the segmenter 'gold' knows "
                "only the texts of its file"
            )
        return [(places[start], places[end - 1] + 1) for start, end in pairwise([0, *ends])]

    def words(self, text: str) -> list[str]:
        """The words of `text`; ArgumentError where the file does not have it."""
        return [text[start:end] for start, end in self.spans(text)]
