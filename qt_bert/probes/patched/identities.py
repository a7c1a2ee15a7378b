"""What every patch must fulfil, whatever the model: checked on a few pairs of each run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from qt_bert.ablation.guards import BATCH_TOKENS, distance, in_float32, run_guards
from qt_bert.ablation.loop import sweep
from qt_bert.ablation.patching import Patch, StatePatch, twin_batches
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder import Encoder
from qt_bert.encoder.heads import Head
from qt_bert.errors import GuardError
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.probes.common.streams import gathered
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.patched.twins import Made

PAIRS = 4


def guard(context: ProbeContext, made: Made, variants: Sequence[Variant]) -> None:
    """Stop unless variants do what they say and the identities hold; figures go to the result.

    The bound is that of `run_guards`, 1e-5 or what float32 itself rounds. Raises GuardError.
    """
    checkpoint, encoder = in_float32(context.model.checkpoint, context.model.encoder)
    figures = run_guards(checkpoint, encoder, variants, made.texts, twins=True, seed=context.seed)
    found = identities(encoder, made.texts[: 2 * PAIRS], checkpoint.pad)
    for name, off in found.items():
        if not off <= figures["bound"]:
            raise GuardError(
                f"{name}: the logits are off by {off:.2g}, more than {figures['bound']:.2g}; no "
                "figure of this run could be trusted"
            )
    context.guards["patched"] = {**figures, "identities": found}


def identities(encoder: Encoder, texts: Sequence[EncodedPair], pad: int) -> dict[str, float]:
    """How far the logits of twins are off where the outcome is known, by what was done.

    A text patched from itself stays as it is. All hidden states at one place, or the contexts of all
    heads in all layers, make a text its twin: [CLS], which is read, is one token in both.
    """
    heads = [
        [Head(number, head) for head in range(layer.heads)]
        for number, layer in enumerate(encoder.layers)
    ]
    of_layers = [Variant(f"L{n}", (Patch(tuple(own)),)) for n, own in enumerate(heads) if own]
    states = [Variant(f"r{place}", (StatePatch(place),)) for place in range(len(heads) + 1)]
    every = Variant("contexts", (Patch(tuple(head for own in heads for head in own)),))
    itself = [text for text in texts[::2] for _ in range(2)]
    plain, *same = _logits(encoder, itself, [NONE, *of_layers, every], pad)
    own, *turned = _logits(encoder, texts, [NONE, *states, every], pad)
    twin = own.reshape(-1, 2, own.shape[-1])[:, ::-1].reshape(own.shape)
    return {
        "a pair patched with itself": _largest(same, plain),
        "all hidden states of a place": _largest(turned[:-1], twin),
        "the contexts of all heads in all layers": distance(turned[-1], twin),
    }


def _logits(
    encoder: Encoder, texts: Sequence[EncodedPair], variants: Sequence[Variant], pad: int
) -> np.ndarray:
    batches = twin_batches(texts, BATCH_TOKENS, pad=pad)
    return gathered(sweep(encoder, batches, variants), len(texts))["logits"]


def _largest(found: Iterable[np.ndarray], expected: np.ndarray) -> float:
    return max(distance(one, expected) for one in found)
