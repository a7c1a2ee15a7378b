"""How [CLS] spreads its attention: a few numbers for each pair and head."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.segmenters import Segmenter
from qt_bert.models.batches import Batch
from qt_bert.probes.focus.terms import MATCHED, OTHER, Kind, kinds_of

NAME = "cls_row"
WEIGHTS = ("query", "title", "matched", "other", "separator", "itself")
"""Weight on the query's and the title's tokens (together 1 with the last two), on matched and on
other characters of both, on the separators, and on [CLS] itself."""
QUANTITIES = (*WEIGHTS, "entropy", "focus", "within")
"""Beside the weights, of those on characters alone: `entropy`, over the logarithm of the characters'
number; `focus`, the share on matched ones less their share of all characters; `within`, that share
less the one that even weights in each text would have under the head's own division between them."""
_MATCHED, _OTHER = list(map(int, MATCHED)), list(map(int, OTHER))
FOCUS, WITHIN, ENTROPY = map(QUANTITIES.index, ("focus", "within", "entropy"))


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


def cls_row(layers: Sequence[int], places: Places) -> Reduction:
    """The reduction to `QUANTITIES` of every head [B, heads, 9]."""

    def compute(view: View) -> torch.Tensor:
        return measure(view.values[:, :, 0].float(), places.masks(view.batch))

    return Reduction(NAME, "attention", tuple(layers), compute, first_row=True)


def measure(weights: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
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
