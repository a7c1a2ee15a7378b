"""Decisions between neighbouring Chinese characters of a text, and each head's attention at them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Ends, read_segmented
from qt_bert.data.tokenise import QUERY, TITLE, PairTokenizer
from qt_bert.probes.streams import is_han, stream, uncut_tokens
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray
from qt_bert.stats.estimate import group_queries

LEAST_DECISIONS = 4
"""Discovery texts with fewer decisions have too few shifts and are left out."""
EPSILON = 1e-6
Float32Array = npt.NDArray[np.float32]


# Texts, and where their words end.


class PairText(NamedTuple):
    """One side of a pair, and the query with which it is resampled."""

    text: str
    pair: tuple[str, str]
    side: int
    query: str


def distinct_texts(pairs: Iterable[Pair], without: Iterable[str] = ()) -> list[PairText]:
    """Each distinct text of `pairs` at its first occurrence; none of `without`."""
    distinct: dict[str, PairText] = {}
    excluded = set(without)
    for pair in pairs:
        texts = (pair.query, pair.title)
        for side in (QUERY, TITLE):
            if texts[side] not in excluded:
                distinct.setdefault(texts[side], PairText(texts[side], texts, side, pair.query))
    return list(distinct.values())


def gold_texts(path: Path, most: int) -> tuple[list[PairText], Ends]:
    """The segments of a file of segmented lines, and their word ends.

    Above `most` characters a line is split after punctuation, or after a word where a clause is longer. A
    segment has the next one as its title, and its line as its query: the segments of a line stay together in
    halves and resamples. Raises PairFileError as `read_segmented` does.
    """
    segments: dict[str, tuple[str, set[int]]] = {}
    for line in read_segmented(path):
        for words in _segments(line, most):
            ends = set(accumulate(map(len, words)))
            segments.setdefault("".join(words), ("".join(line), ends))
    texts = list(segments)
    following = [*texts[1:], texts[0]]
    paired = [
        PairText(text, (text, after), QUERY, segments[text][0])
        for text, after in zip(texts, following, strict=True)
    ]
    return paired, lambda text: segments[text][1]


def _segments(words: Sequence[str], most: int) -> Iterator[list[str]]:
    """A line's words in segments of at most `most` characters (or one word, if that is longer)."""
    clauses: list[list[str]] = [[]]
    for word in words:
        clauses[-1].append(word)
        if not any(is_han(character) or character.isalnum() for character in word):
            clauses.append([])
    segment: list[str] = []
    for clause in filter(None, clauses):
        parts = [clause] if len("".join(clause)) <= most else [[word] for word in clause]
        for part in parts:
            if segment and len("".join([*segment, *part])) > most:
                yield segment
                segment = []
            segment = [*segment, *part]
    if segment:
        yield segment


# Decisions and their attention.


@dataclass(frozen=True, eq=False)
class Decisions:
    """D decisions in text order, the texts of a query together.

    `pairs` are the model's inputs. For each decision: `pair` its row in `pairs`, `side` its side,
    `token` the left character's token (the right one's is the next), `place` the left character's index
    in its text, `text` and `query` the numbers of both, from 0 without gaps. `coverage` is the share of
    neighbouring Chinese characters in all requested texts that the model can decide on.
    """

    texts: tuple[PairText, ...]
    pairs: list[tuple[str, str]]
    pair: IntArray
    side: IntArray
    token: IntArray
    place: IntArray
    text: IntArray
    query: IntArray
    coverage: float

    def __len__(self) -> int:
        return len(self.place)

    @cached_property
    def queries(self) -> tuple[Hashable, ...]:
        """The query of each number in `query`."""
        return group_queries([text.query for text in self.texts])[0]

    @cached_property
    def query_starts(self) -> IntArray:
        """The first decision of each query [Q]."""
        return np.flatnonzero(np.diff(self.query, prepend=-1))

    @cached_property
    def text_starts(self) -> IntArray:
        """The first decision of each text."""
        return np.flatnonzero(np.diff(self.text, prepend=-1))

    @cached_property
    def text_sizes(self) -> IntArray:
        """How many decisions each text has."""
        return np.diff(np.append(self.text_starts, len(self)))

    def counts(self) -> dict[str, int]:
        """The numbers of pairs, queries, texts and decisions."""
        return {
            "pairs": len(self.pairs),
            "queries": len(self.queries),
            "texts": len(self.texts),
            "decisions": len(self),
        }

    def characters(self) -> list[str]:
        """The left character of each decision."""
        return [self.texts[t].text[p] for t, p in zip(self.text, self.place, strict=True)]

    def labels(self, ends: Ends) -> BoolArray:
        """Whether a word ends at each decision, by a reference [D]."""
        ends_of = [ends(text.text) for text in self.texts]
        labels = [p + 1 in ends_of[t] for t, p in zip(self.text, self.place, strict=True)]
        return np.array(labels, bool)


def decisions_of(tokenizer: PairTokenizer, texts: Sequence[PairText], least: int = 1) -> Decisions:
    """The decisions of `texts`; texts with fewer than `least` are left out."""
    pairs = list(dict.fromkeys(text.pair for text in texts))
    rows = {pair: row for row, pair in enumerate(pairs)}
    encoded = tokenizer.encode(pairs)
    first = group_queries([text.query for text in texts])[1]
    numbers: dict[int, int] = {}
    kept: list[PairText] = []
    decisions: list[tuple[int, int, int, int, int, int]] = []
    covered = 0
    for place_of_text in np.argsort(first, kind="stable"):
        text = texts[place_of_text]
        row = rows[text.pair]
        cuts = [
            (token, place - 1)
            for (token, (_, place)), (after, (start, _)) in pairwise(
                uncut_tokens(encoded[row], text.side).items()
            )
            if (start, after) == (place, token + 1)
            and all(map(is_han, text.text[place - 1 : place + 1]))
        ]
        covered += len(cuts)
        if len(cuts) < least:
            continue
        number = numbers.setdefault(int(first[place_of_text]), len(numbers))
        decisions += [(row, text.side, *cut, len(kept), number) for cut in cuts]
        kept.append(text)
    neighbours = sum(is_han(a) and is_han(b) for text in texts for a, b in pairwise(text.text))
    coverage = covered / neighbours if neighbours else 1.0
    pair, side, token, place, number_of_text, query = np.array(decisions, np.int64).reshape(-1, 6).T
    return Decisions(tuple(kept), pairs, pair, side, token, place, number_of_text, query, coverage)


@dataclass(frozen=True, eq=False)
class CharacterAttention:
    """Attention of each decision's left character to the right one and to all separators, each
    [layers, heads, D]; to its own text, mean over decisions [layers, heads], NaN at pruned heads."""

    next: Float32Array
    sep: Float32Array
    weight_on_text: FloatArray

    def features(self, layer: int) -> Float32Array:
        """next, sep and log((sep + ε) / (next + ε)) of one layer [3, heads, D]."""
        following, separators = self.next[layer], self.sep[layer]
        log_ratio = np.log(separators + EPSILON) - np.log(following + EPSILON)
        return np.stack([following, separators, log_ratio])

    def rule(self) -> BoolArray:
        """Word ends by the article's rule [layers, heads, D]."""
        return np.asarray(self.sep > self.next)


def attention_of(
    scorer: Scorer, decisions: Decisions, shown: Progress = silent, *, variant: Variant = NONE
) -> CharacterAttention:
    """The attention of `decisions`, from one pass of `variant` over their pairs, which `shown` counts."""
    shape, number = scorer.checkpoint.shape, len(decisions)
    sums = np.zeros((3, *shape.size, number), np.float32)
    if not number:
        return CharacterAttention(sums[0], sums[1], np.zeros(shape.size))
    order = np.argsort(decisions.pair, kind="stable")
    sizes = np.bincount(decisions.pair, minlength=len(decisions.pairs))
    of_pair = np.split(order, np.cumsum(sizes)[:-1])

    def compute(view: View) -> torch.Tensor:
        batch = view.batch
        items = np.concatenate([of_pair[row] for row in batch.rows])
        rows = torch.from_numpy(np.repeat(np.arange(len(batch)), sizes[batch.rows]))
        separators = torch.zeros(batch.input_ids.shape)
        sides = torch.full(batch.input_ids.shape, -1)
        for row, encoded in enumerate(batch.encoded):
            separators[row, encoded.separators] = 1
            sides[row, : len(encoded)] = torch.tensor(encoded.side)
        same_text = (sides[rows] == torch.from_numpy(decisions.side[items])[:, None]).float()
        token = torch.from_numpy(decisions.token[items])
        weights = view.values[rows, :, token].float().cpu()
        numbers = torch.stack(
            [
                weights[torch.arange(len(items)), :, token + 1],
                torch.einsum("nhl,nl->nh", weights, separators[rows]),
                torch.einsum("nhl,nl->nh", weights, same_text),
            ]
        )
        sums[:, view.layer][..., items] = numbers.transpose(1, 2).numpy()
        return torch.zeros(len(batch))

    reduction = Reduction("rows", "attention", tuple(range(shape.layers)), compute)
    stream(scorer, decisions.pairs, [reduction], [variant], shown=shown)
    weight_on_text = sums[2].mean(-1, dtype=np.float64)
    shape.blank(weight_on_text[None])
    return CharacterAttention(sums[0], sums[1], weight_on_text)
