"""Do words and pairs of a class cluster, layer by layer? (`what_bert_and_transformer_learn`, part 2)

Words by part of speech and by their text, [CLS] by grade: the mean silhouette of each class (P. J.
Rousseeuw, J. Comput. Appl. Math. 20, 1987) in all dimensions; pictures show principal components.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.spatial.distance import pdist, squareform
from sklearn.decomposition import PCA

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Tagger, jieba_tagger
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.figures import Mark, Point, Scatter, curve
from qt_bert.models.card import ModelLabels
from qt_bert.probes.base import Context, Result
from qt_bert.probes.contests import label_name
from qt_bert.probes.layers_reading import Positions, read_vectors
from qt_bert.probes.streams import is_punctuation, tokens_within
from qt_bert.stats.arrays import FloatArray, IntArray
from qt_bert.stats.estimate import Estimate, over_queries
from qt_bert.text import Label

QUICK_PAIRS = {"discovery": 50, "validation": 80}
FULL_PAIRS = {"discovery": 200, "validation": 300}
QUICK_DRAWS, FULL_DRAWS = 49, 199
WORDS_A_PAIR = 3
LEAST_ITEMS = 3
"""The least number of items of a class."""
DRAWS_AT_ONCE = 50
LABELLINGS = ("speech", "side", "grade")
DRAWN = ("grade", "speech")
"""Labellings with a picture."""
PARTS_OF_SPEECH = {
    "n": "noun",
    "v": "verb",
    "a": "adjective",
    "d": "adverb",
    "r": "pronoun",
    "m": "number",
}
"""By the first letter of jieba's tag; other words are left out."""
SIDES = {QUERY: "query", TITLE: "title"}


@dataclass(frozen=True)
class Item:
    """A word or a [CLS]: its tokens [start, end) in a pair, its text, its class by labelling."""

    pair: int
    span: tuple[int, int]
    text: str
    classes: Mapping[str, str]


def items_of(
    pairs: Sequence[Pair],
    tokenizer: PairTokenizer,
    tag: Tagger,
    labels: ModelLabels,
    seed: int,
    *,
    of_all: bool = False,
) -> list[Item]:
    """Every pair's [CLS] and up to WORDS_A_PAIR of its words, each form once over all pairs.

    [CLS] is the token that the classifier reads or, `of_all`, the mean of all tokens. Words are drawn
    by `seed` from those whose tokens are complete and shared with no other word. Labels have the names of
    `contests.label_name`.
    """
    rng, used = np.random.default_rng(seed), set[str]()
    items: list[Item] = []
    encoded = tokenizer.encode([(pair.query, pair.title) for pair in pairs])
    for number, (pair, tokens) in enumerate(zip(pairs, encoded, strict=True)):
        grade = {"grade": label_name(pair.grades, labels)} if pair.grades else {}
        span = (0, len(tokens)) if of_all else (tokens.cls, tokens.cls + 1)
        items.append(Item(number, span, pair.query, grade))
        words = list(_words(number, pair, tokens, tag))
        # Of a form's occurrences the one drawn first, in the place of the one drawn last.
        drawn = {words[place].text: words[place] for place in rng.permutation(len(words))[::-1]}
        fresh = [word for word in [*drawn.values()][::-1] if word.text not in used][:WORDS_A_PAIR]
        used.update(word.text for word in fresh)
        items += fresh
    return items


def _words(number: int, pair: Pair, encoded: EncodedPair, tag: Tagger) -> Iterator[Item]:
    """The words of a pair in PARTS_OF_SPEECH that are whole and share no token with a neighbour."""
    for side, text in ((QUERY, pair.query), (TITLE, pair.title)):
        for (start, end), of in tag(text):
            tokens = tokens_within(encoded, side, (start, end))
            speech = PARTS_OF_SPEECH.get(of[:1])
            if speech is None or not tokens:
                continue
            whole = (encoded.spans[tokens[0]][0], encoded.spans[tokens[-1]][1]) == (start, end)
            if whole and not any(map(is_punctuation, text[start:end])):
                classes = {"speech": speech, "side": SIDES[side]}
                yield Item(number, (tokens[0], tokens[-1] + 1), text[start:end], classes)


def labelled(name: str, items: Sequence[Item]) -> tuple[IntArray, IntArray, list[str]] | None:
    """Rows of the items with a class by `name`, the numbers of their classes, and the classes.

    Classes of too few items are left out; None with fewer than two classes.
    """
    sizes = Counter(item.classes[name] for item in items if name in item.classes)
    order = {"speech": list(PARTS_OF_SPEECH.values()), "side": list(SIDES.values())}
    classes = [c for c in order.get(name, sorted(sizes)) if sizes[c] >= LEAST_ITEMS]
    if len(classes) < 2:
        return None
    rows = np.array([row for row, item in enumerate(items) if item.classes.get(name) in classes])
    return rows, np.array([classes.index(items[row].classes[name]) for row in rows]), classes


def above_chance(
    values: FloatArray, labels: IntArray, queries: Sequence[str], *, draws: int, seed: int
) -> tuple[Estimate, Estimate]:
    """The mean silhouette of `labels` [n] on `values` [n, width], and that less permuted labels'."""
    distances = squareform(pdist(values))
    rng = np.random.default_rng(seed)
    permuted = np.stack([rng.permutation(labels) for _ in range(draws)])
    chunks = np.array_split(permuted, -(-draws // DRAWS_AT_ONCE))
    chance = np.concatenate([silhouettes(distances, chunk) for chunk in chunks]).mean(axis=0)
    scores = silhouettes(distances, labels[None])[0]
    return over_queries(scores, queries), over_queries(scores - chance, queries)


def silhouettes(distances: FloatArray, labels: IntArray) -> FloatArray:
    """Each item's (b − a) / max(a, b): `distances` [n, n] and `labels` [D, n] → [D, n].

    a is its mean distance to the others of its class, b that to the nearest other class; 0 for the only
    item of a class, and where all distances are 0.
    """
    draws, n = labels.shape
    of = labels[..., None] == np.arange(labels.max() + 1)  # [D, n, classes]
    sums = (distances @ of.transpose(1, 0, 2).reshape(n, -1)).reshape(n, draws, -1)
    sums = sums.transpose(1, 0, 2)
    sizes = np.broadcast_to(of.sum(axis=1, keepdims=True), sums.shape)
    means = np.divide(sums, sizes, out=np.full(sums.shape, np.inf), where=sizes > 0)
    own_size = np.take_along_axis(sizes, labels[..., None], -1)[..., 0]
    own_sum = np.take_along_axis(sums, labels[..., None], -1)[..., 0]
    a = own_sum / np.maximum(own_size - 1, 1)
    b = np.where(of, np.inf, means).min(axis=-1)
    larger = np.maximum(a, b)
    alone = (own_size < 2) | (larger == 0)
    return np.asarray(np.where(alone, 0.0, (b - a) / np.where(larger > 0, larger, 1.0)))


def measure(context: Context) -> Result:
    """Silhouettes of every layer; the best layer on discovery, measured on validation."""
    discovery, _ = _scores("discovery", context.discovery, context)
    validation, (items, states, pairs) = _scores("validation", context.validation, context)
    best = {
        name: int(np.argmax([beyond.value for _, beyond in discovery[name]]))
        for name in validation
        if name in discovery
    }
    if not best:
        return Result(nothing="few", pairs=pairs)
    facts: dict[str, float | None] = {"words": len(items) - len(pairs), "pairs": len(pairs)}
    facts |= {f"{name}_{axis}": None for name in DRAWN for axis in "rxy"}
    drawn = []
    for name in DRAWN:
        picture = _picture(name, items, states[best[name]]) if name in best else None
        if picture is not None:
            figure, shares = picture
            drawn.append(figure)
            facts |= {f"{name}_r": best[name], f"{name}_x": shares[0], f"{name}_y": shares[1]}
    lines: dict[Label, list[Point]] = {}
    for name, scores in validation.items():
        lines[name] = [_point(number, score, context) for number, (score, _) in enumerate(scores)]
    permuted = [f"{name}_permuted" for name in validation]
    for name, scores in zip(permuted, validation.values(), strict=True):
        lines[name] = [
            Point(x=number, y=score.value - beyond.value)
            for number, (score, beyond) in enumerate(scores)
        ]
    return Result(
        measurements={
            f"together_{name}": validation[name][best[name]][1] if name in best else None
            for name in LABELLINGS
        },
        figures=[curve("silhouettes", lines, dashed=permuted), *drawn],
        facts={**facts, **{f"r_{name}": best.get(name) for name in LABELLINGS}},
        settings={"best_r": best, "permutations": context.choose(QUICK_DRAWS, FULL_DRAWS)},
        pairs=pairs,
    )


Scores = Mapping[str, Sequence[tuple[Estimate, Estimate]]]
"""By labelling and r: the mean silhouette, and that less permuted labels'."""


def _scores(
    half: str, every: Sequence[Pair], context: Context
) -> tuple[Scores, tuple[list[Item], FloatArray, list[Pair]]]:
    """The scores of a half, with its items, their vectors [r, n, width] and its pairs."""
    pairs = spread_over_queries(every, context.choose(QUICK_PAIRS, FULL_PAIRS)[half], context.seed)
    model, tag = context.model, jieba_tagger(context.request.userdict)
    of_all, named = model.checkpoint.reads == "mean", model.settings.labels
    items = items_of(pairs, model.tokenizer, tag, named, context.seed, of_all=of_all)
    positions = Positions(
        "text",
        tuple((pair.query, pair.title) for pair in pairs),
        np.array([item.pair for item in items], np.int64),
        np.array([[item.span] for item in items], np.int64).reshape(-1, 1, 2),
    )
    with context.progress(len(pairs), "pairs") as shown, torch.inference_mode():
        batches = [vectors for (vectors,) in read_vectors(context.model, [positions], shown=shown)]
    order = np.argsort(np.concatenate([vectors.rows for vectors in batches]))
    states = np.concatenate([vectors.values.numpy() for vectors in batches], axis=1)[:, order]
    states = states.astype(np.float64)
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    scores = {}
    for name in LABELLINGS:
        if (labelling := labelled(name, items)) is not None:
            rows, labels, _ = labelling
            queries = [pairs[items[row].pair].query for row in rows]
            scores[name] = [
                above_chance(layer[rows], labels, queries, draws=draws, seed=context.seed)
                for layer in states
            ]
    return scores, (items, states, pairs)


def _point(number: int, score: Estimate, context: Context) -> Point:
    low, high = score.interval(context.resamples, context.seed) or (None, None)
    return Point(x=number, y=score.value, low=low, high=high, n=score.n_queries)


def _picture(
    name: str, items: Sequence[Item], layer: FloatArray
) -> tuple[Scatter, FloatArray] | None:
    """Items at their first two principal components, and these' shares; None for equal ones."""
    labelling = labelled(name, items)
    if labelling is None or not np.ptp(layer[labelling[0]], axis=0).any():
        return None
    rows, labels, classes = labelling
    fitted = PCA(2, svd_solver="full").fit(layer[rows])
    at = fitted.transform(layer[rows])
    away = np.argsort(-np.linalg.norm(at, axis=1), kind="stable")
    named = {
        int(place)
        for number in range(len(classes))
        for place in away[labels[away] == number][:2]
        if name == "speech"
    }
    marks = [
        Mark(
            x=round(float(at[place, 0]), 3),
            y=round(float(at[place, 1]), 3),
            series=classes[labels[place]],
            label=items[rows[place]].text if place in named else None,
        )
        for place in np.argsort(labels, kind="stable").tolist()
    ]
    return Scatter(name=f"pca_{name}", points=tuple(marks)), fitted.explained_variance_ratio_
