"""The losses of labels and of a teacher, each a mean over a batch, and their weighted sum."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch.nn import functional as F

from qt_bert.errors import ArgumentError
from qt_bert.training.recipes import typed

OF_OUTPUTS = ("soft", "mse", "margin_mse")
"""Losses that learn from a teacher's outputs."""


@dataclass(frozen=True)
class LossWeights:
    """The weight of each loss; 0 leaves it out. Raises ArgumentError for invalid weights.

    Of labels: `nll` −log Σ p over the set; `ordinal` (`ordinal_loss`); `margin` and `listwise`, which
    compare a query's titles. Of a teacher: `soft` its distribution at `temperature`, `mse` its score,
    `margin_mse` the differences of its scores between a query's titles.
    """

    nll: float = 1.0
    ordinal: float = 0.0
    margin: float = 0.0
    listwise: float = 0.0
    soft: float = 0.0
    mse: float = 0.0
    margin_mse: float = 0.0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not 0 <= value < float("inf") or (name == "temperature" and value == 0):
                raise ArgumentError(
                    f"loss: {name} = {value}; a weight is 0 or more, a temperature above 0"
                )
        if not self.parts:
            raise ArgumentError("loss: every part has the weight 0, so there is nothing to learn")

    @classmethod
    def read(
        cls, spec: str | None, table: Mapping[str, Any], default: LossWeights, where: str
    ) -> LossWeights | None:
        """The weights of `--loss nll,margin=0.5`, else of a recipe's `table` over the `default`; None
        without either. Raises ArgumentError for an unknown loss and an invalid weight."""
        if spec is None:
            return typed(cls, asdict(default) | dict(table), where) if table else None
        weights = {"nll": 0.0}
        for entry in spec.split(","):
            name, _, number = entry.partition("=")
            try:
                weights[name.strip().replace("-", "_")] = float(number or 1)
            except ValueError:
                raise ArgumentError(f"--loss {spec!r}: {number!r} is no weight") from None
        return typed(cls, weights, f"--loss {spec!r}")

    def describe(self) -> dict[str, float]:
        """The weights that are not 0 and, where `soft` is used, the temperature."""
        return {n: v for n, v in asdict(self).items() if v and (n != "temperature" or self.soft)}

    @property
    def of_outputs(self) -> tuple[str, ...]:
        """The used losses of a teacher's outputs."""
        return tuple(name for name in self.parts if name in OF_OUTPUTS)

    @property
    def parts(self) -> tuple[str, ...]:
        """The used losses, in the order of the fields."""
        return tuple(name for name in self.describe() if name != "temperature")


def label_set_loss(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """−log Σ_g p(g) over the allowed labels [examples]; 0 where none is allowed.

    `logits` and `allowed` (0 or 1) are [examples, labels]. An exact label has one allowed.
    """
    kept = logits.masked_fill(allowed == 0, torch.finfo(logits.dtype).min)
    loss = torch.logsumexp(logits, -1) - torch.logsumexp(kept, -1)
    return torch.where(allowed.any(-1), loss, torch.zeros_like(loss))


def ordinal_loss(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """−Σ_k log P(the label's side of threshold k) over the K − 1 thresholds between outputs [examples].

    P(grade > k) sums the probabilities of the outputs above k; thresholds inside a label's set are left
    out. The all-threshold loss of Rennie & Srebro 2005 ("Loss functions for preference levels") on
    the cumulative probabilities. Shapes as in `label_set_loss`.
    """
    log_p = F.log_softmax(logits, -1)
    total = logits.new_zeros(len(logits))
    for step in range(1, logits.shape[-1]):
        below, above = allowed[:, :step].any(-1), allowed[:, step:].any(-1)
        total = total - torch.where(above & ~below, log_p[:, step:].logsumexp(-1), 0.0)
        total = total - torch.where(below & ~above, log_p[:, :step].logsumexp(-1), 0.0)
    return total


def soft_loss(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """KL(teacher ‖ student) of the softened distributions × T² [examples], from logits [examples, K].

    T² keeps the gradient's scale at any temperature (Hinton et al. 2015, "Distilling the knowledge in
    a neural network", section 2.1). For a single logit: the squared error.
    """
    if student.shape[-1] == 1:
        return (student - teacher).square().squeeze(-1)
    log_student = F.log_softmax(student / temperature, -1)
    log_teacher = F.log_softmax(teacher / temperature, -1)
    divergence = (log_teacher.exp() * (log_teacher - log_student)).sum(-1)
    return divergence * temperature**2


# Losses over the titles of a query: one number a batch. A query's mean is weighted by the `share`s
# [examples] of its titles; `same` [examples, examples] is true for two titles of a query.


def margin_loss(
    scores: torch.Tensor, bounds: torch.Tensor, same: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """The hinge loss [] of `scores` [examples] over pairs of titles, one labelled above the other.

    The margin is the gap between their label sets, whose lowest and highest values are `bounds`
    [examples, 2] (NaN: none); sets without a gap are no pair.
    """
    gap = torch.nan_to_num(bounds[:, None, 0] - bounds[None, :, 1])
    short = F.relu(gap - (scores[:, None] - scores[None, :]))
    return _over_pairs(short, same & (gap > 0), same, share)


def margin_mse_loss(
    scores: torch.Tensor, taught: torch.Tensor, same: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """Squared error [] of the score differences between two titles, against those of `taught`, both
    [examples] (Hofstätter et al. 2020, "Improving efficient neural ranking models with
    cross-architecture knowledge distillation")."""
    gap = scores - taught
    error = (gap[:, None] - gap[None, :]).square()
    return _over_pairs(error, same.triu(1), same, share)


def listwise_loss(
    scores: torch.Tensor, bounds: torch.Tensor, same: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """Cross-entropy [] of the softmax of a query's scores against its normalised gains 2^g − 1, g steps
    above the lowest label (Bruch et al. 2019, "An analysis of the softmax cost function for learning to
    rank"). A label set's g is the middle of its bounds; arguments as in `margin_loss`."""
    labelled = ~bounds[:, 0].isnan()
    gains = torch.where(labelled, torch.exp2(bounds.mean(-1)) - 1, 0.0)
    together = same.to(scores.dtype)
    target = gains / (together @ gains).clamp(min=1e-9)
    others = scores[None, :].masked_fill(~(same & labelled[None, :]), torch.finfo(scores.dtype).min)
    return ((together @ share) * target * (others.logsumexp(-1) - scores)).sum()


def _over_pairs(
    values: torch.Tensor, pairs: torch.Tensor, same: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """Mean of `values` over the `pairs` of each query, weighted by the share of its titles."""
    together = same.to(values.dtype)
    number = together @ pairs.sum(1).to(values.dtype)
    sums = torch.where(pairs, values, 0.0).sum(1)
    return (sums * (together @ share) / number.clamp(min=1)).sum()


@dataclass(frozen=True)
class Losses:
    """The losses of a model whose outputs have these `values` (a single logit is the score)."""

    weights: LossWeights
    values: tuple[float, ...] = ()

    @property
    def by_query(self) -> bool:
        """Whether the titles of a query must share a batch."""
        return not {"margin", "listwise", "margin_mse"}.isdisjoint(self.weights.parts)

    def of(
        self,
        logits: torch.Tensor,
        batch: Mapping[str, torch.Tensor],
        taught: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Name → weighted loss [], of labels and of a teacher's outputs.

        `logits` float32 [examples, K]; `taught` [examples, K] are a teacher's logits or [examples, 1]
        its scores, NaN where it has none.
        """
        weights, share = self.weights, batch["share"]
        targets = logits if taught is None else torch.nan_to_num(taught)
        taught_share = share if taught is None else share * ~taught[:, 0].isnan()

        def compared(
            loss: Callable[..., torch.Tensor], target: torch.Tensor, share: torch.Tensor
        ) -> torch.Tensor:
            query, real = batch["query"], share > 0
            same = (query[:, None] == query[None, :]) & real[:, None] & real[None, :]
            return loss(self.scores(logits), target, same, share)

        losses: dict[str, Callable[[], torch.Tensor]] = {
            "nll": lambda: (label_set_loss(logits, batch["allowed"]) * share).sum(),
            "ordinal": lambda: (ordinal_loss(logits, batch["allowed"]) * share).sum(),
            "margin": lambda: compared(margin_loss, batch["bounds"], share),
            "listwise": lambda: compared(listwise_loss, batch["bounds"], share),
            "soft": lambda: (soft_loss(logits, targets, weights.temperature) * taught_share).sum(),
            "mse": lambda: (
                (self.scores(logits) - self.scores(targets)).square() * taught_share
            ).sum(),
            "margin_mse": lambda: compared(margin_mse_loss, self.scores(targets), taught_share),
        }
        return {name: getattr(weights, name) * losses[name]() for name in weights.parts}

    def scores(self, logits: torch.Tensor) -> torch.Tensor:
        """The ranking score [examples]: the expected value of the outputs, or the single logit."""
        if logits.shape[-1] == 1:
            return logits[:, 0]
        outputs = torch.softmax(logits, -1).unbind(-1)
        # Column by column: a tensor of the values would have to be copied to the device.
        return torch.stack([p * v for p, v in zip(outputs, self.values, strict=True)]).sum(0)
