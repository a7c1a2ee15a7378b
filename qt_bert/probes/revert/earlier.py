"""The weights before fine-tuning, and the proof that taking all of them gives the model before it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qt_bert.ablation.checks import BATCH_TOKENS, ROUNDING, check_equivalence, distance, eight_of
from qt_bert.ablation.engine import sweep
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.weights import Earlier, RevertedLayers
from qt_bert.data.pairs import Pair
from qt_bert.errors import EquivalenceError
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.checkpoint import Checkpoint, open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.probes.base_model import open_base
from qt_bert.scoring.bulk import Scorer

VariantsOf = Callable[[Earlier], Sequence[Variant]]


def earlier_of(folder: Path, scorer: Scorer) -> tuple[Checkpoint, Earlier]:
    """The base in `folder`, and its weights for the scorer's model.

    Raises CheckpointError and ArgumentError for a base that the model cannot come from.
    """
    base = open_base(folder, scorer.checkpoint)
    return base, Earlier(
        Encoder(base.model, base.family, scorer.checkpoint.offline), scorer.encoder
    )


def everything(earlier: Earlier) -> Variant:
    """All layers and the embeddings set back; pooler and classifier stay tuned."""
    layers = tuple(range(len(earlier.tuned.layers)))
    return Variant("revert:all", (RevertedLayers(layers, earlier, embeddings=True),), "revert")


def guard(
    scorer: Scorer, folder: Path, earlier: Earlier, variants_of: VariantsOf, pairs: Sequence[Pair]
) -> dict[str, Any]:
    """The figures of `prove` on these variants, and of both ends: `nothing` and `everything`.

    `nothing` is how far the plain pass lies from the model, `everything` how far the model with all
    set back lies from the base's encoder under the tuned head. All are of float32, whatever the
    run's number type. Raises EquivalenceError where one is beyond its bound: for the ends 1e-5, or
    four times what float32 alone moves.
    """
    if scorer.checkpoint.dtype != "float32":
        scorer = Scorer(
            open_checkpoint(scorer.checkpoint.folder), max_length=scorer.tokenizer.max_length
        )
        _, earlier = earlier_of(folder, scorer)
    texts = [(pair.query, pair.title) for pair in pairs]
    some = eight_of(scorer.tokenizer.encode(texts, offsets=False))
    figures = check_equivalence(scorer.checkpoint, scorer.encoder, variants_of(earlier), some)
    batches = list(batches_of(some, BATCH_TOKENS, pad=scorer.pad))
    ends, bound = _ends(earlier, batches), figures["bound"]
    if max(ends.values()) > bound:
        bound = max(bound, ROUNDING * _rounding(earlier, batches))
    for name, found in ends.items():
        if not found <= bound:
            raise EquivalenceError(
                f"with {name} set back the logits differ by {found:.2g} from those they should be, more "
                f"than {bound:.2g}; no figure of this run could be trusted"
            )
    return figures | ends | {"ends_bound": bound}


@torch.inference_mode()
def _ends(earlier: Earlier, batches: Sequence[Batch]) -> dict[str, float]:
    found = {"nothing": 0.0, "everything": 0.0}
    variants = [NONE, everything(earlier)]
    for batch in batches:
        (swept,) = sweep(earlier.tuned, [batch], variants)
        wanted = _wanted(earlier.base, earlier.tuned, batch)
        for name, got, want in zip(found, swept.logits, wanted, strict=True):
            found[name] = max(found[name], distance(got, want))
    return found


@torch.inference_mode()
def _rounding(earlier: Earlier, batches: Sequence[Batch]) -> float:
    """How far float32 alone moves the logits that both ends should have."""
    base, tuned = (
        Encoder(copy.deepcopy(one.model).double(), one.family, one.offline)
        for one in (earlier.base, earlier.tuned)
    )
    return max(
        distance(rounded, want)
        for batch in batches
        for rounded, want in zip(
            _wanted(earlier.base, earlier.tuned, batch), _wanted(base, tuned, batch), strict=True
        )
    )


def _wanted(base: Encoder, tuned: Encoder, batch: Batch) -> tuple[np.ndarray, np.ndarray]:
    """The logits of the model, and of the base's encoder under its head [B, labels]."""
    both = tuned.logits_of(batch), tuned.family.head(tuned.model, base.first_of(batch))
    return both[0].double().cpu().numpy(), both[1].double().cpu().numpy()
