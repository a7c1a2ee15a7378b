"""In which upper head does [CLS] attend to the terms that both texts share? (`heads_of_query_title_bert`, 2.4.3)

[CLS] is the token that the classifier reads: in a causal model the last one, which may be a title's
character. A model that reads the mean of all tokens has none. A row is measured over its visible tokens.

The [CLS] of the article's head of layer 10 attends to the shared terms, and scatters without five matching heads
of layers 2 to 4. The reader is the head of the last layer but one with the largest focus on discovery, over
pairs that match in part; it counts as one (`read`) only if it is named, and passes on validation, too.
What the grade loses without it stands beside: attention is not use.
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
from qt_bert.ablation.masks import zeroed
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.figures import Figure, head_map
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import Batch, row_at
from qt_bert.models.forward import Encoder
from qt_bert.probes.base import Contest, Context, Result, estimate_bars, head_table
from qt_bert.probes.contests import (
    QUICK_SETS,
    SETS,
    ablate,
    against,
    contest_pairs,
    layer_matched_sets,
    resampled,
)
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
    stability_of_means,
)
from qt_bert.probes.streams import (
    characters_of,
    coverage,
    few_in_quick,
    for_model,
    shared_terms,
    stream,
)
from qt_bert.probes.texts import texts_of
from qt_bert.results.probe import Stability
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, IntArray
from qt_bert.stats.estimate import Estimate, group_queries, mean_of, over_queries

QUICK_PAIRS = 200
LEAST_FOCUS = 0.10
"""The least absolute focus of a named head."""


def layer_of(shape: Shape) -> int:
    """The last layer but one (the article's 10 of 12), but never the lowest of several."""
    return min(shape.layers - 1, max(1, shape.layers - 2))


# The kind of each token of a pair.


class Kind(IntEnum):
    """The kind of a token. Characters hold a letter or digit; marks hold none.

    Marks are punctuation, and SentencePiece's `▁`. ITSELF is the token that the classifier reads.
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
    """The `Kind` of each token [L]; matched tokens have a character of a shared term. The pair must
    have been encoded with offsets."""
    texts, shared = (query, title), shared_terms(query, title, segmenter).values()
    spans = [[span for term in shared for span in term[side]] for side in (QUERY, TITLE)]
    kinds = np.full(len(encoded), Kind.SEPARATOR, np.int64)
    for token, (side, span) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side != SPECIAL:
            kinds[token] = _kind(
                texts[side][slice(*span)], spans[side], span, in_query=side == QUERY
            )
    kinds[encoded.cls] = Kind.ITSELF
    return kinds


def _kind(text: str, terms: Sequence[Span], span: Span, *, in_query: bool) -> Kind:
    start, end = span
    if not any(map(str.isalnum, text)):
        return Kind.QUERY_MARK if in_query else Kind.TITLE_MARK
    if any(start < last and first < end for first, last in terms):
        return Kind.QUERY_MATCHED if in_query else Kind.TITLE_MATCHED
    return Kind.QUERY_OTHER if in_query else Kind.TITLE_OTHER


def partly_matched(
    pairs: Sequence[Pair], scorer: Scorer, segmenter: Segmenter
) -> tuple[list[Pair], dict[str, float]]:
    """The pairs with some, not all, of their characters in shared terms, after truncation.

    Beside them: their number, the numbers of pairs that match nowhere or throughout, and the share of
    Chinese characters that are tokens of their own.
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


# The attention row of [CLS] as a few numbers for each pair and head.

CLS_ROW = "cls_row"
WEIGHTS = ("query", "title", "matched", "other", "separator", "itself")
"""Weight on the query's and the title's tokens (together 1 with the last two), on matched and on
other characters of both, on the separators, and on [CLS] itself."""
QUANTITIES = (*WEIGHTS, "entropy", "focus", "within")
"""The weights, and of the weights on characters alone: `entropy`, divided by the logarithm of the number
of characters; `focus`, the share on matched characters less their share of all characters; `within`, the
same with the head's own division between the two texts: less the share of uniform weights in each."""
FOCUS, WITHIN, ENTROPY = map(QUANTITIES.index, ("focus", "within", "entropy"))
_MATCHED, _OTHER = list(map(int, MATCHED)), list(map(int, OTHER))


class KindMasks:
    """The kinds of a batch's tokens as masks; caches the last batch."""

    def __init__(self, texts: Sequence[tuple[str, str]], segmenter: Segmenter) -> None:
        self._texts, self._segmenter = texts, segmenter
        self._batch: Batch | None = None
        self._masks = torch.empty(0)

    def masks(self, batch: Batch) -> torch.Tensor:
        """1 where a token is of a kind [B, L, kinds]; padding is of no kind."""
        if batch is not self._batch:
            masks = np.zeros((*batch.input_ids.shape, len(Kind)), np.float32)
            for place, (row, encoded) in enumerate(zip(batch.rows, batch.encoded, strict=True)):
                query, title = self._texts[row]
                kinds = kinds_of(encoded, query, title, self._segmenter)
                masks[place, np.arange(len(encoded)), kinds] = 1
            self._batch, self._masks = batch, torch.from_numpy(masks).to(batch.input_ids.device)
        return self._masks


def cls_row(encoder: Encoder, layers: Sequence[int], places: KindMasks) -> Reduction:
    """The reduction to `QUANTITIES` of every head [B, heads, 9]."""
    return Reduction(
        CLS_ROW, "attention", tuple(layers), partial(read_row, encoder, places), first_row=True
    )


def read_row(encoder: Encoder, places: KindMasks, view: View) -> torch.Tensor:
    """`QUANTITIES` of the row of [CLS], over its visible tokens [B, heads, 9]."""
    batch = view.batch
    visible = row_at(encoder.visible(view.layer, batch.length)[None], batch.at)
    return row_quantities(view.values[:, :, 0].float(), places.masks(batch) * visible.mT)


def row_quantities(weights: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
    """`QUANTITIES` of [CLS]'s weights [B, heads, L] under masks [B, L, kinds]: [B, heads, 9].

    Entropy, focus and within are NaN where none or all characters are matched.
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
            *(torch.where(partial, quantity, nothing) for quantity in of_characters),
        ],
        -1,
    )


def _entropy(weights: torch.Tensor) -> torch.Tensor:
    """Entropy in nats of weights [..., L], normalised here."""
    return torch.special.entr(weights / weights.sum(-1, keepdim=True)).sum(-1)


def cls_rows(
    context: Context, pairs: Sequence[Pair], layers: Sequence[int], variants: Sequence[Variant] = ()
) -> FloatArray:
    """`QUANTITIES` of the clean model, then of `variants` [queries, 1 + variants, layers, heads, 9].

    Means over a query's pairs, queries in order of first occurrence; NaN where none is defined.
    """
    scorer, every = context.model, [NONE, *variants]
    if not pairs:
        return np.empty((0, len(every), len(layers), scorer.checkpoint.heads, len(QUANTITIES)))
    texts = [(pair.query, pair.title) for pair in pairs]
    reduction = cls_row(scorer.encoder, layers, KindMasks(texts, context.segmenter))
    with context.progress(len(every) * len(pairs), "runs") as shown:
        rows = stream(scorer, texts, [reduction], every, shown=shown)[CLS_ROW]
    return by_query(np.moveaxis(rows, 1, 0), [pair.query for pair in pairs])


# Heads of all layers whose [CLS] favours the shared terms (`focused`), or avoids them (`averted`).


@dataclass(frozen=True, eq=False)
class FocusHeads:
    """Scores and tests of every head [layers, heads] on discovery, and the named heads of both signs.

    p is the larger of focus and within; q is over heads and both signs.
    """

    focus: FloatArray
    within: FloatArray
    p: FloatArray
    q: FloatArray
    focused: list[Head]
    averted: list[Head]


def name_focus_heads(rows: FloatArray) -> FocusHeads:
    """Name heads from rows [queries, layers, heads, quantities].

    Both focus and within must be large enough, significant and of one sign, so that heads that only
    favour one text are not named.
    """
    both = np.stack([rows[..., FOCUS], rows[..., WITHIN]])
    focus, within = means(both[0]), means(both[1])
    score = _smaller(focus, within)
    weight = means(rows[..., QUANTITIES.index("matched")] + rows[..., QUANTITIES.index("other")])
    larger_p = [np.maximum(*(one_sided_p(sign * scores) for scores in both)) for sign in (1, -1)]
    named = name_heads(np.abs(score), np.stack(larger_p, axis=-1), weight, least=LEAST_FOCUS)
    focused, averted = ([h for h in named.heads() if sign * score[h] > 0] for sign in (1, -1))
    return FocusHeads(focus, within, named.p, named.q, focused, averted)


def by_focus(rows: FloatArray, sign: int) -> Rule:
    """The smaller mean of focus and within [queries, layers, heads, quantities], times `sign`."""
    focus, within = by_mean(rows[..., FOCUS]), by_mean(rows[..., WITHIN])
    return lambda weights: sign * _smaller(focus(weights), within(weights))


def _smaller(focus: FloatArray, within: FloatArray) -> FloatArray:
    """The value nearer to 0; 0 where the signs differ."""
    nearer = np.where(np.abs(focus) < np.abs(within), focus, within)
    return np.asarray(np.where(focus * within > 0, nearer, 0.0))


# The probe.


def measure(context: Context) -> Result:
    """Choose the reader on discovery, and ablate the matching heads below it against layer-matched sets."""
    scorer, shape = context.model, context.model.checkpoint.shape
    if scorer.checkpoint.reads == "mean":
        return Result(nothing="no_token", claims={"needs": "no_token"})
    layer, every = layer_of(shape), range(shape.layers)
    chosen_on = for_model(context.discovery, QUICK_PAIRS, context)
    discovery, discovery_counts = partly_matched(chosen_on, scorer, context.segmenter)
    validation, validation_counts = partly_matched(context.validation, scorer, context.segmenter)
    settings: dict[str, Any] = {
        "layer": layer,
        "least_focus": LEAST_FOCUS,
        "partly_matched": {"discovery": discovery_counts, "validation": validation_counts},
    }
    heads = [head for head in shape.all_heads if head.layer == layer]
    if not discovery or not validation or not heads:
        nothing = "nothing_shared" if heads else "no_head"
        return Result(
            nothing=nothing, claims={"needs": nothing}, settings=settings, facts={"layer": layer}
        )

    # The five best matching heads below, ablated together, and layer-matched sets.
    below = [head for head in shape.all_heads if head.layer < layer]
    matching = chosen_heads(context, below)
    named = discovery_scores(context).named()
    draws = context.choose(QUICK_SETS, SETS)
    sets, enumerated = layer_matched_sets(shape, matching, named, draws, context.seed)
    together = [Variant("matching", (zeroed(matching),), "target")] if matching else []
    beside = resampled(context, "matching", together[0].parts[0]) if together else []
    encoded = scorer.tokenizer.encode([(p.query, p.title) for p in validation], offsets=False)
    context.guards["ablated"] = check_equivalence(
        scorer.checkpoint, scorer.encoder, [*together, *beside, *sets], encoded, seed=context.seed
    )
    discovery_rows, validation_rows = (
        cls_rows(context, pairs, every)[:, 0] for pairs in (discovery, validation)
    )
    focus_heads, validated = map(name_focus_heads, (discovery_rows, validation_rows))
    named_again = {*focus_heads.focused} & {*validated.focused}
    reader = max(heads, key=lambda head: np.nan_to_num(focus_heads.focus[head], nan=-np.inf))
    averted_again = {*focus_heads.averted} & {*validated.averted}
    shown = {head: head in averted_again for head in focus_heads.averted}
    shown |= {head: head in named_again for head in (reader, *focus_heads.focused)}
    contested = few_in_quick(context, validation, 1)
    # Of the layer's heads, for each variant [queries, heads, 9].
    clean, *without = _by_variant(cls_rows(context, contested, [layer], [*together, *beside]))
    controls: list[FloatArray] = []

    def lost(rows: FloatArray, quantity: int = FOCUS) -> Estimate:
        """A quantity of the reader in the clean model, less that in `rows`."""
        return _mean((clean - rows)[:, reader.head, quantity], contested)

    def run_sets(variants: list[Variant], number: int) -> list[Estimate]:
        controls.extend(_by_variant(cls_rows(context, contested, [layer], variants))[1:])
        return list(map(lost, controls[-len(variants) :]))

    of_reader = validation_rows[:, reader.layer, reader.head]
    focus = _mean(of_reader[:, FOCUS], validation)
    target = lost(without[0]) if without else None
    contest, draws, scatters = None, 0, None
    if target is not None:
        contest = against(context, "focus.needs", target, sets, run_sets, enumerated=enumerated)
    if contest is not None:
        draws = 0 if contest.enumerated else len(controls)
        of_controls = mean_of([lost(rows, ENTROPY) for rows in controls], draws=draws)
        scatters = of_controls - lost(without[0], ENTROPY)
    needs: Contest | str = contest or ("few_sets" if together else "no_matching")
    if contest is not None and context.sign(focus) <= 0:
        needs = "precondition:focus"
    ablated = [clean, *without[:1], *controls]
    alone = [Variant("reader", (zeroed([reader]),), "target")]
    loss = ablate(context, "reader", alone, contest_pairs(context, context.validation))
    status = "named" if reader in named_again else "unnamed"
    return Result(
        claims={"needs": needs},
        measurements={
            "reader_focus": focus,
            "reader_focus_within": _mean(of_reader[:, WITHIN], validation),
            "reader_focus_lost": target,
            "control_focus_lost": None if contest is None else contest.mean_set,
            "reader_resampled": lost(without[1]) if without else None,
            "reader_scatters": scatters,
            "reader_loss": loss.loss("reader"),
        },
        heads=head_table(shape, _columns(validation_rows, focus_heads, layer, ablated)),
        sets={
            "reader": [reader],
            "focused": focus_heads.focused,
            "averted": focus_heads.averted,
            "matching_below": matching,
        },
        selected="focused",
        shown=shown,
        stability=_stabilities(
            context, reader, focus_heads, matching, below, discovery_rows, validation_rows
        ),
        figures=list(
            _figures(context, validation_rows, focus_heads, layer, ablated, draws, contested)
        ),
        facts={
            "read": reader in named_again,
            "status": texts_of("focus").text(f"words.{status}"),
            "layer": layer,
            "reader": str(reader),
            "number": len(matching),
            "favour": len(focus_heads.focused),
            "avoid": len(focus_heads.averted),
            "every": len(shape.all_heads),
            "contested": len(contested),
            "sets": len(controls),
        },
        settings={
            **settings,
            "contested_pairs": len(contested),
            "layer_matched_sets": len(controls),
        },
        pairs=validation,
    )


def _mean(per_query: FloatArray, pairs: Sequence[Pair]) -> Estimate:
    """The mean of values [queries], in the order of the queries of `pairs`."""
    return over_queries(per_query, group_queries([pair.query for pair in pairs])[0])


def _by_variant(rows: FloatArray) -> list[FloatArray]:
    """Rows of one layer [queries, variants, 1, heads, 9] for each variant [queries, heads, 9]."""
    return [*np.moveaxis(rows[:, :, 0], 1, 0)]


def _columns(
    validation_rows: FloatArray, focus_heads: FocusHeads, layer: int, ablated: Sequence[FloatArray]
) -> dict[str, FloatArray]:
    """Scores [layers, heads]: quantities on validation, tests on discovery."""
    rows = means(validation_rows)
    change = np.full(focus_heads.focus.shape, np.nan)
    if len(ablated) > 1:
        change[layer] = means(ablated[1] - ablated[0])[:, FOCUS]
    return {
        **{name: rows[..., place] for place, name in enumerate(QUANTITIES)},
        "discovery_focus": focus_heads.focus,
        "discovery_within": focus_heads.within,
        "p": focus_heads.p,
        "q": focus_heads.q,
        "focus_change": change,
    }


def _stabilities(
    context: Context,
    reader: Head,
    focus_heads: FocusHeads,
    matching: Sequence[Head],
    below: Sequence[Head],
    first: FloatArray,
    again: FloatArray,
) -> dict[str, Stability | None]:
    """The stability of every set by its rows on discovery, `first`, and on validation, `again`."""
    pool, seed = context.model.checkpoint.shape.all_heads, context.seed
    of_layer = [head for head in pool if head.layer == reader.layer]

    def of(named: Sequence[Head], sign: int) -> Stability | None:
        rule = by_focus(first, sign)
        beside = Elsewhere(VALIDATION, by_focus(again, sign), len(again))
        return stability(rule, named, len(first), pool=pool, elsewhere=[beside], seed=seed)

    return {
        "reader": stability_of_means(
            first[..., FOCUS], again[..., FOCUS], [reader], of_layer, seed
        ),
        "focused": of(focus_heads.focused, 1),
        "averted": of(focus_heads.averted, -1),
        "matching_below": stable_matching(
            discovery_scores(context), matching, within=below, seed=seed
        ),
    }


def _figures(
    context: Context,
    validation_rows: FloatArray,
    focus_heads: FocusHeads,
    layer: int,
    ablated: Sequence[FloatArray],
    draws: int,
    contested: Sequence[Pair],
) -> Iterator[Figure]:
    """Focus of every head; for the layer's heads also without the matching heads, and without others, as a
    mean over `draws` of them."""
    marked = (*focus_heads.focused, *focus_heads.averted)
    yield head_map("heads", means(validation_rows)[..., FOCUS], marked=marked, scale="diverging")
    lines = {"clean": ablated[:1], "without": ablated[1:2], "control": ablated[2:]}
    heads = range(ablated[0].shape[1])
    series = {
        name: [
            mean_of(
                [_mean(rows[:, head, FOCUS], contested) for rows in of_line],
                draws=draws if name == "control" else 0,
            )
            for head in heads
        ]
        for name, of_line in lines.items()
        if of_line
    }
    categories = [f"L{layer}H{head}" for head in heads]
    yield estimate_bars(context, "before_and_after", categories, series)
