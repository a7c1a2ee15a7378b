"""Texts as words, for tokenizers whose vocabulary holds words: jieba cuts before they are asked.

Such a tokenizer says `"words": true` in its `tokenizer_config.json`. A word that its vocabulary
lacks falls apart into characters there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from qt_bert.files import read_json
from qt_bert.pairs.segmenters import Segmenter, Span, segmenter

WORDS = "words"
"""The key of `tokenizer_config.json`."""


class CutText(NamedTuple):
    """The words of a text that are no blanks, and the character at which each begins."""

    words: list[str]
    starts: list[int]


def is_of_words(tokenizer: Any) -> bool:
    """Whether a tokenizer of transformers expects texts that were cut into words."""
    return bool(getattr(tokenizer, "init_kwargs", {}).get(WORDS))


def folder_is_of_words(folder: Path) -> bool:
    """The same of the tokenizer that was saved in a folder, without opening it."""
    config = folder / "tokenizer_config.json"
    stored = read_json(config) if config.is_file() else {}
    return isinstance(stored, dict) and bool(stored.get(WORDS))


def word_cutter() -> Segmenter:
    """What cuts for such a tokenizer: jieba with its own dictionary, whatever the user added."""
    return segmenter("jieba")


def cut(text: str, words: Segmenter) -> CutText:
    """`text` as the list of words that a tokenizer of words takes."""
    spans = [(start, end) for start, end in words.spans(text) if not text[start:end].isspace()]
    return CutText([text[start:end] for start, end in spans], [start for start, _ in spans])


def spans_in_text(encoding: Any, query: CutText, title: CutText) -> list[Span]:
    """The characters of each token in its own text; (0, 0) at special tokens.

    `encoding` is of two texts given as words, so that its offsets count from the word's beginning.
    """
    texts = (query, title)
    spans: list[Span] = []
    for side, word, (start, end) in zip(
        encoding.sequence_ids, encoding.word_ids, encoding.offsets, strict=True
    ):
        first = 0 if side is None else texts[side].starts[word]
        spans.append((first + start, first + end))
    return spans
