"""Characters and words that carry no content of their own: a match of them says little."""

from __future__ import annotations

STOP_CHARACTERS = frozenset("的了是在和与及或吗呢吧啊呀嘛么怎什就都也还很把被从到于以之这那个")
"""Function characters that a query and a title share whatever they are about."""


def is_stop(character: str) -> bool:
    """Whether it is a function character."""
    return character in STOP_CHARACTERS


def is_punctuation(character: str) -> bool:
    """Whether it is neither a letter, a Chinese character nor a digit, nor white space."""
    return not (character.isalnum() or character.isspace())


def is_content(character: str) -> bool:
    """Whether it is a letter, a Chinese character or a digit, and no function character."""
    return character.isalnum() and not is_stop(character)


def is_content_word(word: str) -> bool:
    """Whether any of its characters is content."""
    return any(map(is_content, word))
