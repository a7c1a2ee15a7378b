"""Every property read from every layer of one model: fitted in one pass, scored in another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.probes.layers.examples import Places, Task
from qt_bert.probes.layers.ridge import Fitted, Moments, fit
from qt_bert.probes.layers.scores import Sums, class_sums, number_sums
from qt_bert.probes.layers.targets import Column, Targets, columns_of, controls
from qt_bert.probes.layers.vectors import Reader, Seen
from qt_bert.progress import Progress, silent
from qt_bert.stats.arrays import FloatArray

HELD_BACK = 5
"""One query or sentence in so many of those to fit on decides over the penalty."""


@dataclass(frozen=True, eq=False)
class Decoded:
    """How well one property is read from each layer, r0 first: its own labels, and its controls'.

    `majority` is what a probe gets that knows nothing: it says the commonest class of the examples
    to fit, or their mean (one layer). `penalties` [layers] were chosen for its own labels.
    """

    task: Task
    own: Sums
    controls: tuple[Sums, ...]
    majority: Sums
    penalties: FloatArray

    @property
    def score(self) -> FloatArray:
        """Accuracy or R² [layers]."""
        return self.own.score()

    @property
    def control(self) -> FloatArray:
        """The mean score of the controls [layers]; NaN without any."""
        if not self.controls:
            return np.full(self.own.good.shape[1], np.nan)
        return np.asarray(np.mean([one.score() for one in self.controls], axis=0))

    @property
    def selectivity(self) -> FloatArray:
        """The score above its controls' [layers]; a control below a probe that knows nothing is one."""
        return np.asarray(self.score - np.fmax(self.control, self.majority.score()))


@dataclass(frozen=True, eq=False)
class Group:
    """Tasks at the same places, and their labels side by side."""

    tasks: tuple[Task, ...]
    targets: Targets

    def places(self, half: str) -> Places:
        """Those to fit (`fit`) or to score (`check`)."""
        places: Places = getattr(self.tasks[0], half).places
        return places


def decode(
    read: Reader,
    tasks: Sequence[Task],
    *,
    draws: int,
    seed: int,
    shown: Progress = silent,
) -> dict[str, Decoded]:
    """Each property by name, read from every layer that `read` gives; `draws` of each control.

    Vectors are never kept: sums of the examples to fit give the probes, and a second pass scores
    these. `shown` counts texts.
    """
    found: dict[str, Decoded] = {}
    for passed in passes(tasks, lambda task: columns_of(task, controls(task, draws, seed))):
        fitted = _fit(read, passed, shown)
        scored = _scored(read, passed, fitted, shown)
        for one, (group, answers) in zip(fitted, scored, strict=True):
            found |= dict(_decoded(group, answers, one))
    return found


def passes(tasks: Sequence[Task], columns: Callable[[Task], list[Column]]) -> Iterator[list[Group]]:
    """Groups of tasks at the same places; those of the same texts are read in one pass.

    `columns` gives what is fitted for a task: its own labels, and others beside them.
    """
    at: dict[int, list[Task]] = {}
    for task in tasks:
        at.setdefault(id(task.fit.places), []).append(task)
    by_texts: dict[int, list[Group]] = {}
    for together in at.values():
        listed = [column for task in together for column in columns(task)]
        group = Group(tuple(together), Targets.of(listed))
        by_texts.setdefault(id(together[0].fit.places.texts), []).append(group)
    yield from by_texts.values()


def _fit(read: Reader, groups: Sequence[Group], shown: Progress) -> list[Fitted]:
    """The probes of each group."""
    places = [group.places("fit") for group in groups]
    sums: list[tuple[Moments, Moments]] = []
    for seen in read(places, shown):
        if not sums:
            sums = [begun(group, one) for group, one in zip(groups, seen, strict=True)]
        for group, at, (part, rest), one in zip(groups, places, sums, seen, strict=True):
            held = torch.from_numpy(at.group[one.rows] % HELD_BACK == HELD_BACK - 1)
            targets = group.targets.fit[one.rows]
            part.add(one.values[:, ~held], targets[~held])
            rest.add(one.values[:, held], targets[held])
    return [
        fit(part, rest, group.targets.blocks)
        for group, (part, rest) in zip(groups, sums, strict=True)
    ]


def begun(group: Group, first: Seen) -> tuple[Moments, Moments]:
    """Empty sums, their shift the mean of the first batch."""
    shift = (
        first.values.mean(1)
        if len(first.rows)
        else first.values.new_zeros(first.values.shape[0], first.values.shape[2])
    )
    targets = group.targets.fit.shape[1]
    return Moments.empty(shift, targets), Moments.empty(shift, targets)


def _scored(
    read: Reader, groups: Sequence[Group], fitted: Sequence[Fitted], shown: Progress
) -> list[tuple[Group, Mapping[str, np.ndarray]]]:
    """What each group's probes say of the examples to score: name of a column → [layers, n]."""
    places = [group.places("check") for group in groups]
    answers: list[dict[str, np.ndarray]] = [{} for _ in groups]
    for seen in read(places, shown):
        for group, probe, one, found in zip(groups, fitted, seen, answers, strict=True):
            predicted = probe.ridge.predict(one.values)
            for column in group.targets.columns:
                told = group.targets.restored(column, predicted)
                whole = found.setdefault(
                    column.name, np.empty((len(told), len(column.check)), told.dtype)
                )
                whole[:, one.rows] = told
    return list(zip(groups, answers, strict=True))


def _decoded(
    group: Group, answers: Mapping[str, np.ndarray], fitted: Fitted
) -> Iterator[tuple[str, Decoded]]:
    for task in group.tasks:
        columns = [one for one in group.targets.columns if one.task is task]
        own, *others = (sums_of(one, answers[one.name]) for one in columns)
        name = task.about.name
        yield name, Decoded(task, own, tuple(others), majority_sums(task), fitted.penalties[name])


def sums_of(column: Column, answers: np.ndarray) -> Sums:
    """What the score of these answers [layers, n] is made of."""
    places, classes = column.task.check.places, column.task.classes
    if classes:
        true = column.check.astype(np.int64)
        return class_sums(answers, true, places.group, places.n_groups, len(classes))
    numbers, centre = column.check.astype(np.float64), float(column.fit.mean())
    return number_sums(answers, numbers, places.group, places.n_groups, centre)


def majority_sums(task: Task) -> Sums:
    """What the score of a probe that knows nothing is made of: see `Decoded`."""
    own, *_ = columns_of(task, ())
    if task.classes:
        answer = int(np.bincount(own.fit.astype(np.int64)).argmax())
        return sums_of(own, np.full((1, len(own.check)), answer))
    return sums_of(own, np.full((1, len(own.check)), float(own.fit.mean())))


def majority(task: Task) -> float:
    """The score of a probe that knows nothing; 0 for a number."""
    return float(majority_sums(task).score()[0])
