"""Do heads attend along links between words? (Kovaleva et al. 2019, 4.2; `dark_secrets_of_bert`)

A link joins two words by an arc of a treebank, or two synonymous spans of query and title. A head's attention
to a link is the largest between its spans, in either direction; its *excess* is that less the attention to
unlinked spans of the same text, distance and lengths. The best head of each relation is chosen on discovery
and measured on validation. As in the source the heads are those of the model before fine-tuning (`--base`);
the named ones are then ablated in the model, one at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.data.treebank import ROOT
from qt_bert.figures import Figure, head_map
from qt_bert.heads import Head, Shape
from qt_bert.probes.base import Context, Result, estimate_bars, head_table
from qt_bert.probes.base_model import open_base, scorer_like
from qt_bert.probes.contests import ablate
from qt_bert.probes.naming import VALIDATION, Elsewhere, Rule, name_heads, one_sided_p, stability
from qt_bert.probes.relations_links import (
    ALIGNED,
    Links,
    SpanAttention,
    TokenisedSentences,
    aligned_links,
    frequent_relations,
    read_sentences,
    sentence_links,
    sentences_of,
    span_attention,
)
from qt_bert.probes.streams import few_a_query, for_model
from qt_bert.results.probe import Stability
from qt_bert.stats.arrays import FloatArray, IntArray, count_cells, ratio
from qt_bert.stats.estimate import Estimate, mean_of, pooled

QUICK_SENTENCES, FULL_SENTENCES = 140, 1500
QUICK_PAIRS = 80
QUICK_UNLINKED, FULL_UNLINKED = 3, 10
"""The most unlinked pairs for each linked one of their stratum."""
QUICK_ABLATED = 200
"""Pairs of a quick run for the ablation, on which no claim rests."""
LEAST_RATIO = 1.5
"""The least ratio of attention to linked and to unlinked spans of a named head."""
PERCENT = 100.0


# Every head on every relation.


@dataclass(frozen=True, eq=False)
class Excess:
    """One relation over all heads.

    `linked`, `unlinked` [heads]: mean largest attention between linked spans, and between their unlinked
    controls; `upward` [heads]: attention from the first span (the dependent, or the query's) to the
    second, less the reverse; `sums` [units, heads], `counts` [units]: excess and links of each unit.
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


def excess_of(links: Links, attention: SpanAttention, relation: str) -> Excess:
    """Every head's attention to the links of one relation, less the mean unlinked pair of each stratum."""
    places = links.of(relation)
    values = attention.either[places].astype(np.float64)
    linked = links.linked[places]
    stratum = np.unique(links.stratum[places], return_inverse=True)[1]
    strata = int(stratum.max(initial=-1)) + 1
    free, tied = count_cells(stratum, linked.astype(np.int64), strata, 2).T
    share = ratio(tied, free)[stratum]
    number = max(1, int(linked.sum()))
    sums = np.zeros((links.units, values.shape[1]))
    # Strata lie within units, so each unit's weighted sum is the excess of its links.
    np.add.at(sums, links.unit[places], values * np.where(linked, 1.0, -share)[:, None])
    linked_places = places[linked]
    return Excess(
        linked=np.where(linked, 1.0, 0.0) @ values / number,
        unlinked=np.where(linked, 0.0, share) @ values / number,
        upward=(attention.up[linked_places] - attention.down[linked_places]).sum(axis=0) / number,
        sums=sums,
        counts=np.bincount(links.unit[linked_places], minlength=links.units).astype(np.float64),
    )


def named_heads(
    excesses: Mapping[str, Excess], on_text: FloatArray, heads: Sequence[Head]
) -> tuple[dict[str, Head], dict[str, FloatArray]]:
    """Relation → its best head, if named; q of every head by relation, over all of them."""
    p = np.stack([excess.p for excess in excesses.values()], axis=-1)[None]
    named, q = {}, {}
    for place, (relation, excess) in enumerate(excesses.items()):
        choice = np.full((1, len(heads)), place)
        tested = name_heads(excess.times[None], p, on_text[None], least=LEAST_RATIO, choice=choice)
        q[relation] = tested.q[0]
        if tested.named[0, excess.best]:
            named[relation] = heads[excess.best]
    return named, q


def best_heads(excesses: Mapping[str, Excess], relations: Sequence[str], shape: Shape) -> Rule:
    """Scores heads by the number of relations for which they are the best; NaN for none.

    Weights are of the sentences, shared by relations of words, then of the queries of aligned spans.
    """
    heads, parts = shape.all_heads, _units(excesses, relations)

    def score(weights: FloatArray) -> FloatArray:
        scores = np.full((len(weights), *shape.size), np.nan)
        start = 0
        for units, of_part in parts:
            part_weights = weights[:, start : start + units]
            start += units
            for excess in of_part:
                means = ratio(part_weights @ excess.sums, (part_weights @ excess.counts)[:, None])
                for row, column in enumerate(np.nan_to_num(means, nan=-np.inf).argmax(axis=1)):
                    at = (row, *heads[column])
                    scores[at] = np.nansum([1.0, scores[at]])
        return scores

    return score


def _units(
    excesses: Mapping[str, Excess], relations: Sequence[str]
) -> list[tuple[int, list[Excess]]]:
    """The numbers of units of relations of words and of aligned spans, with their excesses."""
    words = [excesses[relation] for relation in relations if relation != ALIGNED]
    spans = [excesses[relation] for relation in relations if relation == ALIGNED]
    return [(len(part[0].counts), part) for part in (words, spans) if part]


def stable(
    named: Mapping[str, Head],
    discovery: Mapping[str, Excess],
    validation: Mapping[str, Excess],
    shape: Shape,
    seed: int,
) -> Stability | None:
    """The stability of the named relations' best heads."""
    relations = list(named)
    return stability(
        best_heads(discovery, relations, shape),
        set(named.values()),
        sum(units for units, _ in _units(discovery, relations)),
        pool=shape.all_heads,
        elsewhere=[
            Elsewhere(
                VALIDATION,
                best_heads(validation, relations, shape),
                sum(units for units, _ in _units(validation, relations)),
            )
        ],
        seed=seed,
    )


# Arcs predicted by the best heads (Clark et al. 2019, "What Does BERT Look At?"). A head predicts the word
# with the most attention from, or to, the dependent. In the tree each word is attached to the best
# prediction over all relations; the result need not be a tree.


WORDS, HEADS, RIGHT = "words", "heads", "right"
ARCS, BEST, OFFSET = "arcs", "best", "offset"
NOWHERE = -2


@dataclass(frozen=True)
class Pointer:
    """A head that attends from words to their heads (`upward`), or the reverse.

    Its weights are divided by `usual`, its mean attention to linked words; `offset` is the relation's
    most frequent distance to the head, in words without punctuation.
    """

    head: Head
    upward: bool
    usual: float
    offset: int


def pointers_of(
    excesses: Mapping[str, Excess], heads: Sequence[Head], sentences: TokenisedSentences
) -> dict[str, Pointer]:
    """The best head of each relation of words, its direction, and the usual offset in `sentences`."""
    offsets: dict[str, Counter[int]] = {}
    for number in range(len(sentences)):
        truth, labels = _truth(sentences, number)
        for place, (head, relation) in enumerate(zip(truth, labels, strict=True)):
            if head >= 0:
                offsets.setdefault(relation, Counter())[head - place] += 1
    return {
        relation: Pointer(
            head=heads[excess.best],
            upward=bool(excess.upward[excess.best] >= 0),
            usual=float(excess.linked[excess.best]),
            offset=offsets[relation].most_common(1)[0][0],
        )
        for relation, excess in excesses.items()
        if relation != ALIGNED and excess.linked[excess.best] > 0
    }


def _truth(sentences: TokenisedSentences, number: int) -> tuple[list[int], list[str]]:
    """Each kept word's head (an index among them, ROOT or NOWHERE) and its relation."""
    words = sentences.sentences[number].words
    kept = [place for place, tokens in enumerate(sentences.words[number]) if tokens is not None]
    at = {place: place_kept for place_kept, place in enumerate(kept)} | {ROOT: ROOT}
    truth = [at.get(words[place].head, NOWHERE) for place in kept]
    return truth, [words[place].relation or "" for place in kept]


def word_pairs(sentences: TokenisedSentences) -> tuple[IntArray, IntArray, IntArray]:
    """All pairs of words of all sentences, as spans for `span_attention`."""
    listed = [
        (pair, *first, *second)
        for (pair, _), words in zip(sentences.where, sentences.words, strict=True)
        for first, second in combinations([word for word in words if word is not None], 2)
    ]
    rows = np.array(listed, np.int64).reshape(-1, 5)
    return rows[:, 0], rows[:, 1:3], rows[:, 3:5]


def attachments(
    sentences: TokenisedSentences, attention: SpanAttention, pointers: Mapping[str, Pointer]
) -> dict[str, FloatArray]:
    """Attach every word of `sentences`; `attention` is of its `word_pairs` in the pointers' heads.

    Counts by sentence: WORDS except roots, and those attached correctly by the best heads (HEADS) and by
    a right-branching chain (RIGHT); ARCS of the relations, and those predicted correctly by the
    relation's own head (BEST) and by its usual OFFSET.
    """
    counts = {name: np.zeros(len(sentences)) for name in (WORDS, HEADS, RIGHT, ARCS, BEST, OFFSET)}
    columns = {head: column for column, head in enumerate(attention.heads)}
    start = 0
    for number in range(len(sentences)):
        truth, labels = _truth(sentences, number)
        n = len(truth)
        left, right = np.triu_indices(n, 1)
        rows = slice(start, start := start + len(left))
        most = np.zeros((n, n))
        for relation, pointer in pointers.items():
            weights = np.zeros((n, n))
            weights[left, right] = attention.up[rows, columns[pointer.head]]
            weights[right, left] = attention.down[rows, columns[pointer.head]]
            scores = (weights if pointer.upward else weights.T) / pointer.usual
            most = np.maximum(most, scores)
            predicted = attach(scores)
            for place in (place for place, label in enumerate(labels) if label == relation):
                counts[ARCS][number] += 1
                counts[BEST][number] += predicted[place] == truth[place]
                counts[OFFSET][number] += 0 <= truth[place] == place + pointer.offset
        predicted = attach(most)
        for place, head in enumerate(truth):
            if head != ROOT:
                counts[WORDS][number] += 1
                counts[HEADS][number] += predicted[place] == head
                counts[RIGHT][number] += place - 1 == head
    return counts


def attach(scores: FloatArray) -> IntArray:
    """Each word's head [n]: the other word with the highest of `scores` [word, its head]."""
    others = scores.astype(np.float64).copy()
    np.fill_diagonal(others, -np.inf)
    return np.asarray(others.argmax(axis=1))


# The probe.


def measure(context: Context) -> Result:
    """Choose the best head of each relation on discovery, measure validation, ablate the named heads."""
    scorer, seed = context.model, context.seed
    if context.request.base is not None:
        scorer = scorer_like(context, open_base(context.request.base, context.model.checkpoint))
    shape = scorer.checkpoint.shape
    heads = shape.all_heads
    most = context.choose(QUICK_UNLINKED, FULL_UNLINKED)
    limit = context.choose(QUICK_PAIRS, None)
    sentences: list[TokenisedSentences] = []
    arcs: tuple[str, ...] = ()
    if context.request.treebank:
        size = context.choose(QUICK_SENTENCES, FULL_SENTENCES)
        banks = sentences_of(context.request.treebank)
        sentences = [read_sentences(scorer.tokenizer, half, size, seed) for half in banks]
        arcs = frequent_relations(sentences)
    links: list[list[Links]] = [[], []]
    for half, pairs in enumerate((context.discovery, context.validation)):
        if arcs:
            links[half].append(sentence_links(sentences[half], arcs, most=most, seed=seed))
        links[half].append(
            aligned_links(
                scorer.tokenizer, pairs, context.segmenter, most=most, seed=seed, limit=limit
            )
        )
    facts = {
        "looked_at": "base" if context.request.base is not None else "model",
        "treebank": "asked" if arcs else "few_links" if sentences else "no_treebank",
    }
    passes = sum(len(each.pairs) for half in links for each in half)
    with context.progress(passes, "texts") as shown:
        attention = [
            [
                span_attention(
                    scorer, each.pairs, (each.pair, each.first, each.second), heads, shown=shown
                )
                for each in half
            ]
            for half in links
        ]
    discovery, validation = (
        {
            relation: excess_of(of_links, of_spans, relation)
            for of_links, of_spans in zip(*both, strict=True)
            for relation in of_links.relations
            if of_links.counts[relation]
        }
        for both in zip(links, attention, strict=True)
    )
    discovery = {relation: of for relation, of in discovery.items() if relation in validation}
    relations = list(discovery)
    if not relations:
        return Result(
            nothing="no_links", sets={"relations": [], "relations_words": []}, facts=facts
        )
    sizes = [len(each) for each in links[0]]
    on_text = np.average([each.on_text for each in attention[0]], axis=0, weights=sizes)
    named, q = named_heads(discovery, on_text, heads)
    attached = None
    if arcs:
        pointers = pointers_of(discovery, heads, sentences[0])
        pointing = list(dict.fromkeys(pointer.head for pointer in pointers.values()))
        of_words = span_attention(scorer, sentences[1].pairs, word_pairs(sentences[1]), pointing)
        attached = attachments(sentences[1], of_words, pointers)
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
        measurements=_measurements(best, validation, attached, list(losses.values())),
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
    """Points lost with each unpruned head's attention made uniform, as in the source (4.5)."""
    present = set(context.model.checkpoint.shape.all_heads)
    variants = {
        head: Variant(str(head), (HeadMask((head,), "uniform"),), "single")
        for head in heads
        if head in present
    }
    if not variants:
        return {}
    pairs = for_model(few_a_query(context.validation), QUICK_ABLATED, context)
    run = ablate(context, "linked_heads", list(variants.values()), pairs)
    return {head: run.loss(variant.name) for head, variant in variants.items()}


def _measurements(
    best: Mapping[str, int],
    validation: Mapping[str, Excess],
    attached: Mapping[str, FloatArray] | None,
    losses: Sequence[Estimate],
) -> dict[str, Estimate | float | None]:
    """All on validation, each relation in its best head on discovery."""
    words = [relation for relation in best if relation != ALIGNED]
    values: dict[str, Estimate | float | None] = {"relations_aligned": None, "aligned_linked": None}
    if ALIGNED in best:
        values["relations_aligned"] = _excess(validation, best, [ALIGNED])
        values["aligned_linked"] = PERCENT * float(validation[ALIGNED].linked[best[ALIGNED]])
    if words:
        values["relations_words"] = _excess(validation, best, words)
    if attached is not None:
        values |= {
            "relations_arcs_best_head": _share(attached, BEST, ARCS),
            "relations_arcs_offset": _share(attached, OFFSET, ARCS),
            "relations_tree": _share(attached, HEADS),
            "relations_tree_right": _share(attached, HEADS) - _share(attached, RIGHT),
        }
    values["relations_left_out"] = mean_of(losses) if losses else None
    return values


def _excess(
    excesses: Mapping[str, Excess], best: Mapping[str, int], relations: Sequence[str]
) -> Estimate:
    """Excess over all links of `relations`, each in its best head, in points of attention."""
    sums = np.sum([excesses[relation].sums[:, best[relation]] for relation in relations], axis=0)
    counts = np.sum([excesses[relation].counts for relation in relations], axis=0)
    return PERCENT * pooled(sums, counts, range(len(counts)))


def _share(attached: Mapping[str, FloatArray], right: str, of: str = WORDS) -> Estimate:
    """The words, or arcs, attached correctly, in percent."""
    return PERCENT * pooled(attached[right], attached[of], range(len(attached[of])))


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
