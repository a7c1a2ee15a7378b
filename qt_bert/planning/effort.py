"""How much work goes into a plan: which sample, which grid, how many draws."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

_ALL_SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)


@dataclass(frozen=True, kw_only=True)
class OfflineEffort:
    """What the rows of offline layers take.

    `rows` is how many numbers of layers are tried (None: each), `pairs` how many of discovery and of
    validation (None: all), `queries` under how many the speed is measured.
    """

    rows: int | None = None
    pairs: int | None = None
    queries: int = 9


@dataclass(frozen=True, kw_only=True)
class Effort:
    """What a plan takes.

    `choosing` and `measuring` are pairs of discovery, and of validation for the grid (None: all; the
    plan itself is tested on all). `heads` are the shares of the heads that the grid keeps; of layers
    it keeps at least the share `layers`, in at most `counts` steps. `draws` is for each random rival.
    Latency is timed on `alone` pairs, throughput on `bulk`. `offline`: of the layers that read titles
    before the query comes.
    """

    profile: Literal["quick", "full"]
    choosing: int | None
    measuring: int | None
    heads: tuple[float, ...] = _ALL_SHARES
    layers: float = 0.0
    counts: int = 11
    draws: int = 3
    alone: int = 32
    bulk: int = 128
    offline: OfflineEffort = OfflineEffort()


IN_REPORT = Effort(
    profile="quick",
    choosing=32,
    measuring=56,
    heads=_ALL_SHARES[:4],
    layers=0.67,
    counts=3,
    draws=2,
    alone=8,
    bulk=16,
    offline=OfflineEffort(rows=3, pairs=80, queries=3),
)
"""A stage of a quick report: about a minute for the model that ships, on two cores."""

QUICK = Effort(profile="quick", choosing=128, measuring=256, offline=OfflineEffort(pairs=600))
"""`qt-bert plan`: some minutes."""

FULL = Effort(profile="full", choosing=None, measuring=None)
"""Everything."""
