"""What do the matching heads compute? (Lu, Chen and Eickhoff 2025: a soft term frequency times idf)

The soft count of a head is Σ over the query's terms of idf × the attention between the term's tokens
and all tokens of the title: weights as they are, in the direction in which `matching` scored the head.
Least squares on discovery, one feature a head, is set against the model's own grade on other pairs:
Pearson's r, beside BM25 and other heads of the same layers, all fitted alike.
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
from qt_bert.probes.base import Context, Result
from qt_bert.probes.contests import random_sets, zeroed
from qt_bert.probes.matching_cells import DIRECTIONS
from qt_bert.probes.matching_scores import along
from qt_bert.probes.naming import function_heads
from qt_bert.probes.shared import estimate_bars, head_table
from qt_bert.probes.streams import stream, tokens_within
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, jackknife

QUICK_PAIRS, QUICK_HELD_OUT = 240, 120
"""Pairs of a quick run: of either half, and of each held-out file."""
QUICK_TEXTS = 2000
"""Discovery pairs whose texts are counted in a quick run."""
ROUNDING = 1e-12
"""A sum of squares that is a smaller share of another is rounding alone."""

# Terms, their weights, and what scorers that see no attention make of them.

K1, B = 1.2, 0.75
"""BM25's usual settings: how soon a term's count saturates, how much a title's length counts."""


class Term(NamedTuple):
    """A word, its case folded, and where it stands in its text."""

    word: str
    span: Span


def terms_of(text: str, segmenter: Segmenter) -> list[Term]:
    """The words of a text that hold a letter, a Chinese character or a digit, in their order.

    Function words are terms too: their idf makes them light.
    """
    return [
        Term(text[start:end].casefold(), (start, end))
        for start, end in segmenter.spans(text)
        if any(map(str.isalnum, text[start:end]))
    ]


def idf_of(context: Context, wanted: Collection[str]) -> dict[str, float]:
    """idf of the `wanted` terms, from discovery's distinct texts.

    As of BM25 without negative weights, ln(1 + (N − n + ½)/(n + ½)) (Robertson and Zaragoza 2009,
    3.4).
    """
    limit = context.choose(QUICK_TEXTS, len(context.discovery))
    pairs = spread_over_queries(context.discovery, limit, context.seed)
    texts = dict.fromkeys(text for pair in pairs for text in (pair.query, pair.title))
    frequency = Counter(
        word
        for text in texts
        for word in {term.word for term in terms_of(text, context.segmenter)}
        if word in wanted
    )
    return {
        word: math.log1p((len(texts) - frequency[word] + 0.5) / (frequency[word] + 0.5))
        for word in wanted
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


# Soft counts: how much attention passes between the query's terms and the title, by head.

Weighed = Sequence[tuple[Span, float]]
"""Where the terms of a query stand, and what each weighs."""


class SoftCounts:
    """The reduction [B, heads, 2]: title to query, query to title, as in `DIRECTIONS`.

    `queries` holds the weighed terms of each pair, by row of the stream.
    """

    def __init__(self, queries: Sequence[Weighed]) -> None:
        self._queries = queries
        self._batch: Batch | None = None

    def __call__(self, view: View) -> torch.Tensor:
        if self._batch is not view.batch:
            self._batch = view.batch
            device = view.values.device
            self._weights, self._titles = (one.to(device) for one in self._of(view.batch))
        maps = view.values.float()
        given = (maps @ self._titles[:, None, :, None])[..., 0]  # by each token to the title
        got = (self._titles[:, None, None, :] @ maps)[..., 0, :]  # by each token from the title
        return torch.stack([(one * self._weights[:, None]).sum(-1) for one in (got, given)], dim=-1)

    def _of(self, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        """The idf of each token's terms, and 1 at the title's tokens, both [B, L]."""
        weights, titles = (torch.zeros(batch.input_ids.shape) for _ in range(2))
        for place, (row, encoded) in enumerate(zip(batch.rows, batch.encoded, strict=True)):
            own = token_weights(encoded, self._queries[row])
            weights[place, : len(encoded)] = torch.from_numpy(own)
            titles[place, : len(encoded)] = torch.tensor(encoded.side) == TITLE
        return weights, titles


def token_weights(encoded: EncodedPair, query: Weighed) -> FloatArray:
    """Σ of the weights of the terms that each token has a character of [tokens]; 0 outside the query."""
    found = np.zeros(len(encoded))
    for span, weight in query:
        found[tokens_within(encoded, QUERY, span)] += weight
    return found


def soft_counts(
    scorer: Scorer,
    texts: Sequence[tuple[str, str]],
    queries: Sequence[Weighed],
    *,
    shown: Progress = silent,
) -> tuple[FloatArray, np.ndarray]:
    """Soft counts of every head [pairs, layers, heads, 2], and the logits [pairs, labels].

    One pass; `shown` counts pairs.
    """
    layers = tuple(range(len(scorer.encoder.layers)))
    reduction = Reduction("soft", "attention", layers, SoftCounts(queries))
    found = stream(scorer, texts, [reduction], shown=shown)
    return found["soft"][0].astype(np.float64), found["logits"][0]


def directions_of(found: ProbeResult, shape: Shape) -> IntArray:
    """Numbers of DIRECTIONS [layers, heads], of what `matching` found.

    A head's `score` is its ratio in the direction that was the better one on discovery, so the
    direction whose own ratio it equals is meant. A head without a score is read in the first.
    """
    chosen = np.zeros(shape.size, np.int64)
    for one in found.heads:
        score = one.scores.get("score")
        equal = [score is not None and one.scores.get(name) == score for name in DIRECTIONS]
        chosen[Head.parse(one.head)] = equal.index(True) if any(equal) else 0
    return chosen


# Fits, and how they agree with the model.


def predictions(features: FloatArray, target: FloatArray, others: FloatArray) -> FloatArray:
    """What least squares with an intercept, fitted on `features` [n, k], says of `others` [m, k]: [m].

    Features that depend on each other share their coefficients (the least ones).
    """

    def with_ones(some: FloatArray) -> FloatArray:
        return np.column_stack([np.ones(len(some)), some])

    solved = np.linalg.lstsq(with_ones(features), target, rcond=None)[0]
    return np.asarray(with_ones(others) @ solved)


def pearson(values: FloatArray, target: FloatArray, squares: npt.ArrayLike) -> FloatArray:
    """Pearson's r of `values` [..., n] with `target` [n]: [...]; NaN where either does not vary.

    Values vary where their sum of squares about the mean is more than rounding beside `squares`.
    """
    x, y = values - values.mean(-1, keepdims=True), target - target.mean()
    varies = (x**2).sum(-1)
    varies = np.where(varies > ROUNDING * np.asarray(squares), varies, 0)
    return np.clip(ratio(x @ y, np.sqrt(varies * (y @ y))), -1, 1)


def agreement(predicted: FloatArray, target: FloatArray, queries: Sequence[str]) -> Estimate:
    """The mean r of some predictions [fits, n] with `target` [n].

    A prediction that does not vary has r = 0, for it tells nothing; NaN where the target does not vary.
    """

    def mean_r(rows: IntArray) -> float:
        own = target[rows]
        if own.size < 2 or not np.ptp(own):
            return math.nan
        squares = ((own - own.mean()) ** 2).sum()
        return float(np.nan_to_num(pearson(predicted[:, rows], own, squares)).mean())

    return jackknife(mean_r, queries, correlation=True)


# The probe.


@dataclass(frozen=True, eq=False)
class Measured:
    """Some pairs: the model's `grade` [n], and what is fitted to it.

    `soft` [n, layers, heads] are the soft counts of each head in its own direction, `bm25` [n].
    """

    pairs: list[Pair]
    grade: FloatArray
    soft: FloatArray
    bm25: FloatArray

    def of_heads(self, heads: Sequence[Head]) -> FloatArray:
        """The features of some heads [n, k]."""
        return np.stack([self.soft[:, head.layer, head.head] for head in heads], axis=1)


def measure(context: Context) -> Result:
    """One pass over both halves and the held-out files; fits on discovery, agreement on the others."""
    shape = context.model.checkpoint.shape
    asked = function_heads(context)
    directions = directions_of(context.found("matching"), shape)
    discovery, *others = _measured(context, directions)
    validation = others[0]

    heads = () if asked is None else asked.heads
    named = [Head.parse(one) for one in context.found("matching").sets.get("named", ())]
    sets: list[Sequence[Head]] = []
    if heads:
        drawn, _ = random_sets(
            heads, shape, named=named, ablated=zeroed, name="surrogate", seed=context.seed
        )
        sets = [one.heads for one in drawn]
    fits = [_fits(discovery, one, heads, sets) for one in others]
    own = fits[0]
    status = "not_named"
    if asked is not None and asked.named:
        status = "unstable" if asked.unstable else asked.source
    soft = np.moveaxis(validation.soft, 0, -1)
    of_each = pearson(soft, validation.grade, (soft**2).sum(-1))
    r = shape.spread([of_each[head] for head in shape.all_heads])
    shown = [name for name in ("matching", "matched", "bm25") if name in own]
    names = ["validation", *(name for name, _ in context.held_out)]
    compared = estimate_bars(
        context,
        "surrogate_r",
        shown,
        {name: [one[label] for label in shown] for name, one in zip(names, fits, strict=True)},
    )
    by_head = head_map("surrogate_heads", r, marked=map(str, heads), scale="diverging")
    return Result(
        measurements={
            "surrogate_r": own.get("matching"),
            "surrogate_matched": own.get("matched"),
            "surrogate_bm25": own["bm25"],
            "surrogate_beyond_bm25": own["matching"] - own["bm25"] if heads else None,
            "surrogate_beyond_heads": own["matching"] - own["matched"] if sets else None,
        },
        heads=head_table(shape, {"r": r}),
        figures=(compared, by_head),
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
            "asked": None if asked is None else asked.describe(),
            "directions": {str(head): DIRECTIONS[int(directions[head])] for head in heads},
        },
        pairs=validation.pairs,
        nothing=None if heads else "no_heads",
    )


def _measured(context: Context, directions: IntArray) -> list[Measured]:
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
    cut = {
        text: terms_of(text, context.segmenter)
        for text in {text for pair in every for text in (pair.query, pair.title)}
    }
    idf = idf_of(context, {term.word for pair in every for term in cut[pair.query]})
    mean_length = float(np.mean([len(cut[pair.title]) for pair in samples[0]]))
    found = []
    for pairs in samples:
        texts = [(pair.query, pair.title) for pair in pairs]
        weighed = [[(term.span, idf[term.word]) for term in cut[query]] for query, _ in texts]
        with context.progress(len(pairs), "pairs") as shown:
            counts, logits = soft_counts(scorer, texts, weighed, shown=shown)
        lexical = [bm25(cut[query], cut[title], idf, mean_length) for query, title in texts]
        grade = ranking_scores(logits, scorer.checkpoint.settings.labels)
        soft = np.stack([along(directions, one) for one in counts])
        found.append(Measured(pairs, grade, soft, np.array(lexical)))
    return found


def _fits(
    known: Measured, new: Measured, heads: Sequence[Head], sets: Iterable[Sequence[Head]]
) -> dict[str, Estimate]:
    """r of what was fitted on `known`, on `new`: `matching` and `matched` where there are heads."""
    features = {
        "bm25": [(known.bm25[:, None], new.bm25[:, None])],
        "matching": [(known.of_heads(heads), new.of_heads(heads))] if heads else [],
        "matched": [(known.of_heads(one), new.of_heads(one)) for one in sets],
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
