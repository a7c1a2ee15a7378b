"""What the article claims of redundancy, as findings in points of accuracy."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from qt_bert.evaluation import q_values
from qt_bert.evaluation.multiplicity import FALSE_DISCOVERY_RATE, NO_EFFECT_ACCURACY
from qt_bert.probes.claims import POINTS, beyond, no_effect
from qt_bert.probes.redundant.averages import POINT, Average, mean_over_draws, steps_of, tail
from qt_bert.probes.redundant.study import Study, Sweep
from qt_bert.results import Finding, Text
from qt_bert.results.probe import Source

ARTICLE = "heads_of_query_title_bert"
SECRETS = "dark_secrets_of_bert"
ARTICLE_LAYERS = 12
GAINING_LAYERS = {5: "> 0", 6: "> 0", 7: "> 0", 8: "+2.3 %", 9: "> 0"}
LOW_OVER_HIGH = 5.0
WITHIN_POINTS = 1.0
MOST = 0.5


def findings(study: Study, seed: int) -> list[Finding]:
    """All claims of the study, on validation."""
    return [
        *_small_shares(study, seed),
        *_halves(study, seed),
        *_layers(study),
        *_single_heads(study),
        *_heads_that_matter(study),
        harmful(study),
    ]


def _small_shares(study: Study, seed: int) -> Iterable[Finding]:
    sweep = study.validation
    steps = steps_of(sweep, "random")
    for share, said in ((10.0, "+1 %"), (20.0, "0")):
        if share in steps:
            found = mean_over_draws(sweep, steps[share], seed)
            yield no_effect(
                f"random_{share:.0f}",
                Text(
                    f"随机去掉 {share:.0f}% 的头，准确率不变",
                    f"Leaving out a random {share:.0f} % of the heads does not change accuracy",
                ),
                Source(article=ARTICLE, section="2.1", value=said),
                found.value,
                found.samples,
                n_queries=sweep.effects.n_queries,
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
            f"low_over_high_{name}",
            Text(
                f"低半层去掉{zh}头，比高半层去掉同样多的头多损失 5 个百分点以上",
                f"Without {en} of its heads the low half costs over 5 points more than the high half",
            ),
            Source(article=ARTICLE, section="2.1", value=None),
            beyond_high.value,
            beyond_high.samples,
            p=tail(beyond_high.samples, 0.0),
            n_queries=sweep.effects.n_queries,
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
    for layer, said in gaining_layers(study.shape.layers).items():
        yield _one_variant(
            study.validation,
            f"layer_{layer}_off",
            f"L{layer}",
            Text(
                f"去掉第 {layer} 层全部的头，准确率提高",
                f"Leaving out all heads of layer {layer} raises accuracy",
            ),
            Source(article=ARTICLE, section="2.1", value=said),
            above=True,
        )


def _one_variant(
    sweep: Sweep,
    id: str,
    name: str | None,
    claim: Text,
    source: Source,
    *,
    above: bool,
    q_as_p: bool = False,
) -> Finding:
    """The change under one variant with its interval and p (`q_as_p`: the best of many, so its q)."""
    row = None if name is None else sweep.rows[name, sweep.metric]
    ends = None
    if row is not None and row.ci_low is not None and row.ci_high is not None:
        ends = (row.ci_low / POINT, row.ci_high / POINT)
    return beyond(
        id,
        claim,
        source,
        None if row is None or row.absolute is None else row.absolute / POINT,
        ends,
        p=None if row is None else row.q if q_as_p else row.p,
        n_queries=sweep.effects.n_queries,
        side="above" if above else "below",
        unit=POINTS,
    )


def _single_heads(study: Study) -> Iterable[Finding]:
    sweep = study.validation
    rows = sweep.by_family["single"]
    changes = sweep.change(map(sweep.name, rows)) / POINT
    resampled = sweep.resampled(rows) / POINT
    yield no_effect(
        "single_mean",
        Text(
            "单独去掉一个头，平均而言准确率不变",
            "Leaving out one head does not, on average, change accuracy",
        ),
        Source(
            article=SECRETS, section="Disabling heads", value="better off without a random head"
        ),
        float(changes.mean()),
        resampled.mean(axis=0),
        n_queries=sweep.effects.n_queries,
        margin=NO_EFFECT_ACCURACY / POINT,
        unit=POINTS,
    )
    within, drawn = (np.abs(x) <= WITHIN_POINTS + 1e-9 for x in (changes, resampled))
    shares = drawn.mean(axis=0)
    yield beyond(
        "single_within_one_point",
        Text(
            "超过一半的头，单独去掉时准确率变化不超过 1 个百分点",
            "More than half of the heads change accuracy by at most 1 point when left out alone",
        ),
        Source(article=ARTICLE, section="2.4.2", value="most"),
        float(within.mean()),
        shares,
        p=tail(shares, MOST),
        n_queries=sweep.effects.n_queries,
        margin=MOST,
        unit=Text("头的比例", "share of heads"),
    )


def _heads_that_matter(study: Study) -> Iterable[Finding]:
    sweep, layer = study.validation, study.shape.layers - 2
    names = list(map(sweep.name, sweep.by_family["single"]))
    yield _one_variant(
        sweep,
        "one_head_matters",
        worst := _worst(sweep, names),
        Text(
            f"有的头单独去掉就使准确率下降（最显著的是 {worst}）",
            f"Some head alone lowers accuracy when left out (the clearest: {worst})",
        ),
        Source(article=ARTICLE, section="2.4.2", value="< 0"),
        above=False,
        q_as_p=True,
    )
    if layer < 0:
        return
    yield _one_variant(
        sweep,
        "penultimate_head_matters",
        high := _worst(sweep, [name for name in names if name.startswith(f"L{layer}H")]),
        Text(
            f"第 {layer} 层有一个头单独去掉就使准确率下降（最显著的是 {high}）",
            f"So does a head of layer {layer} (the clearest: {high})",
        ),
        Source(article=ARTICLE, section="2.4.2", value="< 0"),
        above=False,
        q_as_p=True,
    )


def _worst(sweep: Sweep, names: Iterable[str]) -> str | None:
    """The head whose loss is the most significant, the largest loss among equals; None: no loss."""
    rows = [sweep.rows[name, sweep.metric] for name in names]
    losing = [row for row in rows if row.absolute is not None and row.absolute < 0]
    if not losing:
        return None
    return min(losing, key=lambda row: (1.0 if row.q is None else row.q, row.absolute)).name


def candidates(study: Study) -> list[str]:
    """Heads without which the model grades better on discovery, by q < 0.05 over all heads."""
    sweep = study.discovery
    rows = [sweep.rows[sweep.name(row), sweep.metric] for row in sweep.by_family["single"]]
    return [r.name for r in rows if _significant(r.q) and r.absolute is not None and r.absolute > 0]


def confirmed(study: Study) -> list[str]:
    """Those of `candidates` that do so on validation, by q < 0.05 over the candidates."""
    sweep, names = study.validation, candidates(study)
    rows = [sweep.rows[name, sweep.metric] for name in names]
    tested = zip(rows, q_values([row.p for row in rows]), strict=True)
    return [
        r.name for r, q in tested if _significant(q) and r.absolute is not None and r.absolute > 0
    ]


def _significant(q: float | None) -> bool:
    return q is not None and q < FALSE_DISCOVERY_RATE


def harmful(study: Study) -> Finding:
    """The article's open question: heads without which the model grades better."""
    sweep, names = study.validation, candidates(study)
    found: Average | None = None
    if names:
        resampled = sweep.resampled([sweep.folder.row(name) for name in names]) / POINT
        found = Average(float(sweep.change(names).mean()) / POINT, resampled.mean(axis=0))
    return beyond(
        "harmful_heads",
        Text(
            f"有些头有害：在发现集上去掉后准确率提高的头（{len(names)} 个），在验证集上也是如此",
            f"Some heads harm: those whose absence raises accuracy on discovery ({len(names)}) "
            "do so on validation",
        ),
        Source(article=ARTICLE, section="结语", value=None),
        None if found is None else found.value,
        None if found is None else found.samples,
        p=None if found is None else tail(found.samples, 0.0),
        n_queries=sweep.effects.n_queries,
        unit=POINTS,
    )
