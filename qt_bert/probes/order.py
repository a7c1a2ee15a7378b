"""Which heads follow word order, and does the grade depend on them? (`heads_of_query_title_bert`, 2.3)

The article ablates seven heads and does not say how they were chosen: a shuffled title, graded 2, is graded
3 without them, and still 2 without seven random heads. Here heads are scored on texts with shuffled
characters, so that words explain no neighbour. The *lift* is the attention to the character at one offset
over the mean attention to another visible character; the *identity index* is above 0 where a map follows its
characters, below 0 where it follows positions. Order heads are, of the named heads whose maps follow
positions, the seven with the largest lift. They are ablated on validation. S is the loss of expected grade
where a good title is shuffled, R the expected grade of good titles less that of poor ones.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch

from qt_bert.ablation import families
from qt_bert.ablation.engine import Reduction, View, batch_tokens, sweep
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import zeroed
from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, length_batches
from qt_bert.errors import CheckpointError
from qt_bert.figures import head_map
from qt_bert.heads import Head
from qt_bert.models.batches import Batch, to_batch
from qt_bert.models.card import ModelLabels
from qt_bert.probes.base import (
    Contest,
    Context,
    Result,
    estimate_bars,
    head_table,
    score_unit,
)
from qt_bert.probes.base_model import other_seed
from qt_bert.probes.contests import RESAMPLED, ablate, contest, grades_nothing
from qt_bert.probes.naming import (
    LEAST_WEIGHT,
    VALIDATION,
    Elsewhere,
    Named,
    Rule,
    by_mean,
    by_query,
    means,
    name_heads,
    one_sided_p,
    ranked,
    stability,
)
from qt_bert.probes.streams import characters_of, coverage, few_a_query
from qt_bert.progress import Progress, silent
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats import verdict
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, over_queries, query_key
from qt_bert.stats.judgements import index_queries
from qt_bert.text import Text

K = 7
"""Number of heads, as in the article."""
LEAST_LIFT = 2.0
"""The least lift of a named head."""
OFFSETS = (-3, -2, -1, 1, 2, 3)
LEAST_CHARACTERS = 3
"""The least number of visible characters of a row, itself included: with two there is no choice."""
LEAST_ALIGNED = 4
NO_VARIATION = 1e-6
"""A map that varies by less, relative to its largest weight, counts as constant."""
FREE_SETS = 20
"""Random sets of as many heads from all layers, ablated on the article's case."""
QUICK_SCORED = 80
QUICK_TITLES = 1
"""Good titles, and poor titles, of each query in a quick run."""
HIGH, LOW = 4, 1
LEAST_S, LEAST_OF_R = 0.3, 0.1
"""Of a grade, and of R: see `least_cost`."""
PARTS = GOOD, SHUFFLED, POOR = "good", "shuffled", "poor"

CASE_QUERY, CASE_TITLE, CASE_SHUFFLED = "京东小哥", "京东小哥最近在干嘛", "近东嘛最都在干哥小京"
"""The article's case with its own shuffled title."""
CASE = [
    Pair(CASE_QUERY, title, None, f"article-{name}", 0, None, {})
    for name, title in (("straight", CASE_TITLE), ("shuffled", CASE_SHUFFLED))
]


# Order in one pair's attention maps.


class Moved(NamedTuple):
    """A shuffled text, and the former position of each character."""

    text: str
    came_from: IntArray


def move_characters(text: str, rng: np.random.Generator) -> Moved | None:
    """The characters in another order; None for a text without another order."""
    if len(set(text)) < 2:
        return None
    while True:
        came_from = rng.permutation(len(text))
        drawn = "".join(text[at] for at in came_from)
        if drawn != text:
            return Moved(drawn, came_from)


def offset_sums(
    attention: FloatArray, texts: Sequence[Sequence[int]], visible: BoolArray
) -> FloatArray:
    """Sums over the rows i of the characters of `texts` [heads, offsets + 1, 2].

    `attention` [heads, L, L] under the mask `visible` [L, L]; a text is the tokens of its characters. At
    offset d, over rows that see i + d: the weight from i to i + d, and the mean weight from i to the
    other visible characters of its text. Last: the weight from i to all other characters, and the number
    of rows. Rows with too few visible characters do not count.
    """
    sums = np.zeros((len(attention), len(OFFSETS) + 1, 2))
    for tokens in texts:
        places = {token: place for place, token in enumerate(tokens)}
        block = attention[:, tokens][:, :, tokens]
        others = (block * (1 - np.eye(len(tokens), dtype=block.dtype))).sum(axis=2)
        characters = visible[np.ix_(tokens, tokens)].sum(axis=1)
        enough = characters >= LEAST_CHARACTERS
        for number, offset in enumerate(OFFSETS):
            rows = [
                place
                for token, place in places.items()
                if enough[place] and token + offset in places and visible[token, token + offset]
            ]
            columns = [places[tokens[row] + offset] for row in rows]
            sums[:, number, 0] += block[:, rows, columns].sum(axis=1)
            sums[:, number, 1] += (others[:, rows] / (characters[rows] - 1)).sum(axis=1)
        sums[:, -1, 0] += others[:, enough].sum(axis=1)
        sums[:, -1, 1] += enough.sum()
    return sums


class Aligned(NamedTuple):
    """A shuffled title's tokens, and the original's at that position and of that character."""

    after: IntArray
    same_place: IntArray
    same_character: IntArray


def align(
    before: EncodedPair,
    after: EncodedPair,
    characters_before: Mapping[int, int],
    characters_after: Mapping[int, int],
    came_from: IntArray,
) -> Aligned:
    """The title's tokens of one character in both pairs. `characters_…`: token → position of its
    character in the title, as in `came_from`."""
    tokens_before = {place: token for token, place in characters_before.items()}
    titles = [[t for t, side in enumerate(pair.side) if side == TITLE] for pair in (before, after)]
    aligned = [
        (token, same_place, tokens_before[came_from[characters_after[token]]])
        for same_place, token in zip(*titles, strict=False)
        if token in characters_after and came_from[characters_after[token]] in tokens_before
    ]
    return Aligned(*np.array(aligned, np.int64).reshape(-1, 3).T)


def identity_index(
    before: FloatArray, after: FloatArray, tokens: Aligned, visible: BoolArray
) -> FloatArray:
    """corr(A′, πA) − corr(A′, A) of every head [heads], off the diagonal.

    A′ is the shuffled title's map, A the original's, πA the original's permuted like the characters; over
    cells that are `visible` [L, L] in all three. NaN for too few cells, or a constant map.
    """
    cells = ~np.eye(len(tokens.after), dtype=bool)
    for order in tokens:
        cells &= visible[np.ix_(order, order)]
    if min(len(tokens.after), cells.sum()) < LEAST_ALIGNED:
        return np.full(len(before), np.nan)
    new, same_place, moved = (
        maps[:, order][:, :, order][:, cells]
        for maps, order in zip((after, before, before), tokens, strict=True)
    )
    return _correlation(new, moved) - _correlation(new, same_place)


def _correlation(one: FloatArray, other: FloatArray) -> FloatArray:
    """Pearson's correlation of each row [rows, n]; NaN where either is constant."""
    centred = []
    for values in (one, other):
        difference = values - values.mean(axis=1, keepdims=True)
        varies = np.abs(difference).max(axis=1) > NO_VARIATION * np.abs(values).max(axis=1)
        centred.append(difference * varies[:, None])
    norms = np.linalg.norm(centred[0], axis=1) * np.linalg.norm(centred[1], axis=1)
    return ratio((centred[0] * centred[1]).sum(axis=1), norms)


# Scores of every head over a sample, by query.


@dataclass(frozen=True, eq=False)
class OrderScores:
    """Scores of every head over a sample.

    `sums` [queries, layers, heads, offsets + 1, 2]: `offset_sums` over the pairs of each query;
    `identities` [queries, layers, heads]: the identity index, or NaN. `ineligible` counts pairs whose
    title has no other order; `coverage` is the share of Chinese characters that are tokens of their own.
    """

    sums: FloatArray
    identities: FloatArray
    pairs: int
    ineligible: int
    coverage: float

    @property
    def n_queries(self) -> int:
        """The number of queries."""
        return len(self.sums)

    @cached_property
    def lift(self) -> FloatArray:
        """The lift, a ratio of sums over all rows [layers, heads, offsets]; NaN without rows."""
        return self._lift(np.ones(self.n_queries))

    @cached_property
    def identity(self) -> FloatArray:
        """The mean identity index over queries [layers, heads]."""
        return means(self.identities)

    @cached_property
    def weight(self) -> FloatArray:
        """The attention of a character to the others of its text [layers, heads]."""
        total = self.sums[..., -1, :].sum(axis=0)
        return np.nan_to_num(ratio(total[..., 0], total[..., 1]))

    @cached_property
    def score(self) -> FloatArray:
        """The largest lift [layers, heads]; NaN without any."""
        return _largest(self.lift)

    @cached_property
    def offset(self) -> IntArray:
        """The index into `OFFSETS` of the largest lift [layers, heads]."""
        return np.where(np.isnan(self.lift), -np.inf, self.lift).argmax(axis=-1)

    def named(self) -> Named:
        """Heads whose lift is at least 2, and above 1 by a test over queries, heads and offsets."""
        p = one_sided_p(ratio(self.sums[..., :-1, 0], self.sums[..., :-1, 1]) - 1.0)
        return name_heads(self.score, p, self.weight, least=LEAST_LIFT, choice=self.offset)

    def best(self, k: int) -> list[Head]:
        """At most the k best heads whose maps follow positions."""
        score = _of_places(self.score, self.identity)
        return [head for head in ranked(score) if score[head] > 0][:k]

    @property
    def rule(self) -> Rule:
        """The rule of `best`, for any weights of the queries."""
        identity = by_mean(self.identities)
        return lambda weights: _of_places(_largest(self._lift(weights)), identity(weights))

    @property
    def named_rule(self) -> Rule:
        """The lift of heads with enough weight, whatever they follow."""
        heavy = self.weight >= LEAST_WEIGHT
        return lambda weights: np.where(heavy, _largest(self._lift(weights)), np.nan)

    def _lift(self, weights: FloatArray) -> FloatArray:
        """`lift` under `weights` of the queries [queries] or [R, queries]."""
        total = np.tensordot(weights, self.sums[..., :-1, :], 1)
        return ratio(total[..., 0], total[..., 1])


def _largest(lift: FloatArray) -> FloatArray:
    """The largest over the offsets; NaN without any."""
    return np.asarray(np.fmax.reduce(lift, axis=-1))


def _of_places(score: FloatArray, identity: FloatArray) -> FloatArray:
    """Scores of the heads with an identity index below 0 and a lift; else NaN."""
    return np.where((identity < 0) & (score > 0), score, np.nan)


class ShuffledPair(NamedTuple):
    """A pair with its shuffled texts; None for a query without another order."""

    pair: Pair
    title: Moved
    query: Moved | None

    @property
    def texts(self) -> list[tuple[str, str]]:
        """The original and the shuffled pair of texts."""
        query = self.query.text if self.query else self.pair.query
        return [(self.pair.query, self.pair.title), (query, self.title.text)]


def order_scores(
    scorer: Scorer, pairs: Sequence[Pair], *, seed: int, shown: Progress = silent
) -> OrderScores:
    """Score the heads on every pair and its shuffled form; `shown` counts texts."""
    rng = np.random.default_rng(seed)
    drawn = [(p, move_characters(p.title, rng), move_characters(p.query, rng)) for p in pairs]
    shuffled = [ShuffledPair(pair, title, query) for pair, title, query in drawn if title]
    texts = [text for pair in shuffled for text in pair.texts]
    encoded = scorer.fresh().tokenizer.encode(texts) if texts else []
    numbers = _numbers(scorer, shuffled, encoded, shown)
    sums, identity = np.split(numbers, [-1], axis=-1)
    sums, identity = sums.reshape(*numbers.shape[:3], len(OFFSETS) + 1, 2), identity[..., 0]
    queries = [pair.pair.query for pair in shuffled]
    index, n_queries = index_queries(queries)
    by_queries = np.zeros((n_queries, *sums.shape[1:]))
    np.add.at(by_queries, index, sums)
    covered = sum(
        len(characters_of(original, *texts[2 * number], side))
        for number, original in enumerate(encoded[::2])
        for side in (QUERY, TITLE)
    )
    return OrderScores(
        sums=by_queries,
        identities=by_query(identity, queries),
        pairs=len(shuffled),
        ineligible=len(pairs) - len(shuffled),
        coverage=coverage([text for both in texts[::2] for text in both], covered),
    )


def _numbers(
    scorer: Scorer, shuffled: Sequence[ShuffledPair], encoded: list[EncodedPair], shown: Progress
) -> FloatArray:
    """`offset_sums` and the identity index of every pair [pairs, layers, heads, numbers].

    NaN for pruned heads.
    """
    layers = tuple(range(scorer.checkpoint.layers))
    width = 2 * (len(OFFSETS) + 1) + 1
    by_pair = np.full((len(shuffled), len(layers), scorer.checkpoint.heads, width), np.nan)
    tokens = [
        _tokens(pair, *encoded[2 * number : 2 * number + 2]) for number, pair in enumerate(shuffled)
    ]

    def compute(view: View) -> torch.Tensor:
        """[B, heads, numbers], in the row of the shuffled pair; the original's row before it is 0."""
        maps = view.values.float().cpu().numpy()
        visible = scorer.encoder.visible(view.layer, view.batch.length).cpu().numpy()
        numbers = np.zeros((len(maps), maps.shape[1], width), np.float32)
        for row in range(0, len(maps), 2):
            before, after = maps[row], maps[row + 1]
            texts, title = tokens[view.batch.rows[row] // 2]
            numbers[row + 1, :, :-1] = offset_sums(after, texts, visible).reshape(len(after), -1)
            numbers[row + 1, :, -1] = identity_index(before, after, title, visible)
        return torch.from_numpy(numbers)

    reduction = Reduction("order", "attention", layers, compute)
    batches = _together(encoded, scorer.pad)
    for swept in sweep(scorer.encoder, batches, [NONE], [reduction], shown=shown):
        by_pair[swept.rows[::2] // 2] = swept.reduced["order"][0, 1::2]
    scorer.checkpoint.shape.blank(by_pair)
    return by_pair


def _together(encoded: list[EncodedPair], pad: int) -> Iterator[Batch]:
    """Batches in which each original pair is followed by its shuffled form."""
    lengths = [max(map(len, encoded[at : at + 2])) for at in range(0, len(encoded), 2)]
    if not lengths:
        return
    for numbers in length_batches(lengths, batch_tokens() // 2):
        rows = np.stack([2 * numbers, 2 * numbers + 1], axis=1).ravel()
        yield to_batch(rows, [encoded[row] for row in rows], pad=pad)


def _tokens(
    pair: ShuffledPair, before: EncodedPair, after: EncodedPair
) -> tuple[list[list[int]], Aligned]:
    """The tokens of a pair's characters in each shuffled text, and the title's tokens aligned."""

    def places(encoded: EncodedPair, texts: tuple[str, str], side: int) -> dict[int, int]:
        """Token → position of its character, of any script."""
        return {c.token: c.place for c in characters_of(encoded, *texts, side, han=False)}

    original, shuffled = pair.texts
    title = places(after, shuffled, TITLE)
    texts = [list(title), *([list(places(after, shuffled, QUERY))] if pair.query else [])]
    original_title = places(before, original, TITLE)
    return texts, align(before, after, original_title, title, pair.title.came_from)


# Sensitivity to order: S and R.


def good_and_poor(
    pairs: Sequence[Pair], labels: ModelLabels
) -> tuple[tuple[GradeSet, ...], tuple[GradeSet, ...]]:
    """The labels of `pairs` that allow only grades 4 or 5, and those that allow only grade 1.

    Without the latter the lowest label is the poor one. For levels that are not grades: the model's
    highest and lowest.
    """
    sets = sorted(
        {pair.grades for pair in pairs if pair.grades}, key=lambda grades: (np.mean(grades), grades)
    )
    if labels.levels:
        highest, lowest = (tuple(s for s in sets if s == (n,)) for n in (labels.logits, 1))
        return highest, lowest
    good = tuple(grades for grades in sets if min(grades) >= HIGH)
    poor = tuple(grades for grades in sets if max(grades) <= LOW)
    return good, poor or tuple(grades for grades in sets[:1] if grades not in good)


@dataclass(frozen=True, eq=False)
class GoodAndPoor:
    """Good titles, the same shuffled, and poor titles, of the queries that have all three.

    `pairs` have no labels; `part` [pairs] is GOOD, SHUFFLED or POOR.
    """

    pairs: list[Pair]
    part: list[str]

    @classmethod
    def of(cls, pairs: Sequence[Pair], labels: ModelLabels, *, most: int, seed: int) -> GoodAndPoor:
        """At most `most` good and `most` poor titles of each query; each good one shuffled once."""
        good_labels, poor_labels = good_and_poor(pairs, labels)
        movable = [p for p in pairs if p.grades in good_labels and len(set(p.title)) > 1]
        good = few_a_query(movable, most)
        poor = few_a_query([pair for pair in pairs if pair.grades in poor_labels], most)
        both = {query_key(pair.query) for pair in good} & {query_key(pair.query) for pair in poor}
        rng = np.random.default_rng(seed)
        rows: list[tuple[Pair, str, str]] = []
        for pair in good:
            if query_key(pair.query) in both and (moved := move_characters(pair.title, rng)):
                rows += [(pair, pair.title, GOOD), (pair, moved.text, SHUFFLED)]
        rows += [(pair, pair.title, POOR) for pair in poor if query_key(pair.query) in both]
        return cls(
            [replace(pair, title=title, grades=None, label=None) for pair, title, _ in rows],
            [part for _, _, part in rows],
        )

    @cached_property
    def queries(self) -> list[str]:
        """The query of each pair."""
        return [pair.query for pair in self.pairs]

    def mean(self, grades: FloatArray, part: str) -> Estimate:
        """The mean over queries of `grades` [pairs] in one part."""
        return over_queries(np.where(np.array(self.part) == part, grades, np.nan), self.queries)

    def cost(self, grades: FloatArray) -> Estimate:
        """S: the grade of good titles less that of their shuffled forms."""
        return self.mean(grades, GOOD) - self.mean(grades, SHUFFLED)

    def reach(self, grades: FloatArray) -> Estimate:
        """R: the grade of good titles less that of poor ones."""
        return self.mean(grades, GOOD) - self.mean(grades, POOR)


# Training on shuffled titles, by the model card.


CARD = "README.md"
RULE = re.compile(r"^\| `shuffled_\w+` \|", re.MULTILINE)
"""A card's table row of a rule that makes shuffled titles (`experiments/make_pairs`)."""

Trained = Literal["yes", "unknown"]


def trained_on_shuffled(folder: Path) -> Trained:
    """`yes` where a table of the model card counts pairs of shuffled titles, else `unknown`.

    Raises CheckpointError for a card that cannot be read.
    """
    card = folder / CARD
    try:
        text = card.read_text(encoding="utf-8", errors="replace") if card.is_file() else ""
    except OSError as error:
        raise CheckpointError(f"{card}: cannot be read ({error})") from error
    return "yes" if RULE.search(text) else "unknown"


# The probe.


def measure(context: Context) -> Result:
    """Score heads on both halves; ablate the order heads on validation, beside free and matched sets."""
    discovery, validation = (
        scores_of_half(context.model, context, half) for half in ("discovery", "validation")
    )
    second = other_seed(context, lambda other: scores_of_half(other, context, "discovery"))
    others = [(VALIDATION, validation), *([second] if second else [])]
    tested = discovery.named()
    best, named = discovery.best(K), tested.heads()
    sets = {"order": best, "order_named": named}
    passed = {*named} & {*validation.named().heads()}
    by_places = [head for head in named if discovery.identity[head] < 0]
    heads = by_places[:K]
    checkpoint = context.model.checkpoint
    labels, trained = checkpoint.settings.labels, trained_on_shuffled(checkpoint.folder)
    most = context.choose(QUICK_TITLES, len(context.validation))
    texts = GoodAndPoor.of(context.validation, labels, most=most, seed=context.seed)
    scores = head_map("scores", validation.score, marked=map(str, named), digits=1)
    result = Result(
        heads=head_table(checkpoint.shape, _columns(discovery, validation, tested)),
        sets=sets,
        selected="order",
        shown={head: head in passed for head in (*best, *named)},
        stability=_stability(context, sets, discovery, others),
        figures=[scores],
        facts={
            "heads": ", ".join(map(str, heads)),
            "number": len(heads),
            "named": len(named),
            "named_by_places": len(by_places),
            "all_heads": len(checkpoint.shape.all_heads),
            "trained": f"trained_{trained}",
            "grade_unit": score_unit(labels),
        },
        settings={
            "k": K,
            "scored": {"discovery": _sample(discovery), "validation": _sample(validation)},
            "texts": {part: texts.part.count(part) for part in PARTS},
            "free_sets": FREE_SETS,
            "trained_on_shuffled_titles": trained,
        },
    )
    if not texts.pairs:
        return replace(result, nothing="no_ends", claims={"needed": "no_ends"})

    # S and R, clean and with the order heads ablated; the article's case also with random heads.
    pairs = [*texts.pairs, *CASE]
    if heads:
        run = ablate(context, "order_heads", [Variant("order", (zeroed(heads),), "target")], pairs)
        values = {name: run.scores(name) for name in ("none", "order")}
    else:
        logits = context.model.logits([(pair.query, pair.title) for pair in pairs])
        values = {"none": ranking_scores(logits, labels)}
    grades = {name: every[: -len(CASE)] for name, every in values.items()}
    case = {name: every[-len(CASE) :] for name, every in values.items()}
    cost, reach = texts.cost(grades["none"]), texts.reach(grades["none"])
    notices = context.sign(cost) > 0
    measurements: dict[str, Estimate | float | None] = {
        "order_sensitivity": cost,
        "order_reach": reach,
    }
    facts = {
        **result.facts,
        "queries": reach.n_queries,
        "case_clean": float(case["none"][0]),
        "case_shuffled": float(case["none"][1]),
    }
    if heads:
        drawn = families.random_sets(checkpoint.shape, zeroed, len(heads), FREE_SETS, context.seed)
        free = ablate(context, "case", drawn, CASE)
        random = float(np.mean([free.scores(variant.name)[1] for variant in drawn]))
        facts |= {"case_ablated": float(case["order"][1]), "case_free": random}
        measurements |= {
            "order_shuffled_grade": texts.mean(grades["order"], SHUFFLED)
            - texts.mean(grades["none"], SHUFFLED),
            "order_sensitivity_change": texts.cost(grades["order"]) - cost,
            "order_reach_change": texts.reach(grades["order"]) - reach,
            "order_case": float(case["order"][1]) - random,
        }
    needed = _needed(context, texts, heads, {*best, *named}, cost, reach, measurements)
    if heads and notices:
        measurements["order_share_lost"] = (cost - texts.cost(grades["order"])) / cost
        measurements["order_share_matched"] = (
            needed.mean_set / cost if isinstance(needed, Contest) else None
        )
    series = {name: [texts.mean(values, part) for part in PARTS] for name, values in grades.items()}
    return replace(
        result,
        claims={"needed": needed},
        nothing="no_heads" if not heads else None if notices else "no_cost",
        measurements=measurements,
        figures=[scores, estimate_bars(context, "grades", PARTS, series)],
        facts=facts,
        pairs=texts.pairs,
    )


def least_cost(labels: ModelLabels, reach: Estimate) -> Estimate | float:
    """What S must lie above for the claim to be judged.

    LEAST_S of a grade, the same share of another scale of levels, or for one logit LEAST_OF_R of R.
    """
    if labels.logits == 1:
        return LEAST_OF_R * reach
    return LEAST_S * labels.grade_step


def _needed(
    context: Context,
    texts: GoodAndPoor,
    heads: list[Head],
    named: set[Head],
    cost: Estimate,
    reach: Estimate,
    beside: dict[str, Estimate | float | None],
) -> Contest | str:
    """The contest on the share of S that goes, or why there is none; fills `beside`."""
    labels = context.model.checkpoint.settings.labels
    if not heads:
        return "no_heads"
    if cost.n_queries < verdict.CLAIM_QUERIES:
        return f"few_queries:{cost.n_queries}"
    if context.sign(cost - least_cost(labels, reach)) <= 0:
        return "precondition:cost"
    if grades_nothing(context):
        return "grades_nothing"
    places = [place for place, part in enumerate(texts.part) if part != POOR]
    moved = GoodAndPoor([texts.pairs[p] for p in places], [texts.part[p] for p in places])
    judged, run = contest(
        context,
        "needed",
        heads,
        named=named,
        pairs=moved.pairs,
        statistic=lambda run, name: cost - moved.cost(run.scores(name)),
        claim="order.needed",
        whole=cost,
    )
    beside["order_resampled"] = (cost - moved.cost(run.scores(f"needed:{RESAMPLED}"))) / cost
    return judged or "few_sets"


def scores_of_half(
    scorer: Scorer, context: Context, half: Literal["discovery", "validation"]
) -> OrderScores:
    """The scores of a model's heads on a half; in a quick run on a sample of its pairs."""
    pairs: list[Pair] = getattr(context, half)
    pairs = spread_over_queries(pairs, context.choose(QUICK_SCORED, len(pairs)), context.seed)
    with context.progress(2 * len(pairs), "texts") as shown:
        return order_scores(scorer, pairs, seed=context.seed, shown=shown)


def _columns(
    discovery: OrderScores, validation: OrderScores, tested: Named
) -> dict[str, FloatArray]:
    """Scores on validation; p and q on discovery."""
    offsets = np.array(OFFSETS, np.float64)[validation.offset]
    return {
        "score": validation.score,
        "offset": np.where(np.isfinite(validation.score), offsets, np.nan),
        "identity": validation.identity,
        "weight": validation.weight,
        "discovery_score": discovery.score,
        "discovery_identity": discovery.identity,
        "p": tested.p,
        "q": tested.q,
    }


def _sample(scores: OrderScores) -> dict[str, float]:
    return {
        "pairs": scores.pairs,
        "queries": scores.n_queries,
        "ineligible": scores.ineligible,
        "coverage": round(scores.coverage, 4),
    }


def _stability(
    context: Context,
    sets: Mapping[str, Sequence[Head]],
    discovery: OrderScores,
    others: Sequence[tuple[Text, OrderScores]],
) -> dict[str, Stability | None]:
    """The stability of both sets by their rules, also on `others`: data or a model, by name."""
    rules: dict[str, Callable[[OrderScores], Rule]] = {
        "order": lambda scores: scores.rule,
        "order_named": lambda scores: scores.named_rule,
    }
    return {
        name: stability(
            rule(discovery),
            sets[name],
            discovery.n_queries,
            elsewhere=[Elsewhere(other, rule(of), of.n_queries) for other, of in others],
            seed=context.seed,
        )
        for name, rule in rules.items()
    }
