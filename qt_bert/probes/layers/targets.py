"""Targets of a regression: labels and their controls side by side, classes as ones and zeros.

Controls are labels that vectors can hold only as far as they tell one example from another. Hewitt
and Liang 2019, "Designing and Interpreting Probes with Control Tasks": each type (here a character,
of an edge the dependent word) gets a label at random, from the property's own distribution. What a
probe gets right there it knows by heart; what its own score is above that (selectivity) is the
vectors'. A text has no type, so its labels are permuted, and the true ones asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch

from qt_bert.probes.layers.examples import Task
from qt_bert.stats.arrays import FloatArray, IntArray


class Control(NamedTuple):
    """Labels to fit, and those to score by, in the order of the task's examples."""

    fit: IntArray | FloatArray
    check: IntArray | FloatArray


def controls(task: Task, draws: int, seed: int) -> list[Control]:
    """So many draws: control tasks of characters and edges, permuted labels of texts."""
    one = _permuted if task.fit.kinds is None else _by_kind
    return [one(task, np.random.default_rng([seed, 7, draw])) for draw in range(draws)]


def _by_kind(task: Task, rng: np.random.Generator) -> Control:
    fit, check = task.fit.kinds, task.check.kinds
    if fit is None or check is None:
        raise TypeError("both halves of a task number their kinds, or neither does")
    kinds = 1 + max(int(fit.max()), int(check.max()))
    of_kind = rng.choice(task.fit.labels, size=kinds)
    return Control(of_kind[fit], of_kind[check])


def _permuted(task: Task, rng: np.random.Generator) -> Control:
    return Control(rng.permutation(task.fit.labels), task.check.labels)


class Column(NamedTuple):
    """One set of labels to fit and to score: a property's own (`draw` is None), or a control's."""

    task: Task
    draw: int | None
    fit: IntArray | FloatArray
    check: IntArray | FloatArray

    @property
    def name(self) -> str:
        """The property, and the number of the draw."""
        own = self.task.about.name
        return own if self.draw is None else f"{own}#{self.draw}"


@dataclass(frozen=True, eq=False)
class Targets:
    """Columns of labels at the same places, as a matrix [places, targets]; `blocks` says whose is what."""

    columns: tuple[Column, ...]
    blocks: dict[str, slice]
    fit: torch.Tensor
    scale: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Targets:
        """Numbers are brought to mean 0 and deviation 1 of the examples to fit; see `restored`."""
        blocks, parts, scale, start = {}, [], {}, 0
        for column in columns:
            classes = column.task.classes
            if classes:
                parts.append(np.eye(len(classes), dtype=np.float32)[column.fit.astype(np.int64)])
            else:
                mean, deviation = float(column.fit.mean()), float(column.fit.std()) or 1.0
                scale[column.name] = mean, deviation
                parts.append(((column.fit - mean) / deviation)[:, None].astype(np.float32))
            blocks[column.name] = slice(start, start + parts[-1].shape[1])
            start = blocks[column.name].stop
        return cls(tuple(columns), blocks, torch.from_numpy(np.concatenate(parts, axis=1)), scale)

    def restored(self, column: Column, predicted: torch.Tensor) -> np.ndarray:
        """Of predictions [layers, n, targets] the column's: classes, or numbers [layers, n]."""
        own = predicted[:, :, self.blocks[column.name]]
        if column.task.classes:
            return np.asarray(own.argmax(-1).numpy())
        mean, deviation = self.scale[column.name]
        return np.asarray(own[:, :, 0].double().numpy() * deviation + mean)


def columns_of(task: Task, controls: Sequence[Control]) -> list[Column]:
    """The property's own labels, then those of its controls."""
    own = Column(task, None, task.fit.labels, task.check.labels)
    return [own, *(Column(task, draw, *one) for draw, one in enumerate(controls))]
