"""A user's own words for jieba: one a line, with an optional frequency and an optional tag."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from qt_bert.errors import ArgumentError

_ENTRY = re.compile(r"(?P<text>\S+)(?: (?P<frequency>[0-9]{1,9}))?(?: (?P<tag>[a-zA-Z]+))?")


class UserWord(NamedTuple):
    """One entry; without a frequency jieba picks one that lets the word be cut out."""

    text: str
    frequency: int | None
    tag: str | None


def read_userdict(path: Path) -> tuple[UserWord, ...]:
    """The entries of a UTF-8 file.

    Raises ArgumentError, naming the line, where the file cannot be read, is not UTF-8, has a line
    of another form, or has no word.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except UnicodeDecodeError as error:
        raise ArgumentError(
            f"--userdict {path}: is not UTF-8 text ({error}); convert it"
        ) from error
    except OSError as error:
        raise ArgumentError(f"--userdict {path}: cannot be read ({error.strerror})") from error
    words = tuple(
        _entry(path, number, line.strip()) for number, line in enumerate(lines, 1) if line.strip()
    )
    if not words:
        raise ArgumentError(f"--userdict {path}: holds no word")
    return words


def _entry(path: Path, number: int, line: str) -> UserWord:
    match = _ENTRY.fullmatch(line)
    if match is None:
        raise ArgumentError(
            f"--userdict {path}: line {number}: {line[:40]!r} is not a word with an optional "
            "frequency and tag, separated by one space each, such as '机器学习 100 n'"
        )
    frequency = match["frequency"]
    return UserWord(match["text"], int(frequency) if frequency else None, match["tag"])
