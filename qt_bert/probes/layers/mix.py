"""A scalar mix of all layers, and how its weights are spread (Tenney et al. 2019, edge probing).

The mix is Σ s(l)·r(l), s a softmax over the layers. Its weights are those under which a ridge fitted on
one part of the examples errs least on the rest of them: the loss is a smooth function of s, since the
ridge has a closed form, and torch descends it. Layers are centred and brought to one size first, so
that weights can be compared. Cumulative mixes of r0 … rl give what each layer adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.probes.layers.decode import HELD_BACK, majority_sums, sums_of
from qt_bert.probes.layers.examples import Places, Task, fewer
from qt_bert.probes.layers.gravity import centre, entropy, gains
from qt_bert.probes.layers.scores import Sums
from qt_bert.probes.layers.targets import Targets, columns_of
from qt_bert.probes.layers.vectors import Reader, held
from qt_bert.progress import Progress, silent
from qt_bert.stats.arrays import FloatArray, IntArray

MOST_EXAMPLES = 2000
"""Of a property's examples so many at most are held in memory, with the vectors of all layers."""
STEPS, MORE_STEPS, RATE = 40, 15, 0.3
"""Of the descent; the mixes beside the whole one start where that ended, and need fewer."""
PENALTY = 1e-2
"""The ridge's, in units of the mix's mean variance."""
REFITS = 16


@dataclass(frozen=True, eq=False)
class Mixed:
    """Of one property: the mix's `weights` [layers], those `refitted` on resampled queries or sentences
    [REFITS, layers], and `cumulative`, the scores of the mixes of r0 … rl [layers].

    `scored` is what the whole mix's score is made of; `floor` the score of a probe that knows nothing.
    """

    weights: FloatArray
    refitted: FloatArray
    cumulative: FloatArray
    scored: Sums
    floor: float

    @property
    def gravity(self) -> float:
        """The centre of gravity of the weights."""
        return float(centre(self.weights))

    @property
    def expected(self) -> float:
        """The expected layer: the centre of what each layer adds to the mix of those below, r0 at 0."""
        scores = np.array([self.floor, *self.cumulative])
        return float(centre(gains(scores, scores)))

    @property
    def entropy(self) -> float:
        """How evenly the weights are spread, in nats."""
        return float(entropy(self.weights))


def mixed(
    read: Reader, tasks: Sequence[Task], *, seed: int, shown: Progress = silent
) -> dict[str, Mixed]:
    """The mix of each property by name; `shown` counts properties."""
    found = {}
    for task in tasks:
        found[task.about.name] = _mixed(read, task, seed)
        shown.advance()
    return found


def _mixed(read: Reader, task: Task, seed: int) -> Mixed:
    task = Task(fewer(task.fit, MOST_EXAMPLES, seed), fewer(task.check, MOST_EXAMPLES, seed))
    targets = Targets.of(columns_of(task, ()))
    fit, check = (_vectors(read, one.places) for one in (task.fit, task.check))
    centre_of, size = fit.mean(1, keepdim=True), fit.std(dim=(1, 2), keepdim=True)
    fit, check = ((one - centre_of) / size.clamp(min=1e-12) for one in (fit, check))
    descent = _Descent(fit, targets.fit, task.fit.places)
    layers, rng = len(fit), np.random.default_rng([seed, 8])

    def scored(weights: torch.Tensor) -> Sums:
        predicted = descent.predict(weights, check)
        return sums_of(targets.columns[0], targets.restored(targets.columns[0], predicted[None]))

    weights = descent.weights(layers)
    cumulative = [scored(descent.weights(below, start=weights)) for below in range(1, layers)]
    whole = scored(weights)
    drawn = rng.multinomial(descent.groups, np.full(descent.groups, 1 / descent.groups), REFITS)
    return Mixed(
        weights.numpy(),
        np.stack([descent.weights(layers, one, weights).numpy() for one in drawn]),
        np.array([one.score()[0] for one in (*cumulative, whole)]),
        whole,
        float(majority_sums(task).score()[0]),
    )


def _vectors(read: Reader, places: Places) -> torch.Tensor:
    """All vectors [layers, n, width]; of an edge u and v, whose product is made of the mix."""
    whole = held(read, places)
    return whole[..., : whole.shape[-1] // 3 * 2] if places.unit == "edge" else whole


class _Descent:
    """The loss of a mix on the examples to fit: vectors [layers, n, width], targets [n, targets]."""

    def __init__(self, values: torch.Tensor, targets: torch.Tensor, places: Places) -> None:
        self.values, self.targets = values, targets
        self.edges = places.unit == "edge"
        self.group, self.groups = torch.from_numpy(places.group), places.n_groups
        self.held = self.group % HELD_BACK == HELD_BACK - 1

    def weights(
        self, layers: int, drawn: IntArray | None = None, start: torch.Tensor | None = None
    ) -> torch.Tensor:
        """The mix of the first `layers` that errs least on the part held back [all layers].

        `drawn` [groups] says how often each query or sentence counts; `start` [all layers] is the mix
        to begin from, by default an even one.
        """
        counts = torch.ones(self.groups) if drawn is None else torch.from_numpy(drawn).float()
        each = counts[self.group]
        even = (
            torch.zeros(layers) if start is None else start[:layers].clamp(min=1e-4).log().float()
        )
        free = even.requires_grad_()
        descent = torch.optim.Adam([free], lr=RATE)
        steps = STEPS if start is None else MORE_STEPS
        for _ in range(steps if layers > 1 else 0):
            descent.zero_grad()
            self._loss(torch.softmax(free, 0), each).backward()
            descent.step()
        found = torch.zeros(len(self.values))
        found[:layers] = torch.softmax(free.detach(), 0)
        return found.double()

    def predict(self, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        """Predictions [n, targets] for other vectors, by the ridge on all examples to fit."""
        features = self._features(weights.float(), self.values)
        solution, mean, target = _ridge(features, self.targets, torch.ones(len(features)))
        return (self._features(weights.float(), values) - mean) @ solution + target

    def _loss(self, weights: torch.Tensor, each: torch.Tensor) -> torch.Tensor:
        features = self._features(weights, self.values[: len(weights)])
        solution, mean, target = _ridge(features, self.targets, each * ~self.held)
        missed = (features - mean) @ solution + target - self.targets
        counted = each * self.held
        return (missed.square().sum(1) * counted).sum() / counted.sum().clamp(min=1.0)

    def _features(self, weights: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        mix = torch.einsum("l,lnw->nw", weights, values)
        if not self.edges:
            return mix
        left, right = mix.chunk(2, -1)
        return torch.cat([mix, left * right], -1)


def _ridge(
    features: torch.Tensor, targets: torch.Tensor, each: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Weights [width, targets], and the means of features and targets, where examples count `each`."""
    total = each.sum().clamp(min=1.0)
    mean, target = each @ features / total, each @ targets / total
    centred, wanted = features - mean, targets - target
    counted = (centred * each[:, None]).T
    covariance = counted @ centred / total
    penalty = PENALTY * covariance.diagonal().mean() + 1e-12
    covariance = covariance + penalty * torch.eye(len(covariance))
    return torch.linalg.solve(covariance, counted @ wanted / total), mean, target
