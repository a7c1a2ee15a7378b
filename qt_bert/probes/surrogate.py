"""What do the matching heads compute? (Lu, Chen and Eickhoff 2025: a soft term frequency times idf)

A head's soft count is Σ over the query's terms of idf × the attention between the term's tokens and all tokens
of the title, in the direction in which `matching` scored the head. Least squares on discovery, one feature a
head, predicts the model's grade; Pearson's r on other pairs is compared with BM25 and with other heads of the
same layers, fitted likewise.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair
from qt_bert.figures import head_map
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import Batch
from qt_bert.probes.base import Context, Result, estimate_bars, head_table
from qt_bert.probes.contests import random_sets, zeroed
from qt_bert.probes.matching_cells import DIRECTIONS
from qt_bert.probes.matching_scores import along
from qt_bert.probes.naming import function_heads
from qt_bert.probes.streams import stream, tokens_within
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, jackknife

QUICK_PAIRS, QUICK_HELD_OUT = 240, 120
"""Pairs of a quick run: of each half, and of each held-out file."""
QUICK_TEXTS = 2000
"""Discovery pairs for document frequencies in a quick run."""
ROUNDING = 1e-12
"""A sum of squares that is a smaller share of another is rounding."""

# Terms, idf and BM25.

K1, B = 1.2, 0.75
"""BM25's usual saturation of counts, and weight of the title's length."""


class Term(NamedTuple):
    """A case-folded word and its span in the text."""

    word: str
    span: Span


def terms_of(text: str, segmenter: Segmenter) -> list[Term]:
    """The words of a text with a letter, a Chinese character or a digit; function words included."""
    return [
        Term(text[start:end].casefold(), (start, end))
        for start, end in segmenter.spans(text)
        if any(map(str.isalnum, text[start:end]))
    ]


def idf_of(context: Context, words: Collection[str]) -> dict[str, float]:
    """idf of `words` over discovery's distinct texts.

    BM25's without negative weights, ln(1 + (N − n + ½)/(n + ½)) (Robertson and Zaragoza 2009, 3.4).
    """
    limit = context.choose(QUICK_TEXTS, len(context.discovery))
    pairs = spread_over_queries(context.discovery, limit, context.seed)
    texts = dict.fromkeys(text for pair in pairs for text in (pair.query, pair.title))
    frequency = Counter(
        word
        for text in texts
        for word in {term.word for term in terms_of(text, context.segmenter)}
        if word in words
    )
    return {
        word: math.log1p((len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
        for word in words
    }


def bm25(
    query: Sequence[Term], title: Sequence[Term], idf: Mapping[str, float], mean_length: float
) -> float:
    """Σ over the query's terms of idf · tf (k1 + 1) / (tf + k1 (1 − b + b · length / mean length)).

    A term that the query repeats counts each time; `mean_length` is that of titles, in terms.
    """
    counts = Counter(term.word for term in title)
    length = len(title) / mean_length if mean_length else 1.0
    damping = K1 * (1 - B + B * length)
    return sum(
        idf[term.word] * counts[term.word] * (K1 + 1) / (counts[term.word] + damping)
        for term in query
        if counts[term.word]
    )


# Soft counts: attention between the query's terms and the title, by head.

WeightedTerms = Sequence[tuple[Span, float]]
"""The spans of a query's terms with their weights."""


class SoftCounts:
    """The reduction [B, heads, 2]: title to query, query to title, as in `DIRECTIONS`.

    `queries` holds the weighed terms of each pair, by row of the stream.
    """

    def __init__(self, queries: Sequence[WeightedTerms]) -> None:
        self._queries = queries
        self._batch: Batch | None = None

    def __call__(self, view: View) -> torch.Tensor:
        if self._batch is not view.batch:
            self._batch = view.batch
            device = view.values.device
            self._weights, self._titles = (mask.to(device) for mask in self._of(view.batch))
        maps = view.values.float()
        to_title = (maps @ self._titles[:, None, :, None])[..., 0]
        from_title = (self._titles[:, None, None, :] @ maps)[..., 0, :]
        both = (from_title, to_title)
        return torch.stack([(each * self._weights[:, None]).sum(-1) for each in both], dim=-1)

    def _of(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """The idf of each token's terms, and 1 at the title's tokens, both [B, L]."""
        weights, titles = (torch.zeros(batch.input_ids.shape) for _ in range(2))
        for place, (row, encoded) in enumerate(zip(batch.rows, batch.encoded, strict=True)):
            idf = token_weights(encoded, self._queries[row])
            weights[place, : len(encoded)] = torch.from_numpy(idf)
            titles[place, : len(encoded)] = torch.tensor(encoded.side) == TITLE
        return weights, titles


def token_weights(encoded: EncodedPair, query: WeightedTerms) -> FloatArray:
    """Σ of the weights of each token's terms [tokens]; 0 outside the query."""
    weights = np.zeros(len(encoded))
    for span, weight in query:
        weights[tokens_within(encoded, QUERY, span)] += weight
    return weights


def soft_counts(
    scorer: Scorer,
    texts: Sequence[tuple[str, str]],
    queries: Sequence[WeightedTerms],
    *,
    shown: Progress = silent,
) -> tuple[FloatArray, np.ndarray]:
    """Soft counts of every head [pairs, layers, heads, 2], and the logits [pairs, labels]."""
    layers = tuple(range(len(scorer.encoder.layers)))
    reduction = Reduction("soft", "attention", layers, SoftCounts(queries))
    outputs = stream(scorer, texts, [reduction], shown=shown)
    return outputs["soft"][0].astype(np.float64), outputs["logits"][0]


def directions_of(matching: ProbeResult, shape: Shape) -> IntArray:
    """Each head's index into DIRECTIONS [layers, heads], from the result of `matching`.

    It is the direction whose ratio equals the head's `score`; the first for a head without a score.
    """
    chosen = np.zeros(shape.size, np.int64)
    for head in matching.heads:
        score = head.scores.get("score")
        equal = [score is not None and head.scores.get(name) == score for name in DIRECTIONS]
        chosen[Head.parse(head.head)] = equal.index(True) if any(equal) else 0
    return chosen


# Fits, and their correlation with the model.


def predictions(features: FloatArray, target: FloatArray, others: FloatArray) -> FloatArray:
    """Predictions for `others` [m, k] of least squares with an intercept on `features` [n, k]: [m].

    Dependent features get the minimum-norm solution.
    """

    def with_ones(matrix: FloatArray) -> FloatArray:
        return np.column_stack([np.ones(len(matrix)), matrix])

    coefficients = np.linalg.lstsq(with_ones(features), target, rcond=None)[0]
    return np.asarray(with_ones(others) @ coefficients)


def pearson(values: FloatArray, target: FloatArray, squares: npt.ArrayLike) -> FloatArray:
    """Pearson's r of `values` [..., n] with `target` [n]: [...]; NaN where either is constant.

    Values are constant where their sum of squares about the mean is rounding relative to `squares`.
    """
    x, y = values - values.mean(-1, keepdims=True), target - target.mean()
    varies = (x**2).sum(-1)
    varies = np.where(varies > ROUNDING * np.asarray(squares), varies, 0)
    return np.clip(ratio(x @ y, np.sqrt(varies * (y @ y))), -1, 1)


def agreement(predicted: FloatArray, target: FloatArray, queries: Sequence[str]) -> Estimate:
    """The mean r of predictions [fits, n] with `target` [n].

    A constant prediction has r = 0; NaN for a constant target.
    """

    def mean_r(rows: IntArray) -> float:
        values = target[rows]
        if values.size < 2 or not np.ptp(values):
            return math.nan
        squares = ((values - values.mean()) ** 2).sum()
        return float(np.nan_to_num(pearson(predicted[:, rows], values, squares)).mean())

    return jackknife(mean_r, queries, correlation=True)


# The probe.


@dataclass(frozen=True, eq=False)
class ScoredPairs:
    """Pairs with the model's `grade` [n] and the features: soft counts `soft` [n, layers, heads] in each
    head's direction, `bm25` [n]."""

    pairs: list[Pair]
    grade: FloatArray
    soft: FloatArray
    bm25: FloatArray

    def of_heads(self, heads: Sequence[Head]) -> FloatArray:
        """The features of `heads` [n, k]."""
        return np.stack([self.soft[:, head.layer, head.head] for head in heads], axis=1)


def measure(context: Context) -> Result:
    """Fit on discovery; measure the correlation on validation and the held-out files."""
    shape = context.model.checkpoint.shape
    matching = function_heads(context)
    directions = directions_of(context.result_of("matching"), shape)
    discovery, *others = _scored_pairs(context, directions)
    validation = others[0]

    heads = () if matching is None else matching.heads
    named = [Head.parse(name) for name in context.result_of("matching").sets.get("named", ())]
    sets: list[Sequence[Head]] = []
    if heads:
        drawn, _ = random_sets(
            heads, shape, named=named, ablated=zeroed, name="surrogate", seed=context.seed
        )
        sets = [variant.heads for variant in drawn]
    fits = [_fits(discovery, other, heads, sets) for other in others]
    r = fits[0]
    status = "not_named"
    if matching is not None and matching.named:
        status = "unstable" if matching.unstable else matching.source
    soft = np.moveaxis(validation.soft, 0, -1)
    of_each = pearson(soft, validation.grade, (soft**2).sum(-1))
    by_head = shape.spread([of_each[head] for head in shape.all_heads])
    labels = [name for name in ("matching", "matched", "bm25") if name in r]
    names = ["validation", *(name for name, _ in context.held_out)]
    compared = estimate_bars(
        context,
        "surrogate_r",
        labels,
        {name: [fit[label] for label in labels] for name, fit in zip(names, fits, strict=True)},
    )
    of_heads = head_map("surrogate_heads", by_head, marked=map(str, heads), scale="diverging")
    return Result(
        measurements={
            "surrogate_r": r.get("matching"),
            "surrogate_matched": r.get("matched"),
            "surrogate_bm25": r["bm25"],
            "surrogate_beyond_bm25": r["matching"] - r["bm25"] if heads else None,
            "surrogate_beyond_heads": r["matching"] - r["matched"] if sets else None,
        },
        heads=head_table(shape, {"r": by_head}),
        figures=(compared, of_heads),
        facts={
            "set_size": len(heads),
            "heads": ", ".join(map(str, heads)),
            "status": status,
            "target": "score" if context.model.checkpoint.settings.labels.logits == 1 else "grade",
            "pairs": len(validation.pairs),
            "fitted_on": len(discovery.pairs),
            "sets": len(sets),
        },
        settings={
            "asked": None if matching is None else matching.describe(),
            "directions": {str(head): DIRECTIONS[int(directions[head])] for head in heads},
        },
        pairs=validation.pairs,
        nothing=None if heads else "no_heads",
    )


def _scored_pairs(context: Context, directions: IntArray) -> list[ScoredPairs]:
    """Discovery, validation, and each held-out file."""
    scorer = context.model
    limits = [
        (context.discovery, QUICK_PAIRS),
        (context.validation, QUICK_PAIRS),
        *((pairs, QUICK_HELD_OUT) for _, pairs in context.held_out),
    ]
    samples = [
        spread_over_queries(pairs, context.choose(limit, len(pairs)), context.seed)
        for pairs, limit in limits
    ]
    every = [pair for pairs in samples for pair in pairs]
    terms = {
        text: terms_of(text, context.segmenter)
        for text in {text for pair in every for text in (pair.query, pair.title)}
    }
    idf = idf_of(context, {term.word for pair in every for term in terms[pair.query]})
    mean_length = float(np.mean([len(terms[pair.title]) for pair in samples[0]]))
    scored = []
    for pairs in samples:
        texts = [(pair.query, pair.title) for pair in pairs]
        weighted = [[(term.span, idf[term.word]) for term in terms[query]] for query, _ in texts]
        with context.progress(len(pairs), "pairs") as shown:
            counts, logits = soft_counts(scorer, texts, weighted, shown=shown)
        lexical = [bm25(terms[query], terms[title], idf, mean_length) for query, title in texts]
        grade = ranking_scores(logits, scorer.checkpoint.settings.labels)
        soft = np.stack([along(directions, of_pair) for of_pair in counts])
        scored.append(ScoredPairs(pairs, grade, soft, np.array(lexical)))
    return scored


def _fits(
    known: ScoredPairs, new: ScoredPairs, heads: Sequence[Head], sets: Iterable[Sequence[Head]]
) -> dict[str, Estimate]:
    """r on `new` of the fits on `known`: `matching` and `matched` only with heads."""
    features = {
        "bm25": [(known.bm25[:, None], new.bm25[:, None])],
        "matching": [(known.of_heads(heads), new.of_heads(heads))] if heads else [],
        "matched": [(known.of_heads(random), new.of_heads(random)) for random in sets],
    }
    return {
        name: agreement(
            np.stack([predictions(fitted, known.grade, other) for fitted, other in each]),
            new.grade,
            [pair.query for pair in new.pairs],
        )
        for name, each in features.items()
        if each
    }
