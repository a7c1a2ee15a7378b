"""Sentences whose words are linked by people: a Universal Dependencies treebank in CoNLL-U.

Files of version 2 are read whole. Version 1 labelled much of Chinese in another way, so that of such
a file only the labels count that mean the same in both (`V1_LABELS`), and no part of speech; every
arc is still a link. A file is of version 1 where any label stands in it that version 2 did away with
(`V1_ONLY`); `nmod:tmod` is in both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

from qt_bert.data.lines import TextSource
from qt_bert.data.pairs import Reject
from qt_bert.data.splits import half_of
from qt_bert.errors import PairFileError

V1_LABELS = {
    "nsubj": "nsubj",
    "dobj": "obj",
    "iobj": "iobj",
    "csubj": "csubj",
    "nsubjpass": "nsubj:pass",
    "auxpass": "aux:pass",
    "amod": "amod",
    "cop": "cop",
    "ccomp": "ccomp",
    "xcomp": "xcomp",
    "appos": "appos",
    "nmod:tmod": "nmod:tmod",
}
"""Labels of version 1 that carry over, and what version 2 calls them."""

V1_ONLY = frozenset(
    ("dobj", "nsubjpass", "csubjpass", "auxpass", "neg", "mwe", "name", "foreign", "remnant")
)
"""Labels that version 2 does not have."""

ROOT = -1
_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_ABSENT = "_"


class Word(NamedTuple):
    """A word; `head` is the place of its head in the sentence, from 0, or −1 at the root.

    `upos` is None where the file says none, or says it in version 1; `relation`, the label of the
    arc to the head, where it says none or one that does not carry over: the arc is a link all
    the same.
    """

    form: str
    upos: str | None
    head: int
    relation: str | None


@dataclass(frozen=True)
class Sentence:
    """One sentence; `id` is the file's `sent_id`, or the line it begins at."""

    id: str
    words: tuple[Word, ...]

    @cached_property
    def text(self) -> str:
        """The words in one piece, as Chinese is written: a space stands between two of Latin script
        or digits alone."""
        text = ""
        for word in self.words:
            text += " " * _runs_on(text, word.form) + word.form
        return text

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Characters [start, end) of each word in `text`."""
        found: list[tuple[int, int]] = []
        end = 0
        for word in self.words:
            start = end + _runs_on(self.text[end - 1 : end], word.form)
            end = start + len(word.form)
            found.append((start, end))
        return tuple(found)


@dataclass(frozen=True)
class Treebank:
    """The sentences of one file, of version 1 or 2; `name` is the file's."""

    name: str
    sentences: tuple[Sentence, ...]
    version: Literal[1, 2]


class Halves(NamedTuple):
    """Sentences to choose on, and to test on."""

    discovery: list[Sentence]
    validation: list[Sentence]


def halves(sentences: Iterable[Sentence]) -> Halves:
    """Each sentence in the half of its text (`data.splits.half_of`), in order."""
    found = Halves([], [])
    for sentence in sentences:
        getattr(found, half_of(sentence.text)).append(sentence)
    return found


def read_treebank(path: Path) -> Treebank:
    """The treebank of a CoNLL-U file, plain or packed, in UTF-8 or GB18030.

    Ranges of multiword tokens and empty nodes are left out. Raises PairFileError, with file and
    line, for a row that is none: other than ten columns, words not numbered from 1, a head that the
    sentence does not have; and for a file without a sentence.
    """
    read = [_read(block, path) for block in _blocks(path)]
    if not read:
        raise PairFileError(f"{path}: no sentence in it; give a treebank in CoNLL-U")
    labels = {word.relation for one in read for word in one.words}
    old = bool(labels & V1_ONLY)
    if old:
        for place, one in enumerate(read):
            words = (
                word._replace(upos=None, relation=V1_LABELS.get(word.relation or ""))
                for word in one.words
            )
            read[place] = Sentence(one.id, tuple(words))
    return Treebank(path.name, tuple(read), 1 if old else 2)


class _Block(NamedTuple):
    """The rows of one sentence with their line numbers, and its comments."""

    comments: list[str]
    rows: list[tuple[int, str]]


def _blocks(path: Path) -> Iterator[_Block]:
    """Sentences are parted by lines without a word in them, which `TextSource` may skip."""
    block, last = _Block([], []), 0
    for item in TextSource(path).lines():
        if isinstance(item, Reject):
            raise PairFileError(f"{path}: line {item.line}: {item.reason}")
        number, line = item
        blank = not line.strip()
        if block.rows and (blank or number != last + 1):
            yield block
            block = _Block([], [])
        last = number
        if line.startswith("#"):
            block.comments.append(line)
        elif not blank:
            block.rows.append((number, line))
    if block.rows:
        yield block


def _read(block: _Block, path: Path) -> Sentence:
    from conllu.parser import parse_comment_line

    words: list[tuple[int, Word]] = []
    for number, line in block.rows:
        where = f"{path}: line {number}"
        id, word = _row(line, where)
        if not isinstance(id, int):
            continue  # 3-4, a multiword token's range, or 3.1, an empty node
        if id != len(words) + 1:
            raise PairFileError(f"{where}: word {id} follows word {len(words)}; number them from 1")
        words.append((number, word))
    if not words:
        raise PairFileError(f"{path}: line {block.rows[0][0]}: a sentence without a word")
    for place, (number, word) in enumerate(words):
        if not ROOT <= word.head < len(words) or word.head == place:
            raise PairFileError(
                f"{path}: line {number}: head {word.head + 1} of word {place + 1} is none of the "
                f"other words of this sentence, 1 to {len(words)}, nor 0"
            )
    said = dict(pair for comment in block.comments for pair in parse_comment_line(comment))
    name = said.get("sent_id") or f"line {block.rows[0][0]}"
    return Sentence(name, tuple(word for _, word in words))


def _row(line: str, where: str) -> tuple[object, Word]:
    """The number of a row (of a word an int) and its word; of other rows the word says nothing."""
    from conllu.exceptions import ParseException
    from conllu.parser import parse_id_value, parse_int_value, parse_line

    if line.count("\t") != len(_COLUMNS) - 1:
        raise PairFileError(
            f"{where}: {line.count(chr(9)) + 1} columns, not {len(_COLUMNS)} parted by tabs, as "
            "CoNLL-U has them"
        )
    parsers = {
        "id": lambda cells, at: parse_id_value(cells[at]),
        "head": lambda cells, at: parse_int_value(cells[at]),
    }
    try:
        row = parse_line(line, _COLUMNS, parsers)
    except ParseException as error:
        raise PairFileError(f"{where}: {error}") from error
    if not isinstance(row["id"], int):
        return row["id"], Word("", None, ROOT, None)
    for column in ("form", "head"):
        if row[column] is None or row[column] == "":
            raise PairFileError(f"{where}: word {row['id']} has no {column}")
    upos, relation = (None if row[key] == _ABSENT else row[key] for key in ("upos", "deprel"))
    return row["id"], Word(row["form"], upos, row["head"] - 1, relation)


def _runs_on(left: str, right: str) -> bool:
    """Whether two words would be read as one without a space between them."""
    both = left[-1:] + right[:1]
    return len(both) == 2 and both.isascii() and both.isalnum()
