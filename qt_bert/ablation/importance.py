"""Gradient importance of heads and feed-forward units: how much the loss would change with each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.ablation.effects import meant_logits
from qt_bert.ablation.engine import batch_tokens
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder, attend
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray

# Gradient importance: how much the loss would change with each head, for all heads in one pass.
#
# Michel et al. 2019 ("Are Sixteen Heads Really Better than One?", section 4.1): a gate ξ = 1
# multiplies a head's z, and the importance is the mean over pairs of |∂L/∂ξ|.


LabelSets = Sequence[tuple[int, ...]]

TOP = (5, 10, 20)
"""How many of the most important heads `agreement` compares."""


@dataclass(frozen=True, eq=False)
class Importance:
    """Gradient importance of every head [layers, heads].

    `raw` is the mean of |∂L/∂ξ| over pairs, in units of the loss; in `normalised` the squares of
    each layer add up to 1 (a layer of zeros stays zero).
    """

    raw: FloatArray
    normalised: FloatArray


def gradient_importance(
    encoder: Encoder,
    batches: Iterable[Batch],
    label_sets: LabelSets | None,
    shown: Progress = silent,
) -> Importance:
    """The mean over pairs of |∂L/∂ξ| for a gate ξ = 1 per pair and head on its head output.

    L = −log Σ p over the logits that the pair's label may mean: `label_sets[i]` holds their
    indices for pair i, as `Batch.rows` counts pairs. A model of one logit has no such loss: there
    `label_sets` is None and L the logit itself. `shown` counts pairs.

    Raises ArgumentError where the labels do not fit the logits or the pairs, for no pair at all,
    and for a model that is not in float32, whose gradients would be too coarse.
    """
    check_exact(encoder)
    total: FloatArray = np.zeros(())
    pairs = 0
    for batch in batches:
        allowed = allowed_logits(encoder, batch, label_sets)
        total = total + np.abs(_gate_gradients(encoder, batch, allowed)).sum(1, dtype=np.float64)
        pairs += len(batch)
        shown.advance(len(batch))
    if not pairs:
        raise ArgumentError("gradient importance needs at least one pair; there is none")
    raw = total / pairs
    norms = np.linalg.norm(raw, axis=1, keepdims=True)
    return Importance(raw, np.divide(raw, norms, out=np.zeros_like(raw), where=norms > 0))


def check_exact(encoder: Encoder) -> None:
    """Raise ArgumentError for a model whose gradients would be too coarse."""
    if encoder.layers[0].dtype not in (torch.float32, torch.float64):
        raise ArgumentError("gradient importance needs a model opened in float32")


def allowed_logits(
    encoder: Encoder, batch: Batch, label_sets: LabelSets | None
) -> torch.Tensor | None:
    """Which logits each pair's label may mean [B, labels]; None for a model of one logit.

    Raises ArgumentError where the labels do not fit the logits or the pairs.
    """
    labels = int(encoder.model.config.num_labels)
    if (label_sets is None) != (labels == 1):
        given = "no labels" if label_sets is None else "labels"
        raise ArgumentError(f"gradient importance of a model of {labels} logits, and {given} given")
    if label_sets is None:
        return None
    allowed = np.zeros((len(batch), labels), bool)
    for i, row in enumerate(batch.rows):
        indices = label_sets[row] if row < len(label_sets) else ()
        if not indices or not set(indices) <= set(range(labels)):
            raise ArgumentError(
                f"gradient importance: the label of pair {row} names the logits {tuple(indices)}; "
                f"it must name at least one of 0 to {labels - 1}"
            )
        allowed[i, list(indices)] = True
    return torch.from_numpy(allowed).to(batch.input_ids.device)


@torch.inference_mode(False)
@torch.enable_grad()
def _gate_gradients(encoder: Encoder, batch: Batch, allowed: torch.Tensor | None) -> np.ndarray:
    """∂L/∂ξ [layers, B, heads]; a pair's gates touch its own loss alone, so one sum serves all."""
    gates = [
        layer.query.weight.new_ones(len(batch), layer.heads, requires_grad=True)
        for layer in encoder.layers
    ]
    loss = label_losses(_gated_logits(encoder, batch, gates), allowed).sum()
    gradients = torch.autograd.grad(loss, gates)
    return torch.stack(gradients).cpu().numpy()


def _gated_logits(encoder: Encoder, batch: Batch, gates: Sequence[torch.Tensor]) -> torch.Tensor:
    """Logits [B, labels] with each layer's head outputs times its gates [B, heads]."""
    with torch.no_grad():  # no gate lies below
        hidden = encoder.embed(batch)
    for layer, gate, bias in zip(encoder.layers, gates, encoder.biases(batch), strict=True):
        z = attend(*layer.project(hidden), bias)
        hidden = layer.finish(z * gate[:, :, None, None], hidden)
    return encoder.family.head(encoder.model, hidden[:, :1])


def label_losses(logits: torch.Tensor, allowed: torch.Tensor | None) -> torch.Tensor:
    """−log Σ p over the allowed logits of each pair [B]; the logit itself where there is one."""
    if allowed is None:
        return logits[:, 0]
    meant = logits.masked_fill(~allowed, float("-inf"))
    return torch.logsumexp(logits, 1) - torch.logsumexp(meant, 1)


@dataclass(frozen=True)
class TopShared:
    """How many of the `k` most important heads two rankings share, as a share of k.

    `chance` is what two unrelated rankings share on average.
    """

    k: int
    shared: float
    chance: float


@dataclass(frozen=True)
class Agreement:
    """How well gradient importance ranks the heads by their exact effects.

    `spearman` is None where one of the two is the same for all heads. `top` leaves out each k that
    is not below the number of heads.
    """

    spearman: float | None
    top: tuple[TopShared, ...]


def agreement(importance: FloatArray, effects: FloatArray) -> Agreement:
    """Rank correlation and shared top heads of importance and effects, both [layers, heads].

    The larger an effect, the more the head matters: give losses, or absolute changes. Heads of
    equal value at the edge of a top share its last places. Raises ArgumentError where shapes
    differ or a value is not finite.
    """
    from scipy.stats import spearmanr

    one, other = np.ravel(importance).astype(float), np.ravel(effects).astype(float)
    if np.shape(importance) != np.shape(effects):
        raise ArgumentError(
            f"importance of {np.shape(importance)} heads cannot be held against effects of "
            f"{np.shape(effects)}"
        )
    if not (np.isfinite(one).all() and np.isfinite(other).all()):
        raise ArgumentError("importance or effects are missing for some heads")
    constant = np.ptp(one) == 0 or np.ptp(other) == 0
    top = tuple(
        TopShared(k, float(_in_top(one, k) @ _in_top(other, k)) / k, k / one.size)
        for k in TOP
        if k < one.size
    )
    return Agreement(None if constant else float(spearmanr(one, other).statistic), top)


def _in_top(values: FloatArray, k: int) -> FloatArray:
    """How much of each head belongs to the top k: equal values at its edge share what is left."""
    edge = np.sort(values)[-k]
    above, at = values > edge, values == edge
    return above + at * ((k - above.sum()) / at.sum())


# Gradient importance of feed-forward units, as `importance` has it for heads.
#
# Michel et al. 2019 ("Are Sixteen Heads Really Better than One?", section 4.1) put the gate ξ = 1
# on a head;
# here it stands on a unit's activation, in every token of a pair.


def unit_importance(
    encoder: Encoder,
    batches: Iterable[Batch],
    label_sets: LabelSets | None,
    shown: Progress = silent,
) -> list[FloatArray]:
    """For each layer the mean over pairs of |∂L/∂ξ| of every unit [units], in units of the loss L.

    Loss, labels and errors are those of `gradient_importance`. `shown` counts pairs.
    """
    check_exact(encoder)
    totals: list[FloatArray] = [np.zeros(())] * len(encoder.layers)
    pairs = 0
    for batch in batches:
        allowed = allowed_logits(encoder, batch, label_sets)
        found = _unit_gate_gradients(encoder, batch, allowed)
        totals = [
            total + one.abs().sum(0, dtype=torch.float64).numpy()
            for total, one in zip(totals, found, strict=True)
        ]
        pairs += len(batch)
        shown.advance(len(batch))
    if not pairs:
        raise ArgumentError("gradient importance needs at least one pair; there is none")
    return [total / pairs for total in totals]


@torch.inference_mode(False)
@torch.enable_grad()
def _unit_gate_gradients(
    encoder: Encoder, batch: Batch, allowed: torch.Tensor | None
) -> Sequence[torch.Tensor]:
    """∂L/∂ξ of each layer [B, units]."""
    gates: list[torch.Tensor] = []
    with torch.no_grad():  # no gate lies below
        hidden = encoder.embed(batch)
    for layer, bias in zip(encoder.layers, encoder.biases(batch), strict=True):
        z = attend(*layer.project(hidden), bias)
        attended = layer.output_norm(layer.mix(z) + hidden)
        active = layer.up(attended)
        gate = active.new_ones(len(batch), active.shape[-1], requires_grad=True)
        gates.append(gate)
        hidden = layer.down_norm(layer.down(active * gate[:, None]) + attended)
    logits = encoder.family.head(encoder.model, hidden[:, :1])
    return torch.autograd.grad(label_losses(logits, allowed).sum(), gates)


# Gradient importance of a model's heads and feed-forward units on graded pairs.


def importance_on(scorer: Scorer, pairs: Sequence[Pair], shown: Progress = silent) -> Importance:
    """`gradient_importance` on `pairs`, in float32 whatever the scorer's dtype; `shown` counts pairs."""
    labels = scorer.checkpoint.settings.labels  # a checkpoint opened anew would read its own
    if scorer.checkpoint.dtype != "float32":
        exact = open_checkpoint(scorer.checkpoint.folder)
        scorer = Scorer(exact, max_length=scorer.tokenizer.max_length)
    batches = _batches(scorer, pairs)
    return gradient_importance(scorer.encoder, batches, label_sets(pairs, labels), shown)


def unit_importance_on(
    scorer: Scorer, pairs: Sequence[Pair], shown: Progress = silent
) -> list[FloatArray]:
    """`unit_importance` on `pairs`; the scorer's model must be in float32. `shown` counts pairs."""
    labels = scorer.checkpoint.settings.labels
    return unit_importance(
        scorer.encoder, _batches(scorer, pairs), label_sets(pairs, labels), shown
    )


def label_sets(pairs: Sequence[Pair], labels: ModelLabels) -> LabelSets | None:
    """The logits that each pair's label may mean; None for a model of one logit."""
    if labels.logits == 1:
        return None
    return [tuple(map(int, np.flatnonzero(row))) for row in meant_logits(list(pairs), labels)]


def _batches(scorer: Scorer, pairs: Sequence[Pair]) -> Iterator[Batch]:
    texts = [(pair.query, pair.title) for pair in pairs]
    return scorer.fresh().batches(texts, batch_tokens())
