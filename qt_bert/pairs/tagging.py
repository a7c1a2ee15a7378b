"""Words with jieba's part-of-speech tags."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from qt_bert.pairs.jieba_loading import load_tagger
from qt_bert.pairs.segmenters import Span, tokenizer_of
from qt_bert.pairs.userdict import UserWord, read_userdict


class Tagged(NamedTuple):
    """A word's characters [start, end) and its tag, as jieba writes it (`n`, `vn`, `eng`, `x`)."""

    span: Span
    tag: str


Tagger = Callable[[str], list[Tagged]]
"""A text to its words, which follow each other without overlap."""


def jieba_tagger(userdict: str | Path | None = None) -> Tagger:
    """jieba's tagger, with a user's words and their tags.

    Raises ArgumentError for a file of words that cannot be read.
    """
    tagger = _tagger(read_userdict(Path(userdict)) if userdict else ())
    return lambda text: _tagged(tagger, text)


@cache
def _tagger(words: tuple[UserWord, ...]) -> Any:
    return load_tagger(tokenizer_of("jieba", words))


def _tagged(tagger: Any, text: str) -> list[Tagged]:
    found: list[Tagged] = []
    end = 0
    for word, tag in tagger.cut(text):
        start = text.index(word, end)
        end = start + len(word)
        found.append(Tagged((start, end), tag))
    return found
