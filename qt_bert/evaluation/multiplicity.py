"""Many tests at once, and what a finding may be called: the rules of claims and verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

import numpy as np

from qt_bert.errors import ArgumentError

Verdict: TypeAlias = Literal["reproduced", "not reproduced", "inconclusive"]
Side: TypeAlias = Literal["above", "below"]

FALSE_DISCOVERY_RATE = 0.05
NO_EFFECT_ACCURACY = 0.02
NO_EFFECT_SPEARMAN = 0.02


def q_values(p_values: Sequence[float | None]) -> list[float | None]:
    """Benjamini–Hochberg q of each p-value; a None is outside the family and stays None.

    Y. Benjamini and Y. Hochberg, "Controlling the false discovery rate", JRSS B 57 (1995).
    Raises ArgumentError for a p-value outside 0..1.
    """
    from scipy.stats import false_discovery_control

    family = [place for place, p in enumerate(p_values) if p is not None]
    tested = np.array([p for p in p_values if p is not None], dtype=np.float64)
    if not ((tested >= 0) & (tested <= 1)).all():
        raise ArgumentError(f"p-values must lie in 0..1: {tested.tolist()}")
    result: list[float | None] = [None] * len(p_values)
    if family:
        for place, q in zip(family, false_discovery_control(tested), strict=True):
            result[place] = float(q)
    return result


def verdict(
    ci_low: float | None,
    ci_high: float | None,
    q: float | None,
    side: Side,
    margin: float,
    *,
    null: float = 0.0,
) -> Verdict:
    """Judge a claim that a value lies `above` or `below` `null` by more than `margin`.

    `reproduced`: the whole interval lies beyond `null ± margin` on the claimed side and
    q < 0.05. `not reproduced`: no part of it does. Anything else, a missing interval or a missing
    q too, is `inconclusive`. `margin` is a distance: at least 0, in the value's unit, also for
    `below`. Raises ArgumentError for a negative margin, an unknown side, a reversed interval.
    """
    interval = _checked_interval(ci_low, ci_high, margin)
    if side not in ("above", "below"):
        raise ArgumentError(f"side is {side!r}; it must be 'above' or 'below'")
    if interval is None:
        return "inconclusive"
    low, high = interval
    near, far = (low - null, high - null) if side == "above" else (null - high, null - low)
    if far <= margin:
        return "not reproduced"
    significant = q is not None and q < FALSE_DISCOVERY_RATE
    return "reproduced" if near > margin and significant else "inconclusive"


def no_effect_verdict(ci_low: float | None, ci_high: float | None, margin: float) -> Verdict:
    """Judge a claim that there is no effect, which is one inside ± `margin`.

    `reproduced`: the whole interval lies inside; `not reproduced`: it lies wholly outside; else
    `inconclusive`. The margin is NO_EFFECT_ACCURACY or NO_EFFECT_SPEARMAN, as the finding says.
    Raises ArgumentError for a negative margin or a reversed interval.
    """
    interval = _checked_interval(ci_low, ci_high, margin)
    if interval is None:
        return "inconclusive"
    low, high = interval
    if -margin <= low and high <= margin:
        return "reproduced"
    return "not reproduced" if low > margin or high < -margin else "inconclusive"


def _checked_interval(
    ci_low: float | None, ci_high: float | None, margin: float
) -> tuple[float, float] | None:
    if not margin >= 0:
        raise ArgumentError(f"margin is {margin}; it is a distance, 0 or more")
    if ci_low is None or ci_high is None:
        return None
    if not ci_low <= ci_high:
        raise ArgumentError(f"the interval {ci_low}..{ci_high} is reversed or not a number")
    return ci_low, ci_high
