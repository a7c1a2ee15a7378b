"""Word segmentation with jieba in three modes, user dictionaries, parts of speech."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
import unicodedata
import warnings
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from qt_bert.data.lines import TextSource
from qt_bert.errors import ArgumentError, PairFileError

_ENTRY = re.compile(r"(\S+)(?: ([0-9]{1,9}))?(?: ([a-zA-Z]+))?")


class UserWord(NamedTuple):
    """An entry of a user dictionary; without a frequency jieba sets one at which it cuts the word."""

    text: str
    frequency: int | None
    tag: str | None


def read_userdict(path: str | Path | None) -> tuple[UserWord, ...]:
    """The entries of a file: a word a line, with optional frequency and tag; none without a file.

    Raises PairFileError for a file that is unreadable or no text, ArgumentError, naming the line, for a
    malformed one or one without a word.
    """
    if path is None:
        return ()
    words = []
    for number, text in TextSource(Path(path)).texts():
        line = text.strip()
        if (match := _ENTRY.fullmatch(line)) is not None:
            word, frequency, tag = match.groups()
            words.append(UserWord(word, None if frequency is None else int(frequency), tag))
        elif line:
            raise ArgumentError(
                f"--userdict {path}: line {number}: {line[:40]!r} is not a word with an optional "
                "frequency and tag, separated by one space each, such as '机器学习 100 n'"
            )
    if not words:
        raise ArgumentError(f"--userdict {path}: holds no word")
    return tuple(words)


def _import_quietly(name: str = "jieba") -> Any:
    with warnings.catch_warnings():
        # Invalid escapes in jieba's sources, and its use of pkg_resources.
        warnings.simplefilter("ignore")
        jieba = import_module("jieba")
        module = import_module(name)
    jieba.setLogLevel(logging.WARNING)
    return module


@cache
def _private_cache(name: str) -> Path:
    """A folder that only this user can write: jieba unmarshals the files in it."""
    try:
        base = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
        folder = (Path(base) if base else Path.home() / ".cache") / "qt_bert" / name
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):
        pass
    folder = Path(tempfile.mkdtemp(prefix="qt_bert-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


Span = tuple[int, int]
"""Characters [start, end) of a text, counted from 0."""

SEGMENTER_NAMES = ("jieba", "jieba-full", "jieba-search", "rjieba", "rjieba-search")


_LATIN = re.compile("[a-zA-Z0-9]")
_MARKS = re.compile("(?<=[a-zA-Z0-9])[\u0300-\u036f]+")


class _Letters(dict[int, str]):
    """Code point → its Latin base letter or digit; `x` for a letter of another alphabet."""

    def __missing__(self, code: int) -> str:
        first = unicodedata.normalize("NFKD", chr(code))[0]
        if not _LATIN.match(first):
            first = "x" if first.upper() != first.lower() else chr(code)
        self[code] = first
        return first


_LETTERS = _Letters()


def latin(text: str) -> str:
    """`text` with `ｉ` as `i`, `é` as `e`, `ø` as `x`, of the same length.

    jieba knows only the letters a to z, and would cut `ｉＰｈｏｎｅ` into six words.
    """
    if text.isascii():
        return text
    return _MARKS.sub(lambda marks: "x" * len(marks[0]), text.translate(_LETTERS))


def read_segmented(path: Path) -> list[list[str]]:
    """The words of each line of a file of segmented texts, words separated by spaces.

    Raises PairFileError for a line that is not text, and for fewer than two different lines.
    """
    lines = [words for _, line in TextSource(path).texts() if (words := line.split())]
    if len({"".join(words) for words in lines}) < 2:
        raise PairFileError(f"{path}: a segmented file needs two different lines at least")
    return lines


class Segmenter:
    """Cuts a text into words, by a function text → spans.

    The words of `jieba` and `rjieba` partition the text; the full and search modes also return
    words inside words.
    """

    def __init__(self, name: str, spans: Callable[[str], list[Span]]) -> None:
        self.name = name
        self.spans = spans
        """The words of a text as half-open character spans, by start."""

    def words(self, text: str) -> list[str]:
        """The words of `text`, in the order of `spans`."""
        return [text[start:end] for start, end in self.spans(text)]


def segmenter(name: str, userdict: str | Path | None = None) -> Segmenter:
    """The segmenter called `name`, one of `SEGMENTER_NAMES`.

    `jieba` is the precise mode, `-full` returns every dictionary word, `-search` adds the words inside
    long words. `userdict` is a file as `read_userdict` takes it.

    Raises ArgumentError for another name, a missing rjieba, and an invalid file.
    """
    if name not in SEGMENTER_NAMES:
        raise ArgumentError(f"no segmenter {name!r}; there are {', '.join(SEGMENTER_NAMES)}")
    library, _, mode = name.partition("-")
    tokenizer = tokenizer_of(library, read_userdict(userdict))

    def spans(text: str) -> list[Span]:
        if mode == "full":
            return _full_spans(tokenizer, latin(text))
        tokens = tokenizer.tokenize(latin(text), mode or "default")
        return sorted((start, end) for _, start, end in tokens)

    return Segmenter(name, spans)


Ends = Callable[[str], set[int]]
"""A text → the positions (index of the next character) at which a word ends."""
GRANULARITIES = ("precise", "search", "full")


def word_ends(partition: Segmenter) -> Ends:
    """Word ends of a segmenter whose words do not overlap."""
    return lambda text: {end for _, end in partition.spans(text)}


def granularities(precise: Segmenter, userdict: str | Path | None = None) -> dict[str, Ends]:
    """Word ends by the partition `precise`, and by jieba's overlapping words.

    `search`: wherever any of the words begins or ends; `full`: only where no dictionary word crosses.
    """
    search, full = segmenter("jieba-search", userdict), segmenter("jieba-full", userdict)

    def uncrossed(text: str) -> set[int]:
        crossed = {p for start, end in full.spans(text) for p in range(start + 1, end)}
        return set(range(1, len(text) + 1)) - crossed

    def edges(text: str) -> set[int]:
        return {edge for span in search.spans(text) for edge in span}

    return dict(zip(GRANULARITIES, (word_ends(precise), edges, uncrossed), strict=True))


def check_segmenter(name: str, userdict: str | Path | None = None) -> None:
    """Raise what `segmenter` would, without loading jieba's dictionary."""
    if name in SEGMENTER_NAMES and name.startswith("jieba"):
        read_userdict(userdict)
    else:
        segmenter(name, userdict)


@cache
def tokenizer_of(library: str, words: tuple[UserWord, ...]) -> Any:
    """The tokenizer of `jieba` or `rjieba` with a user's words; shared, so do not change it."""
    if library == "jieba":
        jieba = _import_quietly()
        tokenizer = jieba.Tokenizer()
        tokenizer.tmp_dir = str(_private_cache(f"jieba-{jieba.__version__}"))
        tokenizer.initialize()
    else:
        try:
            tokenizer = import_module("rjieba").Jieba()
        except ModuleNotFoundError as error:
            raise ArgumentError(
                "the segmenter 'rjieba' is not installed; pip install 'qt-bert[fast]', or use 'jieba'"
            ) from error
    for word in words:
        tokenizer.add_word(latin(word.text), word.frequency, word.tag)
    if library == "jieba":
        _split_here_alone(tokenizer, {latin(word.text) for word in words if word.frequency == 0})
    return tokenizer


def _split_here_alone(tokenizer: Any, never: set[str]) -> None:
    """jieba splits a word of frequency 0 in every tokenizer of the process: do so in this one alone."""
    finalseg = import_module("jieba.finalseg")
    finalseg.Force_Split_Words.difference_update(never)
    if split := {word for word in never if finalseg.re_han.fullmatch(word)}:
        cut = tokenizer.cut
        tokenizer.cut = lambda *text, **how: (
            part for word in cut(*text, **how) for part in (word if word in split else [word])
        )


def _full_spans(tokenizer: Any, text: str) -> list[Span]:
    """jieba's full mode, which returns no positions, read from its word graph.

    Words are all dictionary words, characters outside the word before them, and runs of Latin letters
    and digits. Punctuation, kana and emoji are single words, where jieba joins a run.
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


class Tagged(NamedTuple):
    """A word's characters [start, end) and its jieba tag (`n`, `vn`, `eng`, `x`)."""

    span: Span
    tag: str


Tagger = Callable[[str], list[Tagged]]
"""A text → its words, without overlap."""


def jieba_tagger(userdict: str | Path | None = None) -> Tagger:
    """jieba's tagger with a user dictionary. Raises ArgumentError for an invalid file."""
    tagger = _tagger(read_userdict(userdict))

    def tagged(text: str) -> list[Tagged]:
        words: list[Tagged] = []
        end = 0
        for word, tag in tagger.cut(normalised := latin(text)):
            start = normalised.index(word, end)
            end = start + len(word)
            words.append(Tagged((start, end), tag))
        return words

    return tagged


@cache
def _tagger(words: tuple[UserWord, ...]) -> Any:
    tokenizer, imported = tokenizer_of("jieba", words), "jieba.posseg" in sys.modules
    posseg = _import_quietly("jieba.posseg")
    if imported:
        return posseg.POSTokenizer(tokenizer)
    # The import has just read the dictionary, which takes half a second.
    tagger = posseg.POSTokenizer.__new__(posseg.POSTokenizer)
    tagger.tokenizer, tagger.word_tag_tab = tokenizer, dict(posseg.dt.word_tag_tab)
    return tagger
