"""What every run of routes proves first, on eight pairs: that its paths are what their names say."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from qt_bert.ablation.guards import BATCH_TOKENS, distance, eight_of, in_float32, run_guards
from qt_bert.ablation.loop import sweep
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.paths import Detour, Inflow
from qt_bert.ablation.variant import Variant
from qt_bert.encoder import Encoder
from qt_bert.encoder.batches import Batch, batches_of
from qt_bert.encoder.heads import Head
from qt_bert.errors import GuardError
from qt_bert.pairs import Pair
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.routed.passes import Sender, variants_of


def guard(context: ProbeContext, sender: HeadMask, receiver: Head, pairs: Sequence[Pair]) -> None:
    """Hold the paths against hooks on the Hugging Face model, and all routes together against leaving out.

    The figures go to the result. Raises GuardError where the model, or the two, disagree.
    """
    scorer, texts = context.model, [(pair.query, pair.title) for pair in pairs]
    checkpoint, encoder = in_float32(scorer.checkpoint, scorer.encoder)
    encoded = eight_of(scorer.tokenizer.encode(texts, offsets=False))
    variants = list(variants_of([Sender("set", sender)], [receiver]))
    figures = run_guards(checkpoint, encoder, variants, encoded, seed=context.seed)
    device = checkpoint.model.device
    batches = batches_of(encoded, BATCH_TOKENS, pad=checkpoint.pad, device=device)
    every_reader = _every_reader(encoder, batches, sender, receiver.layer)
    context.guards["paths"] = figures | {"every_reader": every_reader}
    if not every_reader <= figures["bound"]:
        raise GuardError(
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
