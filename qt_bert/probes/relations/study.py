"""What the study of links runs: passes over both halves, the tree, heads left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from qt_bert.data.splits import spread_over_queries
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import open_base
from qt_bert.probes.order import order_scores
from qt_bert.probes.relations.aligned import aligned_links
from qt_bert.probes.relations.heads import Scores, scores_of
from qt_bert.probes.relations.leaving_out import LeftOut, leave_out
from qt_bert.probes.relations.links import Links
from qt_bert.probes.relations.sentences import (
    Read,
    enough,
    read_sentences,
    sentence_links,
    sentences_of,
)
from qt_bert.probes.relations.tree import Pointer, Tree, pointers_of, tree_of, word_pairs
from qt_bert.probes.relations.weights import Spans, link_weights, span_weights
from qt_bert.progress import Progress
from qt_bert.scoring.bulk import Scorer

QUICK_SENTENCES = 140
QUICK_PAIRS = 80
QUICK_ORDER, FULL_ORDER = 40, 400
QUICK_DRAWS, FULL_DRAWS = 999, 1999
QUICK_UNLINKED, FULL_UNLINKED = 3, 10
"""At most so many unlinked pairs stay for each linked one of their stratum."""


@dataclass(frozen=True, eq=False)
class Part:
    """Links of one kind on both halves; of words, `read` are the sentences of both."""

    discovery: Links
    validation: Links
    read: tuple[Read, Read] | None = None


@dataclass(frozen=True, eq=False)
class Study:
    """What was measured on the links of words (with a treebank) and on aligned spans.

    `on_base`: the heads looked at are those of the model before fine-tuning; `order_heads` are its
    heads that are named for word order. `discovery` names heads; on `validation` each relation is
    tested in the head that was best on discovery. `order_heads` is None where no head is named.
    """

    shape: Shape
    on_base: bool
    words: Part | None
    aligned: Part
    discovery: Scores
    validation: Scores
    tree: Tree | None
    order_heads: list[Head] | None
    left_out: LeftOut | None
    draws: int

    @property
    def named(self) -> list[Head]:
        """The heads named for some relation, each once."""
        return list(dict.fromkeys(self.discovery.named.values()))

    @property
    def relations(self) -> tuple[str, ...]:
        """What was asked about, on both halves."""
        return tuple(r for r in self.discovery.excesses if r in self.validation.excesses)


def study(context: Context) -> Study:
    """Choose on discovery, then look at validation; the model asked about loses the named heads."""
    scorer, on_base = _looked_at(context)
    heads = scorer.checkpoint.shape.all_heads
    words, aligned = _words(context, scorer), _aligned(context, scorer)
    parts = [aligned] if words is None else [words, aligned]
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    passes = sum(len(links.pairs) for one in parts for links in (one.discovery, one.validation))
    with context.progress(passes, "texts") as shown:
        seen = [(p.discovery, link_weights(scorer, p.discovery, heads, shown=shown)) for p in parts]
        discovery = scores_of(heads, seen, draws=draws, seed=context.seed)
        validation, tree = _look(context, scorer, parts, discovery, draws, shown)
    named = list(dict.fromkeys(discovery.named.values()))
    return Study(
        shape=scorer.checkpoint.shape,
        on_base=on_base,
        words=words,
        aligned=aligned,
        discovery=discovery,
        validation=validation,
        tree=tree,
        order_heads=_order_heads(context, scorer) if named else None,
        left_out=leave_out(named, context),
        draws=draws,
    )


def _looked_at(context: Context) -> tuple[Scorer, bool]:
    """The model before fine-tuning where there is one, else the model itself."""
    if context.base is None:
        return context.model, False
    base = open_base(context.base, context.model.checkpoint)
    return Scorer(base, max_length=context.model.tokenizer.max_length), True


def _words(context: Context, scorer: Scorer) -> Part | None:
    """The words of the treebanks given; None without any."""
    if not context.treebanks:
        return None
    limit, seed = context.choose(QUICK_SENTENCES, None), context.seed
    most = context.choose(QUICK_UNLINKED, FULL_UNLINKED)
    first, second = (
        read_sentences(scorer.tokenizer, half, limit, seed)
        for half in sentences_of(context.treebanks)
    )
    relations = enough((first, second))
    links = [sentence_links(one, relations, most=most, seed=seed) for one in (first, second)]
    return Part(links[0], links[1], (first, second))


def _aligned(context: Context, scorer: Scorer) -> Part:
    draw = partial(
        aligned_links,
        scorer.tokenizer,
        segmenter=context.segmenter,
        most=context.choose(QUICK_UNLINKED, FULL_UNLINKED),
        seed=context.seed,
        limit=context.choose(QUICK_PAIRS, None),
    )
    discovery, validation = (draw(pairs) for pairs in (context.discovery, context.validation))
    return Part(discovery, validation)


def _look(
    context: Context,
    scorer: Scorer,
    parts: Sequence[Part],
    discovery: Scores,
    draws: int,
    shown: Progress,
) -> tuple[Scores, Tree | None]:
    """One pass over validation, for the links in all heads, and for all words in the best ones."""
    heads, seed = discovery.heads, context.seed
    pointers = pointers_of(discovery)
    seen, tree = [], None
    for part in parts:
        links, pointed = part.validation, _pointed(part, pointers)
        asked = [Spans(links.pair, links.first, links.second, heads)]
        asked += [] if pointed is None else [pointed]
        found = span_weights(scorer, links.pairs, asked, shown=shown)
        seen.append((links, found[0]))
        if pointed is not None and part.read is not None:
            tree = tree_of(
                part.read[1],
                found[1],
                pointers,
                resamples=context.resamples,
                seed=seed,
            )
    chosen = {relation: one.best for relation, one in discovery.excesses.items()}
    return scores_of(heads, seen, draws=draws, seed=seed + 1, chosen=chosen), tree


def _pointed(part: Part, pointers: Sequence[Pointer]) -> Spans | None:
    if part.read is None or not pointers:
        return None
    return word_pairs(part.read[1], list(dict.fromkeys(one.head for one in pointers)))


def _order_heads(context: Context, scorer: Scorer) -> list[Head]:
    """The heads that `order` would name in the model looked at."""
    limit = context.choose(QUICK_ORDER, FULL_ORDER)
    pairs = spread_over_queries(context.discovery, limit, context.seed)
    with context.progress(2 * len(pairs), "texts") as shown:
        return order_scores(scorer, pairs, seed=context.seed, shown=shown).named().heads()
