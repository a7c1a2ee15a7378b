"""Do heads know where words end? (`heads_of_query_title_bert`, 2.2)

A *decision* lies between two neighbouring Chinese characters of a text: does a word end there? The
article's rule, on which the claim rests: a word ends where a head gives [SEP] more attention from the
left character than the next character. It needs a model with a separator whose tokens see what follows
them. Only neighbouring characters with a token boundary between them are evaluated.
Heads are named by *calibrated rules* of ours: a feature (the weight on the next character, on [SEP], or
their ratio), a threshold and a side, chosen for each head on discovery.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, read_segmented
from qt_bert.data.splits import half_of
from qt_bert.data.tokenise import QUERY, TITLE, PairTokenizer
from qt_bert.figures import Figure, Point, curve, head_map
from qt_bert.heads import Head
from qt_bert.probes.base import Context, Result, estimate_bars, head_table, partition
from qt_bert.probes.base_model import open_base, other_seed, random_like, scorer_like
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
from qt_bert.probes.streams import few_in_quick, is_han, stream, uncut_tokens
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, from_leave_one_out, group_queries

LEAST_BALANCED = 0.60
"""The balanced accuracy that a named head must reach."""
LEAST_COVERAGE = 0.5
"""The least share of neighbouring characters that the model must decide on for the claim."""
LEAST_DECISIONS = 4
"""Discovery texts with fewer decisions have too few shifts and are left out."""
EPSILON = 1e-6
QUICK_SHIFTS, FULL_SHIFTS = 20, 100
UNION_SHIFTS = 200
GOLD = ("gold_rule_accuracy", "gold_characters_accuracy", "gold_head_word_f1")
"""Measurements on the gold file; None where a half of it leaves nothing to decide."""

Ends = Callable[[str], set[int]]
"""A reference: a text → the positions (index of the next character) at which a word ends."""
Float32Array = npt.NDArray[np.float32]


# References: where words end.


def word_ends(partition: Segmenter) -> Ends:
    """Word ends of a segmenter whose words do not overlap."""
    return lambda text: {end for _, end in partition.spans(text)}


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


def decisions_of(
    tokenizer: PairTokenizer, texts: Sequence[PairText], *, least: int = 1
) -> Decisions:
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
    [layers, heads, D]; to its own text, mean over decisions [layers, heads]."""

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


FEATURES = ("next", "sep", "ratio")


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

    layers = tuple(range(shape.layers))
    reduction = Reduction("rows", "attention", layers, compute)
    stream(scorer, decisions.pairs, [reduction], [variant], shown=shown)
    return CharacterAttention(sums[0], sums[1], sums[2].mean(-1, dtype=np.float64))


# Metrics.

METRICS = ("accuracy", "balanced", "word_f1")


def counts_by_query(predicted: BoolArray, labels: BoolArray, decisions: Decisions) -> FloatArray:
    """Counts by query [Q, 7] of predictions against labels, both [D].

    Columns: true positives, true negatives, positives, negatives; then right words, words of the
    reference, predicted words.
    """
    if not len(decisions):
        return np.zeros((0, 7))
    words = _words(predicted, labels, decisions)
    counts = np.stack([predicted & labels, ~predicted & ~labels, labels, ~labels, *words])
    return np.add.reduceat(counts.astype(np.float64), decisions.query_starts, axis=1).T


def _words(predicted: BoolArray, labels: BoolArray, decisions: Decisions) -> list[IntArray]:
    """Right words, words of the reference, predicted words, each counted at a decision of its run [3, D].

    A run of n neighbouring decisions is a text of n + 1 characters, cut at its two ends. A word is right
    where both begin and end it, and neither cuts it.
    """
    begins = np.ones(len(predicted), bool)
    begins[1:] = (np.diff(decisions.text) != 0) | (np.diff(decisions.place) != 1)
    first = np.flatnonzero(begins)
    last = np.append(first[1:], len(predicted)) - 1
    places = np.flatnonzero(predicted | labels)
    run = np.cumsum(begins) - 1
    # Cuts in order, with the two ends of every run: −1 before its first decision, +1 after its last.
    at = np.concatenate([2 * places, 2 * first - 1, 2 * last + 1])
    agreed = np.concatenate([(predicted & labels)[places], np.ones(2 * len(first), bool)])
    runs = np.concatenate([run[places], run[first], run[last]])
    order = np.lexsort((at, runs))
    agreed, runs = agreed[order], runs[order]
    right = agreed[:-1] & agreed[1:] & (runs[:-1] == runs[1:])
    right_words = np.zeros(len(predicted), np.int64)
    np.add.at(right_words, first[runs[:-1][right]], 1)
    whole = begins.astype(np.int64)
    return [right_words, labels.astype(np.int64) + whole, predicted.astype(np.int64) + whole]


def metric(name: str, counts: FloatArray) -> FloatArray:
    """One of `METRICS` of counts [..., 7]; NaN where it is not defined."""
    hits, rejections, ends, others, right_words, words, predicted_words = np.moveaxis(counts, -1, 0)
    if name == "accuracy":
        return ratio(hits + rejections, ends + others)
    if name == "balanced":
        return (ratio(hits, ends) + ratio(rejections, others)) / 2
    return ratio(2 * right_words, words + predicted_words)


def balanced_of(predicted: BoolArray, labels: BoolArray) -> FloatArray:
    """Balanced accuracy over all decisions [..., D] → [...]; NaN for labels of one class."""
    if labels.all() or not labels.any():
        return np.full(predicted.shape[:-1], np.nan)
    return np.asarray((predicted[..., labels].mean(-1) + (~predicted[..., ~labels]).mean(-1)) / 2)


def predict_by_character(
    learned: Sequence[str], labels: BoolArray, characters: Sequence[str]
) -> BoolArray:
    """Word ends by each left character's own rate of ending words: no model, no context [D].

    Rates are smoothed with one pseudo-count at the overall rate, which unknown characters get.
    """
    overall = float(labels.mean()) if len(labels) else 0.0
    counts: dict[str, list[float]] = {}
    for character, ends in zip(learned, labels, strict=True):
        count = counts.setdefault(character, [overall, 1.0])
        count[0] += float(ends)
        count[1] += 1
    rates = [counts.get(character, [overall, 1.0]) for character in characters]
    return np.array([ends / number >= 0.5 for ends, number in rates], bool)


# Calibrated rules: the best one of each head on discovery, beside the same search on shifted references.


@dataclass(frozen=True, eq=False)
class ThresholdRules:
    """The rules of a layer's heads: a word ends where `feature` is above `threshold`, or where it is
    not (`high` False); arrays [heads]."""

    feature: IntArray
    threshold: Float32Array
    high: BoolArray

    def predict(self, features: Float32Array) -> BoolArray:
        """Whether a word ends, by each head [3, heads, D] → [heads, D]."""
        return np.asarray((self.chosen(features) > self.threshold[:, None]) == self.high[:, None])

    def chosen(self, features: Float32Array) -> Float32Array:
        """Each head's chosen feature [3, heads, D] → [heads, D]."""
        return features[self.feature, np.arange(len(self.feature))]


@dataclass(frozen=True, eq=False)
class CalibratedHeads:
    """All heads calibrated on discovery: the rules of each layer's heads, and the named heads.

    `per_query` [Q, layers, heads] has the balanced accuracy as its mean; `null` [layers, heads] is the
    balanced accuracy of the same search on shifted references.
    """

    rules: tuple[ThresholdRules, ...]
    named: Named
    per_query: FloatArray
    null: FloatArray

    @property
    def best(self) -> Head:
        """The best head on discovery: a named one if there is any."""
        return (self.named.heads() or ranked(self.named.score))[0]

    def predict(self, weights: CharacterAttention) -> BoolArray:
        """Whether a word ends, by each head [layers, heads, D]."""
        return np.stack(
            [rules.predict(weights.features(layer)) for layer, rules in enumerate(self.rules)]
        )


def calibrate(
    weights: CharacterAttention, decisions: Decisions, labels: BoolArray, *, shifts: int, seed: int
) -> CalibratedHeads:
    """Choose every head's rule by balanced accuracy against `labels` [D], and test it.

    The best balanced accuracy over all thresholds and both sides of a feature is (1 + the
    Kolmogorov–Smirnov distance between its values at word ends and elsewhere) / 2. The test compares
    each query's share of it with the mean under `shifts` shifted references, each with its own search.
    Every text must have two decisions or more.
    """
    shifted = list(shifted_labels(labels, decisions, shifts, seed))
    rules, scores, nulls = [], [], []
    for layer in range(len(weights.next)):
        features = weights.features(layer)
        search = _Search(features)
        rules.append(search.best(labels))
        scores.append(balanced_by_query(rules[-1].predict(features), labels, decisions))
        null = np.zeros_like(scores[-1])
        for moved in shifted:
            predicted = search.best(moved).predict(features)
            null += balanced_by_query(predicted, moved, decisions) / max(1, shifts)
        nulls.append(null)
    per_query, null_scores = np.stack(scores, 1), np.stack(nulls, 1)
    named = name_heads(
        means(per_query),
        one_sided_p(per_query - null_scores),
        weights.weight_on_text,
        least=LEAST_BALANCED,
    )
    return CalibratedHeads(tuple(rules), named, per_query, means(null_scores))


def shifted_labels(
    labels: BoolArray, decisions: Decisions, shifts: int, seed: int
) -> Iterator[BoolArray]:
    """`labels` rotated within each text by a random number of places above 0 [D].

    A text of one decision keeps its label.
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
    """The best rules of one layer's heads, for any labels: sorted once."""

    def __init__(self, features: Float32Array) -> None:
        self.shape = features.shape
        self.order = np.argsort(features, axis=-1, kind="stable")
        self.ranked = np.take_along_axis(features, self.order, -1)
        self.apart = self.ranked[..., :-1] != self.ranked[..., 1:]

    def best(self, labels: BoolArray) -> ThresholdRules:
        """The rule of each head with the largest balanced accuracy."""
        _, heads, number = self.shape
        if number < 2:
            empty = np.zeros(heads)
            return ThresholdRules(empty.astype(int), empty.astype(np.float32), empty == 0)
        below = np.cumsum(_gain(labels)[self.order], axis=-1)[..., :-1] * self.apart
        cut = np.abs(below).argmax(-1)
        reached = np.take_along_axis(below, cut[..., None], -1)[..., 0]
        feature = np.abs(reached).argmax(0)
        each = np.arange(heads)
        cut = cut[feature, each]
        low, high = self.ranked[feature, each, cut], self.ranked[feature, each, cut + 1]
        middle = low + (high - low) / 2
        return ThresholdRules(
            feature, np.where(middle < high, middle, low), reached[feature, each] < 0
        )


def balanced_by_query(predicted: BoolArray, labels: BoolArray, decisions: Decisions) -> FloatArray:
    """Each query's share of the heads' balanced accuracy [heads, D] → [Q, heads].

    Their mean is the balanced accuracy; NaN where it is not defined.
    """
    starts = decisions.query_starts
    if not len(starts) or labels.all() or not labels.any():
        return np.full((len(starts), len(predicted)), np.nan)
    right = (predicted == labels) * np.abs(_gain(labels)) / 2
    return np.asarray(np.add.reduceat(right, starts, axis=-1).T * len(starts))


def _gain(labels: BoolArray) -> FloatArray:
    """1 / ends at a word end, −1 / others elsewhere [D]; 0 for labels of one class."""
    ends = int(labels.sum())
    others = labels.size - ends
    return np.where(labels, 1 / ends, -1 / others) if ends and others else np.zeros(labels.size)


# The article's union of heads: at least one of them is right.


@dataclass(frozen=True, eq=False)
class HeadUnion:
    """How many decisions of each query at least one of the first k heads gets right, k from 0.

    One of many heads that differ is right about any reference, so `null` holds the same counts for
    shifted references. `right` and `null` [Q, heads + 1]; `size` [Q] counts all decisions.
    """

    right: FloatArray
    null: FloatArray
    size: FloatArray
    queries: tuple[Hashable, ...]

    def share(self, k: int, *, null: bool = False) -> Estimate:
        """The union's share of decisions; `null`: that of the shifted references."""
        right = (self.null if null else self.right)[:, k]
        value = ratio(right.sum(), self.size.sum())
        left = ratio(right.sum() - right, self.size.sum() - self.size)
        return from_leave_one_out(float(value), left, self.queries)


def head_union(
    predicted: BoolArray,
    labels: BoolArray,
    decisions: Decisions,
    order: Sequence[Head],
    *,
    seed: int,
) -> HeadUnion:
    """The union of heads taken in `order`; `predicted` [layers, heads, D]. Short texts are left out."""
    long = np.repeat(decisions.text_sizes >= LEAST_DECISIONS, decisions.text_sizes)
    ordered = predicted[[head.layer for head in order], [head.head for head in order]]
    # The first head in `order` that predicts no end, and the first that predicts an end [2, D].
    first = np.stack(
        [
            np.where((ordered == end).any(0), (ordered == end).argmax(0), len(order))
            for end in (False, True)
        ]
    )
    width, queries = len(order) + 2, len(decisions.queries)

    def hits(reference: BoolArray) -> FloatArray:
        needed = np.where(reference, first[1], first[0])[long]
        counts = np.bincount(decisions.query[long] * width + needed + 1, minlength=queries * width)
        return np.asarray(counts.reshape(-1, width).cumsum(1)[:, :-1], np.float64)

    right = hits(labels)
    null = np.zeros_like(right)
    for moved in shifted_labels(labels, decisions, UNION_SHIFTS, seed):
        null += hits(moved) / UNION_SHIFTS
    size = np.bincount(decisions.query[long], minlength=queries).astype(np.float64)
    kept = size > 0
    names = tuple(name for name, keep in zip(decisions.queries, kept, strict=True) if keep)
    return HeadUnion(right[kept], null[kept], size[kept], names)


# The probe.


@dataclass(frozen=True, eq=False)
class LabelledHalves:
    """The decisions of both halves, and the reference's labels [D]; `shared`: validation texts that are
    left out because discovery has them."""

    discovery: Decisions
    validation: Decisions
    discovery_labels: BoolArray
    validation_labels: BoolArray
    shared: int = 0

    def __bool__(self) -> bool:
        """Whether both halves have decisions."""
        return bool(len(self.discovery) and len(self.validation))


def halves_of_pairs(context: Context) -> LabelledHalves:
    """The distinct queries and titles of both halves; a quick run takes two pairs of each query."""
    sample = few_in_quick(context, context.validation)
    discovery = distinct_texts(few_in_quick(context, context.discovery))
    validation = distinct_texts(sample, {text.text for text in discovery})
    shared = len(distinct_texts(sample)) - len(validation)
    return _halves(
        discovery, validation, word_ends(partition(context)), context.model.tokenizer, shared
    )


def halves_of_gold(
    context: Context, path: Path
) -> tuple[LabelledHalves, dict[str, dict[str, int]]]:
    """The segments of the gold file, halved by a hash of the line; how many lines, segments, words and
    decisions of each half are used."""
    tokenizer = context.model.tokenizer
    # Two segments and at most four special tokens have to fit.
    texts, ends = gold_texts(path, (tokenizer.max_length - 4) // 2)
    segments: dict[str, list[PairText]] = {"discovery": [], "validation": []}
    for text in texts:
        segments[half_of(text.query)].append(text)
    halves = _halves(segments["discovery"], segments["validation"], ends, tokenizer)
    used = {
        half: {
            "lines": len(decisions.queries),
            "segments": len(decisions.texts),
            "words": sum(len(ends(text.text)) for text in decisions.texts),
            "decisions": len(decisions),
        }
        for half, decisions in (("discovery", halves.discovery), ("validation", halves.validation))
    }
    return halves, used


def _halves(
    discovery: list[PairText],
    validation: list[PairText],
    ends: Ends,
    tokenizer: PairTokenizer,
    shared: int = 0,
) -> LabelledHalves:
    learned = decisions_of(tokenizer, discovery, least=LEAST_DECISIONS)
    tested = decisions_of(tokenizer, validation)
    return LabelledHalves(learned, tested, learned.labels(ends), tested.labels(ends), shared)


@dataclass(frozen=True, eq=False)
class HeadEvaluation:
    """One model's heads on one reference: calibrated on discovery, tested on validation.

    `weight_on_text` [layers, heads]: attention to the own text on discovery. `predicted` and `rule`
    [layers, heads, D]: word ends on validation by the calibrated and by the article's rules. `rule_order`:
    heads by the rule's accuracy on discovery; `rule_head`: the best by balanced accuracy there.
    """

    halves: LabelledHalves
    weight_on_text: FloatArray
    calibrated: CalibratedHeads
    predicted: BoolArray
    rule: BoolArray
    rule_head: Head
    rule_order: list[Head]

    def measure(self, name: str, predicted: BoolArray) -> Estimate:
        """One of `METRICS` of predictions [D] on validation."""
        decisions = self.halves.validation
        counts = counts_by_query(predicted, self.halves.validation_labels, decisions)
        total = counts.sum(0)
        left = metric(name, total - counts)
        return from_leave_one_out(float(metric(name, total)), left, decisions.queries)

    def answers(self) -> dict[str, BoolArray]:
        """Predictions on validation: the article's rule, the best calibrated one (`calibrated`), each
        character's own rate of ending words, and the majority class."""
        halves, labels = self.halves, self.halves.discovery_labels
        return {
            "rule": self.rule[self.rule_head],
            "calibrated": self.predicted[self.calibrated.best],
            "characters": predict_by_character(
                halves.discovery.characters(), labels, halves.validation.characters()
            ),
            "majority": np.full(
                len(halves.validation_labels), bool(labels.size) and bool(labels.mean() >= 0.5)
            ),
        }


def evaluate_heads(
    scorer: Scorer, halves: LabelledHalves, *, shifts: int, seed: int, shown: Progress
) -> HeadEvaluation:
    """The heads of a model on `halves`, by two clean passes."""
    weights, labels = attention_of(scorer, halves.discovery, shown), halves.discovery_labels
    tested = attention_of(scorer, halves.validation, shown)
    calibrated = calibrate(weights, halves.discovery, labels, shifts=shifts, seed=seed)
    rule = weights.rule()
    balanced = balanced_of(rule, labels)
    accuracy = (rule == labels).mean(-1) if labels.size else balanced
    return HeadEvaluation(
        halves=halves,
        weight_on_text=weights.weight_on_text,
        calibrated=calibrated,
        predicted=calibrated.predict(tested),
        rule=tested.rule(),
        rule_head=ranked(balanced)[0],
        rule_order=ranked(accuracy),
    )


def other_models(context: Context) -> Iterator[tuple[str, Scorer]]:
    """The model before fine-tuning (`pretrained`, with `--base`), and one with random weights (`random`)."""
    tuned = context.model.checkpoint
    if context.request.base is not None:
        yield "pretrained", scorer_like(context, open_base(context.request.base, tuned))
    yield "random", scorer_like(context, random_like(tuned, context.seed))


def lacking(scorer: Scorer) -> str | None:
    """The id of the reason why the rule does not apply to a model; None where it does."""
    if scorer.checkpoint.family.causal:
        return "one_sided"
    (encoded,) = scorer.tokenizer.encode([("", "")])
    return None if encoded.separators else "no_separator"


def measure(context: Context) -> Result:
    """Compare every head of every model with the segmenter, and those of the model with `--gold`."""
    if (reason := lacking(context.model)) is not None:
        return Result(nothing=reason, claims={"beyond_characters": reason})
    halves = halves_of_pairs(context)
    if not halves:
        return Result(nothing="no_characters", claims={"beyond_characters": "no_characters"})
    shifts = context.choose(QUICK_SHIFTS, FULL_SHIFTS)

    def run(scorer: Scorer, on: LabelledHalves) -> HeadEvaluation:
        pairs = len(on.discovery.pairs) + len(on.validation.pairs)
        with context.progress(pairs, "pairs") as shown:
            return evaluate_heads(scorer, on, shifts=shifts, seed=context.seed, shown=shown)

    main = run(context.model, halves)
    answers = main.answers()
    accuracy = {name: main.measure("accuracy", answer) for name, answer in answers.items()}
    measurements: dict[str, Estimate | float | None] = {
        "rule_accuracy": accuracy["rule"],
        "characters_accuracy": accuracy["characters"],
        "majority_accuracy": accuracy["majority"],
        "head_accuracy": accuracy["calibrated"],
        "head_balanced": main.measure("balanced", answers["calibrated"]),
        "head_word_f1": main.measure("word_f1", answers["calibrated"]),
    }
    union = head_union(
        main.rule, halves.validation_labels, halves.validation, main.rule_order, seed=context.seed
    )
    heads = len(main.rule_order)
    measurements |= {
        "union": union.share(heads),
        "union_by_luck": union.share(heads, null=True),
        "union_2": union.share(min(2, heads)),
        "union_2_by_luck": union.share(min(2, heads), null=True),
    }
    balanced: dict[str, Estimate] = {}
    for name, scorer in other_models(context):
        other = run(scorer, halves)
        balanced[name] = other.measure("balanced", other.predicted[other.calibrated.best])
    measurements |= {f"{name}_balanced": estimate for name, estimate in balanced.items()}
    gold: dict[str, Any] = {}
    if (path := context.request.gold) is not None:
        gold_halves, used = halves_of_gold(context, path)
        gold = {"gold": path.name, "gold_texts": used}
        measurements |= dict.fromkeys(GOLD)
        if gold_halves:
            on_gold = run(context.model, gold_halves)
            answers_on_gold = on_gold.answers()
            values = (
                on_gold.measure("accuracy", answers_on_gold["rule"]),
                on_gold.measure("accuracy", answers_on_gold["characters"]),
                on_gold.measure("word_f1", answers_on_gold["calibrated"]),
            )
            measurements |= dict(zip(GOLD, values, strict=True))
    covered = halves.validation.coverage >= LEAST_COVERAGE
    named, again = main.calibrated.named.heads(), _named_again(main)
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
        shown={head: head in again for head in named},
        stability={"boundary": _stability(context, main, named)},
        figures=tuple(_figures(context, main, union, balanced)),
        facts={
            "head": str(main.calibrated.best),
            "rule_head": str(main.rule_head),
            "named": len(named),
            "decisions": len(halves.validation),
            "coverage": halves.validation.coverage,
        },
        settings={
            **gold,
            "shifts": shifts,
            "union_shifts": UNION_SHIFTS,
            "least_balanced": LEAST_BALANCED,
            "texts": {
                "discovery": halves.discovery.counts(),
                "validation": halves.validation.counts(),
            },
            "shared_with_discovery": halves.shared,
            "reference": partition(context).name,
        },
        pairs=few_in_quick(context, context.validation),
    )


def _columns(main: HeadEvaluation) -> dict[str, FloatArray]:
    """Scores of every head; p, q, the null and `discovery_…` are of discovery."""
    named, labels = main.calibrated.named, main.halves.validation_labels
    return {
        "balanced": balanced_of(main.predicted, labels),
        "rule_balanced": balanced_of(main.rule, labels),
        "discovery_balanced": named.score,
        "null_balanced": main.calibrated.null,
        "p": named.p,
        "q": named.q,
        "weight_on_text": main.weight_on_text,
    }


def _on_validation(main: HeadEvaluation) -> FloatArray:
    """Balanced accuracy by query on validation [queries, layers, heads]."""
    labels, decisions = main.halves.validation_labels, main.halves.validation
    return np.stack([balanced_by_query(of, labels, decisions) for of in main.predicted], axis=1)


def _named_again(main: HeadEvaluation) -> list[Head]:
    """The heads that meet the criteria on validation, above their null of discovery."""
    again = _on_validation(main)
    p = one_sided_p(again - main.calibrated.null)
    return name_heads(means(again), p, main.weight_on_text, least=LEAST_BALANCED).heads()


def _stability(context: Context, main: HeadEvaluation, named: Sequence[Head]) -> Stability | None:
    """Stability of the named heads by balanced accuracy, also on validation and on another seed's model."""
    halves, again = main.halves, _on_validation(main)
    elsewhere = [Elsewhere(VALIDATION, by_mean(again), len(again))]
    second = other_seed(
        context,
        lambda scorer: calibrate(
            attention_of(scorer, halves.discovery),
            halves.discovery,
            halves.discovery_labels,
            shifts=0,
            seed=context.seed,
        ),
    )
    if second is not None:
        name, calibrated = second
        elsewhere.append(Elsewhere(name, by_mean(calibrated.per_query), len(calibrated.per_query)))
    per_query = main.calibrated.per_query
    return stability(
        by_mean(per_query), named, len(per_query), elsewhere=elsewhere, seed=context.seed
    )


def _figures(
    context: Context, main: HeadEvaluation, union: HeadUnion, others: Mapping[str, Estimate]
) -> Iterator[Figure]:
    """Heads on a map, answers and models as bars, the union by k."""
    named, labels = main.calibrated.named.heads(), main.halves.validation_labels
    yield head_map("heads", balanced_of(main.predicted, labels), marked=map(str, named), low=0.5)
    yield head_map("rule", balanced_of(main.rule, labels), marked=[str(main.rule_head)], low=0.5)
    answers = main.answers()
    metrics = {
        name: [main.measure(name, answer) for answer in answers.values()] for name in METRICS
    }
    yield estimate_bars(context, "answers", tuple(answers), metrics)
    models = {"graded": main.measure("balanced", answers["calibrated"]), **others}
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
