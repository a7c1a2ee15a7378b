"""Universal Dependencies treebanks in CoNLL-U, version 1 or 2.

Version 1 labelled much of Chinese differently: of such a file all arcs are read, but only the labels
with the same meaning in version 2 (`V1_LABELS`), and no parts of speech. A file is of version 1 where
it has a label that version 2 removed (`V1_ONLY`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from qt_bert.data.lines import TextSource
from qt_bert.data.splits import Halves, half_of
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
"""Labels of version 1 → the same label in version 2."""

V1_ONLY = frozenset(
    ("dobj", "nsubjpass", "csubjpass", "auxpass", "neg", "mwe", "name", "foreign", "remnant")
)
"""Labels that version 2 removed."""

ROOT = -1
_COLUMNS = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
_ABSENT = "_"


class Word(NamedTuple):
    """A word; `head` is the index of its head in the sentence, from 0, or −1 at the root.

    `relation` is the label of that arc. It and `upos` are None where the file has none, or one of
    version 1 without a counterpart.
    """

    form: str
    upos: str | None
    head: int
    relation: str | None


@dataclass(frozen=True)
class Sentence:
    """A sentence; `id` is the file's `sent_id`, or the first line."""

    id: str
    words: tuple[Word, ...]

    @cached_property
    def text(self) -> str:
        """The words joined, with a space only between two of Latin letters or digits."""
        text = ""
        for word in self.words:
            text += " " * _needs_space(text, word.form) + word.form
        return text

    @cached_property
    def spans(self) -> tuple[tuple[int, int], ...]:
        """Characters [start, end) of each word in `text`."""
        spans: list[tuple[int, int]] = []
        end = 0
        for word in self.words:
            start = end + _needs_space(self.text[end - 1 : end], word.form)
            end = start + len(word.form)
            spans.append((start, end))
        return tuple(spans)


def halves(files: Iterable[Path]) -> Halves[Sentence]:
    """The distinct sentences of all files, split by their text (`data.splits.half_of`)."""
    distinct: dict[str, Sentence] = {}
    for sentence in chain.from_iterable(map(read_treebank, files)):
        distinct.setdefault(sentence.text, sentence)
    halves = Halves[Sentence]([], [])
    for sentence in distinct.values():
        getattr(halves, half_of(sentence.text)).append(sentence)
    return halves


def read_treebank(path: Path) -> tuple[Sentence, ...]:
    """The sentences of a CoNLL-U file, plain or compressed, in UTF-8 or GB18030.

    Ranges of multiword tokens and empty nodes are skipped. Raises PairFileError, with file and line,
    for a row without ten columns, words not numbered from 1, a head outside the sentence, and a file
    without a sentence.
    """
    sentences = [_sentence(block, path) for block in _blocks(path)]
    if not sentences:
        raise PairFileError(f"{path}: no sentence in it; give a treebank in CoNLL-U")
    labels = {word.relation for sentence in sentences for word in sentence.words}
    if labels & V1_ONLY:
        for number, sentence in enumerate(sentences):
            words = (
                word._replace(upos=None, relation=V1_LABELS.get(word.relation or ""))
                for word in sentence.words
            )
            sentences[number] = Sentence(sentence.id, tuple(words))
    return tuple(sentences)


class _Block(NamedTuple):
    """The rows of one sentence with their line numbers, and its comments."""

    comments: list[str]
    rows: list[tuple[int, str]]


def _blocks(path: Path) -> Iterator[_Block]:
    """Blank lines, which `TextSource` may skip, separate sentences."""
    block, last = _Block([], []), 0
    for number, line in TextSource(path).texts():
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


def _sentence(block: _Block, path: Path) -> Sentence:
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
    comments = dict(pair for comment in block.comments for pair in parse_comment_line(comment))
    name = comments.get("sent_id") or f"line {block.rows[0][0]}"
    return Sentence(name, tuple(word for _, word in words))


def _row(line: str, where: str) -> tuple[object, Word]:
    """A row's id (an int for a word) and its word (empty for another row)."""
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
    except (ParseException, ValueError) as error:  # ValueError: a number of thousands of digits
        raise PairFileError(f"{where}: {error}") from error
    if not isinstance(row["id"], int):
        return row["id"], Word("", None, ROOT, None)
    for column in ("form", "head"):
        if row[column] is None or row[column] == "":
            raise PairFileError(f"{where}: word {row['id']} has no {column}")
    upos, relation = (None if row[key] == _ABSENT else row[key] for key in ("upos", "deprel"))
    return row["id"], Word(row["form"], upos, row["head"] - 1, relation)


def _needs_space(left: str, right: str) -> bool:
    both = left[-1:] + right[:1]
    return len(both) == 2 and both.isascii() and both.isalnum()
