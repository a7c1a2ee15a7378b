"""Characters of a pair's tokens: which token stands for which single character of which text."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from qt_bert.pairs.tokenise import QUERY, SPECIAL, TITLE, EncodedPair

_HAN = re.compile(
    "[\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f\U00030000-\U000323af]"
)
"""Ideographs, as Unicode's blocks list them."""


class Character(NamedTuple):
    """A token that stands for one character: its place among the tokens and in its text."""

    token: int
    place: int
    text: str


def is_han(character: str) -> bool:
    """Whether it is a Chinese character."""
    return _HAN.fullmatch(character) is not None


def characters_of(
    encoded: EncodedPair, query: str, title: str, side: int, *, han: bool = True
) -> list[Character]:
    """The tokens of one side (QUERY or TITLE) that stand for a single character, in text order.

    With `han`, Chinese characters alone. The pair must have been encoded with offsets.
    """
    text = query if side == QUERY else title
    found: dict[int, Character] = {}
    for token, (owner, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if owner == side and end == start + 1 and (not han or is_han(text[start])):
            # A word mark of SentencePiece has the span of the character after it, which comes later.
            found[start] = Character(token, start, text[start])
    return list(found.values())


def is_marker(encoded: EncodedPair, token: int) -> bool:
    """Whether it spells nothing: SentencePiece's `▁` is given the first character of what follows.

    The pair must have been encoded with offsets. Where a tokenizer cuts a character into several
    tokens, all of them but the last look the same.
    """
    after = token + 1
    return (
        after < len(encoded)
        and encoded.side[token] != SPECIAL
        and encoded.side[after] == encoded.side[token]
        and encoded.spans[after][0] == encoded.spans[token][0]
    )


def spelled(encoded: EncodedPair, query: str, title: str) -> tuple[str, ...]:
    """What each token spells, as a reader sees it; a mark of a word's start is `▁`.

    The pair must have been encoded with offsets.
    """
    names = []
    for token, (side, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side == SPECIAL:
            names.append("[CLS]" if token == encoded.cls else "[SEP]")
        else:
            names.append("▁" if is_marker(encoded, token) else (query, title)[side][start:end])
    return tuple(names)


def coverage(texts: Sequence[str], seen: int) -> float:
    """`seen` as a share of the Chinese characters of `texts`; 1 where they have none."""
    total = sum(is_han(character) for text in texts for character in text)
    return seen / total if total else 1.0


__all__ = [
    "QUERY",
    "TITLE",
    "Character",
    "characters_of",
    "coverage",
    "is_han",
    "is_marker",
    "spelled",
]
