"""Behaviour card: which differences between titles the model recognises, whole and with heads left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import streamlit as st

from qt_bert.ablation.interventions import NONE
from qt_bert.data.cases import ALIKE, BETTER, Case, titles_then_others
from qt_bert.data.splits import sample_queries
from qt_bert.heads import Head
from qt_bert.page import pairs as page_pairs
from qt_bert.page.maps import titles_cut
from qt_bert.page.model import SharedModel
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import Row, caption, finished, localised, named, table, watch
from qt_bert.page.work import Job
from qt_bert.results.head_sets import phenomenon_name
from qt_bert.scoring.behaviour import (
    RIGHT,
    UNDECIDED,
    WRONG,
    Band,
    ScoredCases,
    fixed_band,
    measured_band,
    ranked_pairs,
)
from qt_bert.shipped import DEV, shipped
from qt_bert.stats.estimate import Estimate, query_key
from qt_bert.text import Text, interval

JOB = "behaviour.job"
RESAMPLES, DIGITS = 1_000, 2
# Pairs of the dev split on which the band of a model of one logit is measured.
BAND_PAIRS = 128
RELATIONS = {BETTER: Text("应当更好", "better"), ALIKE: Text("应当相同", "alike")}
OUTCOMES = {
    RIGHT: Text("对", "right"),
    UNDECIDED: Text("未定", "undecided"),
    WRONG: Text("错", "wrong"),
}
UNITS = {"grade": Text("档", "grade"), "level": Text("级", "level"), "score": Text("分", "score")}
PHENOMENON = Text("现象", "phenomenon")


@dataclass(frozen=True, eq=False)
class Card:
    """Cases judged by the whole model and, where heads are left out, without them: one or two `ways`."""

    band: Band
    ways: tuple[ScoredCases, ...]
    truncated: int

    def of(self, phenomenon: str) -> Card:
        """The cases of one phenomenon."""
        ways = tuple(way.where(c.phenomenon == phenomenon for c in way.cases) for way in self.ways)
        return Card(self.band, ways, self.truncated)


def main() -> None:
    """Lay out the page."""
    here = visit()
    st.header(localised("行为卡：模型能分辨什么", "Behaviour card: what the model distinguishes"))
    caption(
        "每个案例：一条查询、两个标题。“应当更好”：第一个标题的分应更高；“应当相同”：分差不应超过容差。",
        "Each case is a query and two titles. Better: the first should score higher; alike: their "
        "scores should differ by no more than the band.",
    )
    card = _all_cases(here)
    if card is not None:
        _cases(here, card)


def _all_cases(here: Visit) -> Card | None:
    """The card as far as it is computed, and the button that computes it."""
    model, state, cases = here.model, here.state, page_pairs.shipped_behaviours()
    finished(JOB)

    def key(out: Sequence[Head]) -> tuple[object, ...]:
        return ("cases", cases.texts_sha256, out, state.mode if out else "")

    sets = [(), state.out] if state.out else [()]
    results = [model.cache.find(key(out)) for out in sets]
    missing = [out for out, result in zip(sets, results, strict=True) if result is None]

    def judge(job: Job[None]) -> None:
        for out in missing:
            scorer = model.job_scorer(out, state.mode)
            logits = scorer.logits(_texts(cases.listed), job)
            model.cache.put(key(out), (logits, scorer.counts.truncated_titles))

    if JOB in st.session_state:
        watch(st.session_state[JOB], steps={}, key="behaviour")
    elif missing:
        pairs = 2 * len(cases.listed) * len(missing)
        caption(
            f"需给 {pairs:,} 对打分，可随时停止。", f"{pairs:,} pairs to score; it can be stopped."
        )
        label = Text("去掉所选的头，再评全部案例", "Judge all cases without the chosen heads")
        if results[0] is None:
            label = Text("评全部案例", "Judge all cases")
        if st.button(localised(label), key="behaviour.go"):
            st.session_state[JOB] = model.worker.start(judge, pairs)
            st.rerun()
    if results[0] is None:
        return None
    complete = [result for result in results if result is not None]
    judged = tuple(judged_of(model, cases.listed, logits) for logits, _ in complete)
    card = Card(band_of(model), judged, complete[0][1])
    _card(here, card)
    return card


def _texts(cases: Sequence[Case]) -> list[tuple[str, str]]:
    return [(pair.query, pair.title) for pair in titles_then_others(cases)]


def judged_of(model: SharedModel, cases: Sequence[Case], logits: np.ndarray) -> ScoredCases:
    """Cases by the logits [2 × cases, K] of their titles, then of the others."""
    titles, others = np.split(model.outputs(logits).ranking_score, 2)
    return ScoredCases(tuple(cases), titles, others, band_of(model).value)


def band_of(model: SharedModel) -> Band:
    """The probe's band; for a model of one logit measured on the shipped dev pairs, once a model."""

    def measured() -> Band:
        pairs = sample_queries(ranked_pairs(page_pairs.shipped_rows("dev")), BAND_PAIRS)
        logits = model.run([(pair.query, pair.title) for pair in pairs], [NONE]).logits[0]
        queries = [pair.query for pair in pairs]
        return measured_band(model.outputs(logits).ranking_score, queries, shipped(DEV).name)

    return fixed_band(model.labels) or model.cache.get("band", measured)


def band_text(band: Band) -> Text:
    """The band in words."""
    unit = UNITS[band.unit]
    if band.gaps is None:
        return Text(f"{band.value:g} {unit.zh}", f"{band.value:g} {unit.en}")
    return Text(
        f"{band.value:.3g} {unit.zh}（模型排序中相邻标题分差的中位数，{band.source}）",
        f"{band.value:.3g} {unit.en} (the median gap between neighbours in the model's own ranking, "
        f"{band.source})",
    )


def _card(here: Visit, card: Card) -> None:
    """Scores by phenomenon."""
    whole, band, seed = card.ways[0], band_text(card.band), here.state.seed
    cases, queries = len(whole), len(set(map(query_key, whole.queries)))
    caption(
        f"全部 {cases:,} 个案例、{queries:,} 条查询，容差 {band.zh}。得分：判对减判错，除以案例数；区间：按查询自助抽样。",
        f"All {cases:,} cases of {queries:,} queries, band {band.en}. Score: (right − wrong) / cases; "
        "intervals are bootstraps over queries.",
    )
    names = {
        "phenomenon": PHENOMENON,
        "relation": Text("预期", "expected"),
        "n": Text("案例", "cases"),
        "right": OUTCOMES[RIGHT],
        "undecided": OUTCOMES[UNDECIDED],
        "wrong": OUTCOMES[WRONG],
        "score": Text("得分", "score"),
        "interval": Text("95% 区间", "95 % interval"),
        "without": Text("得分，去掉头", "score, heads left out"),
        "change": Text("变化", "change"),
        "change_interval": Text("变化的 95% 区间", "its 95 % interval"),
    }
    two = dict.fromkeys(("score", "without", "change"), DIGITS)
    rows = [line_row(card.of(name), name, seed) for name in whole.by_phenomenon()]
    table(rows, names, key="behaviour.lines", digits=two, signed=tuple(two))
    if card.truncated:
        caption(titles_cut(card.truncated, here.model.longest))


def line_row(card: Card, name: str, seed: int) -> Row:
    """One phenomenon: outcomes, score, and the paired change of the score without the heads."""
    whole, *without = card.ways
    counts = Counter(whole.outcomes.tolist())
    row: Row = {
        "phenomenon": phenomenon_name(name),
        "relation": RELATIONS[whole.cases[0].relation],
        "n": len(whole),
        "right": counts[RIGHT],
        "undecided": counts[UNDECIDED],
        "wrong": counts[WRONG],
        "score": whole.score.value,
        "interval": _interval(whole.score, seed),
    }
    for ablated in without:
        change = ablated.score - whole.score
        row |= {"without": ablated.score.value, "change": change.value}
        row["change_interval"] = _interval(change, seed)
    return row


def _interval(estimate: Estimate, seed: int) -> str | None:
    ends = estimate.interval(RESAMPLES, seed)
    return None if ends is None else interval(*ends, DIGITS)


def _cases(here: Visit, card: Card) -> None:
    """The cases of the chosen phenomenon, the worst first; a click shows one."""
    st.subheader(localised("案例，最差的在前", "The cases, worst first"))
    phenomena = card.ways[0].by_phenomenon()
    weakest = min(phenomena, key=lambda name: phenomena[name].score.value)
    chosen = st.pills(
        localised(PHENOMENON),
        list(phenomena),
        default=weakest,
        format_func=named({name: phenomenon_name(name) for name in phenomena}),
        key="behaviour.phenomenon",
    )
    part = card.of(chosen or weakest)
    order = worst_first(part.ways[0])
    columns = {
        "id": Text("编号", "id"),
        "outcome": Text("结果", "outcome"),
        "delta": Text("差", "difference"),
        "outcome_without": Text("结果，去掉头", "outcome, heads left out"),
        "delta_without": Text("差，去掉头", "difference, heads left out"),
        "query": Text("查询", "query"),
        "title": Text("第一个标题", "first title"),
        "other": Text("第二个标题", "second title"),
    }
    rows = [case_row(part, int(place)) for place in order]
    both = ("delta", "delta_without")
    row = table(rows, columns, key=f"behaviour.cases.{chosen}", signed=both, select=True)
    case = part.ways[0].cases[int(order[row or 0])]
    st.text(f"{case.query}\n{case.title}\n{case.other}")
    label = Text("在首页看第一个标题（点一行换案例）", "Its first title on the front page")
    if st.button(localised(label), key="behaviour.open-title"):
        here.open("focus", query=case.query, title=case.title)


def worst_first(judged: ScoredCases) -> np.ndarray:
    """Places of cases [n]: of `better` ones the lowest Δ first, of others the largest |Δ|."""
    deltas = judged.deltas
    return np.argsort(np.where(judged.better, deltas, -np.abs(deltas)), kind="stable")


def case_row(card: Card, place: int) -> Row:
    """One case, with its difference and outcome by the whole model and without the heads."""
    case = card.ways[0].cases[place]
    row: Row = {"id": case.id, "query": case.query, "title": case.title, "other": case.other}
    for suffix, way in zip(("", "_without"), card.ways, strict=False):
        row[f"delta{suffix}"] = float(way.deltas[place])
        row[f"outcome{suffix}"] = OUTCOMES[int(way.outcomes[place])]
    return row


if __name__ == "__main__":
    main()
