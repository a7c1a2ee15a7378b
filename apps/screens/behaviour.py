"""Behaviour card: which differences between titles the model tells, with heads left out and without."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import cast

import numpy as np
import streamlit as st

from qt_bert.ablation.interventions import NONE
from qt_bert.app import visit as visits
from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import (
    caption,
    choose,
    escaped,
    finished,
    info,
    metric,
    named,
    say,
    table,
    watch,
)
from qt_bert.data.splits import sample_queries
from qt_bert.figures import Bars, BarSeries, Token, TokenLine, Tokens
from qt_bert.inspection import inputs
from qt_bert.inspection.inputs import State
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.shared import AFTER, BEFORE, NO_GRADES, score_name, score_unit, titles_cut
from qt_bert.inspection.work import Job, Stopped
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head
from qt_bert.probes.behaviour import (
    RIGHT,
    UNDECIDED,
    WRONG,
    Band,
    Judged,
    fixed_band,
    measured_band,
    ranked_pairs,
)
from qt_bert.probes.behaviour_cases import ALIKE, BETTER, Case, Relation, titles_then_others
from qt_bert.results.head_sets import phenomenon_name
from qt_bert.shipped import DEV, shipped
from qt_bert.stats.estimate import Estimate
from qt_bert.text import Text, interval, number, signed

JOB, OTHER, TYPED = "behaviour.job", "behaviour.other", "behaviour.typed"
RESAMPLES = 1_000
# Pairs of dev that the band of a model of one logit is measured on here.
BAND_PAIRS = 128
DIGITS = 2
RELATIONS: Mapping[str, Text] = {
    BETTER: Text("应当更好", "better"),
    ALIKE: Text("应当相同", "alike"),
}
OUTCOMES = {
    RIGHT: Text("对", "right"),
    UNDECIDED: Text("未定", "undecided"),
    WRONG: Text("错", "wrong"),
}
WAYS = (BEFORE, AFTER)
SCORE = Text("得分（判对减判错，除以案例数）", "score: (right − wrong) / cases")
PHENOMENON = Text("现象", "phenomenon")


@dataclass(frozen=True, eq=False)
class Card:
    """Cases judged by the whole model and (where heads are left out) without these: one or two `ways`."""

    band: Band
    ways: tuple[Judged, ...]
    truncated: int

    def of(self, phenomenon: str) -> Card:
        """The cases of one phenomenon."""
        ways = tuple(one.where(c.phenomenon == phenomenon for c in one.cases) for one in self.ways)
        return Card(self.band, ways, self.truncated)


def main() -> None:
    """Lay out the page; the form of one's own titles comes last, for it may end the run."""
    here = visit()
    st.header(
        say(
            "行为卡：模型分得清什么，又被什么带偏",
            "Behaviour card: what it tells, what misleads it",
        )
    )
    caption(
        "一个案例是一条查询和两个标题。“应当更好”：第一个标题明显更合查询，分数应当更高；“应当相同”：改动"
        "不该影响分数。相差不到容差的不算高低。在左栏选了要去掉的头，就看去掉之后哪些行为变了。",
        "A case is a query and two titles. Better: the first serves the query clearly better and "
        "should score higher; alike: the change should not move the score. Differences within the "
        "band count as none. With heads left out on the left, see which behaviours change.",
    )
    if not here.model.classifies:
        info(NO_GRADES)
        return
    beside, own = st.columns([3, 2], gap="medium")
    with beside:
        card = _all_cases(here)
    if card is not None:
        _cases(here, card)
    with own.container(border=True):
        _own_titles(here)


# All cases that ship, scored in the background.


def _all_cases(here: Here) -> Card | None:
    """The card as far as it is made, and the button that makes it."""
    model, state, cases = here.model, here.state, inputs.shipped_behaviours()
    fault = finished(JOB)
    if isinstance(fault, Stopped):
        info("已停止，没有结果。", "Stopped; there is no result.")
    elif fault is not None:
        raise fault
    wanted = [(), *([state.out] if state.out else [])]
    found = [model.kept.find(_key(cases.texts_sha256, out, state.mode)) for out in wanted]
    missing = [out for out, one in zip(wanted, found, strict=True) if one is None]
    if JOB in st.session_state:
        watch(st.session_state[JOB], unit=Text("对", "pairs"), key="behaviour")
    elif missing:
        pairs = 2 * len(cases.listed) * len(missing)
        work = Text(
            f"要给 {pairs:,} 对打分，可以随时停止。",
            f"{pairs:,} pairs to score; it can be stopped.",
        )
        caption(work)
        label = Text("去掉所选的头，再判全部案例", "Judge all cases without the chosen heads")
        if found[0] is None:
            label = Text("判全部案例", "Judge all cases")
        if st.button(say(label), key="behaviour.go"):
            texts = _texts(cases.listed)

            def judge(job: Job[None]) -> None:
                for out in missing:
                    scorer = model.job_scorer(out, state.mode)
                    scored = scorer.logits(texts, job), scorer.counts.truncated_titles
                    model.kept.put(_key(cases.texts_sha256, out, state.mode), scored)

            st.session_state[JOB] = model.worker.start(judge, pairs)
            st.rerun()
    known = [one for one in found if one is not None]
    if found[0] is None:
        return None
    judged = tuple(judged_of(model, cases.listed, logits) for logits, _ in known)
    card = Card(band_of(model), judged, known[0][1])
    _card(here, card, cases.texts_sha256)
    return card


def _key(cases: str, out: Sequence[Head], mode: str) -> tuple[object, ...]:
    return ("cases", cases, tuple(out), mode if out else "")


def _texts(cases: Sequence[Case]) -> list[tuple[str, str]]:
    return [(pair.query, pair.title) for pair in titles_then_others(cases)]


def judged_of(model: Inspected, cases: Sequence[Case], logits: np.ndarray) -> Judged:
    """Cases by the logits [2 × cases, K] of their titles, then of the others."""
    titles, others = np.split(model.outputs(logits).ranking_score, 2)
    return Judged(tuple(cases), titles, others, band_of(model).value)


def band_of(model: Inspected) -> Band:
    """The probe's band; of a model of one logit measured on the dev pairs that ship, once a model."""

    def made() -> Band:
        pairs = sample_queries(ranked_pairs(inputs.shipped_rows("dev")), BAND_PAIRS)
        logits = model.run([(pair.query, pair.title) for pair in pairs], [NONE]).logits[0]
        queries = [pair.query for pair in pairs]
        return measured_band(model.outputs(logits).ranking_score, queries, shipped(DEV).name)

    return fixed_band(model.labels) or model.kept.get("band", made)


def band_said(band: Band) -> Text:
    """The band in a few words."""
    units = {
        "grade": Text("档", "grade"),
        "level": Text("级", "level"),
        "score": Text("分", "score"),
    }
    unit = units[band.unit]
    if band.gaps is None:
        return Text(f"{band.value:g} {unit.zh}", f"{band.value:g} {unit.en}")
    return Text(
        f"{band.value:.3g} {unit.zh}（模型自己的排序里，相邻标题分差的中位数，{band.source}）",
        f"{band.value:.3g} {unit.en} (the median gap between neighbours in the model's own ranking, "
        f"{band.source})",
    )


def _card(here: Here, card: Card, digest: str) -> None:
    """Scores by phenomenon, as figures and as a table."""
    whole, band = card.ways[0], band_said(card.band)
    cases, queries, seed = len(whole), len(set(whole.queries)), here.state.seed
    caption(
        f"全部 {cases:,} 个案例、{queries:,} 条查询，容差 {band.zh}，案例文本的 SHA-256 以 "
        f"{digest[:12]} 开头。线段是按查询重抽的 95% 区间；这里不做检验。",
        f"All {cases:,} cases of {queries:,} queries, band {band.en}; SHA-256 of their texts "
        f"begins with {digest[:12]}. Whiskers: 95 % intervals over queries; nothing is tested "
        "here.",
    )
    for figure in score_bars(card, seed):
        draw(figure)
    with st.expander(say("全部数字", "All numbers")):
        names = {
            "phenomenon": PHENOMENON,
            "relation": Text("预期", "expected"),
            "n": Text("案例", "cases"),
            "right": OUTCOMES[RIGHT],
            "undecided": OUTCOMES[UNDECIDED],
            "wrong": OUTCOMES[WRONG],
            "score": Text("得分", "score"),
            "interval": Text("95% 区间", "95 % interval"),
            "delta": Text("平均差", "mean difference"),
            "without": Text("得分，去掉头", "score, heads left out"),
            "change": Text("得分变化", "change of the score"),
            "change_interval": Text("变化的 95% 区间", "its 95 % interval"),
        }
        two = dict.fromkeys(("score", "delta", "without", "change"), DIGITS)
        rows = [line_row(card.of(name), name, seed) for name in whole.by_phenomenon()]
        table(rows, names, key="behaviour.lines", digits=two, signed=tuple(two))
    if card.truncated:
        caption(titles_cut(card.truncated, here.model.longest))


def line_row(card: Card, name: str, seed: int) -> dict[str, str | int | float | Text | None]:
    """One phenomenon: outcomes, score, and how the score changes without the heads, paired."""
    whole, relation = card.ways[0], card.ways[0].cases[0].relation
    counts = Counter(whole.outcomes.tolist())
    row: dict[str, str | int | float | Text | None] = {
        "phenomenon": phenomenon_name(name),
        "relation": RELATIONS[relation],
        "n": len(whole),
        "right": counts[RIGHT],
        "undecided": counts[UNDECIDED] if relation == BETTER else None,
        "wrong": counts[WRONG],
        "score": whole.score.value,
        "interval": _interval(whole.score, seed),
        "delta": float(whole.deltas.mean()),
    }
    if len(card.ways) > 1:
        change = card.ways[1].score - whole.score
        row |= {"without": card.ways[1].score.value, "change": change.value}
        row["change_interval"] = _interval(change, seed)
    return row


def _interval(found: Estimate, seed: int) -> str | None:
    ends = found.interval(RESAMPLES, seed)
    return None if ends is None else interval(*ends, DIGITS)


def score_bars(card: Card, seed: int) -> list[Bars]:
    """Scores by phenomenon, a figure for each relation that there is."""
    whole, band = card.ways[0], band_said(card.band)
    notes: Mapping[str, Text] = {
        BETTER: Text(
            f"第一个标题高出容差（{band.zh}）以上为对，低出容差以上为错，其余算未定。",
            f"Right where the first title scores higher by more than the band ({band.en}), wrong where "
            "lower by more, else undecided.",
        ),
        ALIKE: Text(
            f"两个标题相差不超过容差（{band.zh}）为对，否则为错。",
            f"Right where the titles part by no more than the band ({band.en}), else wrong.",
        ),
    }
    figures = []
    for relation, said in RELATIONS.items():
        names = [n for n, one in whole.by_phenomenon().items() if one.cases[0].relation == relation]
        if not names:
            continue
        scores = [[one.by_phenomenon()[name].score for name in names] for one in card.ways]
        figures.append(
            Bars(
                name=f"behaviour_{relation}",
                title=Text(
                    f"{said.zh}：每种现象的得分", f"{said.en.capitalize()}: score by phenomenon"
                ),
                x_label=PHENOMENON,
                y_label=SCORE,
                unit="",
                categories=tuple(map(phenomenon_name, names)),
                series=tuple(
                    BarSeries(
                        name=way,
                        values=tuple(one.value for one in found),
                        intervals=tuple(one.interval(RESAMPLES, seed) for one in found),
                    )
                    for way, found in zip(WAYS, scores, strict=False)
                ),
                note=notes[relation],
            )
        )
    return figures


def _cases(here: Here, card: Card) -> None:
    """The cases of the phenomenon chosen, the worst first; a click shows one, and opens its pairs."""
    st.subheader(say("案例，判得最差的在前", "The cases, worst first"))
    found = card.ways[0].by_phenomenon()
    weakest = min(found, key=lambda name: found[name].score.value)
    names = {name: phenomenon_name(name) for name in found}
    asked = st.pills(
        say(PHENOMENON),
        list(names),
        default=weakest,
        format_func=named(names),
        key="behaviour.phenomenon",
    )
    one = card.of(asked or weakest)
    order = worst_first(one.ways[0])
    score = score_name(here.model.labels)
    columns = {
        "id": Text("编号", "id"),
        "outcome": Text("判得", "outcome"),
        "delta": Text("差", "difference"),
        "outcome_without": Text("判得，去掉头", "outcome, heads left out"),
        "delta_without": Text("差，去掉头", "difference, heads left out"),
        "query": Text("查询", "query"),
        "title": Text("第一个标题", "first title"),
        "other": Text("第二个标题", "second title"),
        "first": Text(f"{score.zh}，第一个", f"{score.en}, first"),
        "second": Text(f"{score.zh}，第二个", f"{score.en}, second"),
    }
    rows = [case_row(one, int(place)) for place in order]
    both = ("delta", "delta_without")
    chosen = table(rows, columns, key=f"behaviour.cases.{asked}", signed=both, select=True)
    caption("点一行，看那个案例。", "Click a row to look at the case.")
    place = int(order[chosen or 0])
    draw(case_tokens(one, place, here.model.labels, "behaviour_case"))
    case = one.ways[0].cases[place]
    first, second = st.columns(2)
    label = Text("在首页看第一个标题", "The first title on the front page")
    if first.button(say(label), key="behaviour.open-title"):
        here.open("focus", query=case.query, title=case.title)
    label = Text("在首页看第二个标题", "The second title on the front page")
    if second.button(say(label), key="behaviour.open-other"):
        here.open("focus", query=case.query, title=case.other)


def worst_first(judged: Judged) -> np.ndarray:
    """Places of cases [n]: of `better` ones the lowest Δ first, of others the largest |Δ|."""
    deltas = judged.deltas
    return np.argsort(np.where(judged.better, deltas, -np.abs(deltas)), kind="stable")


def case_row(card: Card, place: int) -> dict[str, str | int | float | Text | None]:
    """One case, and what it is without the heads."""
    whole, *without = card.ways
    case = whole.cases[place]
    row: dict[str, str | int | float | Text | None] = {
        "id": case.id,
        "query": case.query,
        "title": case.title,
        "other": case.other,
        "first": float(whole.titles[place]),
        "second": float(whole.others[place]),
        "delta": float(whole.deltas[place]),
        "outcome": OUTCOMES[int(whole.outcomes[place])],
    }
    for one in without:
        row["delta_without"] = float(one.deltas[place])
        row["outcome_without"] = OUTCOMES[int(one.outcomes[place])]
    return row


def case_tokens(card: Card, place: int, labels: ModelLabels, name: str) -> Tokens:
    """One case: each title coloured by the whole model's score of it, outlined where the two differ."""
    case = card.ways[0].cases[place]
    low, high = (None, None) if labels.logits == 1 else (min(labels.values), max(labels.values))
    lines = [TokenLine(name=Text("查询", "query"), tokens=(Token(text=case.query),))]
    matched = SequenceMatcher(None, case.title, case.other, autojunk=False).get_opcodes()
    sides = (Text("第一个标题", "first title"), Text("第二个标题", "second title"))
    for side, (said, text) in enumerate(zip(sides, (case.title, case.other), strict=True)):
        values = [float((one.titles, one.others)[side][place]) for one in card.ways]
        shown = " → ".join(number(value, DIGITS) for value in values)
        spans = [(kind, *((a, b), (c, d))[side]) for kind, a, b, c, d in matched]
        tokens = tuple(
            Token(text=text[a:b], value=values[0], marked=kind != "equal")
            for kind, a, b in spans
            if b > a
        )
        lines.append(
            TokenLine(name=Text(f"{said.zh}：{shown}", f"{said.en}: {shown}"), tokens=tokens)
        )
    what = score_name(labels)
    return Tokens(
        name=name,
        title=Text(
            f"两个标题和模型给的{what.zh}", f"Both titles, and the model's {what.en} of each"
        ),
        unit=score_unit(labels),
        lines=tuple(lines),
        low=low,
        high=high,
        note=Text(
            "颜色是完整模型给整个标题的分；加框处两个标题不同。",
            "Colours are the whole model's score of the whole title; outlined where the two differ.",
        ),
    )


# Two titles of a visitor's own, judged at once.


def _own_titles(here: Here) -> None:
    """The form, and what the model makes of it; ends the page where there is no pair."""
    state, store, model = here.state, st.session_state, here.model
    st.subheader(say("换成你自己的标题", "Two titles of your own"))
    caption(
        "查询和第一个标题在左栏，第二个写在这里；它不在链接里。",
        "The query and the first title stand on the left; type the second here. No link holds it.",
    )
    here.stop_if_empty()
    rows = inputs.default_titles(state.query, state.title, inputs.shipped_rows("test"), state.seed)
    default = next((one.title for one in rows if one.title != state.title), "")
    query, text = store.get(TYPED, (None, ""))
    store[OTHER] = text if query == state.query else default
    st.text_input(
        say("第二个标题", "Second title"),
        key=OTHER,
        max_chars=500,
        on_change=lambda: store.update({TYPED: (state.query, store[OTHER])}),
    )
    label = Text("第一个标题与第二个相比", "The first title, beside the second, is")
    relation = choose(label, RELATIONS, "behaviour.relation")
    title, other = state.title.strip(), inputs.clean_texts(state.query, store[OTHER])[1].strip()
    if not other or title == other:
        info(
            "两个标题相同或有一个为空，没有可比的。",
            "The titles are the same, or one is empty: there is nothing to compare.",
        )
        return
    card = judge(
        model,
        Case("own", f"own_{relation}", cast(Relation, relation), state.query.strip(), title, other),
        state,
    )
    score = say(score_name(model.labels))
    about = say("第一个标题的分减第二个的", "the first title's score less the second's")
    for column, way, one in zip(st.columns(2), WAYS, card.ways, strict=False):
        with column:
            name = Text(f"差，{way.zh}", f"difference, {way.en}")
            metric(say(name), signed(float(one.deltas[0])), about=about)
            scores = " / ".join(number(float(s[0]), DIGITS) for s in (one.titles, one.others))
            st.caption(escaped(f"{say(OUTCOMES[int(one.outcomes[0])])} · {score} {scores}"))
    band = band_said(card.band)
    caption(f"容差：{band.zh}", f"Band: {band.en}")
    if card.truncated:
        caption(titles_cut(card.truncated, model.longest))
    draw(case_tokens(card, 0, model.labels, "own_titles"))

    def swap() -> None:
        store[TYPED] = (state.query, title)
        visits.change(here.shelf, title=other)

    st.button(say("两个标题对调", "Swap the titles"), key="behaviour.swap", on_click=swap)


def judge(model: Inspected, case: Case, state: State) -> Card:
    """One case judged at once, whole and without the state's heads, as `qt-bert explain` grades."""
    encoded = [model.encode(*text) for text in _texts([case])]

    def judged(out: Sequence[Head]) -> Judged:
        scores = [model.graded(one, out, state.mode).ranking_score for one in encoded]
        return Judged((case,), scores[0], scores[1], band_of(model).value)

    ways = model.kept.get(
        ("own", case, state.out, state.mode),
        lambda: tuple(judged(out) for out in ((), *([state.out] if state.out else []))),
    )
    return Card(band_of(model), ways, sum(one.title_truncated for one in encoded))


if __name__ == "__main__":
    main()
