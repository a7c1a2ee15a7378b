"""Equivalence checks of the masked loop against the Hugging Face model, before every masked run."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View, sweep
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import zeroed
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
EXACT = 1e-5  # in float64
ROUNDING, EXACT_ROUNDING = 4.0, 100.0  # times float32's own rounding
LEAST_MOVE = 10.0  # times the bound
LIVE = 1e-3  # of the residual stream
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
    """Check the masked loop on some variants and eight of the pairs.

    With `donors`, `encoded` holds every text next to its donor (`donor_batches`), and four such couples
    are used.

    `encoder`, the run's own on its device, is compared with the Hugging Face model of `checkpoint` on
    the CPU, both in float32, reopened for a run of another type.

    Differences are the largest |difference| / max(1, |logit|). The bound is 1e-5, on a GPU 1e-4. Where
    a difference is larger, the bound is four times the largest difference between the Hugging Face model
    in float32 and in float64; a hundred times where the loop agrees with it in float64 within 1e-5 (norms of
    some families compute in float32 even there). Returns the figures for `run.json`. Raises
    EquivalenceError naming the check, the figure and the bound.
    """
    exact, encoder = in_float32(checkpoint, encoder)
    batched, sample = (donor_batches, _four_couples) if donors else (batches_of, eight_of)
    batches = list(batched(sample(encoded), BATCH_TOKENS, pad=exact.pad))
    tested = [NONE, *some_of_each(variants, seed)]
    with whole_products():
        swept = _swept(encoder, batches, tested)
        hooked = _hooked(exact, batches, tested)
        differences = [distance(a, b) for a, b in zip(swept, hooked, strict=True)]
        bound = TOLERANCE if encoder.device.type == "cpu" else GPU_TOLERANCE
        if max(differences) > bound:
            double = replace(exact, model=copy.deepcopy(exact.model).double())
            # Without padding: Qwen's softmax in float32 makes NaN of a row of float64 that sees nothing.
            alone = list(batched(sample(encoded), 1, pad=exact.pad))
            reference = _hooked(double, alone, tested)
            exactly = distance(_swept(double.encoder(), alone, tested), reference)
            times = EXACT_ROUNDING if exactly <= EXACT else ROUNDING
            bound = max(bound, times * distance(hooked, reference))
        layers_off = _layers_off(encoder, batches)
    figures: dict[str, Any] = {
        "pairs": sum(map(len, batches)),
        "bound": bound,
        "unmasked": differences[0],
        "variants": {v.name: d for v, d in zip(tested[1:], differences[1:], strict=True)},
        "layers_off": layers_off,
    }
    _refuse_differences(figures, bound)
    return figures


def eight_of(encoded: Sequence[EncodedPair]) -> list[EncodedPair]:
    """Up to eight pairs at even quantiles of length, shortest and longest included."""
    return [encoded[row] for row in _spread([len(pair) for pair in encoded], PAIRS)]


def _four_couples(encoded: Sequence[EncodedPair]) -> list[EncodedPair]:
    """Up to four couples of a text and its donor, likewise."""
    couples = _spread([len(text) for text in encoded[::2]], PAIRS // 2)
    return [encoded[row] for couple in couples for row in (2 * couple, 2 * couple + 1)]


def _spread(lengths: Sequence[int], most: int) -> list[int]:
    order = np.argsort(lengths, kind="stable")
    places = np.linspace(0, len(order) - 1, min(most, len(order))).round().astype(int)
    return [int(order[place]) for place in places]


def some_of_each(variants: Sequence[Variant], seed: int) -> list[Variant]:
    """VARIANTS random variants, one of every mode (more, where there are more modes)."""
    masked = [variant for variant in variants if variant.parts]
    order = [masked[i] for i in np.random.default_rng(seed).permutation(len(masked))]
    first: dict[tuple[str, str], Variant] = {}
    for variant in order:
        first.setdefault((variant.mode, variant.family), variant)
    modes = {variant.mode: variant for variant in reversed(order)}
    chosen = list(dict.fromkeys([*modes.values(), *first.values(), *order]))
    return chosen[: max(VARIANTS, len(modes))]


def distance(logits: np.ndarray, reference: np.ndarray) -> float:
    """The largest |logits − reference| / max(1, |reference|); infinite for NaN."""
    differences = np.abs(logits - reference) / np.maximum(1, np.abs(reference))
    return float(differences.max()) if np.isfinite(differences).all() else float("inf")


def _refuse_differences(figures: dict[str, Any], bound: float) -> None:
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
                f"than {LEAST_MOVE * bound:.2g}: the mask takes no effect, or the layer has none on these pairs"
            )


def in_float32(checkpoint: Checkpoint, encoder: Encoder) -> tuple[Checkpoint, Encoder]:
    """The checkpoint on the CPU and the encoder on its device, in float32; copied or reopened if not."""
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
    """How far leaving out each layer's heads moves the logits; None for a layer of dead heads."""
    heads = range(encoder.layers[0].heads)
    off = [
        Variant(f"L{n}", (zeroed(Head(n, head) for head in heads),))
        for n in range(len(encoder.layers))
    ]
    logits = _swept(encoder, batches, [NONE, *off])
    return {
        variant.name: distance(logits[0], masked) if live else None
        for variant, masked, live in zip(
            off, logits[1:], _live_layers(encoder, batches), strict=True
        )
    }


def _live_layers(encoder: Encoder, batches: Sequence[Batch]) -> list[bool]:
    """Whether each layer's heads write more than a share of `LIVE` to the residual stream."""
    last = len(encoder.layers) - 1

    def largest(vectors: torch.Tensor, view: View) -> torch.Tensor:
        """The largest norm over tokens [B]; in the last layer over those the classifier reads."""
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
    norms = [swept.reduced for swept in sweep(encoder, batches, [NONE], reductions)]
    shares = np.concatenate([batch["written"][0] / batch["held"][0] for batch in norms])
    return [bool(share > LIVE) for share in shares.max(0)]
