"""Do heads know where words end? (`heads_of_query_title_bert`, 2.2)

A *decision* lies between two neighbouring Chinese characters of a text: does a word end there? The
article's rule, on which the claim rests: a word ends where a head gives [SEP] more attention from the
left character than the next character. It needs a model with a separator whose tokens see what follows
them. Only neighbouring characters with a token boundary between them are evaluated.
Heads are named by *calibrated rules* of ours: a feature (the weight on the next character, on [SEP], or
their ratio), a threshold and a side, chosen for each head on discovery.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.data.segmenters import GRANULARITIES, Ends, granularities, word_ends
from qt_bert.data.splits import half_of
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.figures import Figure, curve, head_map
from qt_bert.heads import Head
from qt_bert.probes.base import (
    Context,
    Result,
    estimate_bars,
    estimate_points,
    head_table,
    partition,
)
from qt_bert.probes.base_model import open_base, other_seed, random_like, scorer_like
from qt_bert.probes.boundary_decisions import (
    LEAST_DECISIONS,
    CharacterAttention,
    Decisions,
    Float32Array,
    PairText,
    attention_of,
    decisions_of,
    distinct_texts,
    gold_texts,
)
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
from qt_bert.probes.streams import few_in_quick
from qt_bert.probes.texts import texts_of
from qt_bert.results.probe import ResultTable, Row, Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, from_leave_one_out, pooled
from qt_bert.text import Label

LEAST_BALANCED = 0.60
"""The balanced accuracy that a named head must reach."""
LEAST_COVERAGE = 0.5
"""The least share of neighbouring characters that the model must decide on for the claim."""
QUICK_SHIFTS, FULL_SHIFTS = 20, 100
UNION_HEADS, UNION_SHIFTS = 5, 200
MOST_DRAWN = 12
"""The most heads in the figure of granularity."""
GOLD = {
    "gold_rule_accuracy": ("accuracy", "rule"),
    "gold_characters_accuracy": ("accuracy", "characters"),
    "gold_head_word_f1": ("word_f1", "calibrated"),
}
"""Measurements on the gold file: metric and answer; None where a half of it leaves nothing to decide."""


# Metrics.

METRICS = ("accuracy", "balanced", "word_f1")


def counts_by_query(predicted: BoolArray, labels: BoolArray, decisions: Decisions) -> FloatArray:
    """Counts by query [Q, 7] of predictions against labels, both [D].

    Columns: true positives, true negatives, positives, negatives; then right words, words of the
    reference, predicted words.
    """
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
    """One of `METRICS`, or `length`, of counts [..., 7]; NaN where it is not defined.

    `length`: mean number of characters of the predicted words.
    """
    hits, rejections, ends, others, right_words, words, predicted_words = np.moveaxis(counts, -1, 0)
    if name == "accuracy":
        return ratio(hits + rejections, ends + others)
    if name == "balanced":
        return (ratio(hits, ends) + ratio(rejections, others)) / 2
    if name == "length":  # a run has a word and a character more than cuts and decisions
        return ratio(others + words, predicted_words)
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
    seen, ends = Counter(learned), Counter(compress(learned, labels))
    return np.array([(overall + ends[c]) / (1 + seen[c]) >= 0.5 for c in characters], bool)


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

    `per_query` [Q, layers, heads] has the balanced accuracy as its mean, NaN at pruned heads; `null` [layers,
    heads] is the balanced accuracy of the same search on shifted references.
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
            null += balanced_by_query(predicted, moved, decisions) / shifts
        nulls.append(null)
    there = np.isfinite(weights.weight_on_text)
    per_query, null_scores = np.where(there, np.stack(scores, 1), np.nan), np.stack(nulls, 1)
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
    """`labels` rotated in each text by random places above 0, where it has two decisions [D]."""
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


def head_union(
    predicted: BoolArray, labels: BoolArray, decisions: Decisions, *, seed: int
) -> tuple[list[Estimate], list[Estimate]]:
    """Share of decisions that at least one of the first 1, 2, … heads gets right; `predicted` [heads, D].

    Among heads that differ one is right about any reference: the second list is the mean share for
    shifted references. Texts with fewer than LEAST_DECISIONS are left out.
    """
    long = np.repeat(decisions.text_sizes >= LEAST_DECISIONS, decisions.text_sizes)
    size = np.bincount(decisions.query[long], minlength=len(decisions.queries)).astype(np.float64)

    def hits(reference: BoolArray) -> BoolArray:
        return np.logical_or.accumulate(predicted == reference, axis=0)

    def share(right: FloatArray) -> Estimate:
        return pooled(
            np.add.reduceat(right * long, decisions.query_starts), size, decisions.queries
        )

    null = np.zeros(predicted.shape)
    for moved in shifted_labels(labels, decisions, UNION_SHIFTS, seed):
        null += hits(moved) / UNION_SHIFTS
    return [share(right.astype(np.float64)) for right in hits(labels)], [*map(share, null)]


# The probe.


@dataclass(frozen=True, eq=False)
class LabelledHalves:
    """The decisions of both halves, and the reference's labels [D]."""

    discovery: Decisions
    validation: Decisions
    discovery_labels: BoolArray
    validation_labels: BoolArray

    @classmethod
    def of(
        cls,
        tokenizer: PairTokenizer,
        discovery: Sequence[PairText],
        validation: Sequence[PairText],
        ends: Ends,
    ) -> LabelledHalves:
        """The decisions of the texts of both halves; short ones of discovery are left out."""
        learned = decisions_of(tokenizer, discovery, least=LEAST_DECISIONS)
        tested = decisions_of(tokenizer, validation)
        return cls(learned, tested, learned.labels(ends), tested.labels(ends))

    def __bool__(self) -> bool:
        """Whether both halves have decisions."""
        return bool(len(self.discovery) and len(self.validation))


def halves_of_pairs(context: Context) -> LabelledHalves:
    """The distinct queries and titles of both halves, in validation without those of discovery; a quick
    run takes two pairs of each query."""
    discovery = distinct_texts(few_in_quick(context, context.discovery))
    known = [text.text for text in discovery]
    validation = distinct_texts(few_in_quick(context, context.validation), known)
    ends = word_ends(partition(context))
    return LabelledHalves.of(context.model.tokenizer, discovery, validation, ends)


def halves_of_gold(context: Context, path: Path) -> tuple[LabelledHalves, dict[str, Any]]:
    """The segments of the gold file, halved by a hash of the line; how many lines, segments, words and
    decisions of each half are used."""
    tokenizer = context.model.tokenizer
    # Two segments and at most four special tokens have to fit.
    texts, ends = gold_texts(path, (tokenizer.max_length - 4) // 2)
    discovery, validation = (
        [text for text in texts if half_of(text.query) == half]
        for half in ("discovery", "validation")
    )
    halves = LabelledHalves.of(tokenizer, discovery, validation, ends)
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


@dataclass(frozen=True, eq=False)
class HeadEvaluation:
    """One model's heads on one reference: calibrated on discovery, tested on validation.

    `weight_on_text` [layers, heads]: attention to the own text on discovery, NaN at pruned heads; `cuts`
    [layers, heads]: how many word ends the calibrated rule predicts there. `predicted` and `rule` [layers,
    heads, D]: word ends on validation by the calibrated and by the article's rules; `rule_head`: the article's
    best by balanced accuracy on discovery.
    """

    halves: LabelledHalves
    weight_on_text: FloatArray
    calibrated: CalibratedHeads
    cuts: IntArray
    predicted: BoolArray
    rule: BoolArray
    rule_head: Head

    def measure(self, name: str, predicted: BoolArray, labels: BoolArray | None = None) -> Estimate:
        """A metric of predictions [D] on validation, by default against the reference."""
        decisions, reference = self.halves.validation, self.halves.validation_labels
        counts = counts_by_query(predicted, reference if labels is None else labels, decisions)
        total = counts.sum(0)
        left = metric(name, total - counts)
        return from_leave_one_out(float(metric(name, total)), left, decisions.queries)

    @cached_property
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
            "majority": np.full(len(halves.validation_labels), labels.mean() >= 0.5),
        }

    @cached_property
    def balanced(self) -> FloatArray:
        """Balanced accuracy of the calibrated rules on validation [layers, heads]; NaN at pruned heads."""
        balanced = balanced_of(self.predicted, self.halves.validation_labels)
        return np.where(np.isfinite(self.weight_on_text), balanced, np.nan)

    @cached_property
    def per_query(self) -> FloatArray:
        """Each query's share of the balanced accuracy on validation [queries, layers, heads]."""
        labels, decisions = self.halves.validation_labels, self.halves.validation
        return np.stack([balanced_by_query(of, labels, decisions) for of in self.predicted], axis=1)


def evaluate_heads(context: Context, scorer: Scorer, halves: LabelledHalves) -> HeadEvaluation:
    """The heads of a model on `halves`, by two clean passes."""
    pairs = len(halves.discovery.pairs) + len(halves.validation.pairs)
    with context.progress(pairs, "pairs") as shown:
        weights = attention_of(scorer, halves.discovery, shown)
        tested = attention_of(scorer, halves.validation, shown)
    calibrated = calibrate(
        weights,
        halves.discovery,
        halves.discovery_labels,
        shifts=context.choose(QUICK_SHIFTS, FULL_SHIFTS),
        seed=context.seed,
    )
    by_rule = balanced_of(weights.rule(), halves.discovery_labels)
    return HeadEvaluation(
        halves=halves,
        weight_on_text=weights.weight_on_text,
        calibrated=calibrated,
        cuts=calibrated.predict(weights).sum(-1),
        predicted=calibrated.predict(tested),
        rule=tested.rule(),
        rule_head=ranked(np.where(np.isfinite(weights.weight_on_text), by_rule, np.nan))[0],
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
    main = evaluate_heads(context, context.model, halves)
    answers, named = main.answers, main.calibrated.named.heads()
    accuracy = {name: main.measure("accuracy", answer) for name, answer in answers.items()}
    measurements: dict[str, Estimate | float | None] = {
        "rule_accuracy": accuracy["rule"],
        "characters_accuracy": accuracy["characters"],
        "majority_accuracy": accuracy["majority"],
        "head_accuracy": accuracy["calibrated"],
        "head_balanced": main.measure("balanced", answers["calibrated"]),
        "head_word_f1": main.measure("word_f1", answers["calibrated"]),
    }
    union, null = head_union(
        main.predicted[[head.layer for head in named], [head.head for head in named]][:UNION_HEADS],
        halves.validation_labels,
        halves.validation,
        seed=context.seed,
    )
    by_length = sorted(named, key=lambda head: -main.cuts[head])
    rows = granularity(main, by_length, granularities(partition(context), context.request.userdict))
    lengths = [rows[str(head)][0] for head in by_length]
    measurements |= {
        "union": union[-1] if union else None,
        "union_null": null[-1] if null else None,
        "granularity_range": lengths[-1] - lengths[0] if lengths else None,
    }
    for name, scorer in other_models(context):
        other = evaluate_heads(context, scorer, halves)
        best = other.predicted[other.calibrated.best]
        measurements[f"{name}_balanced"] = other.measure("balanced", best)
    gold: dict[str, Any] = {}
    if (path := context.request.gold) is not None:
        gold_halves, used = halves_of_gold(context, path)
        gold = {"gold": path.name, "gold_texts": used}
        on_gold = evaluate_heads(context, context.model, gold_halves) if gold_halves else None
        measurements |= {
            name: on_gold.measure(of, on_gold.answers[answer]) if on_gold else None
            for name, (of, answer) in GOLD.items()
        }
    covered = halves.validation.coverage >= LEAST_COVERAGE
    p_again = one_sided_p(main.per_query - main.calibrated.null)
    again = name_heads(
        means(main.per_query), p_again, main.weight_on_text, least=LEAST_BALANCED
    ).heads()
    scores = main.calibrated.named
    beyond = 100.0 * (accuracy["rule"] - accuracy["characters"])
    return Result(
        claims={"beyond_characters": beyond if covered else "coverage"},
        measurements=measurements,
        heads=head_table(
            context.model.checkpoint.shape,
            {  # p, q, the null and `discovery_…` are of discovery
                "balanced": main.balanced,
                "rule_balanced": balanced_of(main.rule, halves.validation_labels),
                "discovery_balanced": scores.score,
                "null_balanced": main.calibrated.null,
                "p": scores.p,
                "q": scores.q,
                "weight_on_text": main.weight_on_text,
            },
        ),
        sets={"boundary": named},
        selected="boundary",
        shown={head: head in again for head in named},
        stability={"boundary": _stability(context, main)},
        figures=tuple(_figures(context, main, rows, {"union": union, "union_null": null})),
        tables=[_table(context, rows)],
        facts={
            "head": str(main.calibrated.best),
            "rule_head": str(main.rule_head),
            "named": len(named),
            "union_heads": len(union),
            "coarsest": str(by_length[-1]) if named else "–",
            "finest": str(by_length[0]) if named else "–",
            "coverage": halves.validation.coverage,
        },
        settings={
            **gold,
            "texts": {
                "discovery": halves.discovery.counts(),
                "validation": halves.validation.counts(),
            },
            "reference": partition(context).name,
        },
        pairs=few_in_quick(context, context.validation),
    )


def _stability(context: Context, main: HeadEvaluation) -> Stability | None:
    """Stability of the named heads by balanced accuracy, also on validation and on another seed's model."""
    halves, first = main.halves, main.calibrated.per_query
    samples = {VALIDATION: main.per_query}
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
        samples[second[0]] = second[1].per_query
    elsewhere = [Elsewhere(name, by_mean(of), len(of)) for name, of in samples.items()]
    named = main.calibrated.named.heads()
    return stability(by_mean(first), named, len(first), elsewhere=elsewhere, seed=context.seed)


def granularity(
    main: HeadEvaluation, heads: Sequence[Head], references: Mapping[str, Ends]
) -> dict[str, list[Estimate]]:
    """Mean word length, and agreement with each reference, of `heads` by their calibrated rules and of the
    references, on validation.

    Agreement is the share of decisions on which both cut or both do not.
    """
    labels = {name: main.halves.validation.labels(ends) for name, ends in references.items()}
    cuts = {str(head): main.predicted[head] for head in heads} | labels
    return {
        name: [
            main.measure("length", cut),
            *(main.measure("accuracy", cut, reference) for reference in labels.values()),
        ]
        for name, cut in cuts.items()
    }


def _table(context: Context, rows: Mapping[str, Sequence[Estimate]]) -> ResultTable:
    """The rows of `granularity` as a table."""
    texts = texts_of("boundary")
    label = {name: texts.label(f"words.{name}", name) for name in ("head", "length", *rows)}
    return ResultTable(
        name="granularity",
        columns={name: label[name] for name in ("head", "length", *GRANULARITIES)},
        rows=tuple(Row((label[name],), tuple(map(context.cell, of))) for name, of in rows.items()),
    )


def _figures(
    context: Context,
    main: HeadEvaluation,
    rows: Mapping[str, Sequence[Estimate]],
    unions: Mapping[Label, Sequence[Estimate]],
) -> Iterator[Figure]:
    """Heads on a map, answers as bars, the union by number of heads, and the lengths of `granularity`."""
    yield head_map("heads", main.balanced, marked=main.calibrated.named.heads(), low=0.5)
    metrics = {name: [main.measure(name, of) for of in main.answers.values()] for name in METRICS}
    yield estimate_bars(context, "answers", tuple(main.answers), metrics)
    shares = {
        name: estimate_points(context, range(1, len(of) + 1), of) for name, of in unions.items()
    }
    yield curve("union", shares, dashed=("union_null",))
    drawn = [*[name for name in rows if name not in GRANULARITIES][:MOST_DRAWN], *GRANULARITIES]
    lengths = {"length": [rows[name][0] for name in drawn]}
    yield estimate_bars(context, "granularity", drawn, lengths)
