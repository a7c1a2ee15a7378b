"""What the article claims of redundancy, as findings in points of accuracy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

import numpy as np

from qt_bert.probes.claims import POINT, POINTS, Spread, beyond, bootstrap_p, no_effect
from qt_bert.probes.redundancy.averages import mean_over_draws, steps_of
from qt_bert.probes.redundancy.harm import harmful
from qt_bert.probes.redundancy.study import Study, Sweep
from qt_bert.probes.redundancy.words import ARTICLE, SECRETS, id_of, of_metric
from qt_bert.results.probe import Finding, Source, Verdict
from qt_bert.stats.multiplicity import NO_EFFECT_ACCURACY
from qt_bert.text import Text

ARTICLE_LAYERS = 12
GAINING_LAYERS = {5: "> 0", 6: "> 0", 7: "> 0", 8: "+2.3 %", 9: "> 0"}
LOW_OVER_HIGH = 5.0
WITHIN_POINTS = 1.0
TIE = 1e-9
MOST = 0.5


def findings(study: Study, seed: int) -> list[Finding]:
    """All claims of the study, on validation."""
    return [
        *_small_shares(study, seed),
        *_halves(study, seed),
        *_layers(study),
        *_single_heads(study),
        *_heads_that_matter(study),
        *harmful(study),
    ]


def _small_shares(study: Study, seed: int) -> Iterable[Finding]:
    sweep = study.validation
    steps, metric = steps_of(sweep, "random"), sweep.metric_name
    for share, said in ((10.0, "+1 %"), (20.0, "0")):
        if share in steps:
            found = mean_over_draws(sweep, steps[share], seed)
            yield no_effect(
                id_of(f"random_{share:.0f}"),
                Text(
                    f"随机去掉 {share:.0f}% 的头（置零），{metric.zh}不变",
                    f"Leaving out a random {share:.0f} % of the heads (zero) does not change "
                    f"{of_metric(metric)}",
                ),
                Source(article=ARTICLE, section="2.1", value=said),
                found.value,
                found.samples,
                n_queries=sweep.n_queries,
                margin=NO_EFFECT_ACCURACY / POINT,
                unit=POINTS,
            )


def _halves(study: Study, seed: int) -> Iterable[Finding]:
    sweep = study.validation
    low, high = (steps_of(sweep, family) for family in ("low", "high"))
    if not low or not high:
        return
    for name, share, zh, en in _half_steps(low, high):
        losses = [
            mean_over_draws(sweep, steps[nearest(steps, share * max(steps))], seed)
            for steps in (high, low)
        ]
        beyond_high = losses[0].less(losses[1])
        yield beyond(
            id_of(f"low_over_high_{name}"),
            Text(
                f"低半层去掉{zh}的头，比高半层去掉同样多的头多损失 5 个百分点以上",
                f"Without {en} of its heads the low half costs over 5 points more than the high half",
            ),
            Source(article=ARTICLE, section="2.1", value=None),
            beyond_high.value,
            beyond_high.samples,
            p=bootstrap_p(beyond_high.samples, LOW_OVER_HIGH, sweep.n_queries),
            n_queries=sweep.n_queries,
            margin=LOW_OVER_HIGH,
            unit=POINTS,
        )


def _half_steps(*halves: dict[float, list[int]]) -> Iterable[tuple[str, float, str, str]]:
    if all(nearest(steps, 0.8 * max(steps)) < max(steps) for steps in halves):
        yield "80", 0.8, "八成", "80 %"
    yield "100", 1.0, "全部", "all"


def nearest(steps: Iterable[float], share: float) -> float:
    """The step nearest to `share`."""
    return min(steps, key=lambda step: abs(step - share))


def gaining_layers(layers: int) -> dict[int, str]:
    """The layers at the height of the article's 5 to 9 of 12, with what it says of each."""
    found: dict[int, str] = {}
    for layer, said in GAINING_LAYERS.items():
        place = min(layers - 1, round(layer * layers / ARTICLE_LAYERS))
        found[place] = max(found.get(place, said), said, key=len)
    return found


def _layers(study: Study) -> Iterable[Finding]:
    metric = study.validation.metric_name
    with_heads = {head.layer for head in study.shape.all_heads}
    for layer, said in gaining_layers(study.shape.layers).items():
        yield _one_variant(
            study.validation,
            f"layer_{layer}_off",
            f"L{layer}" if layer in with_heads else None,
            Text(
                f"去掉第 {layer} 层全部的头，{metric.zh}提高",
                f"Leaving out all heads of layer {layer} raises {of_metric(metric)}",
            ),
            Source(article=ARTICLE, section="2.1", value=said),
            side="above",
        )


def _one_variant(
    sweep: Sweep,
    name: str,
    variant: str | None,
    claim: Text,
    source: Source,
    *,
    side: Literal["above", "below"],
    q_as_p: bool = False,
    conclusions: Mapping[Verdict, Text] | None = None,
) -> Finding:
    """The change under one variant with its interval and p (`q_as_p`: q over its family for p)."""
    row = None if variant is None else sweep.rows[variant, sweep.metric]
    ends: Spread = None
    if row is not None and row.ci_low is not None and row.ci_high is not None:
        ends = (row.ci_low / POINT, row.ci_high / POINT)
    return beyond(
        id_of(name),
        claim,
        source,
        None if row is None or row.absolute is None else row.absolute / POINT,
        ends,
        p=None if row is None else row.q if q_as_p else row.p,
        n_queries=sweep.n_queries,
        side=side,
        unit=POINTS,
        conclusions=conclusions,
    )


def _single_heads(study: Study) -> Iterable[Finding]:
    sweep = study.validation
    metric, rows = sweep.metric_name, sweep.by_family["single"]
    changes = sweep.change(map(sweep.name, rows)) / POINT
    resampled = sweep.resampled(rows) / POINT
    yield no_effect(
        id_of("single_mean"),
        Text(
            f"单独去掉一个头（置零），平均而言{metric.zh}不变",
            f"Leaving out one head (zero) does not, on average, change {of_metric(metric)}",
        ),
        Source(
            article=SECRETS,
            section="Disabling heads",
            value=Text("去掉随便一个头反而更好", "better without a random head"),
        ),
        float(changes.mean()),
        resampled.mean(axis=0),
        n_queries=sweep.n_queries,
        margin=NO_EFFECT_ACCURACY / POINT,
        unit=POINTS,
    )
    share, spread, samples = within_one_point(changes, resampled)
    yield beyond(
        id_of("single_within_one_point"),
        Text(
            f"超过一半的头，单独去掉时{metric.zh}变化不超过 1 个百分点",
            f"More than half of the heads change {of_metric(metric)} by at most 1 point when left "
            "out alone",
        ),
        Source(article=ARTICLE, section="2.4.2", value=Text("大部分", "most")),
        share,
        spread,
        p=bootstrap_p(samples, MOST, sweep.n_queries),
        n_queries=sweep.n_queries,
        margin=MOST,
        unit=Text("头的比例", "share of heads"),
    )


def within(changes: np.ndarray) -> np.ndarray:
    """Which changes, in points, are at most one."""
    return np.asarray(np.abs(changes) <= WITHIN_POINTS + TIE)


def within_one_point(
    changes: np.ndarray, resampled: np.ndarray
) -> tuple[float, tuple[float, float] | None, np.ndarray]:
    """The share of heads within ± 1 point, the ends of its interval, and its reflected resamples.

    Resampling adds to each head's change the noise that it already has, so that the share in the
    resamples lies too low. The interval therefore runs from the heads that are within as their own
    interval shows, to those that are not shown to be outside; the resamples are reflected.
    """
    share = float(within(changes).mean())
    if not resampled.size:
        return share, None, resampled
    low, high = np.quantile(resampled, [0.025, 0.975], axis=1)
    inside = within(low) & within(high)
    outside = (low > WITHIN_POINTS + TIE) | (high < -WITHIN_POINTS - TIE)
    samples = np.clip(2 * share - within(resampled).mean(axis=0), 0, 1)
    return share, (float(inside.mean()), float(1 - outside.mean())), samples


def _heads_that_matter(study: Study) -> Iterable[Finding]:
    layer = study.shape.layers - 2
    names = [str(head) for head in study.shape.all_heads]
    for name, pool, zh, en in (
        ("one_head_matters", names, "有的头", "Some head"),
        (
            "penultimate_head_matters",
            [one for one in names if one.startswith(f"L{layer}H")],
            f"第 {layer} 层有一个头",
            f"A head of layer {layer}",
        ),
    ):
        if pool:
            yield _one_that_matters(study, name, pool, zh, en)


def _one_that_matters(study: Study, name: str, pool: list[str], zh: str, en: str) -> Finding:
    """The head that costs most on discovery, and what it costs on validation."""
    head, metric = most_costly(study.discovery, pool), study.validation.metric_name
    return _one_variant(
        study.validation,
        name,
        head,
        Text(
            f"{zh}单独去掉就使{metric.zh}下降" + (f"（在发现集上选出 {head}）" if head else ""),
            f"{en} alone lowers {of_metric(metric)} when left out"
            + (f" (chosen on discovery: {head})" if head else ""),
        ),
        Source(article=ARTICLE, section="2.4.2", value="< 0"),
        side="below",
        q_as_p=True,
    )


def most_costly(sweep: Sweep, names: Iterable[str]) -> str | None:
    """The head whose absence costs most, and changes the outputs most among equals; None: no loss."""
    rows = {name: sweep.rows[name, sweep.metric] for name in names}
    losing = {n: row.absolute for n, row in rows.items() if row.absolute is not None}
    losing = {name: loss for name, loss in losing.items() if loss < 0}

    def moved(name: str) -> float:
        row = sweep.rows.get((name, "kl"))
        return 0.0 if row is None or row.value is None else row.value

    return min(losing, key=lambda name: (losing[name], -moved(name)), default=None)
