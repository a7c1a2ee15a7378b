"""Findings of the probes that are not ported yet: what they measured, without a verdict."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import interval_or_reason
from qt_bert.text import Label, Text

POINTS = Text("个百分点", "points")
"""The unit of accuracy in claims."""
POINT = 0.01
"""One point, as a share."""

Spread = FloatArray | tuple[float, float] | None
"""Resampled values [R], undefined ones NaN; or the ends of a 95 % interval; or neither."""


def beyond(
    id: str,
    claim: Text,
    source: Source,
    value: float | None,
    spread: Spread,
    *,
    p: float | None,
    n_queries: int,
    side: Literal["above", "below"] = "above",
    margin: float = 0.0,
    unit: Label = "",
    primary: bool = True,
    conclusions: Mapping[Verdict, Text] | None = None,
    sets: tuple[str, ...] = (),
) -> Finding:
    """The claim that `value` lies `above` (or `below`) zero by more than `margin`.

    `value`, `spread` and `margin` are in `unit`; NaN counts as no value. `sets` are the named
    sets that the claim is about; for `primary` and `conclusions` see `Finding`.
    """
    low, high = _ends(spread, n_queries)
    return Finding(
        id=id,
        claim=claim,
        source=source,
        value=_finite(value),
        ci_low=low,
        ci_high=high,
        p=_finite(p),
        margin=margin,
        n_queries=n_queries,
        unit=unit,
        side=side,
        primary=primary,
        conclusions=dict(conclusions or {}),
        sets=sets,
    )


def no_effect(
    id: str,
    claim: Text,
    source: Source,
    value: float | None,
    spread: Spread,
    *,
    n_queries: int,
    margin: float,
    unit: Label = "",
    primary: bool = True,
    conclusions: Mapping[Verdict, Text] | None = None,
    sets: tuple[str, ...] = (),
) -> Finding:
    """The claim that there is no effect: `value` lies within ± `margin`. It needs no p-value.

    The margin is `stats.multiplicity.NO_EFFECT_ACCURACY` or `NO_EFFECT_SPEARMAN`, in `unit`.
    """
    finding = beyond(
        id,
        claim,
        source,
        value,
        spread,
        p=None,
        n_queries=n_queries,
        margin=margin,
        unit=unit,
        primary=primary,
        conclusions=conclusions,
        sets=sets,
    )
    return replace(finding, side="none")


def _ends(spread: Spread, n_queries: int) -> tuple[float | None, float | None]:
    """Of samples the central 95 %, where there are queries to resample."""
    if spread is None or isinstance(spread, tuple):
        return (None, None) if spread is None else (float(spread[0]), float(spread[1]))
    low, high, _ = interval_or_reason(spread, n_queries)
    return low, high


def bootstrap_p(samples: FloatArray, null: float, n_queries: int) -> float | None:
    """Two-sided p of a value other than `null`: twice the smaller share of resamples beyond it.

    One resample more counts on either side, and an undefined one (NaN) on both. None without
    resamples, and for a single query, which cannot be resampled.
    """
    if not samples.size or n_queries < 2:
        return None
    sides = (~(samples > null), ~(samples < null))
    return float(min(1.0, 2 * min((1 + side.sum()) / (1 + samples.size) for side in sides)))


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isnan(value) else float(value)
