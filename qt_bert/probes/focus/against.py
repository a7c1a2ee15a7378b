"""A change of a head's [CLS] row beside what the controls of its contest change."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.controls import rank_p
from qt_bert.probes.focus.cls_row import FOCUS
from qt_bert.probes.focus.contests import Outcome
from qt_bert.probes.naming import Average, average, means


@dataclass(frozen=True, eq=False)
class Against:
    """A change beyond the mean of its controls, the change itself, and the rank of the one among all.

    Without controls the difference is the change, and there is no p.
    """

    difference: Average
    change: Average
    p: float | None


def against(
    outcome: Outcome,
    head: int,
    context: Context,
    quantity: int = FOCUS,
    family: str = "matched",
    *,
    below: bool = True,
) -> Against:
    """What leaving the matching heads out does to a head of the layer, beyond the draws of `family`."""
    change = outcome.change(head, quantity)
    control = outcome.control(family, head, quantity)
    expected = control.mean(axis=1) if control.shape[1] else np.zeros(len(change))
    whole = average(change, context.resamples, context.seed)
    return Against(
        average(change - expected, context.resamples, context.seed),
        whole,
        rank_p(whole.value, means(control), below=below),
    )
