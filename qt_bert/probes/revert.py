"""What did tuning teach the matching heads? (`heads_of_query_title_bert`, 2.4.1; Perlman et al.)

Weights are reset exactly to the base's: the query, key, value and output columns of some heads, or all layers
with the embeddings (pooler and classifier stay tuned). If the grades rest on what tuning taught the matching
heads, resetting them costs more than resetting other heads of their layers. The change of attention follows
both articles: of one head that matches on the base, to matched terms (2.4.1); over all heads, to the same word
(Perlman, Nijasure and Allan).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from qt_bert.ablation.checks import (
    BATCH_TOKENS,
    GPU_TOLERANCE,
    ROUNDING,
    TOLERANCE,
    distance,
    eight_of,
)
from qt_bert.ablation.engine import sweep
from qt_bert.ablation.interventions import NONE, Intervention, Variant
from qt_bert.ablation.weights import BaseWeights, Reverted, RevertedLayers
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.figures import Bars, HeatMap, head_map
from qt_bert.heads import Head
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import whole_products
from qt_bert.models.forward import Encoder
from qt_bert.probes.base import Context, Result, estimate_bars, head_table
from qt_bert.probes.base_model import open_base, scorer_like
from qt_bert.probes.contests import SETS, ablate, contest
from qt_bert.probes.matching_scores import scores_by, sink_free
from qt_bert.probes.naming import by_query, function_heads, means, named_beside
from qt_bert.probes.shift_maps import OfBoth, links, of_both
from qt_bert.probes.streams import Shared, for_model, shared_terms, tokens_within
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray
from qt_bert.stats.estimate import Estimate, over_queries

QUICK_PAIRS, QUICK_SEEN = 64, 96
"""Pairs of a quick run: for losses, and for attention."""
QUICK_SETS = 33
"""Layer-matched random sets; no claim rests on them."""
POINTS = 100.0
"""Points are hundredths of a token's attention."""


# The base's weights, and the check that resetting all of them gives the base.


def base_weights(folder: Path, scorer: Scorer) -> tuple[Checkpoint, BaseWeights]:
    """The base in `folder`, and its weights for the scorer's model.

    Raises CheckpointError and ArgumentError for a base of another model.
    """
    base = open_base(folder, scorer.checkpoint)
    return base, BaseWeights(base.encoder(), scorer.encoder)


def everything(earlier: BaseWeights) -> Variant:
    """All layers and the embeddings reset; pooler and classifier stay tuned."""
    layers = tuple(range(len(earlier.tuned.layers)))
    return Variant("everything", (RevertedLayers(layers, earlier, embeddings=True),), "revert")


def check_ends(scorer: Scorer, folder: Path, pairs: Sequence[Pair]) -> dict[str, float]:
    """The distance of both ends from their expected logits, on eight pairs in float32.

    `nothing` reset is the model itself, `everything` reset the base's encoder under the tuned head.
    Raises EquivalenceError beyond 1e-5 (on a GPU 1e-4) and four times the rounding of float32.
    """
    with whole_products():
        return _checked_ends(scorer.exact(), folder, pairs)


def _checked_ends(scorer: Scorer, folder: Path, pairs: Sequence[Pair]) -> dict[str, float]:
    _, earlier = base_weights(folder, scorer)
    texts = eight_of(scorer.tokenizer.encode([(p.query, p.title) for p in pairs], offsets=False))
    batches = list(batches_of(texts, BATCH_TOKENS, pad=scorer.pad))
    ends = {"nothing": 0.0, "everything": 0.0}
    with torch.inference_mode():
        for batch in batches:
            (swept,) = sweep(earlier.tuned, [batch], [NONE, everything(earlier)])
            expected = _expected(earlier.base, earlier.tuned, batch)
            for name, logits, expected_logits in zip(ends, swept.logits, expected, strict=True):
                ends[name] = max(ends[name], distance(logits, expected_logits))
        bound = TOLERANCE if earlier.tuned.device.type == "cpu" else GPU_TOLERANCE
        if max(ends.values()) > bound:
            bound = max(bound, ROUNDING * _rounding(earlier, batches))
    for name, difference in ends.items():
        if not difference <= bound:
            raise EquivalenceError(
                f"with {name} reset the logits differ by {difference:.2g} from the expected ones, more "
                f"than {bound:.2g}; the figures of this run cannot be trusted"
            )
    return {**ends, "bound": bound}


def _rounding(earlier: BaseWeights, batches: Sequence[Batch]) -> float:
    """The rounding of float32 in the expected logits."""
    base, tuned = (
        Encoder(copy.deepcopy(encoder.model).double(), encoder.family)
        for encoder in (earlier.base, earlier.tuned)
    )
    return max(
        distance(rounded, expected_logits)
        for batch in batches
        for rounded, expected_logits in zip(
            _expected(earlier.base, earlier.tuned, batch),
            _expected(base, tuned, batch),
            strict=True,
        )
    )


def _expected(base: Encoder, tuned: Encoder, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """The logits of the model, and of the base's encoder under its head [B, labels]."""
    both = tuned.logits_of(batch), tuned.family.head(tuned.model, base.read_of(batch))
    return both[0].double().cpu().numpy(), both[1].double().cpu().numpy()


# Cells of a pair's attention map: the same term in the other text, the same word anywhere.


QUANTITIES = ("across", "same", "itself", "near", "far")
"""Mean weights of a pair in one head.

`across`: from a token of a shared term to that term in the other text, as a share of its attention to other
tokens of both texts. `same`: from a token of any word to all tokens of the same word in both texts, as a share
of all its attention; the sum of `itself`, `near` (other tokens of the word in its own text) and `far` (in the
other text).
"""


class PairWords:
    """The words of a pair, and the terms that both texts share."""

    def __init__(self, query: str, title: str, segmenter: Segmenter) -> None:
        self.shared: list[Shared] = list(shared_terms(query, title, segmenter).values())
        self._places = [
            (side, (start, end), text[start:end].casefold())
            for side, text in ((QUERY, query), (TITLE, title))
            for start, end in segmenter.spans(text)
            if any(map(str.isalnum, text[start:end]))
        ]

    def same_word(self, encoded: EncodedPair) -> BoolArray:
        """[tokens, tokens]: whether two tokens lie within the same word, in either text.

        Function words count, punctuation does not; tokens across a word boundary are of no word.
        """
        numbers = {word: number for number, word in enumerate({word for *_, word in self._places})}
        within = np.zeros((len(numbers), len(encoded)), np.float32)
        for side, (start, end), word in self._places:
            for token in tokens_within(encoded, side, (start, end)):
                first, last = encoded.spans[token]
                within[numbers[word], token] = start <= first and last <= end
        return np.asarray(within.T @ within > 0)


@dataclass(frozen=True, eq=False)
class Cells:
    """Masks of a batch's cells, 0 or 1: `linked` [B, 1, L, L]; `parts` (itself, near, far) [B, 3, L, L].

    `texts` [B, L] is True at the tokens of query and title.
    """

    linked: torch.Tensor
    parts: torch.Tensor
    texts: torch.Tensor

    @classmethod
    def of(cls, batch: Batch, words: Sequence[PairWords]) -> Cells:
        """The cells of a batch encoded with offsets; `words` by pair."""
        size, length = batch.input_ids.shape
        linked = np.zeros((size, 1, length, length), np.float32)
        parts = np.zeros((size, 3, length, length), np.float32)
        texts = np.zeros((size, length), np.bool_)
        for row, (encoded, of_pair) in enumerate(zip(batch.encoded, words, strict=True)):
            real = slice(len(encoded))
            side, same = np.array(encoded.side), of_pair.same_word(encoded)
            itself, near = np.eye(len(side), dtype=bool), side[:, None] == side
            linked[row, 0, real, real] = links(encoded, of_pair.shared)
            parts[row, :, real, real] = same & itself, same & near & ~itself, same & ~near
            texts[row, real] = side != SPECIAL
        device = batch.input_ids.device
        return cls(*(torch.from_numpy(mask).to(device) for mask in (linked, parts, texts)))

    def of_both(self, before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
        """The QUANTITIES of two models' maps, one after the other [B, heads, 10]."""
        return torch.cat([self.weights(before), self.weights(after)], dim=-1)

    def weights(self, maps: torch.Tensor) -> torch.Tensor:
        """The QUANTITIES of maps [B, heads, L, L]: [B, heads, 5]; NaN where a pair has no such row."""
        across = _sums(sink_free(maps, self.texts), self.linked) / _rows(self.linked)
        parts = _sums(maps, self.parts) / _rows(self.parts[:, :1])  # a token of a word is itself
        return torch.cat([across, parts.sum(-1, keepdim=True), parts], dim=-1)


def _sums(maps: torch.Tensor, cells: torch.Tensor) -> torch.Tensor:
    """[B, heads, L, L] over cells [B, kinds, L, L]: [B, heads, kinds]."""
    return maps.flatten(2) @ cells.flatten(2).transpose(1, 2)


def _rows(cells: torch.Tensor) -> torch.Tensor:
    """The number of rows with a cell [B, 1, 1], of cells [B, 1, L, L]."""
    return cells.amax(-1).sum(-1)[..., None]


Attention = Mapping[str, Mapping[str, FloatArray]]
"""`before` and `after` → QUANTITIES by name, means by query [queries, layers, heads]."""


def attention_of(context: Context, base: Encoder, pairs: Sequence[Pair]) -> Attention:
    """Both models on the same batches."""
    texts = [(pair.query, pair.title) for pair in pairs]
    words = [PairWords(*text, context.segmenter) for text in texts]

    def measure(batch: Batch) -> OfBoth:
        return Cells.of(batch, [words[row] for row in batch.rows]).of_both

    with context.progress(len(pairs), "pairs") as shown:
        both = of_both(base, context.model, texts, measure, shown=shown)
    queries = [pair.query for pair in pairs]
    return {
        when: {name: by_query(values[..., place], queries) for place, name in enumerate(QUANTITIES)}
        for when, values in zip(("before", "after"), np.split(both, 2, axis=-1), strict=True)
    }


def _change(attention: Attention, name: str, head: Head | None = None) -> Estimate:
    """After less before of one head, or of the mean head, in points of attention."""
    rise = attention["after"][name] - attention["before"][name]
    of = rise.mean(axis=(1, 2)) if head is None else rise[:, head.layer, head.head]
    return over_queries(POINTS * of, range(len(of)))


# The probe.


def measure(context: Context) -> Result:
    """Reset the matching heads and layer-matched sets, all heads, and everything.

    Raises ArgumentError without a base, CheckpointError or ArgumentError for a base of another model.
    """
    if context.model.checkpoint.kept is not None:
        return Result(nothing="pruned")
    if context.model.checkpoint.family.heads_share:
        return Result(nothing="family")
    if context.request.base is None:
        raise ArgumentError("the model before fine-tuning is needed; give its folder with --base")
    scorer, shape = context.model, context.model.checkpoint.shape
    base, earlier = base_weights(context.request.base, scorer)
    matching_heads = function_heads(context)
    pairs = for_model(context.validation, QUICK_PAIRS, context)
    context.guards["ends"] = check_ends(scorer, context.request.base, pairs)

    def reset(heads: Iterable[Head]) -> Intervention:
        return Reverted(tuple(heads), earlier)

    every = shape.all_heads
    ends = [Variant("all_heads", (reset(every),), "revert"), everything(earlier)]
    others = [
        head for head in every if matching_heads is not None and head not in matching_heads.heads
    ]
    kept = (
        [Variant("kept", (reset(others),), "keep")] if matching_heads is not None and others else []
    )
    run = ablate(context, "back", [*ends, *kept], pairs)
    judged, alone = (None, None)
    if matching_heads is not None:
        judged, alone = contest(
            context,
            "set",
            matching_heads.heads,
            named=named_beside(context, matching_heads),
            pairs=pairs,
            ablated=reset,
            most=context.choose(QUICK_SETS, SETS),
        )
    limit = context.choose(QUICK_SEEN, len(context.validation))
    sample = spread_over_queries(context.validation, limit, context.seed)
    attention = attention_of(context, earlier.base, sample)
    before = scores_by(scorer_like(context, base), context).best(1)
    head = before[0] if before else None  # as the article's: it matches before tuning
    losses = {
        "set": None if alone is None else alone.loss("set"),
        "others": None if judged is None else judged.target - judged.beyond,
        "all_heads": run.loss("all_heads"),
        "kept": run.loss("kept") if kept else None,
        "everything": run.loss("everything"),
    }
    return Result(
        measurements={
            **{f"{name}_loss": loss for name, loss in losses.items()},
            "beyond_others": None if judged is None else judged.beyond,
            "across": None if head is None else _change(attention, "across", head),
            **{name: _change(attention, name) for name in QUANTITIES[1:]},
        },
        heads=head_table(
            shape,
            {f"{n}_{when}": means(attention[when][n]) for n in QUANTITIES for when in attention},
        ),
        figures=_figures(context, losses, attention, head),
        facts={
            "number": 0 if matching_heads is None else len(matching_heads.heads),
            "status": None if matching_heads is None else matching_heads.status,
            "head": None if head is None else str(head),
            "sets": 0 if judged is None else len(judged.sets),
            "more": 0
            if judged is None
            else sum(s.value >= judged.target.value for s in judged.sets),
            "pairs": len(pairs),
            "seen": len(sample),
        },
        settings={
            "base": {"name": base.name, "sha256": base.sha256},
            "asked": None if matching_heads is None else matching_heads.describe(),
        },
        pairs=pairs,
        nothing="no_heads" if matching_heads is None else None,
    )


def _figures(
    context: Context,
    losses: Mapping[str, Estimate | None],
    attention: Attention,
    head: Head | None,
) -> list[Bars | HeatMap]:
    known = {name: loss for name, loss in losses.items() if loss is not None}
    rise = means(attention["after"]["across"] - attention["before"]["across"])
    marked = [] if head is None else [str(head)]
    return [
        estimate_bars(context, "losses", list(known), {"loss": list(known.values())}, digits=1),
        head_map("across", POINTS * rise, marked=marked, scale="diverging", digits=1),
    ]
