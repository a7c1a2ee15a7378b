"""Controls of a probe: labels that vectors can hold only as far as they tell one example from another.

Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks": each type (here a
character, of an edge the dependent word) gets a label at random, from the property's own
distribution. What a probe gets right there it knows by heart; what its own score is above that
(selectivity) is the vectors'. A text has no type, so its labels are permuted, and the true ones asked.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qt_bert.evaluation.arrays import FloatArray, IntArray
from qt_bert.probes.encoded.examples import Task


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
