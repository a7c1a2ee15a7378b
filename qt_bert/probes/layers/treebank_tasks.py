"""What people said of the words of a treebank: parts of speech, and the labels of arcs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from qt_bert.data.tokenise import QUERY, EncodedPair, PairTokenizer
from qt_bert.data.treebank import Sentence, halves, read_treebank
from qt_bert.probes.layers.examples import Described, Places, Task, task_of
from qt_bert.probes.layers.property import DEPENDENCY, UPOS
from qt_bert.probes.streams import characters_of

ENDS = 2
"""An arc has two words, a character one token."""


class Half(NamedTuple):
    """Sentences as a model reads them: each as a query, the one that follows as its title."""

    sentences: list[Sentence]
    texts: tuple[tuple[str, str], ...]


def treebank_tasks(
    files: Sequence[Path], tokenizer: PairTokenizer, limit: int, seed: int
) -> list[Task]:
    """Parts of speech of characters, and labels of arcs; sentences halved by a hash of their text.

    Words without a label, and those that the sequence has no room for, are no examples. Raises
    PairFileError for a file that is no treebank.
    """
    read = [sentence for file in files for sentence in read_treebank(file).sentences]
    every = list({sentence.text: sentence for sentence in read}.values())
    read_halves = [_half(half, limit, seed) for half in halves(every)]
    encoded = [tokenizer.encode(half.texts) for half in read_halves]
    found = [
        task_of(UPOS, *map(_tags, read_halves, encoded)),
        task_of(DEPENDENCY, *map(_arcs, read_halves, encoded)),
    ]
    return [task for task in found if task is not None]


def _half(sentences: Iterable[Sentence], limit: int, seed: int) -> Half:
    every = list(sentences)
    order = np.random.default_rng([seed, 6]).permutation(len(every))[:limit]
    chosen = [every[place] for place in sorted(order)]
    following = [*chosen[1:], *chosen[:1]]
    return Half(
        chosen, tuple((one.text, after.text) for one, after in zip(chosen, following, strict=True))
    )


class _Row(NamedTuple):
    text: int
    spans: tuple[tuple[int, int], ...]
    label: str
    kind: str


def _tags(half: Half, encoded: Sequence[EncodedPair]) -> Described:
    """The part of speech of each character's word."""
    rows = []
    for number, (sentence, one) in enumerate(zip(half.sentences, encoded, strict=True)):
        tags = {
            place: word.upos
            for word, span in zip(sentence.words, sentence.spans, strict=True)
            for place in range(*span)
        }
        for at in characters_of(one, *half.texts[number], QUERY):
            if (tag := tags.get(at.place)) is not None:
                rows.append(_Row(number, ((at.token, at.token + 1),), tag, at.text))
    return _described("token", half, rows)


def _arcs(half: Half, encoded: Sequence[EncodedPair]) -> Described:
    """The label of each arc, the dependent word first."""
    rows = [
        row
        for number, (sentence, one) in enumerate(zip(half.sentences, encoded, strict=True))
        for row in _arcs_of(number, sentence, one)
    ]
    return _described("edge", half, rows)


def _arcs_of(number: int, sentence: Sentence, encoded: EncodedPair) -> Iterator[_Row]:
    tokens = [_tokens(encoded, span) for span in sentence.spans]
    for place, word in enumerate(sentence.words):
        if word.relation is None or word.head < 0:
            continue
        own, head = tokens[place], tokens[word.head]
        if own is not None and head is not None:
            yield _Row(number, (own, head), word.relation, word.form)


def _tokens(encoded: EncodedPair, span: tuple[int, int]) -> tuple[int, int] | None:
    """The tokens [start, end) of a word of the query; None where some of it was cut off."""
    found = [
        token
        for token, (side, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True))
        if side == QUERY and start < span[1] and end > span[0]
    ]
    if not found or encoded.spans[found[-1]][1] < span[1]:
        return None
    return found[0], found[-1] + 1


def _described(unit: str, half: Half, rows: Sequence[_Row]) -> Described:
    ends = 1 if unit == "token" else ENDS
    spans = np.array([row.spans for row in rows], np.int64).reshape(-1, ends, 2)
    text = np.array([row.text for row in rows], np.int64)
    groups = np.arange(len(half.sentences), dtype=np.int64)
    places = Places("token" if unit == "token" else "edge", half.texts, text, spans, groups)
    return Described(places, [row.label for row in rows], [row.kind for row in rows])
