"""Do heads know where words end? (`heads_of_query_title_bert`, 2.2)

For two neighbouring Chinese characters of a text: does a word end between them? The article reads it
off one head's attention: a word ends where the left character gives [SEP] more weight than it gives the
next character. The claim rests on that rule as it stands, and needs a model with a separator, whose
tokens see what follows them. A model decides only where its tokens part the two characters: each stands in
a token of its own or with others, and neither token shares a character with another. A *reading* is our own, freer rule: what is
looked at (the weight on the next character, on [SEP], or their ratio), a threshold and a side, chosen a
head on discovery; heads are named by it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from qt_bert.data.lines import TextSource
from qt_bert.data.pairs import Pair, Reject
from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.data.splits import half_of
from qt_bert.data.tokenise import QUERY, TITLE, PairTokenizer
from qt_bert.errors import PairFileError
from qt_bert.figures import Figure, Point, curve, head_map
from qt_bert.heads import Head
from qt_bert.probes.base import Context, Result
from qt_bert.probes.base_model import open_base, other_seed, random_like, scorer_like
from qt_bert.probes.contests import PAIRS_A_QUERY, few_a_query
from qt_bert.probes.naming import (
    VALIDATION,
    Elsewhere,
    Named,
    by_mean,
    means,
    name_heads,
    one_sided_p,
    ranked,
    stability,
)
from qt_bert.probes.shared import estimate_bars, head_table, partition
from qt_bert.probes.streams import is_han, stream, uncut_tokens
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, from_leave_one_out

LEAST_BALANCED = 0.60
"""The balanced accuracy from which on a head is said to know word ends."""
LEAST_COVERAGE = 0.5
"""The model must decide on so many of the neighbouring characters, or nothing is claimed."""
LEAST_DECISIONS = 4
"""Texts of discovery with fewer decisions are left out: they have too few shifts."""
EPSILON = 1e-6
QUICK_SHIFTS, FULL_SHIFTS = 20, 100
UNION_SHIFTS = 200

PRECISE, SEARCH, FULL = "precise", "search", "full"
Ends = Callable[[str], set[int]]
"""A reference: a text → the places (numbers of the characters behind) at which a word ends."""
Float32Array = npt.NDArray[np.float32]


# Where words end, by a segmenter or by people.


def word_ends(partition: Segmenter) -> Ends:
    """Where words end by a segmenter whose words do not overlap."""
    return lambda text: {end for _, end in partition.spans(text)}


def granularities(precise: Segmenter, userdict: Path | None = None) -> dict[str, Ends]:
    """Where words end by the partition `precise`, by jieba's finest reading and by its coarsest.

    The finest ends a word wherever any of the overlapping words begins or ends; the coarsest only
    where no word goes across.
    """
    search, full = (segmenter(f"jieba-{mode}", userdict) for mode in (SEARCH, FULL))

    def uncrossed(text: str) -> set[int]:
        crossed = {p for start, end in full.spans(text) for p in range(start + 1, end)}
        return set(range(1, len(text) + 1)) - crossed

    return {
        PRECISE: word_ends(precise),
        SEARCH: lambda text: {edge for span in search.spans(text) for edge in span},
        FULL: uncrossed,
    }


class Asked(NamedTuple):
    """A text that is one side of a pair, and the query it is resampled with."""

    text: str
    pair: tuple[str, str]
    side: int
    query: str


def asked_of(pairs: Iterable[Pair], without: Iterable[str] = ()) -> list[Asked]:
    """Each distinct text of `pairs` once, where it first stands; none of `without`."""
    found: dict[str, Asked] = {}
    left_out = set(without)
    for pair in pairs:
        texts = (pair.query, pair.title)
        for side in (QUERY, TITLE):
            if texts[side] not in left_out:
                found.setdefault(texts[side], Asked(texts[side], texts, side, pair.query))
    return list(found.values())


def gold_texts(path: Path, most: int) -> tuple[list[Asked], Ends]:
    """The segments of a file of segmented lines, and where their words end.

    A line is one segment; one of more than `most` characters is split behind punctuation, or behind a
    word where a clause is longer. Each segment is read as a query with the next one as its title.
    Raises PairFileError for a line that is no text, and for fewer than two segments.
    """
    segments: dict[str, set[int]] = {}
    for item in TextSource(path).lines():
        if isinstance(item, Reject):
            raise PairFileError(f"{path}: line {item.line}: {item.reason}")
        for words in _segments(item[1].split(), most):
            segments.setdefault("".join(words), set(accumulate(map(len, words))))
    texts = list(segments)
    if len(texts) < 2:
        raise PairFileError(f"{path}: a segmented file needs two different lines at least")
    following = [*texts[1:], texts[0]]
    asked = [
        Asked(text, (text, after), QUERY, text)
        for text, after in zip(texts, following, strict=True)
    ]
    return asked, segments.__getitem__


def _segments(words: Sequence[str], most: int) -> Iterator[list[str]]:
    """A line's words in segments of at most `most` characters (or one word, if that is longer)."""
    clauses: list[list[str]] = [[]]
    for word in words:
        clauses[-1].append(word)
        if not any(is_han(one) or one.isalnum() for one in word):
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


# Decisions: the neighbouring characters of the texts, and what attention says of them.


@dataclass(frozen=True, eq=False)
class Decisions:
    """D decisions, text by text in order, the texts of a query together.

    `pairs` are what a model reads. Of each decision: `pair` its row there, `side` its side, `token`
    that of the left character (the right one's is the next), `place` the left character's place in its
    text, `text` and `query` which it belongs to (numbers from 0 without gaps). `coverage` is the share
    of neighbouring Chinese characters, of all texts asked, that the model can decide on.
    """

    asked: tuple[Asked, ...]
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
    def queries(self) -> tuple[str, ...]:
        """The query of each number in `query`."""
        return tuple(dict.fromkeys(one.query for one in self.asked))

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

    def characters(self) -> list[str]:
        """The left character of each decision."""
        texts = [one.text for one in self.asked]
        return [texts[t][p] for t, p in zip(self.text, self.place, strict=True)]

    def labels(self, ends: Ends) -> BoolArray:
        """Whether a word ends at each decision, by a reference [D]."""
        found = [ends(one.text) for one in self.asked]
        listed = [p + 1 in found[t] for t, p in zip(self.text, self.place, strict=True)]
        return np.array(listed, bool)


def decisions_of(tokenizer: PairTokenizer, asked: Sequence[Asked], *, least: int = 1) -> Decisions:
    """The decisions of the texts `asked`; texts with fewer than `least` are left out.

    Two Chinese characters make one where a token ends behind the first and the next token begins with
    the second, and neither token shares a character with another.
    """
    pairs = list(dict.fromkeys(one.pair for one in asked))
    rows = {pair: row for row, pair in enumerate(pairs)}
    encoded = tokenizer.encode(pairs)
    first: dict[str, int] = {}
    for one in asked:
        first.setdefault(one.query, len(first))
    numbers: dict[str, int] = {}
    kept: list[Asked] = []
    columns: list[tuple[int, int, int, int, int, int]] = []
    covered = 0
    for one in sorted(asked, key=lambda one: first[one.query]):
        row = rows[one.pair]
        found = [
            (token, place - 1)
            for (token, (_, place)), (after, (start, _)) in pairwise(
                uncut_tokens(encoded[row], one.side).items()
            )
            if (start, after) == (place, token + 1)
            and all(map(is_han, one.text[place - 1 : place + 1]))
        ]
        covered += len(found)
        if len(found) < least:
            continue
        number = numbers.setdefault(one.query, len(numbers))
        columns += [(row, one.side, *at, len(kept), number) for at in found]
        kept.append(one)
    neighbours = sum(is_han(a) and is_han(b) for one in asked for a, b in pairwise(one.text))
    numbered = np.array(columns, np.int64).reshape(-1, 6).T
    coverage = covered / neighbours if neighbours else 1.0
    pair, side, token, place, text, query = numbered
    return Decisions(tuple(kept), pairs, pair, side, token, place, text, query, coverage)


@dataclass(frozen=True, eq=False)
class Weights:
    """Attention of each decision's left character: to the right one, to all separators together, and
    to its own text; each [layers, heads, D]. (`own` is a mean over decisions [layers, heads].)"""

    next: Float32Array
    sep: Float32Array
    own: FloatArray

    def features(self, layer: int) -> Float32Array:
        """next, sep and log((sep + ε) / (next + ε)) of one layer [3, heads, D]."""
        following, separators = self.next[layer], self.sep[layer]
        both = np.log(separators + EPSILON) - np.log(following + EPSILON)
        return np.stack([following, separators, both])

    def rule(self) -> BoolArray:
        """The article's rule [layers, heads, D]: a word ends where [SEP] outweighs the next one."""
        return np.asarray(self.sep > self.next)


FEATURES = ("next", "sep", "ratio")


def weights_of(
    scorer: Scorer, decisions: Decisions, shown: Progress = silent, *, variant: Variant = NONE
) -> Weights:
    """One pass of `variant` over the pairs of `decisions`; no map outlives its batch. `shown` counts pairs."""
    shape, number = scorer.checkpoint.shape, len(decisions)
    found = np.zeros((3, *shape.size, number), np.float32)
    if not number:
        return Weights(found[0], found[1], np.zeros(shape.size))
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
        own = (sides[rows] == torch.from_numpy(decisions.side[items])[:, None]).float()
        token = torch.from_numpy(decisions.token[items])
        weights = view.values[rows, :, token].float().cpu()
        numbers = torch.stack(
            [
                weights[torch.arange(len(items)), :, token + 1],
                torch.einsum("nhl,nl->nh", weights, separators[rows]),
                torch.einsum("nhl,nl->nh", weights, own),
            ]
        )
        found[:, view.layer][..., items] = numbers.transpose(1, 2).numpy()
        return torch.zeros(len(batch))

    layers = tuple(range(shape.layers))
    reduction = Reduction("rows", "attention", layers, compute)
    stream(scorer, decisions.pairs, [reduction], [variant], shown=shown)
    return Weights(found[0], found[1], found[2].mean(-1, dtype=np.float64))


# How good answers are.

MEASURES = ("accuracy", "balanced", "word_f1")
HIT, TRUE_NO, ENDS, GOES_ON, WORDS_HIT, WORDS, WORDS_SAID = range(7)


def counts_of(said: BoolArray, labels: BoolArray, decisions: Decisions) -> FloatArray:
    """Counts by query [Q, 7] of decisions `said` against `labels`, both [D]; columns as above."""
    if not len(decisions):
        return np.zeros((0, 7))
    by_decision = np.stack(
        [said & labels, ~said & ~labels, labels, ~labels, *_words(said, labels, decisions)]
    )
    return np.add.reduceat(by_decision.astype(np.float64), decisions.query_starts, axis=1).T


def _words(said: BoolArray, labels: BoolArray, decisions: Decisions) -> list[IntArray]:
    """Words found, of the reference and said, counted at a decision of their run [3, D].

    A run of n neighbouring decisions is a text of n + 1 characters: both cut it at its two ends. A word
    is found where both begin and end it, and neither cuts it.
    """
    begins = np.ones(len(said), bool)
    begins[1:] = (np.diff(decisions.text) != 0) | (np.diff(decisions.place) != 1)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(said)) - 1
    places = np.flatnonzero(said | labels)
    run = np.cumsum(begins) - 1
    # Cuts in order, the ends of every run among them: −1 before its first decision, +1 behind.
    at = np.concatenate([2 * places, 2 * first - 1, 2 * last + 1])
    agreed = np.concatenate([(said & labels)[places], np.ones(2 * len(first), bool)])
    runs = np.concatenate([run[places], run[first], run[last]])
    order = np.lexsort((at, runs))
    agreed, runs = agreed[order], runs[order]
    right = agreed[:-1] & agreed[1:] & (runs[:-1] == runs[1:])
    found = np.zeros(len(said), np.int64)
    np.add.at(found, first[runs[:-1][right]], 1)
    whole = begins.astype(np.int64)
    return [found, labels.astype(np.int64) + whole, said.astype(np.int64) + whole]


def measured(measure: str, counts: FloatArray) -> FloatArray:
    """One of `MEASURES` of counts [..., 7]; NaN where it is not defined."""
    hit, no, ends, goes_on, words_hit, words, words_said = np.moveaxis(counts, -1, 0)
    if measure == "accuracy":
        return ratio(hit + no, ends + goes_on)
    if measure == "balanced":
        return (ratio(hit, ends) + ratio(no, goes_on)) / 2
    return ratio(2 * words_hit, words + words_said)


def balanced_of(said: BoolArray, labels: BoolArray) -> FloatArray:
    """Balanced accuracy over all decisions [..., D] → [...]; NaN for labels of one kind."""
    if labels.all() or not labels.any():
        return np.full(said.shape[:-1], np.nan)
    return np.asarray((said[..., labels].mean(-1) + (~said[..., ~labels]).mean(-1)) / 2)


def by_character(learned: Sequence[str], labels: BoolArray, asked: Sequence[str]) -> BoolArray:
    """What each left character's own share of word ends says: no model, no context [D].

    A character's share is smoothed with one pseudo-count at the overall rate; unknown ones have that rate.
    """
    overall = float(labels.mean()) if len(labels) else 0.0
    counts: dict[str, list[float]] = {}
    for character, ends in zip(learned, labels, strict=True):
        one = counts.setdefault(character, [overall, 1.0])
        one[0] += float(ends)
        one[1] += 1
    shares = [counts.get(character, [overall, 1.0]) for character in asked]
    return np.array([ends / number >= 0.5 for ends, number in shares], bool)


# Readings: how each head is read best on discovery, and what the same search finds by chance.


@dataclass(frozen=True, eq=False)
class Reading:
    """How the heads of a layer are read: a word ends where `feature` is above `threshold`, or where it
    is not (`high` False); arrays [heads]."""

    feature: IntArray
    threshold: Float32Array
    high: BoolArray

    def margin(self, features: Float32Array) -> Float32Array:
        """How far beyond its threshold each head is, above 0 where a word ends [3, heads, D] → [heads, D]."""
        chosen = features[self.feature, np.arange(len(self.feature))]
        over = chosen - self.threshold[:, None]
        return np.where(self.high[:, None], over, -over)

    def say(self, features: Float32Array) -> BoolArray:
        """Whether a word ends, by each head [3, heads, D] → [heads, D]."""
        chosen = features[self.feature, np.arange(len(self.feature))]
        return np.asarray((chosen > self.threshold[:, None]) == self.high[:, None])


@dataclass(frozen=True, eq=False)
class Calibrated:
    """All heads read on discovery: a `Reading` a layer, and which heads are named.

    `per_query` [Q, layers, heads] has the balanced accuracy as its mean; `null` [layers, heads] is what
    shifted references reach by the same search.
    """

    readings: tuple[Reading, ...]
    named: Named
    per_query: FloatArray
    null: FloatArray

    @property
    def best(self) -> Head:
        """The best head on discovery: a named one, where there is any."""
        return (self.named.heads() or ranked(self.named.score))[0]

    def say(self, weights: Weights) -> BoolArray:
        """Whether a word ends, by each head [layers, heads, D]."""
        return np.stack([one.say(weights.features(at)) for at, one in enumerate(self.readings)])


def calibrate(
    weights: Weights, decisions: Decisions, labels: BoolArray, *, shifts: int, seed: int
) -> Calibrated:
    """Read every head by balanced accuracy against `labels` [D], and test it against `shifts` others.

    For a number x, the best balanced accuracy of "a word ends where x is above (or not above) t" over
    all t and both sides is (1 + the Kolmogorov–Smirnov distance of x at ends and elsewhere) / 2. A
    head's p is that of its share of each query, less the mean under shifted references, with everything
    searched anew for each. `decisions` have texts of at least two decisions only.
    """
    shifted = list(shifted_labels(labels, decisions, shifts, seed))
    readings, found, nulls = [], [], []
    for layer in range(len(weights.next)):
        features = weights.features(layer)
        search = _Search(features)
        readings.append(search.best(labels))
        found.append(balanced_by_query(readings[-1].say(features), labels, decisions))
        null = np.zeros_like(found[-1])
        for others in shifted:
            said = search.best(others).say(features)
            null += balanced_by_query(said, others, decisions) / max(1, shifts)
        nulls.append(null)
    per_query, null_scores = np.stack(found, 1), np.stack(nulls, 1)
    named = name_heads(
        means(per_query), one_sided_p(per_query - null_scores), weights.own, least=LEAST_BALANCED
    )
    return Calibrated(tuple(readings), named, per_query, means(null_scores))


def shifted_labels(
    labels: BoolArray, decisions: Decisions, shifts: int, seed: int
) -> Iterator[BoolArray]:
    """`labels` moved around within each text by a random number of places, never by none [D].

    A text of one decision cannot be moved, and keeps its label.
    """
    rng = np.random.default_rng([seed, shifts])
    sizes = decisions.text_sizes
    each = np.repeat(np.arange(len(sizes)), sizes)
    start, size = decisions.text_starts[each], sizes[each]
    place = np.arange(len(labels)) - start
    for _ in range(shifts):
        by = rng.integers(1, np.maximum(sizes, 2))
        yield labels[start + (place + by[each]) % size]


class _Search:
    """The best reading of one layer's heads, for any labels: sorted once."""

    def __init__(self, features: Float32Array) -> None:
        self.shape = features.shape
        self.order = np.argsort(features, axis=-1, kind="stable")
        self.ranked = np.take_along_axis(features, self.order, -1)
        self.apart = self.ranked[..., :-1] != self.ranked[..., 1:]

    def best(self, labels: BoolArray) -> Reading:
        """The reading of each head with the largest balanced accuracy."""
        _, heads, number = self.shape
        if number < 2:
            empty = np.zeros(heads)
            return Reading(empty.astype(int), empty.astype(np.float32), empty == 0)
        below = np.cumsum(_gain(labels)[self.order], axis=-1)[..., :-1] * self.apart
        cut = np.abs(below).argmax(-1)
        reached = np.take_along_axis(below, cut[..., None], -1)[..., 0]
        feature = np.abs(reached).argmax(0)
        each = np.arange(heads)
        cut = cut[feature, each]
        low, high = self.ranked[feature, each, cut], self.ranked[feature, each, cut + 1]
        middle = low + (high - low) / 2
        return Reading(feature, np.where(middle < high, middle, low), reached[feature, each] < 0)


def balanced_by_query(said: BoolArray, labels: BoolArray, decisions: Decisions) -> FloatArray:
    """Each query's share of the balanced accuracy of what heads say [heads, D] → [Q, heads].

    Their mean is the balanced accuracy; NaN where it is not defined.
    """
    starts = decisions.query_starts
    if not len(starts) or labels.all() or not labels.any():
        return np.full((len(starts), len(said)), np.nan)
    right = (said == labels) * np.abs(_gain(labels)) / 2
    return np.asarray(np.add.reduceat(right, starts, axis=-1).T * len(starts))


def _gain(labels: BoolArray) -> FloatArray:
    """1 / ends at a word end, −1 / others elsewhere [D]; 0 where there is one kind alone."""
    ends = int(labels.sum())
    others = labels.size - ends
    return np.where(labels, 1 / ends, -1 / others) if ends and others else np.zeros(labels.size)


# The article's union: "one of the heads is right".


@dataclass(frozen=True, eq=False)
class Union:
    """Decisions of each query that one of the first k heads gets right, by k from 0.

    Of many heads that say different things one is right about anything, so `null` holds the same for
    references shifted along the texts. `right` and `null` [Q, heads + 1]; `size` [Q] all decisions.
    """

    right: FloatArray
    null: FloatArray
    size: FloatArray
    queries: tuple[str, ...]

    def share(self, k: int, *, by_luck: bool = False) -> Estimate:
        """U(k), or what luck gives."""
        right = (self.null if by_luck else self.right)[:, k]
        value = ratio(right.sum(), self.size.sum())
        left = ratio(right.sum() - right, self.size.sum() - self.size)
        return from_leave_one_out(float(value), left, self.queries)


def union_of(
    said: BoolArray, labels: BoolArray, decisions: Decisions, order: Sequence[Head], *, seed: int
) -> Union:
    """The union of heads taken in `order`; `said` [layers, heads, D]. Short texts are left out."""
    long = np.repeat(decisions.text_sizes >= LEAST_DECISIONS, decisions.text_sizes)
    ordered = said[[head.layer for head in order], [head.head for head in order]]
    # The place of the first head that says no, and of the first that says yes [2, D].
    first = np.stack(
        [
            np.where((ordered == yes).any(0), (ordered == yes).argmax(0), len(order))
            for yes in (False, True)
        ]
    )
    width, queries = len(order) + 2, len(decisions.queries)

    def hits(reference: BoolArray) -> FloatArray:
        needed = np.where(reference, first[1], first[0])[long]
        counts = np.bincount(decisions.query[long] * width + needed + 1, minlength=queries * width)
        return np.asarray(counts.reshape(-1, width).cumsum(1)[:, :-1], np.float64)

    right = hits(labels)
    null = np.zeros_like(right)
    for others in shifted_labels(labels, decisions, UNION_SHIFTS, seed):
        null += hits(others) / UNION_SHIFTS
    size = np.bincount(decisions.query[long], minlength=queries).astype(np.float64)
    kept = size > 0
    names = tuple(name for name, keep in zip(decisions.queries, kept, strict=True) if keep)
    return Union(right[kept], null[kept], size[kept], names)


# The probe.


@dataclass(frozen=True, eq=False)
class Texts:
    """The decisions of both halves, and where words end there by the reference [D]."""

    discovery: Decisions
    validation: Decisions
    known: BoolArray
    truth: BoolArray
    shared: int = 0


def texts_of_pairs(context: Context) -> Texts:
    """Queries and titles of both halves, each distinct text once: in quick two pairs of each query."""
    samples = [
        few_a_query(pairs, context.choose(PAIRS_A_QUERY, len(pairs)))
        for pairs in (context.discovery, context.validation)
    ]
    discovery = asked_of(samples[0])
    validation = asked_of(samples[1], {one.text for one in discovery})
    shared = len(asked_of(samples[1])) - len(validation)
    return _texts(
        discovery, validation, word_ends(partition(context)), context.model.tokenizer, shared
    )


def texts_of_gold(context: Context, path: Path) -> Texts:
    """The segments of the gold file, halved by a hash of the text as queries are."""
    tokenizer = context.model.tokenizer
    # Two segments and at most four special tokens have to fit.
    asked, ends = gold_texts(path, (tokenizer.max_length - 4) // 2)
    halves: dict[str, list[Asked]] = {"discovery": [], "validation": []}
    for one in asked:
        halves[half_of(one.text)].append(one)
    return _texts(halves["discovery"], halves["validation"], ends, tokenizer)


def _texts(
    discovery: list[Asked],
    validation: list[Asked],
    ends: Ends,
    tokenizer: PairTokenizer,
    shared: int = 0,
) -> Texts:
    known = decisions_of(tokenizer, discovery, least=LEAST_DECISIONS)
    asked = decisions_of(tokenizer, validation)
    return Texts(known, asked, known.labels(ends), asked.labels(ends), shared)


@dataclass(frozen=True, eq=False)
class Study:
    """One model's heads on one reference: read on discovery, heard on validation.

    `own` [layers, heads] is the weight on their own text on discovery. `said` and `rule`
    [layers, heads, D]: whether a word ends, by the reading and by the article's rule; `rule_order`
    are the heads by the rule's accuracy on discovery, `rule_head` is the one that it reads best there.
    """

    texts: Texts
    own: FloatArray
    calibrated: Calibrated
    said: BoolArray
    rule: BoolArray
    rule_head: Head
    rule_order: list[Head]

    def measure(self, measure: str, said: BoolArray) -> Estimate:
        """How good answers `said` [D] are on validation."""
        decisions = self.texts.validation
        counts = counts_of(said, self.texts.truth, decisions)
        total = counts.sum(0)
        left = measured(measure, total - counts)
        return from_leave_one_out(float(measured(measure, total)), left, decisions.queries)

    def answers(self) -> dict[str, BoolArray]:
        """What is said on validation: by the rule, by the best reading, by each character's own rate of
        ending words, and by the commoner answer."""
        texts = self.texts
        commoner = bool(texts.known.size) and bool(texts.known.mean() >= 0.5)
        return {
            "rule": self.rule[self.rule_head],
            "reading": self.said[self.calibrated.best],
            "characters": by_character(
                texts.discovery.characters(), texts.known, texts.validation.characters()
            ),
            "majority": np.full(len(texts.truth), commoner),
        }


def study(scorer: Scorer, texts: Texts, *, shifts: int, seed: int, shown: Progress) -> Study:
    """Two plain passes over `texts`, and what is made of them."""
    known = weights_of(scorer, texts.discovery, shown)
    asked = weights_of(scorer, texts.validation, shown)
    calibrated = calibrate(known, texts.discovery, texts.known, shifts=shifts, seed=seed)
    rule = known.rule()
    balanced = balanced_of(rule, texts.known)
    right = (rule == texts.known).mean(-1) if texts.known.size else balanced
    return Study(
        texts=texts,
        own=known.own,
        calibrated=calibrated,
        said=calibrated.say(asked),
        rule=asked.rule(),
        rule_head=ranked(balanced)[0],
        rule_order=ranked(right),
    )


def other_models(context: Context) -> Iterator[tuple[str, Scorer]]:
    """The same architecture before fine-tuning (`pretrained`, where `--base` is there) and with random
    weights (`random`), each ready to score."""
    tuned = context.model.checkpoint
    if context.request.base is not None:
        yield "pretrained", scorer_like(context, open_base(context.request.base, tuned))
    yield "random", scorer_like(context, random_like(tuned, context.seed))


def lacking(scorer: Scorer) -> str | None:
    """Why a model's attention cannot be read for word ends, as an id of the texts; None where it can."""
    if scorer.checkpoint.family.causal:
        return "one_sided"
    (encoded,) = scorer.tokenizer.encode([("", "")])
    return None if encoded.separators else "no_separator"


def measure(context: Context) -> Result:
    """Read every head of every model there is against the segmenter, and against a gold file."""
    if (reason := lacking(context.model)) is not None:
        return Result(nothing=reason, claims={"beyond_characters": reason})
    texts = texts_of_pairs(context)
    if not len(texts.discovery) or not len(texts.validation):
        return Result(nothing="no_characters", claims={"beyond_characters": "no_characters"})
    shifts = context.choose(QUICK_SHIFTS, FULL_SHIFTS)
    passes = len(texts.discovery.pairs) + len(texts.validation.pairs)

    def run(scorer: Scorer, on: Texts) -> Study:
        with context.progress(passes, "pairs") as shown:
            return study(scorer, on, shifts=shifts, seed=context.seed, shown=shown)

    main = run(context.model, texts)
    answers = main.answers()
    accuracy = {name: main.measure("accuracy", said) for name, said in answers.items()}
    measurements: dict[str, Estimate | float | None] = {
        "rule_accuracy": accuracy["rule"],
        "characters_accuracy": accuracy["characters"],
        "majority_accuracy": accuracy["majority"],
        "head_accuracy": accuracy["reading"],
        "head_balanced": main.measure("balanced", answers["reading"]),
        "head_word_f1": main.measure("word_f1", answers["reading"]),
    }
    union = union_of(
        main.rule, main.texts.truth, texts.validation, main.rule_order, seed=context.seed
    )
    heads = len(main.rule_order)
    measurements |= {
        "union": union.share(heads),
        "union_by_luck": union.share(heads, by_luck=True),
        "union_2": union.share(min(2, heads)),
        "union_2_by_luck": union.share(min(2, heads), by_luck=True),
    }
    reached: dict[str, Estimate] = {}
    for name, scorer in other_models(context):
        other = run(scorer, texts)
        reached[name] = other.measure("balanced", other.said[other.calibrated.best])
    measurements |= {f"{name}_balanced": one for name, one in reached.items()}
    if context.request.gold is not None:
        on_gold = run(context.model, texts_of_gold(context, context.request.gold))
        said = on_gold.answers()
        measurements |= {
            "gold_rule_accuracy": on_gold.measure("accuracy", said["rule"]),
            "gold_characters_accuracy": on_gold.measure("accuracy", said["characters"]),
            "gold_head_word_f1": on_gold.measure("word_f1", said["reading"]),
        }
    covered = texts.validation.coverage >= LEAST_COVERAGE
    named = main.calibrated.named.heads()
    return Result(
        claims={
            "beyond_characters": 100.0 * (accuracy["rule"] - accuracy["characters"])
            if covered
            else "coverage"
        },
        measurements=measurements,
        heads=head_table(context.model.checkpoint.shape, _columns(main)),
        sets={"boundary": named},
        selected="boundary",
        stability={"boundary": _stability(context, main, named)},
        figures=tuple(_figures(context, main, union, reached)),
        facts={
            "head": str(main.calibrated.best),
            "rule_head": str(main.rule_head),
            "named": len(named),
            "decisions": len(texts.validation),
            "coverage": texts.validation.coverage,
        },
        settings={
            "shifts": shifts,
            "union_shifts": UNION_SHIFTS,
            "least_balanced": LEAST_BALANCED,
            "texts": {
                half: {
                    "pairs": len(one.pairs),
                    "queries": len(one.queries),
                    "texts": len(one.asked),
                    "decisions": len(one),
                }
                for half, one in (("discovery", texts.discovery), ("validation", texts.validation))
            },
            "shared_with_discovery": texts.shared,
        },
    )


def _columns(main: Study) -> dict[str, FloatArray]:
    """Scores of every head: those of discovery say so, all others are of validation."""
    named, truth = main.calibrated.named, main.texts.truth
    return {
        "balanced": balanced_of(main.said, truth),
        "rule_balanced": balanced_of(main.rule, truth),
        "discovery_balanced": named.score,
        "null_balanced": main.calibrated.null,
        "p": named.p,
        "q": named.q,
        "weight_on_text": main.own,
    }


def _stability(context: Context, main: Study, named: Sequence[Head]) -> Stability | None:
    """Of the named heads: by balanced accuracy, on validation and on another seed's model, too."""
    texts = main.texts
    again = np.stack(
        [balanced_by_query(one, main.texts.truth, texts.validation) for one in main.said], axis=1
    )
    elsewhere = [Elsewhere(VALIDATION, by_mean(again), len(again))]
    second = other_seed(
        context,
        lambda scorer: calibrate(
            weights_of(scorer, texts.discovery),
            texts.discovery,
            texts.known,
            shifts=0,
            seed=context.seed,
        ),
    )
    if second is not None:
        name, read = second
        elsewhere.append(Elsewhere(name, by_mean(read.per_query), len(read.per_query)))
    per_query = main.calibrated.per_query
    return stability(
        by_mean(per_query), named, len(per_query), elsewhere=elsewhere, seed=context.seed
    )


def _figures(
    context: Context, main: Study, union: Union, reached: Mapping[str, Estimate]
) -> Iterator[Figure]:
    """Heads on a map, answers and models as bars, the union by k."""
    named = main.calibrated.named.heads()
    yield head_map(
        "heads", balanced_of(main.said, main.texts.truth), marked=map(str, named), low=0.5
    )
    yield head_map(
        "rule", balanced_of(main.rule, main.texts.truth), marked=[str(main.rule_head)], low=0.5
    )
    answers = main.answers()
    by_measure = {
        name: [main.measure(name, said) for said in answers.values()] for name in MEASURES
    }
    yield estimate_bars(context, "answers", tuple(answers), by_measure)
    models = {"graded": main.measure("balanced", answers["reading"]), **reached}
    yield estimate_bars(context, "models", tuple(models), {"balanced": list(models.values())})
    ks = range(1, len(main.rule_order) + 1)
    size = union.size.sum()
    yield curve(
        "union",
        {
            name: [Point(x=k, y=float(ratio(right[:, k].sum(), size))) for k in ks]
            for name, right in (("union", union.right), ("union_by_luck", union.null))
        },
        dashed=("union_by_luck",),
    )
