"""Word segmenters behind one small interface: a text in, the spans of its words out."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

from qt_bert.errors import ArgumentError
from qt_bert.pairs.gold import GoldSegmenter
from qt_bert.pairs.jieba_loading import load_jieba
from qt_bert.pairs.userdict import UserWord, read_userdict

Span = tuple[int, int]
"""Characters [start, end) of a text, counted from 0."""

SEGMENTER_NAMES = ("jieba", "jieba-full", "jieba-search", "rjieba", "rjieba-search", "gold")

_LATIN = re.compile("[a-zA-Z0-9]")


class Segmenter(Protocol):
    """Cuts a text into words.

    The spans of `jieba`, `rjieba` and `gold` follow each other without overlap, and their words
    join to the text; the full and search modes also give words inside words.
    """

    name: str

    def spans(self, text: str) -> list[Span]:
        """The words of `text` as half-open character spans, by start."""

    def words(self, text: str) -> list[str]:
        """The words of `text`, in the order of `spans`."""


class SpanSegmenter:
    """A segmenter made of a function from a text to its spans."""

    def __init__(self, name: str, spans: Callable[[str], list[Span]]) -> None:
        self.name = name
        self._spans = spans

    def spans(self, text: str) -> list[Span]:
        """The words of `text` as half-open character spans, by start."""
        return self._spans(text)

    def words(self, text: str) -> list[str]:
        """The words of `text`, in the order of `spans`."""
        return [text[start:end] for start, end in self._spans(text)]


def segmenter(
    name: str, userdict: str | Path | None = None, gold: str | Path | None = None
) -> Segmenter:
    """The segmenter called `name`, one of `SEGMENTER_NAMES`.

    `jieba` cuts precisely, `-full` gives every dictionary word, `-search` adds the words inside
    long words. `userdict` is a file of further words (word, frequency, tag; one a line) for jieba
    and rjieba; `gold` is the segmented file of the segmenter `gold`.

    Raises ArgumentError for another name, for an option the segmenter has no use for, for a
    missing rjieba, and for a file that cannot be read.
    """
    if name not in SEGMENTER_NAMES:
        raise ArgumentError(f"no segmenter {name!r}; there are {', '.join(SEGMENTER_NAMES)}")
    if (gold is not None) != (name == "gold"):
        raise ArgumentError("the segmenter 'gold', and it alone, needs a gold-segmented file")
    if gold is not None:
        if userdict is not None:
            raise ArgumentError("the segmenter 'gold' has no use for --userdict")
        return GoldSegmenter(Path(gold))
    library, _, mode = name.partition("-")
    tokenizer = tokenizer_of(library, read_userdict(Path(userdict)) if userdict else ())
    if mode == "full":
        return SpanSegmenter(name, lambda text: _full_spans(tokenizer, text))
    return SpanSegmenter(name, lambda text: _tokenized_spans(tokenizer, text, mode or "default"))


def check_segmenter(name: str, userdict: str | Path | None = None) -> None:
    """Raise what `segmenter` would, without jieba's dictionary, which takes long to load."""
    if name in SEGMENTER_NAMES and name.partition("-")[0] == "jieba":
        if userdict is not None:
            read_userdict(Path(userdict))
    else:
        segmenter(name, userdict)


@cache
def tokenizer_of(library: str, words: tuple[UserWord, ...]) -> Any:
    """The tokenizer of `jieba` or `rjieba` with a user's words: one for all who ask, left as it is."""
    tokenizer = load_jieba() if library == "jieba" else _load_rjieba()
    for word in words:
        tokenizer.add_word(word.text, word.frequency, word.tag)
    return tokenizer


def _load_rjieba() -> Any:
    try:
        return import_module("rjieba").Jieba()
    except ModuleNotFoundError as error:
        raise ArgumentError(
            "the segmenter 'rjieba' is not installed; pip install 'qt-bert[fast]', or use 'jieba'"
        ) from error


def _tokenized_spans(tokenizer: Any, text: str, mode: str) -> list[Span]:
    return sorted((start, end) for _, start, end in tokenizer.tokenize(text, mode))


def _full_spans(tokenizer: Any, text: str) -> list[Span]:
    """What jieba's full mode yields, which it does without places: read from its word graph.

    Every dictionary word is one, a character that does not lie in the word before it, and a run of
    Latin letters and digits. Punctuation, kana and emoji stand alone here, where jieba joins a run.
    """
    spans: list[Span] = []
    last, in_run = -1, False
    for start, lasts in tokenizer.get_DAG(text).items():
        ends = [end for end in lasts if end > start] or ([start] if start > last else [])
        is_latin = ends == [start] and _LATIN.match(text, start) is not None
        if is_latin and in_run:
            spans[-1] = (spans[-1][0], start + 1)
        else:
            spans.extend((start, end + 1) for end in ends)
        in_run = is_latin
        last = ends[-1] if ends else last
    return spans
