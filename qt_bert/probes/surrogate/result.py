"""The study of what matching heads compute as a probe's result."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from qt_bert.probes.base import Context
from qt_bert.probes.display import known, sample_of
from qt_bert.probes.matching_cells import DIRECTIONS
from qt_bert.probes.naming import Estimate
from qt_bert.probes.split import reference
from qt_bert.probes.surrogate.claims import findings, matched_r, queries_of, target_of
from qt_bert.probes.surrogate.figures import figures
from qt_bert.probes.surrogate.lexical import K1, B
from qt_bert.probes.surrogate.study import Measured, Study
from qt_bert.results.probe import HeadScores, ProbeResult
from qt_bert.stats.intervals import percentile_interval
from qt_bert.text import Text, joined, number


def result(study: Study, context: Context) -> ProbeResult:
    """Findings, the correlation of every head's own feature, and figures; no set of its own."""
    return ProbeResult(
        probe="surrogate",
        model=context.model_ref,
        pairs=reference(context.files.pairs, study.validation.on.pairs),
        settings=_settings(study, context),
        summary=_summary(study, context),
        findings=tuple(findings(study, context)),
        heads=_heads(study),
        sets={},
        figures=figures(study, context),
    )


def _heads(study: Study) -> tuple[HeadScores, ...]:
    """r of each head's own soft count with the grade, on either half."""
    columns = {
        "r": study.own_r(study.validation.on),
        "discovery_r": study.own_r(study.discovery),
    }
    asked = set(study.heads)
    return tuple(
        HeadScores(
            head=str(head),
            scores={name: known(values[head]) for name, values in columns.items()},
            selected=head in asked,
        )
        for head in study.shape.all_heads
    )


def _settings(study: Study, context: Context) -> dict[str, Any]:
    weights = study.counted
    return {
        "asked": None if study.asked is None else study.asked.describe(),
        "directions": {str(head): DIRECTIONS[int(study.directions[head])] for head in study.heads},
        "idf": {
            "from": weights.name,
            "sha256": weights.sha256,
            "texts": weights.idf.documents,
        },
        "bm25": {"k1": K1, "b": B},
        "layer_matched_draws": len(study.validation.matched),
        "fitted_on": _described(study.discovery),
        "tested_on": {
            one.on.name: _described(one.on) for one in (study.validation, *study.held_out)
        },
        "resolution": _resolution(study, context),
    }


def _described(one: Measured) -> dict[str, int]:
    return {"pairs": len(one.pairs), "queries": len({pair.query for pair in one.pairs})}


def _resolution(study: Study, context: Context) -> dict[str, str]:
    """The smallest difference that could have been seen, and what the quick profile leaves out."""
    fits = study.validation
    said = []
    if fits.heads is not None:
        ends = percentile_interval(fits.heads.r.less(fits.bm25.r).samples)
        if ends is not None:
            half, queries = (ends[1] - ends[0]) / 2, queries_of(fits)
            said.append(
                Text(
                    f"与 BM25 之差的区间半宽为 {half:.2f}（{queries} 个查询），更小的差别看不出来。",
                    f"The half-width of the interval of the difference to BM25 is {half:.2f} in r "
                    f"({queries} queries); less than that could not be seen.",
                )
            )
    if not context.full:
        fitted, draws = len(study.discovery.pairs), len(fits.matched)
        said.append(
            Text(
                f"快速模式在发现集的 {fitted} 对上拟合，对照 {draws} 组；全部文本对和更多对照用 --full。",
                f"The quick profile fits on {fitted} pairs of discovery, beside {draws} layer-matched "
                "sets; all pairs and more sets come with --full.",
            )
        )
    return asdict(joined(said))


def _summary(study: Study, context: Context) -> Text:
    fits, what = study.validation, target_of(context)
    rests = sample_of(fits.on.pairs)
    bm25, words = _two_digits(fits.bm25.r), _two_digits(fits.overlap.r)
    if fits.heads is None or study.asked is None:
        return Text(
            f"没有可匹配的字，选不出匹配头。{what.zh}与 BM25 的相关 r = {bm25}，与词重合 {words}（{rests.zh}）。",
            "The pairs have nothing to match, so there are no matching heads to ask about. "
            f"{what.en.capitalize()} goes with BM25 at r = {bm25}, with word overlap at {words} "
            f"({rests.en}).",
        )
    who, own = study.asked.said, fits.heads
    others = matched_r(fits, context.seed)
    beside = _two_digits(others)
    r, r2 = _two_digits(own.r), _two_digits(own.r2)
    return Text(
        f"用 {who.zh}的软词频计数线性拟合{what.zh}：验证集上 r = {r}，R² = {r2}（{rests.zh}）；同层其他头平均 "
        f"{beside}，BM25 {bm25}，词重合 {words}。",
        f"A linear fit of the soft counts of {who.en} to {what.en}: r = {r}, R² = {r2} on validation "
        f"({rests.en}); other heads of their layers {beside} on average, BM25 {bm25}, word overlap "
        f"{words}.",
    )


def _two_digits(found: Estimate | None) -> str:
    return number(None if found is None else known(found.value), 2)
