"""The kinds of maps as a probe's result."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from qt_bert.probes.base import Context
from qt_bert.probes.display import known
from qt_bert.probes.naming import means
from qt_bert.probes.patterns.claims import findings
from qt_bert.probes.patterns.figures import commonest, figures
from qt_bert.probes.patterns.kinds import KIND_NAMES, KINDS
from qt_bert.probes.patterns.study import SEEN, Study
from qt_bert.probes.split import reference
from qt_bert.results.probe import Finding, HeadScores, ProbeResult
from qt_bert.text import Text

NO_BASE = Text(
    "没有给出微调前的模型（--base），所以不知道微调改变了什么。",
    "No model before fine-tuning was given (--base), so what tuning changes is not known.",
)


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, scores of every head and figures."""
    found = findings(study, context)
    return ProbeResult(
        probe="patterns",
        model=context.model_ref,
        pairs=reference(context.files.pairs, list(study.pairs)),
        settings=_settings(study, found),
        summary=_summary(study),
        findings=tuple(found),
        heads=_heads(study),
        sets={},
        figures=figures(study, context),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    columns = {name: study.after.of_head(name) for name in SEEN}
    if study.before is not None:
        columns |= {f"{name}_before": study.before.of_head(name) for name in SEEN}
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: known(column[head]) for name, column in columns.items()},
        )
        for head in study.after.heads
    )


def _settings(study: Study, found: Sequence[Finding]) -> dict[str, Any]:
    record, judged = study.classifier.record, study.classifier.judged
    passes, base = record.passes, study.base
    return {
        "base": asdict(NO_BASE) if base is None else {"name": base.name, "sha256": base.sha256},
        "sample": {
            "pairs": len(study.pairs),
            "queries": len({pair.query for pair in study.pairs}),
            "maps": len(study.pairs) * len(study.after.heads),
        },
        "classifier": {
            "chosen": record.chosen,
            "labelled_maps": record.maps,
            "macro_f1": judged.macro_f1.value,
            "macro_f1_trained": judged.macro_f1_trained.value,
            "kappa": None if passes is None else passes.kappa.value,
            "kappa_trained": None if passes is None else passes.kappa_trained.value,
            "rules": asdict(record.rules),
            "files": record.files,
        },
        "commonest": {str(head): kind for head, kind in commonest(study.after).items()},
        "resolution": _resolution(found),
    }


def _resolution(found: Sequence[Finding]) -> dict[str, str]:
    """Half the widest interval of the claims: less could not be seen."""
    widths = [
        one.ci_high - one.ci_low
        for one in found
        if one.primary and one.ci_low is not None and one.ci_high is not None
    ]
    if not widths:
        return {"zh": "没有带区间的论断。", "en": "No claim has an interval."}
    half = f"{max(widths) / 2:.2g}"
    return {
        "zh": f"份额的差别小于 {half} 个百分点的看不出来。",
        "en": f"Differences under {half} points of the maps' share could not be seen.",
    }


def _summary(study: Study) -> Text:
    zh, en = [], []
    for place, kind in enumerate(KINDS):
        after = f"{100 * float(means(study.after.of_all)[place]):.1f} %"
        if study.before is not None:
            before = f"{100 * float(means(study.before.of_all)[place]):.1f} %"
            after = f"{before} → {after}"
        zh.append(f"{KIND_NAMES[kind].zh} {after}")
        en.append(f"{KIND_NAMES[kind].en} {after}")
    counts = Counter(commonest(study.after).values())
    mostly_zh = "、".join(f"{KIND_NAMES[kind].zh} {counts[kind]}" for kind in KINDS)
    mostly_en = ", ".join(f"{KIND_NAMES[kind].en} {counts[kind]}" for kind in KINDS)
    missing = NO_BASE if study.before is None else Text("", "")
    when = Text("（微调前 → 微调后）", " (before → after fine-tuning)")
    when = when if study.before is not None else Text("", "")
    return Text(
        f"全部头的注意力图{when.zh}：{'，'.join(zh)}。按最常见的一类数头：{mostly_zh}。{missing.zh}",
        f"Maps of all heads{when.en}: {', '.join(en)}. Heads by their commonest kind: {mostly_en}."
        f"{' ' if missing.en else ''}{missing.en}",
    )
