"""Measure a model: our loop, the plain loops between its halves, bfloat16, FLOPs, memory."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.flops import matrix_flops
from common.machine import matrix_peak, peak_memory, timed

from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from sweeping.ours import OurSweep, Texts, sweep_all
from sweeping.plain import KERNEL, PlainLoop, forward, forward_all, zeroed

OURS, BFLOAT16 = "ours", "ours in bfloat16"
PLAIN = {"file order": False, "by length": True}
"""The plain loops by name, and whether they sort by length."""


@dataclass(frozen=True)
class Measured:
    """The results of a model; seconds are for all single heads, medians over rounds."""

    layers: int
    heads: int
    hidden: int
    pairs: int
    mean_tokens: float
    longest: int
    rounds: int
    masks_timed: int
    seconds: dict[str, float]
    difference: dict[str, float]
    flipped: float
    flops: int
    peak: float
    memory_plain: float
    memory_ours: float

    def times_faster(self, name: str) -> float:
        """Seconds of `name` over ours; for bfloat16 ours over its."""
        if name == BFLOAT16:
            return self.seconds[OURS] / self.seconds[BFLOAT16]
        return self.seconds[name] / self.seconds[OURS]

    @property
    def memory(self) -> float:
        """Peak MB above the plain forward's."""
        return self.memory_ours - self.memory_plain

    @property
    def share_of_peak(self) -> float:
        """FLOPs a second over those of the machine's fastest product."""
        return self.flops / self.seconds[OURS] / self.peak

    def to_json(self) -> dict[str, Any]:
        ratios = {name: self.times_faster(name) for name in (*PLAIN, BFLOAT16)}
        return asdict(self) | {"times_faster": ratios, "share_of_peak": self.share_of_peak}


def measure(folder: Path, texts: Texts, max_length: int, rounds: int) -> Measured:
    """Measure a model on `texts`. Raises ArgumentError for a `max_length` beyond its positions."""
    memory = [peak_memory(work, folder, texts, max_length) for work in (forward_all, sweep_all)]
    peak = matrix_peak(torch.float32)
    exact, short = (
        Scorer(open_checkpoint(folder, dtype=dtype, attention=KERNEL), max_length=max_length)
        for dtype in ("float32", "bfloat16")
    )
    encoded = exact.tokenizer.encode(texts, offsets=False)
    ours, bfloat16 = OurSweep(exact, encoded), OurSweep(short, encoded)
    masks = ours.one_a_layer()
    loops = {
        name: PlainLoop(exact, encoded, masks, by_length=by_length)
        for name, by_length in PLAIN.items()
    }
    seconds = _interleaved(ours, bfloat16, loops, rounds)
    lengths = [len(pair) for pair in encoded]
    reference = ours.logits_of(masks)
    return Measured(
        layers=ours.shape.layers,
        heads=ours.shape.heads,
        hidden=int(exact.checkpoint.model.config.hidden_size),
        pairs=len(texts),
        mean_tokens=statistics.mean(lengths),
        longest=max(lengths),
        rounds=rounds,
        masks_timed=len(masks),
        seconds=seconds,
        difference={k: float(np.abs(v.logits - reference).max()) for k, v in loops.items()},
        flipped=float(np.mean(bfloat16.logits.argmax(2) != ours.logits.argmax(2))),
        flops=matrix_flops(ours.swept, ours.batches),
        peak=max(peak, matrix_peak(torch.float32)),
        memory_plain=memory[0],
        memory_ours=memory[1],
    )


def _interleaved(
    ours: OurSweep, bfloat16: OurSweep, loops: Mapping[str, PlainLoop], rounds: int
) -> dict[str, float]:
    """Median seconds for all single heads: in each round the plain loops run between our halves."""
    sweeps = {OURS: ours, BFLOAT16: bfloat16}
    for warm_up in sweeps.values():
        warm_up.run(warm_up.batches[-1:])
    for loop in loops.values():
        with zeroed(loop.checkpoint, loop.heads[0]):
            forward(loop.checkpoint, loop.batches[0])
    scale = len(ours.shape.all_heads) / ours.shape.layers
    rounds_of: dict[str, list[float]] = defaultdict(list)
    for _ in range(rounds):
        first, second = ({k: _halved(v, half) for k, v in sweeps.items()} for half in (0, 1))
        seconds = {name: timed(work) for name, work in first.items()}
        for name, loop in loops.items():
            rounds_of[name].append(timed(loop) * scale)
        for name, work in reversed(second.items()):
            rounds_of[name].append(seconds[name] + timed(work))
    return {name: statistics.median(times) for name, times in rounds_of.items()}


def _halved(ours: OurSweep, half: int) -> Callable[[], None]:
    return partial(ours.run, ours.halves()[half])
