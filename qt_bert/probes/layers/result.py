"""What layers hold, as a probe's result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from qt_bert.probes.base import Context
from qt_bert.probes.layers import words
from qt_bert.probes.layers.claims import findings
from qt_bert.probes.layers.figures import figures
from qt_bert.probes.layers.property import LENGTH, PROPERTIES
from qt_bert.probes.layers.study import FULL_DRAWS, QUICK_DRAWS, Model, Study
from qt_bert.probes.split import reference
from qt_bert.results.probe import Finding, ProbeResult
from qt_bert.text import Label, Text, in_language, joined


def result(study: Study, context: Context) -> ProbeResult:
    """Findings and figures; a probe of layers scores no head."""
    found = findings(study, context)
    return ProbeResult(
        probe="layers",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.pairs),
        settings=_settings(study, found, context),
        summary=joined([_told(study), *_without(study, context)]),
        findings=tuple(found),
        heads=(),
        sets={},
        figures=figures(study, context),
    )


def _settings(study: Study, found: Sequence[Finding], context: Context) -> dict[str, Any]:
    return {
        "base": None if study.base is None else _named(study.base),
        "treebanks": [path.name for path in context.treebanks],
        "control_draws": context.choose(QUICK_DRAWS, FULL_DRAWS),
        "untrained": 0 if study.lengths is None else len(study.lengths.untrained),
        "tuned_from_random": 0 if study.lengths is None else len(study.lengths.tuned),
        "examples": {
            name: {"fit": len(task.fit), "check": len(task.check), "classes": list(task.classes)}
            for name, task in study.tasks.items()
        },
        "penalties": {
            name: one.penalties.tolist()
            for name, one in (study.base or study.model).decoded.items()
        },
        "resolution": _resolution(found),
    }


def _named(model: Model) -> dict[str, str]:
    return {"name": model.checkpoint.name, "sha256": model.checkpoint.sha256}


def _resolution(found: Sequence[Finding]) -> dict[str, str]:
    """Half the widest interval of the claims in each unit: less could not be seen."""
    widest: dict[Label, float] = {}
    for one in found:
        if one.primary and one.ci_low is not None and one.ci_high is not None:
            half = (one.ci_high - one.ci_low) / 2
            widest[one.unit] = max(widest.get(one.unit, 0.0), half)
    if not widest:
        return {"zh": "没有带区间的论断。", "en": "No claim has an interval."}
    zh, en = (
        [f"{half:.2g}（{in_language(unit, 'zh')}）" for unit, half in widest.items()],
        [f"{half:.2g} {in_language(unit, 'en')}" for unit, half in widest.items()],
    )
    return {
        "zh": f"小于 {'、'.join(zh)} 的差别看不出来。",
        "en": f"Differences under {' or '.join(en)} could not be seen.",
    }


def _told(study: Study) -> Text:
    """The centre of gravity of each property, lowest first, and its best layer's score."""
    model = study.base or study.model
    which = words.PRETRAINED if study.base else words.TUNED
    found = model.centres
    asked = [name for name in found if name in PROPERTIES]
    ranked = sorted(
        (name for name in asked if np.isfinite(found[name].value)),
        key=lambda name: found[name].value,
    )
    titles = {name: PROPERTIES[name].title for name in asked}
    zh = "、".join(f"{titles[name].zh} {found[name].value:.1f}" for name in ranked)
    en = ", ".join(f"{titles[name].en} {found[name].value:.1f}" for name in ranked)
    told = Text(
        f"{which.zh}，各属性逐层增益的重心（r0 是嵌入）：{zh}。",
        f"{which.en.capitalize()}, the centres of gravity of per-layer gains (r0: the embeddings): {en}.",
    )
    unread = [PROPERTIES[name] for name in asked if name not in ranked]
    return joined([told, *([words.unread(unread)] if unread else [])])


def _without(study: Study, context: Context) -> Iterator[Text]:
    """What it did without."""
    if study.base is None:
        yield words.NO_BASE
    if not context.treebanks:
        yield words.NO_TREEBANK
    if not context.further_texts:
        yield words.NO_TEXTS
    if study.lengths is not None and not study.lengths.tuned:
        yield words.NO_TUNED
    if not context.full and LENGTH.name in study.tasks:
        count = f"{len(study.tasks[LENGTH.name].fit):,}"
        yield Text(words.FEW.zh.format(count), words.FEW.en.format(count))
