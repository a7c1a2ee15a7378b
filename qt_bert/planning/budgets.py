"""Budgets, and the shapes of smaller models that meet them: parameters exactly, time by a fit."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol, get_args

import numpy as np

from qt_bert.codec import encode, read_result
from qt_bert.errors import ArgumentError
from qt_bert.files import write_json
from qt_bert.models.families import Family
from qt_bert.models.pruned import head_parameters, unit_parameters
from qt_bert.progress import progress
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import Budget, BudgetKind, Ratio, Speed
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import percentile_interval

if TYPE_CHECKING:
    from qt_bert.planning.task import PlanTask
    from qt_bert.scoring.bulk import Scorer

# `--budget`: what of a model may stay, as a share or as a number.


KINDS: tuple[BudgetKind, ...] = get_args(BudgetKind)
_FORM = re.compile(r"([a-z]+)=([0-9]*\.?[0-9]+)(M?)", re.IGNORECASE)
_MILLION = 1_000_000
_HOW = (
    "write heads=, layers=, latency= or params=; with a point the share that is kept (heads=0.6, "
    "latency=0.5), without one the number (layers=6, params=4000000 or params=4M)"
)


def parse_budget(text: str) -> Budget:
    """The budget that `text` (`heads=0.6`, `layers=6`, `params=4M`) asks for.

    With a point it is the share of the model's own that is kept, above 0 and below 1; without, the
    number kept. Latency is a share. Raises ArgumentError for anything else.
    """
    found = _FORM.fullmatch(text.strip())
    kind = next((one for one in KINDS if found and found[1].lower() == one), None)
    if found is None or kind is None:
        raise ArgumentError(f"--budget {text!r}: {_HOW}")
    number, millions = float(found[2]), bool(found[3])
    if millions and kind != "params":
        raise ArgumentError(f"--budget {text!r}: M, for millions, goes with params alone")
    share = "." in found[2] and not millions
    if share and not 0 < number < 1:
        raise ArgumentError(
            f"--budget {text!r}: with a point it is the share kept, above 0 and below 1; "
            f"for a number leave the point out"
        )
    if not share and kind == "latency":
        raise ArgumentError(f"--budget {text!r}: a latency is a share of the model's: latency=0.5")
    if number == 0:
        raise ArgumentError(f"--budget {text!r}: something must stay")
    value = number * _MILLION if millions else number
    return Budget(kind_of=kind, value=value, share=share, asked=text.strip())


def count_kept(budget: Budget, total: int, sharing: int = 1) -> int:
    """How many of `total` heads or layers stay; heads of which `sharing` share a key go together.

    Raises ArgumentError where that is none, all, more or a part of such a group; the message names
    what there can be.
    """
    groups = total // sharing
    kept = sharing * round(budget.value * groups) if budget.share else int(budget.value)
    if sharing <= kept < total and kept % sharing:
        raise ArgumentError(
            f"--budget {budget.asked}: each {sharing} heads of the model share one key and value and go "
            f"together; give heads={kept - kept % sharing}, or another multiple of {sharing}"
        )
    if sharing <= kept < total:
        return kept
    what, one = budget.kind_of, budget.kind_of[:-1]
    if groups == 1:
        raise ArgumentError(
            f"--budget {budget.asked}: the model has a single {one if total == 1 else 'group of heads'}, "
            "which cannot go"
        )
    meant = "none" if kept < 1 else "all" if kept == total else str(kept)
    raise ArgumentError(
        f"--budget {budget.asked} keeps {meant} of the model's {total} {what}; give {what}={sharing} to "
        f"{what}={total - sharing}, or a share from {_shares(groups)}"
    )


def _shares(total: int) -> str:
    """The smallest share, in two digits where they do, that keeps one of `total`, and the largest that
    does not keep all."""
    digits = 2 if total <= 50 else 3 if total <= 500 else 4
    shares = [f"{step / 10**digits:.{digits}f}" for step in range(1, 10**digits)]
    fitting = [share for share in shares if 1 <= round(float(share) * total) < total]
    return f"{fitting[0]} to {fitting[-1]}"


# Shapes of smaller models, and what each costs: in parameters exactly, in time by a fit.


FLOAT16_BYTES = 2


@dataclass(frozen=True)
class Form:
    """How many layers stay, how many heads all of them together keep, and units in each.

    `sharing` heads at a time share one key and value, and stay or go together.
    """

    layers: int
    heads: int
    units: int
    sharing: int = 1

    @property
    def per_layer(self) -> int:
        """How many heads a layer has, where all have as many."""
        return self.heads // self.layers

    def of_layers(self, layers: int) -> Form:
        """So many layers of this form, each with as many heads as here."""
        return replace(self, layers=layers, heads=layers * self.per_layer)

    def example(self, teacher: TeacherRef) -> tuple[KeptLayer, ...]:
        """Layers of this form: the highest, with the first heads of each, spread evenly.

        What a form costs in time does not depend on which layers, heads and units they are.
        """
        each, more = divmod(self.heads // self.sharing, self.layers)
        units = None if self.units == teacher.units else self.units
        return tuple(
            KeptLayer(
                layer=teacher.layers - self.layers + number,
                heads=tuple(range(self.sharing * (each + (number < more)))),
                units=units,
            )
            for number in range(self.layers)
        )


@dataclass(frozen=True)
class Costs:
    """What a model costs as a sum over its parts, in any unit.

    `fixed` is embeddings and head, `layer` a layer without heads and units, `head` one head and
    `unit` one feed-forward unit.
    """

    fixed: float
    layer: float
    head: float
    unit: float

    def of(self, form: Form) -> float:
        """The cost of a model of this form."""
        parts = form.layers * (self.layer + form.units * self.unit) + form.heads * self.head
        return self.fixed + parts


def parameter_costs(model: Any, family: Family) -> Costs:
    """The parameters of each part of a classifier whose layers all have one shape.

    ModernBERT's first layer lacks a norm; totals err by less than one.
    """
    layers = family.layers_of(model)
    first = layers[-1]
    heads, units = family.heads(first), family.units(first)
    head, unit = head_parameters(family, first), unit_parameters(family, first)
    whole = sum(map(parameters_of, layers)) / len(layers)
    total = parameters_of(model)
    return Costs(
        fixed=total - len(layers) * whole,
        layer=whole - heads * head - units * unit,
        head=head,
        unit=unit,
    )


def parameters_of(module: Any) -> int:
    """Numbers that a module learned."""
    return sum(parameter.numel() for parameter in module.parameters())


def form_of(kept: Sequence[KeptLayer], teacher: TeacherRef) -> Form:
    """The form of what a plan keeps; where widths differ, the units of all layers on average."""
    units = [teacher.units if one.units is None else one.units for one in kept]
    return Form(len(kept), sum(len(one.heads) for one in kept), round(sum(units) / len(units)))


# Shapes that meet a budget of parameters or of time.


NARROWEST = 4
"""A layer keeps at least one in so many of its units, and of its heads."""

UNIT_STEPS = 32
"""Units go in steps of one in so many of a layer's."""


def forms_within(budget: Budget, costs: Costs, teacher: Form) -> tuple[Form, ...]:
    """The largest shapes of cost at most the budget's: whole layers, and one layer more but narrower.

    As few whole layers go as meet it. What is then left of the budget pays for one layer more, if
    feed-forward units go instead from every layer (down to a quarter), and after these heads (down
    to a quarter). `costs` are in the unit of the budget, or the budget is a share of the teacher's.

    Raises ArgumentError for a budget that nothing meets, naming the nearest that is met, and for one
    that the teacher itself meets.
    """
    target = budget.value * costs.of(teacher) if budget.share else budget.value
    if costs.of(teacher) <= target:
        raise ArgumentError(
            f"--budget {budget.asked}: the model has {_shown(costs.of(teacher), budget)} and meets "
            "it as it is; ask for less"
        )
    whole = [teacher.of_layers(n) for n in range(teacher.layers - 1, 0, -1)]
    found = [form for form in whole if costs.of(form) <= target][:1]
    more = found[0].layers + 1 if found else 1
    narrow = _narrowed(teacher.of_layers(more), costs, target)
    forms = (*found, *([] if narrow is None else [narrow]))
    if not forms:
        raise ArgumentError(_out_of_reach(budget, costs, teacher))
    return forms


def _narrowed(form: Form, costs: Costs, target: float) -> Form | None:
    """`form` with the most units that meet the target, and fewer heads where units are not enough."""
    step = max(1, form.units // UNIT_STEPS)
    least = _least_shape(form.units)
    for units in [*range(form.units - step, least, -step), least]:
        if costs.of(replace(form, units=units)) <= target:
            return replace(form, units=units)
    fewest = form.layers * _least_heads(form)
    for heads in range(form.heads - form.sharing, fewest - 1, -form.sharing):
        narrow = replace(form, units=least, heads=heads)
        if costs.of(narrow) <= target:
            return narrow
    return None


def _least_shape(count: int) -> int:
    return math.ceil(count / NARROWEST)


def _least_heads(form: Form) -> int:
    """Of a layer."""
    return form.sharing * _least_shape(form.per_layer // form.sharing)


def _out_of_reach(budget: Budget, costs: Costs, teacher: Form) -> str:
    smallest = Form(1, _least_heads(teacher), _least_shape(teacher.units))
    least, whole = costs.of(smallest), costs.of(teacher)
    fixed = (
        f"; the embeddings and the head, which cannot go, are {costs.fixed / whole:.0%}"
        if budget.kind_of == "params"
        else ""
    )
    nearest = f"{math.ceil(100 * least / whole) / 100:.2f}" if budget.share else math.ceil(least)
    return (
        f"--budget {budget.asked} is out of reach{fixed}; the smallest model, one narrow layer, has "
        f"{_shown(least, budget)}: {budget.kind_of}={nearest} is the nearest that can be met"
    )


def _shown(cost: float, budget: Budget) -> str:
    if budget.kind_of == "params":
        return f"{cost:,.0f} parameters"
    return f"{cost:.2f} of the model's latency"


# How fast a smaller model is against its teacher: both in one run, in turns, texts to logits.
#
# Times on a shared machine drift; the two models take turns within a fraction of a second, and only
# their ratio is kept.


Texts = Sequence[tuple[str, str]]


class Scores(Protocol):
    """What is timed: a scorer of any kind."""

    def logits(self, pairs: Texts) -> np.ndarray:
        """Logits [pair, output]."""


WARM_UP, ROUNDS, BULK_ROUNDS = 3, 3, 5
SECONDS, LEAST_PAIRS = 4.0, 8
LEAST_FOR_INTERVAL = 5
"""Times whose smallest and largest are about a 95 % interval of their median; fewer have none."""

RESAMPLES = 1000


def measure_speed(
    teacher: Scorer, smaller: Scorer, texts: Texts, *, alone: int, seed: int = 0
) -> Speed:
    """Latency on `alone` of the pairs, one at a time, and throughput on all of `texts`.

    The latency's ratio is a median over pairs, each timed ROUNDS times by both models; its interval
    is a bootstrap over pairs, that of the throughput over BULK_ROUNDS runs. Either ends early, with
    fewer pairs or runs, once it has taken SECONDS; fewer than LEAST_FOR_INTERVAL have no interval.
    """
    scorers = teacher.fresh(), smaller.fresh()
    single = spread(texts, alone)
    # In no order of length, as the longest may never come.
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
    found: list[FloatArray] = []
    start = time.perf_counter()
    for run in runs:
        found.append(run)
        if len(found) >= least and time.perf_counter() - start > SECONDS:
            break
    return np.array(found)


def in_turns(scorers: Sequence[Scores], texts: Texts, rounds: int, first: int = 0) -> FloatArray:
    """Seconds of each model [rounds, models]; who goes first changes from round to round."""
    count = len(scorers)
    seconds = np.empty((rounds, count))
    for turn in range(rounds):
        for place in ((first + turn + step) % count for step in range(count)):
            start = time.perf_counter()
            scorers[place].logits(texts)
            seconds[turn, place] = time.perf_counter() - start
    return seconds


def spread(texts: Texts, count: int) -> list[tuple[str, str]]:
    """At most `count` of the texts, of all lengths alike."""
    ordered = sorted(texts, key=lambda text: len(text[0]) + len(text[1]))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round())
    return [ordered[int(place)] for place in places]


def ratio(ratios: FloatArray, seed: int) -> Ratio:
    """The median with its bootstrap interval, where there are enough ratios for one."""
    value = float(np.median(ratios))
    if len(ratios) < LEAST_FOR_INTERVAL:
        return Ratio(value=value, low=None, high=None)
    drawn = np.random.default_rng(seed).integers(len(ratios), size=(RESAMPLES, len(ratios)))
    ends = percentile_interval(np.median(ratios[drawn], axis=1))
    low, high = ends if ends is not None else (None, None)
    return Ratio(value=value, low=low, high=high)


# The table of times that a budget of latency is met by, kept so that a resumed plan has the same.


REFINED = 4
"""Times that a shape which proves too slow is made smaller."""


@dataclass(frozen=True)
class _Stored:
    """The file of times: `Form` or layers as text → speed."""

    speeds: dict[str, Speed]


class SpeedTable:
    """Speeds of smaller models, each measured once, in turns with the teacher."""

    def __init__(self, task: PlanTask) -> None:
        self._task = task
        self._path = task.work / "speeds.json"
        self._speeds: dict[str, Speed] = {}
        if self._path.exists():
            self._speeds = read_result(_Stored, self._path).speeds

    def of(self, kept: Sequence[KeptLayer]) -> Speed:
        """The speed of a model that keeps as much as `kept`, whichever units these are."""
        key = repr([(one.layer, one.heads, one.units) for one in kept])
        if key not in self._speeds:
            self._speeds[key] = self._measure(kept)
            write_json(self._path, encode(_Stored(self._speeds)))
        return self._speeds[key]

    def _measure(self, kept: Sequence[KeptLayer]) -> Speed:
        task = self._task
        first = {one.layer: range(one.units) for one in kept if one.units is not None}
        texts = task.validation.texts[: task.effort.bulk]
        return measure_speed(
            task.scorer,
            task.pruned(kept, first),
            texts,
            alone=task.effort.alone,
            seed=task.seed,
        )


def forms_in_time(task: PlanTask, speeds: SpeedTable) -> tuple[Form, ...]:
    """The largest forms within a budget of latency, by a fit, as `forms_within` gives them.

    Each is measured; one that proves too slow gives way to a smaller one. Raises ArgumentError where
    none is fast enough.
    """
    costs, budget = latency_costs(task, speeds), task.budget
    target, met, slow = budget.value, dict[bool, Form](), list[Form]()
    for _ in range(REFINED):
        try:
            forms = forms_within(replace(budget, value=target), costs, task.form)
        except ArgumentError as error:
            if not slow:
                raise  # of what was asked; further on `target` is this function's own
            if met:
                break
            raise ArgumentError(_too_slow(task, speeds, slow)) from error
        # What was measured, against what the fit says: above 1 where the fit is too low.
        off = {form: _latency(task, speeds, form) / costs.of(form) for form in forms}
        slow = [form for form in forms if off[form] * costs.of(form) > budget.value]
        for form in forms:
            if form not in slow:
                met.setdefault(form.units == task.form.units, form)
        if not slow:
            break
        target = min(budget.value / off[form] for form in slow) / costs.of(task.form)
    if not met:
        raise ArgumentError(_too_slow(task, speeds, slow))
    return tuple(met.values())


def _too_slow(task: PlanTask, speeds: SpeedTable, slow: Sequence[Form]) -> str:
    """What to say where every form that should meet the budget proved too slow."""
    nearest = math.ceil(100 * min(_latency(task, speeds, form) for form in slow)) / 100
    return (
        f"--budget {task.budget.asked}: the shapes that should meet it proved slower, the fastest took "
        f"{nearest:.2f} of the model's latency; ask for that, or try again on an idle machine with "
        "--overwrite"
    )


def _latency(task: PlanTask, speeds: SpeedTable, form: Form) -> float:
    return speeds.of(form.example(task.teacher)).latency.value


def latency_costs(task: PlanTask, speeds: SpeedTable) -> Costs:
    """Latency as a share of the teacher's, as a sum over parts.

    Fitted by least squares without negative parts to models of fewer layers, fewer heads and
    narrower feed-forwards: a single measurement would let noise choose the shape.
    """
    from scipy.optimize import nnls

    forms = list(_forms(task.form))
    with progress(len(forms), "latency", "shapes") as shown:
        ratios = [1.0]
        for form in forms:
            ratios.append(speeds.of(form.example(task.teacher)).latency.value)
            shown.advance()
    rows = [[1, f.layers, f.heads, f.layers * f.units] for f in (task.form, *forms)]
    scale = np.array(rows[0], float)
    found, _ = nnls(np.array(rows) / scale, np.array(ratios))
    fixed, layer, head, unit = found / scale
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
