"""Do heads look along links between words? (Kovaleva et al. 2019, 4.2; `dark_secrets_of_bert`)

A link joins two words by an arc of a treebank, or two spans of query and title with one meaning. What a
head gives a link is the largest attention between its spans, either way; its *excess* is that less what
unlinked spans of the same text, distance and lengths get. The best head of each relation is chosen on
discovery and measured on validation. The heads are those of the model before fine-tuning where it is
there, as in the source; the model asked about then loses the named ones, one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.treebank import ROOT
from qt_bert.figures import Figure, head_map
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Context, Result, mean_of
from qt_bert.probes.base_model import open_base, scorer_like
from qt_bert.probes.contests import ablate, few_a_query
from qt_bert.probes.naming import (
    VALIDATION,
    Elsewhere,
    Rule,
    name_heads,
    one_sided_p,
    stability,
)
from qt_bert.probes.relations_links import (
    ALIGNED,
    LEAST_LINKS,
    Links,
    Read,
    SpanAttention,
    aligned_links,
    enough,
    read_sentences,
    sentence_links,
    sentences_of,
    span_attention,
)
from qt_bert.probes.shared import estimate_bars, head_table
from qt_bert.results.probe import Stability
from qt_bert.stats.arrays import FloatArray, IntArray, ratio, sum_by
from qt_bert.stats.estimate import Estimate, pooled

QUICK_SENTENCES, FULL_SENTENCES = 140, 1500
QUICK_PAIRS = 80
QUICK_UNLINKED, FULL_UNLINKED = 3, 10
"""At most so many unlinked pairs stay for each linked one of their stratum."""
QUICK_ABLATED = 200
"""Pairs of a quick run for heads left out, which nothing is claimed of."""
LEAST_RATIO = 1.5
"""A head is named where linked spans get at least so many times what unlinked ones get."""
PERCENT = 100.0


# Every head on every relation.


@dataclass(frozen=True, eq=False)
class Excess:
    """One relation over all heads.

    `linked` and `unlinked` [heads]: mean largest attention of linked spans, and of their unlinked
    ones; `upward` [heads]: how much more goes from the first span (the dependent, or the query's) to
    the second than back; `sums` [units, heads] and `counts` [units]: excess and links of each unit.
    """

    linked: FloatArray
    unlinked: FloatArray
    upward: FloatArray
    sums: FloatArray
    counts: FloatArray

    @property
    def value(self) -> FloatArray:
        """The mean excess [heads]."""
        return self.linked - self.unlinked

    @property
    def times(self) -> FloatArray:
        """Linked over unlinked [heads]."""
        return ratio(self.linked, self.unlinked)

    @property
    def best(self) -> int:
        """The column of the largest excess."""
        return int(np.argmax(self.value))

    @property
    def p(self) -> FloatArray:
        """p of an excess above 0, by a t-test over the units that have links [heads]."""
        return one_sided_p(self.sums[self.counts > 0])


def excess_of(links: Links, seen: SpanAttention, relation: str) -> Excess:
    """What every head gives the links of one relation, less the mean unlinked pair of each stratum."""
    places = links.of(relation)
    values = seen.either[places].astype(np.float64)
    linked = links.linked[places]
    stratum = np.unique(links.stratum[places], return_inverse=True)[1]
    strata = int(stratum.max(initial=-1)) + 1
    ones = np.ones(len(places))
    share = ratio(
        sum_by(stratum[linked], ones[linked], strata),
        sum_by(stratum[~linked], ones[~linked], strata),
    )[stratum]
    number = max(1, int(linked.sum()))
    sums = np.zeros((links.units, values.shape[1]))
    # Strata lie within units, so that each unit's weights add up to its own links' excess.
    np.add.at(sums, links.unit[places], values * np.where(linked, 1.0, -share)[:, None])
    mine = places[linked]
    return Excess(
        linked=np.where(linked, 1.0, 0.0) @ values / number,
        unlinked=np.where(linked, 0.0, share) @ values / number,
        upward=(seen.up[mine] - seen.down[mine]).sum(axis=0) / number,
        sums=sums,
        counts=np.bincount(links.unit[mine], minlength=links.units).astype(np.float64),
    )


def named_heads(
    found: Mapping[str, Excess], on_text: FloatArray, heads: Sequence[Head]
) -> tuple[dict[str, Head], dict[str, FloatArray]]:
    """Relation → its best head, where that is named; and q of every head by relation.

    q is over all heads and relations together.
    """
    if not found:
        return {}, {}
    p = np.stack([one.p for one in found.values()], axis=-1)[None]
    named, q = {}, {}
    for place, (relation, one) in enumerate(found.items()):
        choice = np.full((1, len(heads)), place)
        tested = name_heads(one.times[None], p, on_text[None], least=LEAST_RATIO, choice=choice)
        q[relation] = tested.q[0]
        if tested.named[0, one.best]:
            named[relation] = heads[one.best]
    return named, q


def best_heads(found: Mapping[str, Excess], relations: Sequence[str], shape: Shape) -> Rule:
    """The best head of each relation, scored by for how many it is the best; no other is scored.

    Sentences, which relations of words share, and queries of aligned spans stand one after the other.
    """
    heads, parts = shape.all_heads, _units(found, relations)

    def score(weights: FloatArray) -> FloatArray:
        scores = np.full((len(weights), *shape.size), np.nan)
        start = 0
        for units, some in parts:
            mine = weights[:, start : start + units]
            start += units
            for one in some:
                excess = ratio(mine @ one.sums, (mine @ one.counts)[:, None])
                for row, column in enumerate(np.nan_to_num(excess, nan=-np.inf).argmax(axis=1)):
                    at = (row, *heads[column])
                    scores[at] = np.nansum([1.0, scores[at]])
        return scores

    return score


def _units(found: Mapping[str, Excess], relations: Sequence[str]) -> list[tuple[int, list[Excess]]]:
    """Units of relations of words, and of aligned spans, with their excesses."""
    words = [found[relation] for relation in relations if relation != ALIGNED]
    spans = [found[relation] for relation in relations if relation == ALIGNED]
    return [(len(some[0].counts), some) for some in (words, spans) if some]


def stable(
    named: Mapping[str, Head],
    discovery: Mapping[str, Excess],
    validation: Mapping[str, Excess],
    shape: Shape,
    seed: int,
) -> Stability | None:
    """Whether the best heads of the named relations are the best again."""
    again = [relation for relation in named if relation in validation]
    return stability(
        best_heads(discovery, list(named), shape),
        set(named.values()),
        sum(units for units, _ in _units(discovery, list(named))),
        pool=shape.all_heads,
        elsewhere=[
            Elsewhere(
                VALIDATION,
                best_heads(validation, again, shape),
                sum(units for units, _ in _units(validation, again)),
            )
        ],
        seed=seed,
    )


# The arcs that the best heads draw (Clark et al. 2019, "What Does BERT Look At?"). A head points from a
# word to the other word that it gives most, or that gives it most. For the tree every word hangs on the
# word that any relation's head points to most, word by word, so that it need not be a tree.


WORDS, HEADS, RIGHT = "words", "heads", "right"
ARCS, BEST, OFFSET = "arcs", "best", "offset"
NOWHERE = -2


@dataclass(frozen=True)
class Pointer:
    """A head that points from words to their heads (`upward`), or from these to their dependents.

    `usual` is what it gives linked words, by which its weights are divided; `offset` is where the
    head of a dependent of this relation stands most often, counted in words without punctuation.
    """

    head: Head
    upward: bool
    usual: float
    offset: int


def pointers_of(
    found: Mapping[str, Excess], heads: Sequence[Head], read: Read
) -> dict[str, Pointer]:
    """The best head of each relation of words, which way it looks, and the usual offset in `read`."""
    offsets: dict[str, Counter[int]] = {}
    for number in range(len(read)):
        truth, labels = _truth(read, number)
        for place, (head, relation) in enumerate(zip(truth, labels, strict=True)):
            if head >= 0:
                offsets.setdefault(relation, Counter())[head - place] += 1
    return {
        relation: Pointer(
            head=heads[one.best],
            upward=bool(one.upward[one.best] >= 0),
            usual=float(one.linked[one.best]),
            offset=offsets[relation].most_common(1)[0][0],
        )
        for relation, one in found.items()
        if relation != ALIGNED and one.linked[one.best] > 0
    }


def _truth(read: Read, number: int) -> tuple[list[int], list[str]]:
    """Of a sentence's words that are looked at the head of each among them, and its relation.

    A head is ROOT for the root, and NOWHERE where it is none of them.
    """
    words = read.sentences[number].words
    kept = [place for place, tokens in enumerate(read.words[number]) if tokens is not None]
    at = {place: place_kept for place_kept, place in enumerate(kept)} | {ROOT: ROOT}
    truth = [at.get(words[place].head, NOWHERE) for place in kept]
    return truth, [words[place].relation or "" for place in kept]


def word_pairs(read: Read) -> tuple[IntArray, IntArray, IntArray]:
    """All pairs of words of all sentences, as spans for `span_attention`."""
    listed = [
        (pair, *first, *second)
        for (pair, _), words in zip(read.where, read.words, strict=True)
        for first, second in combinations([word for word in words if word is not None], 2)
    ]
    found = np.array(listed, np.int64).reshape(-1, 5)
    return found[:, 0], found[:, 1:3], found[:, 3:5]


def attached(
    read: Read, seen: SpanAttention, pointers: Mapping[str, Pointer]
) -> dict[str, FloatArray]:
    """Attach every word of `read`; `seen` are its `word_pairs` in the pointers' heads.

    By sentence [sentences]: WORDS but roots, and those attached rightly by the best heads (HEADS) and
    by the chain RIGHT; ARCS of the relations, and those whose head word is told by the
    relation's own head (BEST) and by its usual OFFSET.
    """
    found = {name: np.zeros(len(read)) for name in (WORDS, HEADS, RIGHT, ARCS, BEST, OFFSET)}
    columns = {head: column for column, head in enumerate(seen.heads)}
    start = 0
    for number in range(len(read)):
        truth, labels = _truth(read, number)
        n = len(truth)
        left, right = np.triu_indices(n, 1)
        mine = slice(start, start := start + len(left))
        most = np.zeros((n, n))
        for relation, one in pointers.items():
            looking = np.zeros((n, n))
            looking[left, right] = seen.up[mine, columns[one.head]]
            looking[right, left] = seen.down[mine, columns[one.head]]
            points = (looking if one.upward else looking.T) / one.usual
            most = np.maximum(most, points)
            told = attach(points)
            for place in (place for place, label in enumerate(labels) if label == relation):
                found[ARCS][number] += 1
                found[BEST][number] += told[place] == truth[place]
                found[OFFSET][number] += 0 <= truth[place] == place + one.offset
        told = attach(most)
        for place, head in enumerate(truth):
            if head != ROOT:
                found[WORDS][number] += 1
                found[HEADS][number] += told[place] == head
                found[RIGHT][number] += place - 1 == head
    return found


def attach(points: FloatArray) -> IntArray:
    """Each word's head [n]: the other word with the most points, of `points` [word, its head]."""
    others = points.astype(np.float64).copy()
    np.fill_diagonal(others, -np.inf)
    return np.asarray(others.argmax(axis=1))


# The probe.


def measure(context: Context) -> Result:
    """Choose the best head of each relation on discovery, look at validation, leave out the named."""
    scorer, seed = context.model, context.seed
    if context.request.base is not None:
        scorer = scorer_like(context, open_base(context.request.base, context.model.checkpoint))
    shape = scorer.checkpoint.shape
    heads = shape.all_heads
    most = context.choose(QUICK_UNLINKED, FULL_UNLINKED)
    limit = context.choose(QUICK_PAIRS, None)
    read: list[Read] = []
    asked: tuple[str, ...] = ()
    if context.request.treebank:
        sentences = context.choose(QUICK_SENTENCES, FULL_SENTENCES)
        banks = sentences_of(context.request.treebank)
        read = [read_sentences(scorer.tokenizer, half, sentences, seed) for half in banks]
        asked = enough(read)
    links: list[list[Links]] = [[], []]
    for half, pairs in enumerate((context.discovery, context.validation)):
        if asked:
            links[half].append(sentence_links(read[half], asked, most=most, seed=seed))
        links[half].append(
            aligned_links(
                scorer.tokenizer, pairs, context.segmenter, most=most, seed=seed, limit=limit
            )
        )
    facts = {
        "looked_at": "base" if context.request.base is not None else "model",
        "treebank": "asked" if asked else "few_links" if read else "no_treebank",
        "least_links": LEAST_LINKS,
    }
    passes = sum(len(one.pairs) for half in links for one in half)
    with context.progress(passes, "texts") as shown:
        seen = [
            [
                span_attention(
                    scorer, one.pairs, (one.pair, one.first, one.second), heads, shown=shown
                )
                for one in half
            ]
            for half in links
        ]
    discovery, validation = (
        {
            relation: excess_of(one, attention, relation)
            for one, attention in zip(*both, strict=True)
            for relation in one.relations
            if one.counts[relation]
        }
        for both in zip(links, seen, strict=True)
    )
    relations = [relation for relation in discovery if relation in validation]
    if not relations:
        return Result(
            nothing="no_links", sets={"relations": [], "relations_words": []}, facts=facts
        )
    sizes = [len(one) for one in links[0]]
    on_text = np.average([one.on_text for one in seen[0]], axis=0, weights=sizes)
    named, q = named_heads(discovery, on_text, heads)
    drawn = None
    if asked:
        pointers = pointers_of(discovery, heads, read[0])
        pointing = list(dict.fromkeys(one.head for one in pointers.values()))
        pointed = span_attention(scorer, read[1].pairs, word_pairs(read[1]), pointing)
        drawn = attached(read[1], pointed, pointers)
    listed = list(dict.fromkeys(named.values()))
    losses = _losses(context, listed)
    columns = {"weight_on_text": shape.spread(on_text)}
    for relation in relations:
        first, second = discovery[relation], validation[relation]
        columns |= {
            f"discovery_{relation}": shape.spread(first.value),
            relation: shape.spread(second.value),
            f"times_{relation}": shape.spread(second.times),
            f"p_{relation}": shape.spread(first.p),
            f"q_{relation}": shape.spread(q[relation]),
        }
    if losses:
        values = [losses[head].value if head in losses else np.nan for head in heads]
        columns["loss"] = shape.spread(values)
    costliest = max(losses, key=lambda head: losses[head].value) if losses else None
    best = {relation: discovery[relation].best for relation in relations}
    return Result(
        measurements=_measurements(best, validation, drawn, list(losses.values())),
        heads=head_table(shape, columns),
        sets={
            "relations": listed,
            "relations_words": list(dict.fromkeys(h for r, h in named.items() if r != ALIGNED)),
        },
        selected="relations",
        stability={"relations": stable(named, discovery, validation, shape, seed)},
        figures=tuple(_figures(context, shape, listed, best, validation)),
        facts={
            **facts,
            "relations": len(relations),
            "named": len(named),
            "heads": ", ".join(map(str, listed)) or "none",
            "best": ", ".join(f"{relation} {heads[at]}" for relation, at in best.items()),
            "aligned_head": str(heads[best[ALIGNED]]) if ALIGNED in best else "none",
            "links": ", ".join(f"{r} {int(validation[r].counts.sum())}" for r in relations),
            "costliest": "none" if costliest is None else str(costliest),
            "most_lost": None if costliest is None else losses[costliest].value,
        },
        settings={"treebanks": [path.name for path in context.request.treebank]},
    )


def _losses(context: Context, heads: Sequence[Head]) -> dict[Head, Estimate]:
    """Points of the label's probability that the model loses without each head, by itself.

    The head's attention is made uniform, as in the source (4.5). Heads that were pruned cost nothing.
    """
    there = set(context.model.checkpoint.shape.all_heads)
    variants = {
        head: Variant(str(head), (HeadMask((head,), "uniform"),), "single")
        for head in heads
        if head in there
    }
    if not variants:
        return {}
    pairs = few_a_query(context.validation)
    if not context.full:
        pairs = spread_over_queries(pairs, QUICK_ABLATED, context.seed)
    run = ablate(context, "linked_heads", list(variants.values()), pairs)
    return {head: run.loss(one.name) for head, one in variants.items()}


def _measurements(
    best: Mapping[str, int],
    validation: Mapping[str, Excess],
    drawn: Mapping[str, FloatArray] | None,
    losses: Sequence[Estimate],
) -> dict[str, Estimate | float | None]:
    """All on validation, each relation in its head of discovery; None for what was not asked about."""
    words = [relation for relation in best if relation != ALIGNED]
    found: dict[str, Estimate | float | None] = {"relations_aligned": None, "aligned_linked": None}
    if ALIGNED in best:
        found["relations_aligned"] = _excess(validation, best, [ALIGNED])
        found["aligned_linked"] = PERCENT * float(validation[ALIGNED].linked[best[ALIGNED]])
    if words:
        found["relations_words"] = _excess(validation, best, words)
    if drawn is not None:
        found |= {
            "relations_arcs_best_head": _share(drawn, BEST, ARCS),
            "relations_arcs_offset": _share(drawn, OFFSET, ARCS),
            "relations_tree": _share(drawn, HEADS),
            "relations_tree_right": _share(drawn, HEADS) - _share(drawn, RIGHT),
        }
    found["relations_left_out"] = None
    if losses:
        found["relations_left_out"] = mean_of(losses)
    return found


def _excess(
    found: Mapping[str, Excess], best: Mapping[str, int], relations: Sequence[str]
) -> Estimate:
    """Excess over all links of some relations, each in its own head, in points of attention."""
    sums = np.sum([found[relation].sums[:, best[relation]] for relation in relations], axis=0)
    counts = np.sum([found[relation].counts for relation in relations], axis=0)
    return PERCENT * pooled(sums, counts, range(len(counts)))


def _share(drawn: Mapping[str, FloatArray], right: str, of: str = WORDS) -> Estimate:
    """Words, or arcs, attached rightly, in percent."""
    return PERCENT * pooled(drawn[right], drawn[of], range(len(drawn[of])))


def _figures(
    context: Context,
    shape: Shape,
    named: Sequence[Head],
    best: Mapping[str, int],
    validation: Mapping[str, Excess],
) -> Iterator[Figure]:
    """The best head of every relation; every head's largest excess."""
    excess = [_excess(validation, best, [relation]) for relation in best]
    yield estimate_bars(context, "relations_best", list(best), {"validation": excess}, digits=1)
    largest = np.max([validation[relation].value for relation in best], axis=0)
    yield head_map(
        "relations_heads",
        shape.spread(PERCENT * largest),
        marked=map(str, named),
        scale="diverging",
        digits=1,
    )
