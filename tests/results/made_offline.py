"""Offline rows with plausible figures."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from qt_bert.results.plan import (
    Measured,
    OfflinePlan,
    OfflineRow,
    Ratio,
    StoredTitles,
    Timed,
)
from qt_bert.results.probe import PairsRef

PAIRS = PairsRef(name="test.tsv", sha256="a7" * 32, n_pairs=160, n_queries=150)


def changed(change: float, half: float = 0.01) -> dict[str, Measured]:
    """The same change of three metrics."""
    one = Measured(
        base=0.7, value=0.7 + change, change=change, ci_low=change - half, ci_high=change + half
    )
    return {"spearman": one, "qwk": one, "accuracy": one}


def row(layers: int, change: float) -> OfflineRow:
    """Half of the change is the block's own."""
    return OfflineRow(
        layers=layers,
        block=changed(change / 2),
        both=changed(change),
        discovery=changed(change),
        speed=Ratio(value=1.0 + layers / 10, low=1.0, high=1.2 + layers / 10),
    )


def offline_rows(**changes: Any) -> OfflinePlan:
    """Rows of 3, 6 and 9 of 12 layers; none is free."""
    facts: dict[str, Any] = {
        "layers": 12,
        "title_start": 24,
        "title_tokens": 103,
        "long_queries": 0.034,
        "discovery": replace(PAIRS, name="dev.tsv"),
        "validation": PAIRS,
        "metric": "accuracy",
        "chosen": None,
        "retrain": 6,
        "positions": changed(-0.004),
        "rows": (row(3, -0.03), row(6, -0.2), row(9, -0.4)),
        "titles": StoredTitles(
            titles=500, tokens=18.4, size={"float32": 14_152.0, "float16": 7_086.0, "int8": 3_590.0}
        ),
        "timed": Timed(queries=5, titles=100, whole_ms=151.0, states="float16"),
        "guards": {"unmasked": 2e-6, "bound": 1e-5},
    }
    return OfflinePlan(**(facts | changes))
