"""What the study of readers runs: [CLS]'s rows as they are, and with heads of lower layers left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.focus.case import Case, case_of
from qt_bert.probes.focus.choosing import Chosen, Readers, choose, name_readers
from qt_bert.probes.focus.contests import Outcome, Wiring, alone, contests, guard, outcome, wiring
from qt_bert.probes.focus.lower import important_below, matching_below
from qt_bert.probes.focus.passes import rows
from qt_bert.probes.focus.sample import Partial, partly_matched
from qt_bert.probes.streams import for_model
from qt_bert.stats.arrays import FloatArray

QUICK_PAIRS = 200
QUICK_CONTESTED = 20
QUICK_SOURCES = 20
QUICK_GRADIENTS = 60


@dataclass(frozen=True, eq=False)
class Study:
    """All that the result is made of.

    `plain` [queries, layers, heads, quantities] are the plain model's rows of the partly matched
    pairs of validation, `plain_found` those of discovery; `outcomes`, by how heads are left out, and `wiring` rest on `contested`,
    in a quick run fewer of these pairs; `wiring_found` is the same of as many pairs of discovery.
    The heads `matching` lie below `layer`.
    """

    shape: Shape
    layer: int
    discovery: Partial
    validation: Partial
    contested: list[Pair]
    chosen: Chosen
    readers: Readers
    matching: list[Head]
    plain: FloatArray
    plain_found: FloatArray
    outcomes: dict[str, Outcome]
    wiring_found: Wiring
    wiring: Wiring
    case: Case | None


def layer_of(shape: Shape) -> int:
    """The last layer but one, and never the lowest where there are two: the article's 10 of 12."""
    return min(shape.layers - 1, max(1, shape.layers - 2))


def study(context: Context) -> Study:
    """Choose on discovery, then look at validation."""
    scorer, cut = context.model, context.segmenter
    shape = scorer.checkpoint.shape
    layer, every = layer_of(shape), range(shape.layers)
    chosen_on = for_model(context.discovery, QUICK_PAIRS, context)
    discovery = partly_matched(chosen_on, scorer, cut)
    validation = partly_matched(for_model(context.validation, QUICK_PAIRS, context), scorer, cut)
    contested = _contested(validation.pairs, context)
    matching = matching_below(context, shape, layer)
    made = contests(context, contested, shape, matching)
    sources = _sources(context, chosen_on, shape, layer, matching)
    own = alone([head for head in shape.all_heads if head.layer == layer])
    drawn = [variant for one in made.values() for variant in one.variants]
    guard(context, [*own, *alone(sources), *drawn], chosen_on)
    chosen = choose(context, chosen_on, own)
    plain_found = rows(context, discovery.pairs, every)[:, 0]
    found = {mode: outcome(context, contested, layer, one) for mode, one in made.items()}
    return Study(
        shape=shape,
        layer=layer,
        discovery=discovery,
        validation=validation,
        contested=contested,
        chosen=chosen,
        readers=name_readers(plain_found),
        matching=matching,
        plain=rows(context, validation.pairs, every)[:, 0],
        plain_found=plain_found,
        outcomes=found,
        wiring_found=wiring(context, _contested(discovery.pairs, context), layer, sources),
        wiring=wiring(context, contested, layer, sources),
        case=_case(context, chosen.head, found),
    )


def _contested(pairs: list[Pair], context: Context) -> list[Pair]:
    """Under --full all; else few, for every one is run under a hundred variants."""
    if context.full or not pairs:
        return pairs
    return spread_over_queries(pairs, QUICK_CONTESTED, context.seed)


def _sources(
    context: Context,
    pairs: Sequence[Pair],
    shape: Shape,
    layer: int,
    matching: Sequence[Head],
) -> list[Head]:
    """Under --full every lower head; else the matching ones and those of the largest importance."""
    if context.full:
        return [head for head in shape.all_heads if head.layer < layer]
    few = spread_over_queries(pairs, QUICK_GRADIENTS, context.seed)
    with context.progress(len(few), "pairs") as shown:
        important = important_below(context.model, few, layer, QUICK_SOURCES, shown)
    return sorted({*matching, *important})


def _case(context: Context, head: Head | None, found: dict[str, Outcome]) -> Case | None:
    if head is None or "zero" not in found:
        return None
    contest = found["zero"].contest
    return case_of(context.model, context.segmenter, head, contest.target, contest.matched)
