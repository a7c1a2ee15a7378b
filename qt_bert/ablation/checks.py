"""Equivalence checks: every masked run first proves itself against the Hugging Face model."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View, sweep
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patches import donor_batches
from qt_bert.ablation.reference import PlainModel
from qt_bert.data.tokenise import EncodedPair
from qt_bert.errors import EquivalenceError
from qt_bert.heads import Head
from qt_bert.models.batches import Batch, batches_of, row_at
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import whole_products
from qt_bert.models.forward import Encoder
from qt_bert.models.opening import reopened

PAIRS = 8
VARIANTS = 5
TOLERANCE = 1e-5
GPU_TOLERANCE = 1e-4
ROUNDING = 4.0
LEAST_MOVE = 10.0
LIVE = 1e-3
BATCH_TOKENS = 512


def check_equivalence(
    checkpoint: Checkpoint,
    encoder: Encoder,
    variants: Sequence[Variant],
    encoded: Sequence[EncodedPair],
    *,
    donors: bool = False,
    seed: int = 0,
) -> dict[str, Any]:
    """Check the masked loop on this model, these variants and eight of these pairs.

    Where `donors` says so, `encoded` holds every text next to its donor (`donor_batches`), and four
    of these couples are taken.

    `encoder` is the one that the run uses, on its device; it stands against the Hugging Face model of
    `checkpoint`, on the CPU. A run of another type than float32 is checked in float32, on an encoder
    opened for it.

    Differences are the largest |difference| / max(1, |logit|). The bound is 1e-5, on a GPU 1e-4, or
    four times the float32 model's largest distance to itself in float64, over the unmasked pass and
    these variants, whichever is larger. Returns the figures for `run.json`. Raises EquivalenceError
    naming the check, the figure and the bound.
    """
    exact, encoder = in_float32(checkpoint, encoder)
    with whole_products():
        return _compared(exact, encoder, variants, encoded, donors, seed)


def _compared(
    exact: Checkpoint,
    encoder: Encoder,
    variants: Sequence[Variant],
    encoded: Sequence[EncodedPair],
    donors: bool,
    seed: int,
) -> dict[str, Any]:
    batched, some = (donor_batches, _four_couples) if donors else (batches_of, eight_of)
    batches = list(batched(some(encoded), BATCH_TOKENS, pad=exact.pad))
    tested = [NONE, *some_of_each(variants, VARIANTS, seed)]
    got = _swept(encoder, batches, tested)
    want = _hooked(exact, batches, tested)
    differences = [distance(a, b) for a, b in zip(got, want, strict=True)]
    bound = TOLERANCE if encoder.device.type == "cpu" else GPU_TOLERANCE
    if max(differences) > bound:
        double = replace(exact, model=copy.deepcopy(exact.model).double())
        rounding = distance(want.astype(np.float64), _hooked(double, batches, tested))
        bound = max(bound, ROUNDING * rounding)
    figures: dict[str, Any] = {
        "pairs": sum(map(len, batches)),
        "bound": bound,
        "unmasked": differences[0],
        "variants": {v.name: d for v, d in zip(tested[1:], differences[1:], strict=True)},
        "layers_off": _layers_off(encoder, batches),
    }
    _must_agree(figures, bound)
    return figures


def eight_of(encoded: Sequence[EncodedPair]) -> list[EncodedPair]:
    """Up to eight pairs spread over the lengths, the shortest and the longest among them."""
    return [encoded[row] for row in _spread([len(one) for one in encoded], PAIRS)]


def _four_couples(encoded: Sequence[EncodedPair]) -> list[EncodedPair]:
    """Up to four couples of a text and its donor, spread likewise."""
    couples = _spread([len(one) for one in encoded[::2]], PAIRS // 2)
    return [encoded[row] for couple in couples for row in (2 * couple, 2 * couple + 1)]


def _spread(lengths: Sequence[int], most: int) -> list[int]:
    order = np.argsort(lengths, kind="stable")
    places = np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int)
    return [int(order[place]) for place in places]


def some_of_each(variants: Sequence[Variant], count: int, seed: int) -> list[Variant]:
    """`count` variants, or more where there are more modes: each mode once, the rest drawn."""
    masked = [variant for variant in variants if variant.parts]
    order = [masked[i] for i in np.random.default_rng(seed).permutation(len(masked))]
    first: dict[tuple[str, str], Variant] = {}
    for variant in order:
        first.setdefault((variant.mode, variant.family), variant)
    modes = {variant.mode: variant for variant in reversed(order)}
    chosen = list(dict.fromkeys([*modes.values(), *first.values(), *order]))
    return chosen[: max(count, len(modes))]


def distance(one: np.ndarray, other: np.ndarray) -> float:
    """The largest |one − other| / max(1, |other|); infinite where one is not a number."""
    found = np.abs(one - other) / np.maximum(1, np.abs(other))
    return float(found.max()) if np.isfinite(found).all() else float("inf")


def _must_agree(figures: dict[str, Any], bound: float) -> None:
    if not figures["unmasked"] <= bound:
        raise EquivalenceError(
            f"the unmasked pass differs from the Hugging Face model by {figures['unmasked']:.2g}, "
            f"more than {bound:.2g}; no figure of this run could be trusted"
        )
    for name, difference in figures["variants"].items():
        if not difference <= bound:
            raise EquivalenceError(
                f"variant {name} differs from the Hugging Face model with hooks by "
                f"{difference:.2g}, more than {bound:.2g}; no figure of this run could be trusted"
            )
    for layer, moved in figures["layers_off"].items():
        if moved is not None and not moved > LEAST_MOVE * bound:
            raise EquivalenceError(
                f"leaving out all heads of {layer} moves the logits by {moved:.2g}, not by more "
                f"than {LEAST_MOVE * bound:.2g}: the mask takes no effect"
            )


def in_float32(checkpoint: Checkpoint, encoder: Encoder) -> tuple[Checkpoint, Encoder]:
    """The two that a check runs on, in float32: a checkpoint on the CPU, an encoder on the run's device.

    They are these, or copies where they lie elsewhere, or the same model opened anew.
    """
    device = checkpoint.device
    if checkpoint.model.dtype == torch.float32:
        return _on(checkpoint, torch.device("cpu")), encoder
    exact = reopened(checkpoint, dtype="float32", device="cpu")
    return exact, _on(exact, device).encoder()


def _on(checkpoint: Checkpoint, device: torch.device) -> Checkpoint:
    if checkpoint.device == device:
        return checkpoint
    return replace(checkpoint, model=copy.deepcopy(checkpoint.model).to(device))


def _swept(encoder: Encoder, batches: Sequence[Batch], variants: Sequence[Variant]) -> np.ndarray:
    return np.concatenate([s.logits for s in sweep(encoder, batches, variants)], axis=1)


def _hooked(
    checkpoint: Checkpoint, batches: Sequence[Batch], variants: Sequence[Variant]
) -> np.ndarray:
    plain = PlainModel(checkpoint.model, checkpoint.family)
    return np.stack(
        [
            np.concatenate([plain.logits(batch, variant.parts).cpu().numpy() for batch in batches])
            for variant in variants
        ]
    )


def _layers_off(encoder: Encoder, batches: Sequence[Batch]) -> dict[str, float | None]:
    """How far each layer's absence moves the logits; None for a layer without live heads."""
    heads = range(encoder.layers[0].heads)
    off = [
        Variant(f"L{n}", (HeadMask(tuple(Head(n, head) for head in heads)),))
        for n in range(len(encoder.layers))
    ]
    logits = _swept(encoder, batches, [NONE, *off])
    return {
        variant.name: distance(logits[0], one) if alive else None
        for variant, one, alive in zip(off, logits[1:], _live_layers(encoder, batches), strict=True)
    }


def _live_layers(encoder: Encoder, batches: Sequence[Batch]) -> list[bool]:
    """Whether a layer's heads add anything to speak of to the tokens they write to."""
    last = len(encoder.layers) - 1

    def largest(vectors: torch.Tensor, view: View) -> torch.Tensor:
        """The largest norm over the tokens that are read later on [B]: in the last layer by the head."""
        norms = vectors.norm(dim=-1, keepdim=True) * view.batch.real[..., None]
        if view.layer == last and encoder.reads != "mean":
            norms = row_at(norms, view.batch.at)
        return norms.amax((1, 2))

    def written(view: View) -> torch.Tensor:
        layer = encoder.layers[view.layer]
        return largest(layer.mix(view.values) - layer.constant, view)

    layers = tuple(range(last + 1))
    reductions = [
        Reduction("written", "z", layers, written),
        Reduction("held", "hidden", layers, lambda view: largest(view.values, view)),
    ]
    found = [swept.reduced for swept in sweep(encoder, batches, [NONE], reductions)]
    share = np.concatenate([one["written"][0] / one["held"][0] for one in found])
    return [bool(one > LIVE) for one in share.max(0)]
