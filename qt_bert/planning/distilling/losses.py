"""What a student's loss is made of, each part as a number an example, a token or a layer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch.nn import functional as F

from qt_bert.errors import ArgumentError

PARTS = ("grades", "distribution", "hidden", "attention")
STATES = ("norm", "plain", "cosine")


@dataclass(frozen=True)
class LossWeights:
    """How much each part of the loss counts; 0 leaves it out.

    `grades`: −log Σ p over the grades a label may mean, on labelled pairs. `distribution`: the
    teacher's distribution at `temperature`, on all pairs. `hidden`: the outputs of the teacher's
    layers, compared as `states` says. `attention`: the teacher's attention, where heads have the
    same number.
    """

    grades: float = 1.0
    distribution: float = 1.0
    hidden: float = 1.0
    attention: float = 0.0
    temperature: float = 1.0
    states: str = "norm"

    @property
    def asks_the_teacher(self) -> bool:
        """Whether any part needs the teacher's outputs."""
        return any((self.distribution, self.hidden, self.attention))

    def grades_alone(self) -> LossWeights:
        """The same without the teacher."""
        return replace(self, distribution=0.0, hidden=0.0, attention=0.0)


def check_weights(weights: LossWeights) -> None:
    """Raise ArgumentError for weights that cannot be meant."""
    for name, value in asdict(weights).items():
        if name in PARTS and not 0 <= value < float("inf"):
            raise ArgumentError(f"loss: {name} = {value}; a weight is 0 or more")
    if not any(getattr(weights, name) for name in PARTS):
        raise ArgumentError("loss: every part has the weight 0, so there is nothing to learn")
    if not 0 < weights.temperature < float("inf"):
        raise ArgumentError(f"loss: temperature = {weights.temperature}; it must be above 0")
    if weights.states not in STATES:
        raise ArgumentError(f"loss: states = {weights.states!r}; choose from {', '.join(STATES)}")


def distribution_loss(
    student: torch.Tensor, teacher: torch.Tensor, temperature: float
) -> torch.Tensor:
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


def hidden_loss(student: torch.Tensor, teacher: torch.Tensor, states: str) -> torch.Tensor:
    """How far two layers' outputs [..., hidden] are apart, for every token [...].

    `norm`: mean squared error of the states brought to mean 0 and variance 1 each; `plain`: of the
    states as they are; `cosine`: 1 − their cosine.
    """
    if states == "cosine":
        return 1 - F.cosine_similarity(student, teacher, dim=-1)
    if states == "norm":
        width = student.shape[-1:]
        student, teacher = F.layer_norm(student, width), F.layer_norm(teacher, width)
    return (student - teacher).square().mean(-1)


def attention_loss(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """KL(teacher ‖ student) of each row of attention [rows, heads, slots, slots], mean over the heads
    [rows, slots]."""
    tiny = torch.finfo(student.dtype).tiny
    ratio = (teacher.clamp_min(tiny) / student.clamp_min(tiny)).log()
    return (teacher * ratio).sum(-1).mean(1)


def mean_of(values: Sequence[torch.Tensor]) -> torch.Tensor:
    """The mean of tensors of one shape."""
    return torch.stack(list(values)).mean(0)
