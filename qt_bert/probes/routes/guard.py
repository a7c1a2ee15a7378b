"""What every run of routes proves first, on eight pairs: that its paths are what their names say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from qt_bert.ablation.checks import BATCH_TOKENS, check_equivalence, distance, eight_of, in_float32
from qt_bert.ablation.engine import sweep
from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patches import Detour, Inflow
from qt_bert.data.pairs import Pair
from qt_bert.errors import EquivalenceError
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.routes.passes import Sender, variants_of


def guard(context: Context, sender: HeadMask, receiver: Head, pairs: Sequence[Pair]) -> None:
    """Hold the paths against hooks on the Hugging Face model, and all routes together against leaving out.

    The figures go to the result. Raises EquivalenceError where the model, or the two, disagree.
    """
    scorer, texts = context.model, [(pair.query, pair.title) for pair in pairs]
    checkpoint, encoder = in_float32(scorer.checkpoint, scorer.encoder)
    encoded = eight_of(scorer.tokenizer.encode(texts, offsets=False))
    variants = list(variants_of([Sender("set", sender)], [receiver]))
    figures = check_equivalence(checkpoint, encoder, variants, encoded, seed=context.seed)
    device = checkpoint.model.device
    batches = batches_of(encoded, BATCH_TOKENS, pad=checkpoint.pad, device=device)
    every_reader = _every_reader(encoder, batches, sender, receiver.layer)
    context.guards["paths"] = figures | {"every_reader": every_reader}
    if not every_reader <= figures["bound"]:
        raise EquivalenceError(
            f"with nothing held, what all of layer {receiver.layer} reads differs from leaving the "
            f"heads out by {every_reader:.2g}, more than {figures['bound']:.2g}; no share of this run "
            "could be trusted"
        )


def _every_reader(
    encoder: Encoder, batches: Iterable[Batch], sender: HeadMask, layer: int
) -> float:
    """How far apart the logits are: the sender left out, and all readers patched with nothing held."""
    variants = [
        Variant("left out", (sender,)),
        Variant("every reader", (Inflow(Detour(sender, layer, "nothing")),)),
    ]
    found = np.concatenate([one.logits for one in sweep(encoder, batches, variants)], axis=1)
    return distance(found[1], found[0])
