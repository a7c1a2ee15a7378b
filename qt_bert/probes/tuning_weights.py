"""The tuned model with parts set back to its base, and mixtures of both, judged on graded pairs.

A mixture has the weights (1 − α) · base + α · tuned (Wortsman et al. 2022, WiSE-FT). Weights that the base's
folder lacks (the classifier, often the pooler) stay tuned at every α.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TypeVar

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import Half
from qt_bert.errors import ArgumentError
from qt_bert.figures import HeatMap, Point, cells_of, curve, known
from qt_bert.models.mixing import (
    ATTENTION,
    EMBEDDINGS,
    FEED_FORWARD,
    HEAD,
    State,
    mixture,
    part_of,
    unlike,
)
from qt_bert.probes.base import Context, Result, distinct_names, estimate_points
from qt_bert.probes.base_model import Base
from qt_bert.probes.streams import few_in_quick, for_model
from qt_bert.probes.texts import texts_of
from qt_bert.results.probe import ResultTable, Row, Value
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.comparison import metric_estimate
from qt_bert.stats.estimate import Estimate
from qt_bert.stats.judgements import Judgements
from qt_bert.stats.metrics import METRICS
from qt_bert.stats.tests import FALSE_DISCOVERY_RATE, q_values, sign_flip_p
from qt_bert.text import Label, join

QUICK_ALPHAS = (0.0, 0.5, 0.75, 0.9, 1.0)
ALPHAS = tuple(step / 10 for step in range(11))
QUICK_PARTS, QUICK_HELD_OUT = 48, 80
"""Pairs of a quick run, as `for_model` takes them: for parts, and of each held-out file."""
GRADED = ("accuracy", "qwk", "spearman")
ORDERED = ("pairwise_accuracy", "ndcg_at_5", "spearman")
"""Metrics of models with grades, and with one logit. The first is the one that chooses and is tested."""
LOW_THIRD = "low_third"

Change = float | str
"""A model: the α of a mixture, or the part of the tuned model that is set back."""
Of = TypeVar("Of", float, str)


@dataclass(frozen=True, eq=False)
class Sample:
    """Pairs to judge models on."""

    name: str
    pairs: Sequence[Pair]


@dataclass(eq=False)
class Mixtures:
    """Models between `base` and the tuned model of `scorer`, each judged once on a sample.

    Raises ArgumentError where the weights of the two differ in shape.
    """

    scorer: Scorer
    base: Base
    _judged: dict[tuple[Change, Sample], Judgements] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tuned: State = self.scorer.checkpoint.model.state_dict()
        states = self.base.model.state_dict().items()
        self.before: State = {name: w for name, w in states if name not in self.base.absent}
        if name := unlike(self.tuned, self.before, self.base.absent):
            raise ArgumentError(
                f"{self.base.folder}: the base's weights do not fit the model's ({name}); give the model "
                "that it was tuned from with --base"
            )
        self._model = copy.deepcopy(self.scorer.checkpoint.model)

    @cached_property
    def parts(self) -> dict[str, list[str]]:
        """The weights of each part that the base has, by its name: `L3.attention`, `embeddings`, …"""
        parts: dict[str, list[str]] = {LOW_THIRD: [], EMBEDDINGS: [], HEAD: []}
        for name in self.before:
            layer, part = part_of(name, self.base.family)
            parts.setdefault(part if layer is None else f"L{layer}.{part}", []).append(name)
            if layer is not None and layer < self.base.layers // 3:
                parts[LOW_THIRD].append(name)
        return {part: names for part, names in parts.items() if names}

    @property
    def head(self) -> str:
        """Whether the base has the whole head, a part of it (the pooler) or none, as a text id."""
        head = {name for name in self.tuned if part_of(name, self.base.family)[1] == HEAD}
        held = {*self.parts.get(HEAD, ())}
        return "head_whole" if held == head else "head_part" if held else "head_none"

    def state(self, change: Change) -> State:
        """The weights of one model."""
        if isinstance(change, str):
            return {**self.tuned, **{name: self.before[name] for name in self.parts[change]}}
        return mixture([self.before, self.tuned], [1 - change, change])

    def logits(self, change: Change, pairs: Sequence[Pair]) -> FloatArray:
        """The logits of one model [pairs, outputs]."""
        scorer = self.scorer.fresh()
        if change != 1.0:
            self._model.load_state_dict(self.state(change))
            checkpoint = replace(scorer.checkpoint, model=self._model)
            scorer = Scorer(checkpoint, max_length=scorer.tokenizer.max_length)
        return np.asarray(scorer.logits([(pair.query, pair.title) for pair in pairs]))

    def judged(self, change: Change, sample: Sample) -> Judgements:
        """One model on a sample."""
        key = (change, sample)
        if key not in self._judged:
            logits = self.logits(change, sample.pairs)
            self._judged[key] = judge_logits(
                logits, list(sample.pairs), self.scorer.settings.labels
            )
        return self._judged[key]


# Estimates of a metric: chosen on discovery, tested on validation.


@dataclass(frozen=True, eq=False)
class Trial:
    """What is measured on `halves` of the pairs, and on files held out; the first metric chooses."""

    context: Context
    models: Mixtures
    metrics: tuple[str, ...]
    alphas: tuple[float, ...]
    halves: Mapping[Half, Sample]
    held_out: Sequence[Sample]
    _values: dict[tuple[Change, Sample, str], Estimate] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, base: Base) -> Trial:
        """A quick run takes one pair of each query, for one logit two, as it is judged by the order."""
        graded = context.model.settings.labels.logits > 1
        few = 1 if graded else 2
        return cls(
            context,
            Mixtures(context.model, base),
            GRADED if graded else ORDERED,
            context.choose(QUICK_ALPHAS, ALPHAS),
            {
                "discovery": Sample("discovery", few_in_quick(context, context.discovery, few)),
                "validation": Sample(
                    context.request.validation_file.name,
                    few_in_quick(context, context.validation, few),
                ),
            },
            [
                Sample(name, for_model(pairs, QUICK_HELD_OUT, context))
                for name, pairs in context.held_out
            ],
        )

    def value(self, change: Change, sample: Sample, metric: str = "") -> Estimate:
        """A metric of one model, by default the first."""
        key = (change, sample, metric or self.metrics[0])
        if key not in self._values:
            self._values[key] = metric_estimate(self.models.judged(change, sample), key[2])
        return self._values[key]

    def gain(self, change: Change, sample: Sample, metric: str = "") -> Estimate:
        """The same less that of the tuned model."""
        return self.value(change, sample, metric) - self.value(1.0, sample, metric)

    def tested(self, gains: Sequence[Estimate]) -> list[tuple[float | None, int]]:
        """For each gain its q over all, and its sign where q < .05 and the interval excludes 0, else 0."""
        p = [known(float(sign_flip_p(gain.centred, seed=self.context.seed))) for gain in gains]
        return [
            (q, self.context.sign(gain) if q is not None and q < FALSE_DISCOVERY_RATE else 0)
            for q, gain in zip(q_values(p), gains, strict=True)
        ]


def best_of(values: Mapping[Of, Estimate]) -> Of | None:
    """The model of the highest value, the last of equal ones; None where none is defined."""
    defined = [change for change, value in values.items() if np.isfinite(value.value)]
    return max(reversed(defined), key=lambda change: values[change].value, default=None)


# Parts and mixtures as a result.


def of_parts(trial: Trial) -> Result:
    """Each part set back alone, on validation."""
    sample, texts = trial.halves["validation"], texts_of("tuning")
    if not trial.context.full:
        sample = Sample("parts", for_model(sample.pairs, QUICK_PARTS, trial.context))
    with trial.context.progress(len(trial.models.parts), "parts") as shown:
        gains = {}
        for part in trial.models.parts:
            gains[part] = {metric: trial.gain(part, sample, metric) for metric in trial.metrics}
            shown.advance(1)
    main = {part: of[trial.metrics[0]] for part, of in gains.items()}
    tested = dict(zip(main, trial.tested([*main.values()]), strict=True))
    harmful = sorted(
        (part for part, (_, sign) in tested.items() if sign > 0), key=lambda p: -main[p].value
    )
    low = gains.get(LOW_THIRD, {})
    blocks, layers = (ATTENTION, FEED_FORWARD), range(trial.models.base.layers)
    return Result(
        measurements={"low_third": low.get(trial.metrics[0]), "low_third_rho": low.get("spearman")},
        figures=[
            HeatMap(
                name="parts",
                columns=blocks,
                rows=tuple(f"L{layer}" for layer in layers),
                values=cells_of(
                    [[main[f"L{n}.{block}"].value for block in blocks] for n in layers]
                ),
                marked=tuple(
                    (n, at) for n in layers for at, b in enumerate(blocks) if tested[f"L{n}.{b}"][1]
                ),
                scale="diverging",
                digits=3,
            )
        ],
        tables=[
            ResultTable(
                name="parts",
                columns=headings("part", *trial.metrics, "q"),
                rows=tuple(
                    Row(
                        (part_name(part),),
                        (*map(trial.context.cell, of.values()), Value(tested[part][0])),
                    )
                    for part, of in gains.items()
                ),
            )
        ],
        facts={
            "metric": METRICS[trial.metrics[0]].title,
            "third": trial.models.base.layers // 3,
            "harmful": join(map(part_name, harmful)) if harmful else texts.text("words.none"),
            "base_head": trial.models.head,
            "judged_on": len(sample.pairs),
        },
        settings={"harmful": harmful},
    )


def of_mixtures(trial: Trial) -> Result:
    """Every mixture on validation and on every file held out."""
    validation = trial.halves["validation"]
    samples = [validation, *trial.held_out]
    files = dict(zip(distinct_names(sample.name for sample in samples), samples, strict=True))
    curves: dict[Label, list[Point]] = {}
    rows = []
    with trial.context.progress(len(files) * len(trial.alphas), "mixtures") as shown:
        for name, sample in files.items():
            values = [trial.value(alpha, sample) for alpha in trial.alphas]
            curves[name] = estimate_points(trial.context, trial.alphas, values)
            for alpha in trial.alphas:
                cells = [
                    Value(known(trial.value(alpha, sample, metric).value))
                    for metric in trial.metrics
                ]
                change = trial.context.cell(trial.gain(alpha, sample))
                rows.append(Row((name, f"{alpha:g}"), (*cells, change)))
                shown.advance(1)
    chosen = best_of({a: trial.value(a, trial.halves["discovery"]) for a in trial.alphas})
    best = 1.0 if chosen is None else chosen
    gain = trial.gain(best, validation) if best < 1 else None
    facts = {
        "metric": METRICS[trial.metrics[0]].title,
        "best": f"{best:g}",
        "weights": f"{round(1 - best, 2):g},{best:g}",
        "mixture": None if gain is None else gain.value,
    }
    advice = texts_of("tuning").text("advice.keep" if gain is None else "advice.mix", facts)
    return Result(
        measurements={"mixture": gain},
        figures=[curve("mixtures", curves)],
        tables=[
            ResultTable(
                name="mixtures",
                columns=headings("file", "alpha", *trial.metrics, "change"),
                rows=tuple(rows),
            )
        ],
        facts=facts | {"advice": advice},
        settings={"alphas": list(trial.alphas)},
    )


def part_name(part: str) -> Label:
    """A part's name in words, such as `L3 attention`."""
    layer, _, block = part.rpartition(".")
    label = texts_of("tuning").text(f"words.{block}")
    return join([layer, label], " ", " ") if layer else label


def headings(*columns: str) -> dict[str, Label]:
    """Column → heading: a metric's title, or the word of that id."""
    texts = texts_of("tuning")
    return {
        name: METRICS[name].title if name in METRICS else texts.label(f"words.{name}", name)
        for name in columns
    }
