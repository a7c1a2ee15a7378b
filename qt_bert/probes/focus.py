"""Which upper head turns [CLS] to the terms that both texts share? (`heads_of_query_title_bert`, 2.4.3)

[CLS] is the token that the classifier reads: of a causal model the last one, a title's own where no special
token follows it. A model that reads the mean of all tokens has none. A row is measured over what it sees.

The article's head of layer 10 is one whose absence the model feels, whose [CLS] looks at the terms that
query and title share, and which scatters without five matching heads of layers 2 to 4. Here the reader
is the head of the last layer but one that costs most points on discovery. It is a reading head only where
the same loss comes back on validation, beyond every single head of its own and the neighbouring layers,
and where other queries choose it again; elsewhere its attention is measured and nothing is drawn of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from functools import partial
from typing import Any

import numpy as np
import torch

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.figures import Figure, head_map
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import Batch, row_at
from qt_bert.models.forward import Encoder
from qt_bert.probes.base import Contest, Context, Result
from qt_bert.probes.contests import ablate, contest, layer_matched_sets, zeroed
from qt_bert.probes.matching_scores import chosen_heads, discovery_scores, stable_matching
from qt_bert.probes.naming import (
    VALIDATION,
    Elsewhere,
    Rule,
    by_mean,
    by_query,
    means,
    name_heads,
    one_sided_p,
    stability,
)
from qt_bert.probes.shared import estimate_bars, head_table
from qt_bert.probes.streams import (
    characters_of,
    coverage,
    for_model,
    shared_terms,
    stream,
)
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, IntArray
from qt_bert.stats.estimate import Estimate, over_queries
from qt_bert.stats.verdict import judge_contest

QUICK_PAIRS = 200
QUICK_JUDGED = 60
"""Pairs of a quick run that the reader is held against its neighbours on."""
QUICK_CONTESTED = 40
"""Pairs of a quick run under the matching heads ablated and under each random set."""
QUICK_DRAWS, FULL_DRAWS = 20, 99
MATCHING = 5
"""As many heads as the article ablates."""
LEAST_FOCUS = 0.10
"""From this focus on, of either sign, a head is named."""
WITHOUT = (
    "reader_focus_change",
    "control_focus_change",
    "reader_needs_matching",
    "reader_scatters",
)
"""What is measured of the reader with heads below it ablated."""


def layer_of(shape: Shape) -> int:
    """The last layer but one, and never the lowest where there are two: the article's 10 of 12."""
    return min(shape.layers - 1, max(1, shape.layers - 2))


# What each token of a pair is.


class Kind(IntEnum):
    """What a token is. Characters hold a letter or digit; marks, of either text, spell none.

    Marks are punctuation, and the `▁` by which SentencePiece begins a word. ITSELF is the token that is read.
    """

    QUERY_MATCHED = 0
    QUERY_OTHER = 1
    TITLE_MATCHED = 2
    TITLE_OTHER = 3
    QUERY_MARK = 4
    TITLE_MARK = 5
    SEPARATOR = 6
    ITSELF = 7


MATCHED = (Kind.QUERY_MATCHED, Kind.TITLE_MATCHED)
OTHER = (Kind.QUERY_OTHER, Kind.TITLE_OTHER)


def kinds_of(encoded: EncodedPair, query: str, title: str, segmenter: Segmenter) -> IntArray:
    """The `Kind` of each token [L]; a token is matched where it has a character of a shared term.

    The pair must have been encoded with offsets.
    """
    texts, shared = (query, title), shared_terms(query, title, segmenter).values()
    spans = [[span for term in shared for span in term[side]] for side in (QUERY, TITLE)]
    kinds = np.full(len(encoded), Kind.SEPARATOR, np.int64)
    for token, (side, span) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side != SPECIAL:
            spelled = texts[side][slice(*span)]
            kinds[token] = _kind(spelled, spans[side], span, in_query=side == QUERY)
    kinds[encoded.cls] = Kind.ITSELF
    return kinds


def _kind(spelled: str, terms: Sequence[Span], span: Span, *, in_query: bool) -> Kind:
    start, end = span
    if not any(map(str.isalnum, spelled)):
        return Kind.QUERY_MARK if in_query else Kind.TITLE_MARK
    if any(start < last and first < end for first, last in terms):
        return Kind.QUERY_MATCHED if in_query else Kind.TITLE_MATCHED
    return Kind.QUERY_OTHER if in_query else Kind.TITLE_OTHER


def partly_matched(
    pairs: Sequence[Pair], scorer: Scorer, segmenter: Segmenter
) -> tuple[list[Pair], dict[str, float]]:
    """The pairs that can show a focus: some of their characters, not all, belong to shared terms.

    Pairs are taken as the model reads them, what is cut off left out. Beside them how many pairs
    there are, match nowhere or throughout, and the share of the texts' Chinese characters that
    are tokens of their own.
    """
    texts = [(pair.query, pair.title) for pair in pairs]
    kept, none, every, seen = [], 0, 0, 0
    for pair, both, encoded in zip(pairs, texts, scorer.tokenizer.encode(texts), strict=True):
        kinds = kinds_of(encoded, *both, segmenter)
        matched, other = np.isin(kinds, MATCHED).any(), np.isin(kinds, OTHER).any()
        if matched and other:
            kept.append(pair)
        every += bool(matched and not other)
        none += not matched
        seen += sum(len(characters_of(encoded, *both, side)) for side in (QUERY, TITLE))
    return kept, {
        "pairs": len(kept),
        "none_matched": none,
        "all_matched": every,
        "coverage": coverage([text for both in texts for text in both], seen),
    }


# How [CLS] spreads its attention: a few numbers for each pair and head.

CLS_ROW = "cls_row"
WEIGHTS = ("query", "title", "matched", "other", "separator", "itself")
"""Weight on the query's and the title's tokens (together 1 with the last two), on matched and on
other characters of both, on the separators, and on [CLS] itself."""
QUANTITIES = (*WEIGHTS, "entropy", "focus", "within")
"""Beside the weights, of those on characters alone: `entropy`, over the logarithm of the characters'
number; `focus`, the share on matched ones less their share of all characters; `within`, that share
less the one that even weights in each text would have under the head's own division between them."""
FOCUS, WITHIN, ENTROPY = map(QUANTITIES.index, ("focus", "within", "entropy"))
_MATCHED, _OTHER = list(map(int, MATCHED)), list(map(int, OTHER))


class Places:
    """The kinds of the tokens of a batch as masks; those of the last batch are kept."""

    def __init__(self, texts: Sequence[tuple[str, str]], segmenter: Segmenter) -> None:
        self._texts, self._segmenter = texts, segmenter
        self._batch: Batch | None = None
        self._masks = torch.empty(0)

    def masks(self, batch: Batch) -> torch.Tensor:
        """1 where a token is of a kind [B, L, kinds]; padding is of none."""
        if batch is not self._batch:
            masks = np.zeros((*batch.input_ids.shape, len(Kind)), np.float32)
            for place, (row, encoded) in enumerate(zip(batch.rows, batch.encoded, strict=True)):
                query, title = self._texts[row]
                kinds = kinds_of(encoded, query, title, self._segmenter)
                masks[place, np.arange(len(encoded)), kinds] = 1
            self._batch, self._masks = batch, torch.from_numpy(masks).to(batch.input_ids.device)
        return self._masks


def cls_row(encoder: Encoder, layers: Sequence[int], places: Places) -> Reduction:
    """The reduction to `QUANTITIES` of every head [B, heads, 9]."""
    return Reduction(
        CLS_ROW, "attention", tuple(layers), partial(read_row, encoder, places), first_row=True
    )


def read_row(encoder: Encoder, places: Places, view: View) -> torch.Tensor:
    """`QUANTITIES` of the row of the token that is read, over the tokens that it sees [B, heads, 9]."""
    batch = view.batch
    seen = row_at(encoder.visible(view.layer, batch.length)[None], batch.at)
    return row_quantities(view.values[:, :, 0].float(), places.masks(batch) * seen.mT)


def row_quantities(weights: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """`QUANTITIES` of [CLS]'s weights [B, heads, L] under masks [B, L, kinds]: [B, heads, 9].

    Those of characters alone are NaN for a pair of which none or all characters are matched.
    """
    on, there = weights @ masks, masks.sum(1)[:, None]
    matched, other = on[..., _MATCHED].sum(-1), on[..., _OTHER].sum(-1)
    characters, number = matched + other, there[..., _MATCHED + _OTHER].sum(-1)
    share, base = matched / characters, there[..., _MATCHED].sum(-1) / number
    # Each text's share of the characters' weight, times its own share of matched ones.
    texts = (on[..., _MATCHED] + on[..., _OTHER]) / characters[..., None]
    density = there[..., _MATCHED] / (there[..., _MATCHED] + there[..., _OTHER]).clamp(min=1)
    of_characters = [
        _entropy(weights * masks[:, None, :, _MATCHED + _OTHER].sum(-1)) / number.log(),
        share - base,
        share - (texts * density).sum(-1),
    ]
    partial = (base > 0) & (base < 1)
    nothing = torch.full_like(share, float("nan"))
    return torch.stack(
        [
            on[..., [Kind.QUERY_MATCHED, Kind.QUERY_OTHER, Kind.QUERY_MARK]].sum(-1),
            on[..., [Kind.TITLE_MATCHED, Kind.TITLE_OTHER, Kind.TITLE_MARK]].sum(-1),
            matched,
            other,
            on[..., Kind.SEPARATOR],
            on[..., Kind.ITSELF],
            *(torch.where(partial, one, nothing) for one in of_characters),
        ],
        -1,
    )


def _entropy(weights: torch.Tensor) -> torch.Tensor:
    """In nats, of weights [..., L] that need not add up to 1."""
    return torch.special.entr(weights / weights.sum(-1, keepdim=True)).sum(-1)


def cls_rows(
    context: Context,
    pairs: Sequence[Pair],
    layers: Sequence[int],
    variants: Sequence[Variant] = (),
) -> FloatArray:
    """The clean model's rows, then those of `variants` [queries, 1 + variants, layers, heads, 9].

    Means over a query's pairs, queries in the order they first come; NaN where no pair of a query says
    anything.
    """
    scorer, every = context.model, [NONE, *variants]
    if not pairs:
        return np.empty((0, len(every), len(layers), scorer.checkpoint.heads, len(QUANTITIES)))
    texts = [(pair.query, pair.title) for pair in pairs]
    reduction = cls_row(scorer.encoder, layers, Places(texts, context.segmenter))
    with context.progress(len(every) * len(pairs), "runs") as shown:
        found = stream(scorer, texts, [reduction], every, shown=shown)[CLS_ROW]
    return by_query(np.moveaxis(found, 1, 0), [pair.query for pair in pairs])


# The reader: the head of the layer that costs most points on discovery, and whether it does elsewhere.


@dataclass(frozen=True, eq=False)
class Reader:
    """The head of a layer that costs most on discovery; None where none costs anything.

    `costs` [layers, heads] are points of the label set lost, NaN outside the layer; `stability` is
    the head's, by the same costs over other queries.
    """

    head: Head | None
    costs: FloatArray
    stability: Stability | None = None


def choose_reader(context: Context, pairs: Sequence[Pair], layer: int) -> Reader:
    """Ablate each head of `layer` alone on `pairs` of discovery."""
    shape = context.model.checkpoint.shape
    costs = np.full(shape.size, np.nan)
    heads = [head for head in shape.all_heads if head.layer == layer]
    if not heads:  # a smaller model may have lost them all
        return Reader(None, costs)
    alone = [Variant(str(head), (zeroed([head]),), "single") for head in heads]
    run = ablate(context, "alone", alone, pairs)
    losses = [run.loss(str(head)) for head in heads]
    for head, loss in zip(heads, losses, strict=True):
        costs[head] = loss.value
    worst = max(heads, key=lambda head: np.nan_to_num(costs[head], nan=-np.inf))
    if not costs[worst] > 0:
        return Reader(None, costs)
    per_query = np.full((losses[0].n_queries, *shape.size), np.nan)
    for head, loss in zip(heads, losses, strict=True):
        per_query[:, head.layer, head.head] = loss.values
    again = stability(by_mean(per_query), [worst], len(per_query), seed=context.seed)
    return Reader(worst, costs, again)


def is_read(context: Context, reader: Reader, found: Contest | None) -> bool:
    """Whether the reader's loss is beyond its neighbours', by the rules of a claim, and it is stable."""
    unstable = reader.stability is None or reader.stability.verdict == "not stable"
    if found is None or unstable:
        return False
    judged = judge_contest(
        found.target,
        found.sets,
        id="focus.reader",
        side="above",
        margin=0.0,
        unit="points",
        enumerated=found.enumerated,
        resamples=context.resamples,
        seed=context.seed,
    )
    return judged.verdict == "reproduced"


# Heads of all layers whose [CLS] favours the shared terms (`focused`), or avoids them (`averted`).


@dataclass(frozen=True, eq=False)
class Readers:
    """Scores and tests of every head [layers, heads] on discovery, and the named heads of either sign.

    p is the larger of the two quantities', q is over heads and both signs.
    """

    focus: FloatArray
    within: FloatArray
    p: FloatArray
    q: FloatArray
    focused: list[Head]
    averted: list[Head]


def name_readers(rows: FloatArray) -> Readers:
    """Name heads from rows [queries, layers, heads, quantities].

    Both the focus and that within each text must be large enough, significant and of one sign: a
    head that likes the query or the title as a whole is no reader of the terms.
    """
    both = np.stack([rows[..., FOCUS], rows[..., WITHIN]])
    focus, within = means(both[0]), means(both[1])
    score = _smaller(focus, within)
    weight = means(rows[..., QUANTITIES.index("matched")] + rows[..., QUANTITIES.index("other")])
    larger_p = [np.maximum(*(one_sided_p(sign * one) for one in both)) for sign in (1, -1)]
    named = name_heads(np.abs(score), np.stack(larger_p, axis=-1), weight, least=LEAST_FOCUS)
    focused, averted = ([h for h in named.heads() if sign * score[h] > 0] for sign in (1, -1))
    return Readers(focus, within, named.p, named.q, focused, averted)


def by_focus(rows: FloatArray, sign: int) -> Rule:
    """The smaller of the two means of rows [queries, layers, heads, quantities], times `sign`."""
    focus, within = by_mean(rows[..., FOCUS]), by_mean(rows[..., WITHIN])
    return lambda weights: sign * _smaller(focus(weights), within(weights))


def _smaller(focus: FloatArray, within: FloatArray) -> FloatArray:
    """The one nearer to 0, with its sign; 0 where the signs differ."""
    nearer = np.where(np.abs(focus) < np.abs(within), focus, within)
    return np.asarray(np.where(focus * within > 0, nearer, 0.0))


# The probe.


def measure(context: Context) -> Result:
    """Choose the reader on discovery, hold it against its neighbours, and ablate the matching heads."""
    scorer, shape = context.model, context.model.checkpoint.shape
    if scorer.checkpoint.reads == "mean":
        return Result(nothing="no_token")
    layer, every = layer_of(shape), range(shape.layers)
    chosen_on = for_model(context.discovery, QUICK_PAIRS, context)
    judged_on = for_model(context.validation, QUICK_PAIRS, context)
    discovery, of_discovery = partly_matched(chosen_on, scorer, context.segmenter)
    validation, of_validation = partly_matched(judged_on, scorer, context.segmenter)
    settings: dict[str, Any] = {
        "layer": layer,
        "least_focus": LEAST_FOCUS,
        "partly_matched": {"discovery": of_discovery, "validation": of_validation},
    }
    if not discovery or not validation:
        return Result(nothing="nothing_shared", settings=settings)

    reader = choose_reader(context, chosen_on, layer)
    against, loss = None, None
    if reader.head is not None:
        few = _few(judged_on, QUICK_JUDGED, context)
        against, run = contest(context, "reader", [reader.head], pairs=few)
        loss = run.loss("reader")
    read = is_read(context, reader, against)

    # The five best matching heads below, ablated together, and layer-matched sets.
    below = [head for head in shape.all_heads if head.layer < layer]
    matching = chosen_heads(context, MATCHING, below)
    named = discovery_scores(context).named()
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    sets, _ = layer_matched_sets(shape, matching, named, draws, context.seed)
    together = [Variant("matching", (zeroed(matching),), "target")] if matching else []
    encoded = scorer.tokenizer.encode([(p.query, p.title) for p in validation], offsets=False)
    context.guards["ablated"] = check_equivalence(
        scorer.checkpoint, scorer.encoder, [*together, *sets], encoded, seed=context.seed
    )
    seen, heard = (cls_rows(context, pairs, every)[:, 0] for pairs in (discovery, validation))
    contested = _few(validation, QUICK_CONTESTED, context)
    ablated = cls_rows(context, contested, [layer], [*together, *sets])[:, :, 0]
    readers = name_readers(seen)

    measurements: dict[str, Estimate | float | None] = {}
    if reader.head is not None:
        matched = None if against is None else against.target - against.beyond
        measurements |= {"reader_loss": loss, "neighbours_loss": matched}
        own = heard[:, reader.head.layer, reader.head.head]
        measurements["reader_focus"] = _mean(own[:, FOCUS], validation)
        measurements["reader_focus_within"] = _mean(own[:, WITHIN], validation)
        measurements |= _without(ablated[:, :, reader.head.head], contested)
    facts: dict[str, Any] = {
        "read": read,
        "layer": layer,
        "reader": None if reader.head is None else str(reader.head),
        "number": len(matching),
        "favour": len(readers.focused),
        "avoid": len(readers.averted),
        "every": len(shape.all_heads),
        "contested": len(contested),
        "sets": len(sets),
    }
    return Result(
        measurements=measurements,
        heads=head_table(shape, _columns(heard, readers, reader, layer, ablated)),
        sets={
            "reader": [] if reader.head is None else [reader.head],
            "focused": readers.focused,
            "averted": readers.averted,
            "matching_below": matching,
        },
        selected="focused",
        stability=_stabilities(context, reader, readers, matching, below, seen, heard),
        figures=list(_figures(context, heard, readers, layer, ablated, contested)) if read else [],
        facts=facts,
        settings={**settings, "contested_pairs": len(contested), "layer_matched_sets": len(sets)},
        pairs=validation,
        nothing=None if read else "no_reader" if reader.head is None else "unread",
    )


def _few(pairs: list[Pair], limit: int, context: Context) -> list[Pair]:
    """Under --full all; else few, for each is run under many variants."""
    return pairs if context.full else spread_over_queries(pairs, limit, context.seed)


def _mean(per_query: FloatArray, pairs: Sequence[Pair]) -> Estimate:
    """Of values [queries], in the order in which the queries of `pairs` first come."""
    return over_queries(per_query, list(dict.fromkeys(pair.query for pair in pairs)))


def _without(rows: FloatArray, pairs: Sequence[Pair]) -> dict[str, Estimate | None]:
    """What the matching heads' absence changes of one head's row, from rows [queries, variants, 9].

    The clean model's row comes first, that without the matching heads next, those of random sets last.
    """
    found: dict[str, Estimate | None] = dict.fromkeys(WITHOUT)
    if rows.shape[1] > 1:
        change = rows[:, 1] - rows[:, 0]
        found["reader_focus_change"] = _mean(change[:, FOCUS], pairs)
    if rows.shape[1] > 2:
        expected = rows[:, 2:].mean(axis=1) - rows[:, 0]
        found["control_focus_change"] = _mean(expected[:, FOCUS], pairs)
        found["reader_needs_matching"] = _mean((change - expected)[:, FOCUS], pairs)
        found["reader_scatters"] = _mean((change - expected)[:, ENTROPY], pairs)
    return found


def _columns(
    heard: FloatArray, readers: Readers, reader: Reader, layer: int, ablated: FloatArray
) -> dict[str, FloatArray]:
    """Scores [layers, heads]: rows of validation, tests of discovery, and of the layer what costs."""
    rows = means(heard)
    change = np.full(reader.costs.shape, np.nan)
    if ablated.shape[1] > 1:
        change[layer] = means(ablated[:, 1] - ablated[:, 0])[:, FOCUS]
    return {
        **{name: rows[..., place] for place, name in enumerate(QUANTITIES)},
        "discovery_focus": readers.focus,
        "discovery_within": readers.within,
        "p": readers.p,
        "q": readers.q,
        "discovery_cost": reader.costs,
        "focus_change": change,
    }


def _stabilities(
    context: Context,
    reader: Reader,
    readers: Readers,
    matching: Sequence[Head],
    below: Sequence[Head],
    seen: FloatArray,
    heard: FloatArray,
) -> dict[str, Stability | None]:
    """How much of every set comes back over other queries of discovery, and on validation."""

    def of(named: Sequence[Head], sign: int) -> Stability | None:
        beside = Elsewhere(VALIDATION, by_focus(heard, sign), len(heard))
        pool = context.model.checkpoint.shape.all_heads
        rule = by_focus(seen, sign)
        return stability(rule, named, len(seen), pool=pool, elsewhere=[beside], seed=context.seed)

    scores = discovery_scores(context) if matching else None
    return {
        "reader": reader.stability,
        "focused": of(readers.focused, 1),
        "averted": of(readers.averted, -1),
        "matching_below": stable_matching(scores, matching, within=below, seed=context.seed),
    }


def _figures(
    context: Context,
    heard: FloatArray,
    readers: Readers,
    layer: int,
    ablated: FloatArray,
    contested: Sequence[Pair],
) -> Iterator[Figure]:
    """Focus of every head; of the layer's heads also without the matching heads, and without others."""
    marked = map(str, (*readers.focused, *readers.averted))
    yield head_map("heads", means(heard)[..., FOCUS], marked=marked, scale="diverging")
    lines = {"clean": ablated[:, 0]}
    if ablated.shape[1] > 1:
        lines["without"] = ablated[:, 1]
    if ablated.shape[1] > 2:
        lines["control"] = ablated[:, 2:].mean(axis=1)
    series = {
        name: [_mean(column, contested) for column in rows[..., FOCUS].T]
        for name, rows in lines.items()
    }
    categories = [f"L{layer}H{head}" for head in range(ablated.shape[2])]
    yield estimate_bars(context, "before_and_after", categories, series)
