"""What a model's layers hold, how it is erased, and that nothing is left for a probe to read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.probes.layers_reading import (
    HELD_BACK,
    Column,
    Decoded,
    Fitted,
    Group,
    Moments,
    Ridge,
    Seen,
    Sums,
    Task,
    begun,
    columns_of,
    fit,
    majority_sums,
    passes,
    sums_of,
    vectors,
)
from qt_bert.probes.usage.erasers import Erasers, blocks_of, erasers
from qt_bert.probes.usage.leace import erased
from qt_bert.probes.usage.permuted import on_dependents, permuted
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import bootstrap_weights, percentile_interval

ROUNDING = 1e-6
"""An R² up to this much above 0 counts as 0."""


def resampled(sums: Sums, resamples: int, seed: int) -> FloatArray:
    """A score under resampled queries or sentences [R, layers]; one alone gives none."""
    groups = len(sums.good)
    chunks = [np.empty((0, sums.good.shape[1]))]
    if groups > 1:
        drawn = bootstrap_weights(groups, resamples, seed, width=groups)
        chunks += [sums.score(weights) for weights in drawn]
    return np.concatenate(chunks)


@dataclass(frozen=True, kw_only=True)
class Draws:
    """How often each control is drawn: of the probe, and of the eraser (of either kind).

    The properties `alone` have no controls of the eraser.
    """

    probe: int
    eraser: int
    alone: tuple[str, ...] = ()

    def of_eraser(self, name: str) -> int:
        """For a property."""
        return 0 if name in self.alone else self.eraser


@dataclass(frozen=True, eq=False)
class Encoded:
    """One property in some layers: how well it is read, what erases it, how well it is read then."""

    decoded: Decoded
    erasers: tuple[Erasers, ...]
    left: Sums

    @property
    def task(self) -> Task:
        """What was asked of which texts."""
        return self.decoded.task

    @property
    def name(self) -> str:
        """Of the property."""
        return self.task.about.name

    def erased_well(self, resamples: int, seed: int) -> list[bool]:
        """Whether a probe fitted anew behind the eraser of each layer knows nothing.

        Classes: it is right as often as the commonest class is, within that share's interval. A
        number: its R² is not above 0.
        """
        scores = self.left.score()
        if not self.task.classes:
            return [bool(score <= ROUNDING) for score in scores]
        guess = self.decoded.majority
        ends = percentile_interval(resampled(guess, resamples, seed)[:, 0])
        low, high = ends or (guess.score()[0],) * 2
        return [bool(low <= score <= high) for score in scores]


def read(
    scorer: Scorer,
    tasks: Sequence[Task],
    places: Sequence[int],
    draws: Draws,
    seed: int,
    *,
    shown: Progress = silent,
) -> list[Encoded]:
    """Every task at the `places` (rn by number): probes, erasers with controls, probes fitted anew.

    Erasers rest on all texts that their property's probe is fitted on, in float64. `shown` counts
    texts.
    """

    def columns(task: Task) -> list[Column]:
        own = columns_of(task, draws.probe, seed)
        count = draws.of_eraser(task.about.name)
        return [*own, *permuted(task, count, seed, first=draws.probe)]

    found: list[Encoded] = []
    for groups in passes([on_dependents(task) for task in tasks], columns):
        fitted = [
            _fitted(group, part, rest, places, draws, seed)
            for group, (part, rest) in zip(
                groups, _summed(scorer, groups, places, shown), strict=True
            )
        ]
        answers = _answers(scorer, groups, fitted, places, shown)
        for group, one, said in zip(groups, fitted, answers, strict=True):
            found += _encoded(group, one, said)
    return found


@dataclass(frozen=True, eq=False)
class _Anew:
    """A probe fitted behind an eraser, in one layer."""

    eraser: Erasers
    ridge: Ridge

    def predict(self, values: torch.Tensor) -> torch.Tensor:
        """Of untouched vectors [n, size]: [1, n, targets]."""
        return self.ridge.predict(self.eraser.eraser.outputs(values.double()).float()[None])


@dataclass(frozen=True, eq=False)
class _Fitted:
    """Of one group of tasks: the probes, and by property what erases it, layer by layer."""

    probes: Fitted
    anew: Mapping[str, Sequence[_Anew]]


def _summed(
    scorer: Scorer, groups: Sequence[Group], places: Sequence[int], shown: Progress
) -> list[tuple[Moments, Moments]]:
    """Sums of each group's examples, those that decide over the penalty apart, in float64."""
    at = [group.places("fit") for group in groups]
    sums: list[tuple[Moments, Moments]] = []
    for batch in vectors(scorer, at, places, shown=shown):
        seen = [Seen(one.rows, one.values.double()) for one in batch]
        if not sums:
            sums = [begun(group, one) for group, one in zip(groups, seen, strict=True)]
        for group, where, (part, rest), one in zip(groups, at, sums, seen, strict=True):
            held = torch.from_numpy(where.group[one.rows] % HELD_BACK == HELD_BACK - 1)
            targets = group.targets.fit[one.rows].double()
            part.add(one.values[:, ~held], targets[~held])
            rest.add(one.values[:, held], targets[held])
    return sums


def _fitted(
    group: Group, part: Moments, rest: Moments, places: Sequence[int], draws: Draws, seed: int
) -> _Fitted:
    blocks, whole = group.targets.blocks, part + rest
    asked = {
        column.name: blocks[column.name]
        for column in group.targets.columns
        if column.draw is None or column.draw < draws.probe
    }
    anew = {}
    for task in group.tasks:
        name = task.about.name
        own = blocks[name]
        others = blocks_of(
            [one for one in group.targets.columns if one.task is task], blocks, draws.probe
        )
        layers = []
        for layer, place in enumerate(places):
            rng = np.random.default_rng([seed, place, *name.encode()])
            made = erasers(whole, layer, place, own, others, draws.of_eraser(name), rng)
            behind = [erased(one, layer, made.eraser) for one in (part, rest)]
            layers.append(_Anew(made, fit(behind[0], behind[1], {name: own}).ridge))
        anew[name] = layers
    return _Fitted(fit(part, rest, asked), anew)


def _answers(
    scorer: Scorer,
    groups: Sequence[Group],
    fitted: Sequence[_Fitted],
    places: Sequence[int],
    shown: Progress,
) -> list[dict[tuple[str, bool], np.ndarray]]:
    """(column, whether behind its eraser) → what the probes say of the examples to score [layers, n]."""
    at = [group.places("check") for group in groups]
    found: list[dict[tuple[str, bool], np.ndarray]] = [{} for _ in groups]
    for seen in vectors(scorer, at, places, shown=shown):
        for group, one, batch, into in zip(groups, fitted, seen, found, strict=True):
            for key, column, predicted in _predicted(group, one, batch.values):
                told = group.targets.restored(column, predicted)
                empty = np.empty((len(told), len(column.check)), told.dtype)
                into.setdefault(key, empty)[:, batch.rows] = told
    return found


def _predicted(
    group: Group, fitted: _Fitted, values: torch.Tensor
) -> Iterator[tuple[tuple[str, bool], Column, torch.Tensor]]:
    plain = fitted.probes.ridge.predict(values)
    for column in group.targets.columns:
        if column.name in fitted.probes.penalties:
            yield (column.name, False), column, plain
        if column.draw is None:
            layers = fitted.anew[column.name]
            behind = [one.predict(values[layer]) for layer, one in enumerate(layers)]
            yield (column.name, True), column, torch.cat(behind)


def _encoded(
    group: Group, fitted: _Fitted, answers: dict[tuple[str, bool], np.ndarray]
) -> Iterator[Encoded]:
    for task in group.tasks:
        name = task.about.name
        own = [one for one in group.targets.columns if one.task is task]
        asked = [one for one in own if one.name in fitted.probes.penalties]
        first, *others = (sums_of(one, answers[one.name, False]) for one in asked)
        penalties = fitted.probes.penalties[name]
        decoded = Decoded(task, first, tuple(others), majority_sums(task), penalties)
        made = tuple(one.eraser for one in fitted.anew[name])
        yield Encoded(decoded, made, sums_of(own[0], answers[name, True]))
