"""The study of readers as a probe's result."""

from __future__ import annotations

from typing import Any

from qt_bert.probes.base import Context
from qt_bert.probes.display import known
from qt_bert.probes.focus.against import against
from qt_bert.probes.focus.choosing import LEAST_FOCUS, LOSS
from qt_bert.probes.focus.claims import findings
from qt_bert.probes.focus.cls_row import FOCUS, QUANTITIES
from qt_bert.probes.focus.figures import figures
from qt_bert.probes.focus.stable import stable_readers
from qt_bert.probes.focus.study import Study
from qt_bert.probes.focus.wires import Wire, wires
from qt_bert.probes.naming import average, means
from qt_bert.probes.split import reference
from qt_bert.results.probe import HeadScores, ProbeResult
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text, counted


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, scores of every head, sets and figures."""
    reader = study.chosen.head
    return ProbeResult(
        probe="focus",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.validation.pairs),
        settings=_settings(study, context),
        summary=_summary(study, context),
        findings=tuple(findings(study, context)),
        heads=_heads(study),
        sets={
            "reader": () if reader is None else (str(reader),),
            "focused": tuple(map(str, study.readers.focused)),
            "averted": tuple(map(str, study.readers.averted)),
            "matching_below": tuple(map(str, study.matching)),
        },
        stability=stable_readers(study, context),
        figures=figures(study, context),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    plain, readers = means(study.plain), study.readers
    named = {*readers.focused, *readers.averted}
    outcome = study.outcomes.get("zero")
    changes = None if outcome is None else means(outcome.rows[:, 1] - outcome.rows[:, 0])
    found = []
    for head in study.shape.all_heads:
        scores: dict[str, float] = dict(zip(QUANTITIES, plain[head], strict=True))
        scores |= {
            "discovery_focus": readers.focus[head],
            "discovery_within": readers.within[head],
            "p": readers.p[head],
            "q": readers.q[head],
        }
        if head.layer == study.layer:
            scores["discovery_cost"] = study.chosen.costs[head]
            if changes is not None:
                scores["focus_change"] = changes[head.head, FOCUS]
        found.append(
            HeadScores(
                head=str(head),
                scores={name: known(value) for name, value in scores.items()},
                selected=head in named,
            )
        )
    return tuple(found)


def _settings(study: Study, context: Context) -> dict[str, Any]:
    chosen, outcome = study.chosen, study.outcomes.get("zero")
    reader: dict[str, Any] | None = None
    if chosen.head is not None:
        cost = known(chosen.costs[chosen.head])
        reader = {"head": str(chosen.head), "metric": chosen.metric, "cost": cost}
        reader["interval"] = chosen.interval
    return {
        "layer": study.layer,
        "least_focus": LEAST_FOCUS,
        "reader": reader,
        "partly_matched": {
            "discovery": study.discovery.describe(),
            "validation": study.validation.describe(),
        },
        "contested_pairs": len(study.contested),
        "layer_matched_draws": 0 if outcome is None else len(outcome.contest.matched),
        "lower_heads_left_out_alone": _spelled(study, context),
        "resolution": _resolution(study, context),
    }


def _spelled(study: Study, context: Context) -> dict[str, Any]:
    chosen_by = "all" if context.full else "matching heads, and the largest gradient importance"
    return {"heads": len(study.wiring.sources), "chosen_by": chosen_by}


def _resolution(study: Study, context: Context) -> dict[str, str] | None:
    reader, outcome = study.chosen.head, study.outcomes.get("zero")
    if reader is None or outcome is None:
        return None
    ends = percentile_interval(against(outcome, reader.head, context).difference.samples)
    if ends is None:
        return None
    half, pairs = (ends[1] - ends[0]) / 2, len(study.contested)
    return {
        "zh": f"去掉低层头的比较用了其中 {pairs} 对；关注度的变化小于 {half:.3f} 看不出来。",
        "en": f"Lower heads were left out on {pairs} of them; a change of focus under {half:.3f} "
        "could not be seen.",
    }


def _summary(study: Study, context: Context) -> Text:
    reader = _reader(study, context)
    favour, avoid, every = _named(study)
    return Text(
        f"{reader.zh}{_strongest(study, context).zh}全部 {every} 个头中，{favour} 个被命名为偏向共有的词，"
        f"{avoid} 个被命名为避开它们。",
        f"{reader.en}{_strongest(study, context).en} Of all {every} heads, named as "
        f"favouring shared terms: {favour}; as avoiding them: {avoid}.",
    )


def _named(study: Study) -> tuple[int, int, int]:
    """How many heads favour the shared terms, avoid them, and there are."""
    readers = study.readers
    return len(readers.focused), len(readers.averted), len(study.shape.all_heads)


def _reader(study: Study, context: Context) -> Text:
    reader, layer = study.chosen.head, study.layer
    if reader is None:
        return _no_reader(study)
    focus = float(means(study.plain[:, reader.layer, reader.head, FOCUS]))
    change, cost = _change(study, context), _cost(study)
    return Text(
        f"第 {layer} 层去掉后损失最大的头是 {reader}（发现集上，{cost.zh}）；在验证集上，它的 [CLS] "
        f"对共有词的关注度为 {_signed(focus)}（负值表示避开）{change.zh}。",
        f"Of layer {layer}, the head whose absence costs most is {reader} (on discovery, {cost.en}); on "
        f"validation its [CLS] has a focus of {_signed(focus)} on shared terms (below 0 it avoids "
        f"them){change.en}.",
    )


def _no_reader(study: Study) -> Text:
    if study.chosen.metric is None:
        return Text(
            "这些样本的标签不足以判断该层哪个头最要紧。",
            "The labels of this sample do not tell which head of the layer matters most.",
        )
    return Text(
        f"在发现集上，去掉第 {study.layer} 层的任何一个头都没有损失，所以没有选出头。",
        f"On discovery, leaving out any one head of layer {study.layer} costs nothing, so none is "
        "chosen.",
    )


def _cost(study: Study) -> Text:
    """What the chosen head's absence costs, and that it was picked as the largest."""
    chosen = study.chosen
    assert chosen.head is not None
    cost, n = f"{chosen.costs[chosen.head]:+.4f}", len(chosen.costs)
    if chosen.interval is not None:
        cost += f" [{chosen.interval[0]:+.4f}, {chosen.interval[1]:+.4f}]"
    of_loss = chosen.metric == LOSS
    zh = f"标签的 −log p {cost}" if of_loss else f"{chosen.metric} 变差 {cost}"
    en = f"−log p of the label {cost}" if of_loss else f"{chosen.metric} is worse by {cost}"
    return Text(
        f"{zh}，{n} 个头里最大的，因此偏高", f"{en}, the largest of {n} heads and so too high"
    )


def _change(study: Study, context: Context) -> Text:
    reader, outcome = study.chosen.head, study.outcomes.get("zero")
    if reader is None or outcome is None:
        return Text("", "")
    found, n = against(outcome, reader.head, context), len(study.matching)
    others = found.change.value - found.difference.value
    zh = f"；去掉低层 {n} 个匹配头后变化 {_signed(found.change.value)}"
    en = f"; without the matching heads below ({n}) it changes by {_signed(found.change.value)}"
    if outcome.contest.matched:
        zh += f"（去掉同层其他头：{_signed(others)}）"
        en += f" (without others of their layers: {_signed(others)})"
    return Text(zh, en)


def _strongest(study: Study, context: Context) -> Text:
    """The wire that is the strongest on discovery, as it is on validation."""
    found = wires(study.wiring_found, study.wiring, study.layer)
    if not found:
        return Text("没有接线在验证集上保持同号。", " No wire keeps its sign on validation.")
    weight, n = _with_interval(found[0], context)
    between = f"{found[0].edge.source} → {found[0].edge.target}"
    return Text(
        f"发现集上最强的接线 {between}，在验证集上为 {weight}（{n} 条查询）。",
        f" The wire {between}, the strongest on discovery, is {weight} on validation "
        f"({counted(n, 'query', 'queries')}).",
    )


def _with_interval(wire: Wire, context: Context) -> tuple[str, int]:
    loss = average(wire.losses, context.resamples, context.seed)
    ends, weight = percentile_interval(loss.samples), _signed(loss.value)
    if ends is not None:
        weight += f" [{_signed(ends[0])}, {_signed(ends[1])}]"
    return weight, loss.n_queries


def _signed(value: float) -> str:
    return f"{round(value, 2) + 0.0:+.2f}"  # no −0.00
