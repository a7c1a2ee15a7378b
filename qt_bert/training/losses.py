"""What a model learns: the losses of labels and of a teacher, each a mean over a batch, and their sum."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch.nn import functional as F

from qt_bert.errors import ArgumentError
from qt_bert.training.recipes import typed

# How much each loss counts, and how a command line or a recipe says it.


@dataclass(frozen=True)
class LossWeights:
    """How much each loss counts; 0 leaves it out.

    Of labels: `nll` −log Σ p over the set; `ordinal` its steps (`ordinal_loss`); `margin` and
    `listwise` a query's titles against each other. Of a teacher: `soft` its distribution at
    `temperature`, `mse` its score, `margin_mse` the differences of its scores between a query's
    titles, `hidden` the outputs of its layers.
    """

    nll: float = 1.0
    ordinal: float = 0.0
    margin: float = 0.0
    listwise: float = 0.0
    soft: float = 0.0
    mse: float = 0.0
    margin_mse: float = 0.0
    hidden: float = 0.0
    temperature: float = 1.0

    @classmethod
    def read(
        cls, spec: str | None, table: Mapping[str, Any], default: LossWeights, where: str
    ) -> LossWeights | None:
        """What `--loss nll,margin=0.5` says, else a recipe's `table` over the `default`; None where
        neither says anything. Raises ArgumentError for what is no loss or no weight."""
        stored = typed(cls, asdict(default) | dict(table), where)
        if spec is None:
            return stored if table else None
        given: dict[str, float] = {}
        for entry in spec.split(","):
            name, _, number = (part.strip() for part in entry.partition("="))
            name = name.replace("-", "_")
            if name not in asdict(stored) or name in given:
                raise ArgumentError(
                    f"--loss {spec!r}: {entry.strip()!r} is no loss, or stands twice; write for "
                    f"instance nll,margin=0.5, of {', '.join(asdict(stored))}"
                )
            try:
                given[name] = float(number or 1)
            except ValueError:
                raise ArgumentError(f"--loss {spec!r}: {number!r} is no weight") from None
        return replace(cls(nll=0.0, temperature=stored.temperature), **given)

    @property
    def parts(self) -> tuple[str, ...]:
        """The losses that count, in the order of the fields."""
        return tuple(n for n, value in asdict(self).items() if value and n != "temperature")

    @property
    def by_query(self) -> tuple[str, ...]:
        """Those that need the titles of a query in one batch."""
        return tuple(n for n in self.parts if n in ("margin", "listwise", "margin_mse"))

    @property
    def of_outputs(self) -> tuple[str, ...]:
        """Those that learn from a teacher's outputs."""
        return tuple(n for n in self.parts if n in ("soft", "mse", "margin_mse"))

    def describe(self) -> dict[str, float]:
        """The losses that count and, where one uses it, the temperature."""
        values = asdict(self)
        return {n: values[n] for n in (*self.parts, *(("temperature",) if self.soft else ()))}


def check_weights(weights: LossWeights) -> None:
    """Raise ArgumentError for weights that cannot be meant."""
    for name, value in asdict(weights).items():
        if name != "temperature" and not 0 <= value < float("inf"):
            raise ArgumentError(f"loss: {name} = {value}; a weight is 0 or more")
    if not weights.parts:
        raise ArgumentError("loss: every part has the weight 0, so there is nothing to learn")
    if not 0 < weights.temperature < float("inf"):
        raise ArgumentError(f"loss: temperature = {weights.temperature}; it must be above 0")


# One pair at a time: numbers [examples].


def label_set_loss(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """−log Σ_g p(g) over the allowed labels [examples]; 0 where none is allowed.

    `logits` and `allowed` (0 or 1) are [examples, labels]. An exact label has one allowed.
    """
    kept = logits.masked_fill(allowed == 0, torch.finfo(logits.dtype).min)
    loss = torch.logsumexp(logits, -1) - torch.logsumexp(kept, -1)
    return torch.where(allowed.any(-1), loss, torch.zeros_like(loss))


def ordinal_loss(logits: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
    """−Σ_k log P(the label's side of step k) over the K − 1 steps between outputs [examples].

    P(grade > k) is the sum of the upper outputs' probabilities; a step inside a label's set is left
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

    T² keeps the size of the gradient whatever the temperature (Hinton et al. 2015, "Distilling the
    knowledge in a neural network", section 2.1). One logit is no distribution: its squared error.
    """
    if student.shape[-1] == 1:
        return (student - teacher).square().squeeze(-1)
    log_student = F.log_softmax(student / temperature, -1)
    log_teacher = F.log_softmax(teacher / temperature, -1)
    divergence = (log_teacher.exp() * (log_teacher - log_student)).sum(-1)
    return divergence * temperature**2


# The titles of a query against each other: one number a batch. A query's mean counts by its titles'
# shares, so that batches whose queries are whole add up.


def margin_loss(
    scores: torch.Tensor, bounds: torch.Tensor, same: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """The hinge [] over pairs of titles, one of which is labelled above the other: how much less
    than their labels their scores [examples] differ.

    The margin is the distance of the label sets, from the lowest of the better to the highest of the
    worse; sets that touch make no pair. `bounds` [examples, 2] are a label's lowest and highest value
    (NaN: none), `same` [examples, examples] says who shares a query, `share` [examples] what each
    counts.
    """
    gap = torch.nan_to_num(bounds[:, None, 0] - bounds[None, :, 1])
    pairs = same & (gap > 0)
    short = F.relu(gap - (scores[:, None] - scores[None, :]))
    return _over_pairs(short, pairs, same, share)


def margin_mse_loss(
    scores: torch.Tensor, taught: torch.Tensor, same: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """Squared error [] of the differences of two titles' scores against the teacher's (Hofstätter et
    al. 2020, "Improving efficient neural ranking models with cross-architecture knowledge
    distillation"). `taught` [examples] is NaN where the teacher says nothing; else as `margin_loss`."""
    known = ~taught.isnan()
    taught = torch.nan_to_num(taught)
    differ = (scores - taught)[:, None] - (scores - taught)[None, :]
    itself = torch.eye(len(scores), dtype=torch.bool, device=scores.device)
    pairs = same & known[:, None] & known[None, :] & ~itself
    return _over_pairs(differ.square(), pairs, same, share)


def listwise_loss(
    scores: torch.Tensor, bounds: torch.Tensor, same: torch.Tensor, share: torch.Tensor
) -> torch.Tensor:
    """Cross-entropy [] of the softmax of a query's scores against its gains 2^g − 1, g steps above
    the lowest label, over their sum (Bruch et al. 2019, "An analysis of the softmax cost function for
    learning to rank"). A label set's g is the middle of its bounds; arguments as of `margin_loss`."""
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
    found = torch.where(pairs, values, 0.0).sum(1)
    return (found * (together @ share) / number.clamp(min=1)).sum()


# All of them, of one batch.


@dataclass(frozen=True)
class Losses:
    """The losses of a model whose outputs are worth `values` (one output: its logit is the score)."""

    weights: LossWeights
    values: tuple[float, ...] = ()

    def of(
        self,
        logits: torch.Tensor,
        batch: Mapping[str, torch.Tensor],
        taught: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """Name → weighted loss [], of those of labels and of a teacher's outputs that count.

        `logits` float32 [examples, K]; `taught` [examples, K] are a teacher's logits or [examples, 1]
        its scores, NaN where it says nothing.
        """
        weights, share = self.weights, batch["share"]
        found = {}
        if weights.nll:
            found["nll"] = (label_set_loss(logits, batch["allowed"]) * share).sum()
        if weights.ordinal:
            found["ordinal"] = (ordinal_loss(logits, batch["allowed"]) * share).sum()
        there = share > 0
        scores = self.scores(logits) if weights.by_query or weights.mse else share  # else not read
        if weights.by_query:
            query = batch["query"]
            same = (query[:, None] == query[None, :]) & there[:, None] & there[None, :]
        if weights.margin:
            found["margin"] = margin_loss(scores, batch["bounds"], same, share)
        if weights.listwise:
            found["listwise"] = listwise_loss(scores, batch["bounds"], same, share)
        if taught is not None:
            known = ~taught[:, 0].isnan()
            target = torch.nan_to_num(taught)
        if weights.soft:
            distance = soft_loss(logits, target, weights.temperature)
            found["soft"] = (distance * share * known).sum()
        if weights.mse:
            error = (scores - self.scores(target)).square()
            found["mse"] = (error * share * known).sum()
        if weights.margin_mse:
            shown = self.scores(target).masked_fill(~known, float("nan"))
            found["margin_mse"] = margin_mse_loss(scores, shown, same, share)
        return {name: getattr(weights, name) * value for name, value in found.items()}

    def scores(self, logits: torch.Tensor) -> torch.Tensor:
        """What titles are ranked by [examples]: the expected value of the outputs, or the one logit."""
        if logits.shape[-1] == 1:
            return logits[:, 0]
        outputs = torch.softmax(logits, -1).unbind(-1)
        # Column by column: a tensor of the values would have to be sent to the device.
        return torch.stack([p * v for p, v in zip(outputs, self.values, strict=True)]).sum(0)
