"""What is true of the single characters of a pair: position, word boundary, tag, name, match."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qt_bert.data.segmenters import Segmenter, Tagger
from qt_bert.data.tokenise import QUERY, TITLE, PairTokenizer
from qt_bert.probes.layers.examples import Described, Places, Task, task_of
from qt_bert.probes.layers.property import BOUNDARY, ENTITY, MATCHED, POS, POSITION
from qt_bert.probes.layers.samples import Natural
from qt_bert.probes.streams import characters_of, shared_terms

NAMES = {"nr": "person", "ns": "place", "nt": "organisation", "nz": "other name"}
"""jieba's tags of names, by their first two letters."""
NO_NAME = "no name"


@dataclass(frozen=True)
class Words:
    """How texts are cut into words, and how these are tagged."""

    segmenter: Segmenter
    tagger: Tagger


def token_tasks(fit: Natural, check: Natural, tokenizer: PairTokenizer, words: Words) -> list[Task]:
    """The properties of characters, all at the same places: tokens of one Chinese character."""
    halves = [_described(half, tokenizer, words) for half in (fit, check)]
    return [
        task
        for number, about in enumerate((POSITION, BOUNDARY, POS, ENTITY, MATCHED))
        if (task := task_of(about, *(half.of(number) for half in halves))) is not None
    ]


class _Row(NamedTuple):
    """One character: its text's number, its token, itself, and what is true of it."""

    text: int
    token: int
    character: str
    labels: tuple[float | str, ...]


@dataclass(frozen=True, eq=False)
class _Half:
    places: Places
    rows: Sequence[_Row]

    def of(self, number: int) -> Described:
        """The examples of one of the properties."""
        return Described(
            self.places,
            [row.labels[number] for row in self.rows],
            [row.character for row in self.rows],
        )


def _described(half: Natural, tokenizer: PairTokenizer, words: Words) -> _Half:
    rows = list(_rows(half, tokenizer, words))
    text = np.array([row.text for row in rows], np.int64)
    token = np.array([row.token for row in rows], np.int64)
    spans = np.stack([token, token + 1], axis=-1)[:, None]
    return _Half(Places("token", half.texts, text, spans, half.groups), rows)


def _rows(half: Natural, tokenizer: PairTokenizer, words: Words) -> Iterator[_Row]:
    for number, encoded in enumerate(tokenizer.encode(half.texts)):
        texts = half.texts[number]
        shared = shared_terms(*texts, words.segmenter).values()
        for side in (QUERY, TITLE):
            text = texts[side]
            ends = {end for _, end in words.segmenter.spans(text)}
            tags = _by_character(text, words.tagger)
            matched = {at for one in shared for span in one[side] for at in range(*span)}
            for at in characters_of(encoded, *texts, side):
                tag = tags[at.place]
                labels = (
                    float(at.token),
                    "ends" if at.place + 1 in ends else "goes on",
                    tag[:1],
                    NAMES.get(tag[:2], NO_NAME),
                    "matched" if at.place in matched else "alone",
                )
                yield _Row(number, at.token, at.text, labels)


def _by_character(text: str, tagger: Tagger) -> list[str]:
    """The tag of each character's word; `x` where the tagger says nothing."""
    tags = ["x"] * len(text)
    for (start, end), tag in tagger(text):
        tags[start:end] = [tag] * (end - start)
    return tags
