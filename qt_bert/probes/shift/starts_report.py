"""The initialisation study in the section: claims over its arms, bars with seeds, words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from qt_bert.figures import Bars, BarSeries, Figure
from qt_bert.probes.claims import beyond, bootstrap_p
from qt_bert.probes.display import known, resting_on, sample
from qt_bert.probes.shift.measures import MEASURES
from qt_bert.probes.shift.starts import METRICS, Starts
from qt_bert.results.initialisations import ARMS, Try
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.text import Text

NO_RECORD = {
    "zh": "没有初始化研究的记录（--initialisations，由 experiments/initialisations 得到），"
    "所以不知道预训练和微调各有多大作用。",
    "en": "No record of the initialisation study was given (--initialisations, made by "
    "experiments/initialisations), so what pretraining and fine-tuning are each worth is not known.",
}
_NAMES = {
    "untrained": Text("预训练，分类头未训练", "pretrained, head untrained"),
    "frozen": Text("预训练并冻结，只训练分类头", "pretrained, frozen, head trained"),
    "random": Text("随机权重，微调", "random weights, fine-tuned"),
    "tuned": Text("预训练，微调", "pretrained, fine-tuned"),
}
_SECTION = "How much difference does fine-tuning make?"


@dataclass(frozen=True)
class _Step:
    """That one arm reaches more than another; `value` is the source's range, where it has both."""

    id: str
    upper: str
    lower: str
    value: Text | None = None
    conclusions: dict[Verdict, Text] | None = None


_UNSURE = Text("差别在误差之内，分不出高下。", "The difference is within its error.")
_STEPS = (
    _Step(
        "start_pretraining",
        "tuned",
        "random",
        Text("七个任务 +11.5 至 +79.8", "+11.5 to +79.8 over seven tasks"),
        {
            "reproduced": Text(
                "同样的微调，从预训练的权重开始要好：预训练学到的东西有用。",
                "Tuned alike, pretrained weights end higher: what pretraining taught is used.",
            ),
            "not reproduced": Text(
                "同样的微调，预训练没有带来好处。", "Tuned alike, pretraining brought nothing."
            ),
            "inconclusive": _UNSURE,
        },
    ),
    _Step(
        "start_tuning",
        "random",
        "untrained",
        Text("七个任务 −30.2 至 +36.7", "−30.2 to +36.7 over seven tasks"),
        {
            "reproduced": Text(
                "没有预训练，只靠微调也胜过分类头未训练的预训练模型；但对照几乎是瞎猜，"
                "分类头训练过的对照见另一行。",
                "Tuning alone, without pretraining, beats a pretrained model with an untrained head. "
                "That control is close to guessing; the one with a trained head stands in another row.",
            ),
            "not reproduced": Text(
                "没有预训练，微调学不到比瞎猜更多的东西。",
                "Without pretraining, tuning learns no more than guessing gives.",
            ),
            "inconclusive": _UNSURE,
        },
    ),
)
_BESIDE = (
    _Step("start_random_over_frozen", "random", "frozen"),
    _Step("start_tuned_over_frozen", "tuned", "frozen"),
    _Step("start_frozen_over_untrained", "frozen", "untrained"),
)
_WHICH = Text(
    "原文说第一种是“冻结的预训练权重接任务分类器”，但它的数字像是分类头没有训练过；两种都列出。",
    "The source describes the first as frozen weights fed to task classifiers, but its figures look "
    "like untrained heads; both are shown.",
)


def start_findings(starts: Starts) -> Iterator[Finding]:
    """d > c and c > a in accuracy, as in the source; then the same in ρ, and the frozen arm."""
    for step in _STEPS:
        yield _finding(step, "accuracy", starts, primary=True)
    for step in (*_STEPS, *_BESIDE):
        yield _finding(step, "spearman", starts, primary=False)


def _finding(step: _Step, metric: str, starts: Starts, *, primary: bool) -> Finding:
    what, unit, scale = MEASURES[metric]
    value, samples = starts.reached(step.upper, metric).over(starts.reached(step.lower, metric))
    upper, lower = _NAMES[step.upper], _NAMES[step.lower]
    return beyond(
        step.id if primary else f"{step.id}_{metric}",
        Text(
            f"“{upper.zh}”的{what.zh}高于“{lower.zh}”",
            f"“{upper.en}” reaches a higher {what.en} than “{lower.en}”",
        ),
        Source(
            article="dark_secrets_of_bert", section=_SECTION, value=step.value if primary else None
        ),
        value / scale,
        samples / scale,
        p=bootstrap_p(samples, 0.0, starts.n_queries),
        n_queries=starts.n_queries,
        unit=unit,
        primary=primary,
        conclusions=step.conclusions if primary else None,
    )


def start_figures(starts: Starts) -> Iterator[Figure]:
    """Bars of the four arms: the mean with its interval, and every seed."""
    base = sample(starts.n_pairs, starts.n_queries)
    yield from resting_on(base, (_bars(starts, metric) for metric in ("accuracy", "spearman")))


def _bars(starts: Starts, metric: str) -> Bars:
    what, unit, scale = MEASURES[metric]
    reached = [starts.reached(arm, metric) for arm in ARMS]
    seeds = starts.seeds
    mean = BarSeries(
        name=Text("各种子平均", "mean of seeds"),
        values=tuple(known(one.value / scale) for one in reached),
        intervals=tuple(
            None if one.interval is None else (one.interval[0] / scale, one.interval[1] / scale)
            for one in reached
        ),
    )
    each = (
        BarSeries(
            name=Text(f"种子 {seed}", f"seed {seed}"),
            values=tuple(known(one.seeds[place] / scale) for one in reached),
        )
        for place, seed in enumerate(seeds)
    )
    return Bars(
        name=f"starts_{metric}",
        title=Text(
            f"从不同的起点开始：{what.zh}",
            f"From different starts: {what.en}",
        ),
        x_label=Text("起点", "start"),
        y_label=what,
        unit=Text("%", "%") if metric == "accuracy" else unit,
        categories=tuple(_NAMES[arm] for arm in ARMS),
        series=(mean, *each),
        digits=1 if metric == "accuracy" else 2,
        note=_WHICH,
    )


def start_settings(starts: Starts) -> dict[str, Any]:
    """The study's files, recipe and tries, and what every arm reached by every metric."""
    record = starts.record
    return {
        "train": [asdict(one) for one in record.train],
        "splits": {name: asdict(one) for name, one in record.splits.items()},
        "chosen_by": record.metric,
        "settings": record.settings,
        "tries": [_tried(one) for one in record.tries],
        "reached": {
            arm: {
                metric: {"mean": one.value, "interval": one.interval, "seeds": one.seeds}
                for metric in METRICS
                for one in (starts.reached(arm, metric),)
            }
            for arm in ARMS
        },
    }


def _tried(one: Try) -> dict[str, Any]:
    return {
        name: getattr(one, name)
        for name in ("arm", "seed", "rate", "discovery", "step", "steps", "seconds")
    }


def start_summary(starts: Starts) -> Text:
    """The accuracy of every arm."""
    shares = {arm: 100 * starts.reached(arm, "accuracy").value for arm in ARMS}
    return Text(
        "初始化研究的准确率："
        + "，".join(f"{_NAMES[a].zh} {v:.1f} %" for a, v in shares.items())
        + "。",
        " Initialisation study, accuracy: "
        + "; ".join(f"{_NAMES[a].en} {v:.1f} %" for a, v in shares.items())
        + ".",
    )
