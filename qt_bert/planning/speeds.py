"""Speed of smaller models relative to the teacher, and forms within a budget of latency.

Times on a shared machine drift, so the two models alternate within a fraction of a second, and only
their ratio is kept.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from qt_bert.codec import encode, read_result
from qt_bert.errors import ArgumentError
from qt_bert.files import write_json
from qt_bert.planning.budgets import Costs, Form, forms_within
from qt_bert.planning.task import PlanTask
from qt_bert.progress import progress
from qt_bert.results.kept import KeptLayer
from qt_bert.results.plan import Ratio, Speed
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import percentile_interval

TextPairs = Sequence[tuple[str, str]]


class Scores(Protocol):
    """A scorer of any kind, to be timed."""

    def logits(self, pairs: TextPairs) -> np.ndarray:
        """Logits [pair, output]."""


WARM_UP, ROUNDS, BULK_ROUNDS = 3, 3, 5
SECONDS, LEAST_PAIRS = 4.0, 8
LEAST_FOR_INTERVAL = 5
"""Fewer ratios have no interval: of five, the extremes are about a 95 % interval of the median."""

RESAMPLES = 1000


def measure_speed(
    teacher: Scorer, smaller: Scorer, texts: TextPairs, *, alone: int, seed: int = 0
) -> Speed:
    """Latency on `alone` of the pairs, one at a time, and throughput on all of `texts`.

    Each ratio is a median with a bootstrap interval: of latency over pairs, each timed ROUNDS times by both
    models; of throughput over BULK_ROUNDS runs. Timing ends early after SECONDS; fewer than
    LEAST_FOR_INTERVAL ratios have no interval.
    """
    scorers = teacher.fresh(), smaller.fresh()
    single = spread(texts, alone)
    # In random order of length, as timing may end before the last.
    order = np.random.default_rng(seed).permutation(len(single))
    for text in single[:WARM_UP]:
        for scorer in scorers:
            scorer.logits([text])
    alone_runs = (in_turns(scorers, [single[place]], ROUNDS).min(0) for place in order)
    seconds = in_time(alone_runs, LEAST_PAIRS)
    bulk = in_time((in_turns(scorers, texts, 1, turn)[0] for turn in range(BULK_ROUNDS)), 2)
    return Speed(
        latency=ratio(seconds[:, 1] / seconds[:, 0], seed),
        throughput=ratio(bulk[:, 0] / bulk[:, 1], seed),
        teacher_ms=float(1000 * np.median(seconds[:, 0])),
        pairs=len(seconds),
        bulk_pairs=len(texts),
    )


def in_time(runs: Iterator[FloatArray], least: int) -> FloatArray:
    """The runs [n, models] until they have taken SECONDS, at least `least` of them."""
    rows: list[FloatArray] = []
    start = time.perf_counter()
    for run in runs:
        rows.append(run)
        if len(rows) >= least and time.perf_counter() - start > SECONDS:
            break
    return np.array(rows)


def in_turns(
    scorers: Sequence[Scores], texts: TextPairs, rounds: int, first: int = 0
) -> FloatArray:
    """Seconds of each model [rounds, models]; the first model changes from round to round."""
    count = len(scorers)
    seconds = np.empty((rounds, count))
    for turn in range(rounds):
        for place in ((first + turn + step) % count for step in range(count)):
            start = time.perf_counter()
            scorers[place].logits(texts)
            seconds[turn, place] = time.perf_counter() - start
    return seconds


def spread(texts: TextPairs, count: int) -> list[tuple[str, str]]:
    """At most `count` of the texts, spread over their lengths."""
    ordered = sorted(texts, key=lambda text: len(text[0]) + len(text[1]))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round())
    return [ordered[int(place)] for place in places]


def ratio(ratios: FloatArray, seed: int) -> Ratio:
    """The median with its bootstrap interval, if there are LEAST_FOR_INTERVAL ratios."""
    value = float(np.median(ratios))
    if len(ratios) < LEAST_FOR_INTERVAL:
        return Ratio(value=value, low=None, high=None)
    drawn = np.random.default_rng(seed).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    ends = percentile_interval(np.median(ratios[drawn], axis=1))
    low, high = ends if ends is not None else (None, None)
    return Ratio(value=value, low=low, high=high)


REFINED = 4
"""How often forms that prove too slow are made smaller."""


@dataclass(frozen=True)
class _SpeedFile:
    """The file of speeds: kept layers as text → speed."""

    speeds: dict[str, Speed]


class SpeedTable:
    """Speeds of smaller models, each measured once and stored, so that a resumed plan uses the same."""

    def __init__(self, task: PlanTask) -> None:
        self._task = task
        self._path = task.work / "speeds.json"
        self._speeds: dict[str, Speed] = {}
        if self._path.exists():
            self._speeds = read_result(_SpeedFile, self._path).speeds

    def of(self, kept: Sequence[KeptLayer]) -> Speed:
        """The speed of a model of the sizes of `kept`."""
        key = repr([(layer.layer, layer.heads, layer.units) for layer in kept])
        if key not in self._speeds:
            self._speeds[key] = self._measure(kept)
            write_json(self._path, encode(_SpeedFile(self._speeds)))
        return self._speeds[key]

    def _measure(self, kept: Sequence[KeptLayer]) -> Speed:
        task = self._task
        first = {layer.layer: range(layer.units) for layer in kept if layer.units is not None}
        texts = task.validation.texts[: task.effort.bulk]
        return measure_speed(
            task.scorer,
            task.pruned(kept, first),
            texts,
            alone=task.effort.alone,
            seed=task.seed,
        )


def forms_in_time(task: PlanTask, speeds: SpeedTable) -> tuple[Form, ...]:
    """The largest forms within a budget of latency, from `forms_within` on fitted costs.

    Each is measured, and replaced by a smaller one if too slow. Raises ArgumentError where none is fast
    enough.
    """
    costs, budget = latency_costs(task, speeds), task.budget
    target, fast, too_slow = budget.value, dict[bool, Form](), list[Form]()
    for _ in range(REFINED):
        try:
            forms = forms_within(replace(budget, value=target), costs, task.form)
        except ArgumentError as error:
            if not too_slow:
                raise  # about the requested budget; later targets are this function's
            if fast:
                break
            raise ArgumentError(_too_slow(task, speeds, too_slow)) from error
        # Measured over fitted latency: above 1 where the fit is too low.
        misfit = {form: _latency(task, speeds, form) / costs.of(form) for form in forms}
        too_slow = [form for form in forms if misfit[form] * costs.of(form) > budget.value]
        for form in forms:
            if form not in too_slow:
                fast.setdefault(form.units == task.form.units, form)
        if not too_slow:
            break
        target = min(budget.value / misfit[form] for form in too_slow) / costs.of(task.form)
    if not fast:
        raise ArgumentError(_too_slow(task, speeds, too_slow))
    return tuple(fast.values())


def _too_slow(task: PlanTask, speeds: SpeedTable, slow: Sequence[Form]) -> str:
    """The message where every form proved too slow."""
    nearest = math.ceil(100 * min(_latency(task, speeds, form) for form in slow)) / 100
    return (
        f"--budget {task.budget.asked}: the forms that should meet it proved slower, the fastest took "
        f"{nearest:.2f} of the model's latency; ask for that, or try again on an idle machine with "
        "--overwrite"
    )


def _latency(task: PlanTask, speeds: SpeedTable, form: Form) -> float:
    return speeds.of(form.example(task.teacher)).latency.value


def latency_costs(task: PlanTask, speeds: SpeedTable) -> Costs:
    """Latency as a share of the teacher's, as a sum over parts: a non-negative least-squares fit to several
    smaller models, since noise would dominate single measurements."""
    from scipy.optimize import nnls

    forms = list(_forms(task.form))
    with progress(len(forms), "latency", "shapes") as shown:
        ratios = [1.0]
        for form in forms:
            ratios.append(speeds.of(form.example(task.teacher)).latency.value)
            shown.advance()
    rows = [[1, f.layers, f.heads, f.layers * f.units] for f in (task.form, *forms)]
    scale = np.array(rows[0], float)
    solution, _ = nnls(np.array(rows) / scale, np.array(ratios))
    fixed, layer, head, unit = solution / scale
    return Costs(fixed, layer, head, unit)


def _forms(whole: Form) -> Iterator[Form]:
    """Fewer layers, in about six steps down to one; then fewer heads; then narrower feed-forwards."""
    counts = np.linspace(1, whole.layers, 7).round()[:-1]
    for layers in sorted({int(n) for n in counts if n < whole.layers}, reverse=True):
        yield whole.of_layers(layers)
    groups = whole.heads // whole.sharing
    for share in (0.5, 0.25):
        if groups * share >= whole.layers:
            yield replace(whole, heads=whole.sharing * round(groups * share))
        yield replace(whole, units=max(1, round(whole.units * share)))
