"""Ranking: several titles under one query, with heads left out and without, and what moves each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st
from scipy.stats import kendalltau, rankdata

from qt_bert.ablation.explain import head_effects
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import with_plain
from qt_bert.ablation.masks import HeadMask
from qt_bert.app import visit as visits
from qt_bert.app.figures import draw
from qt_bert.app.visit import Here, visit
from qt_bert.app.widgets import caption, escaped, info, metric, say, table
from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.figures import Bars, BarSeries, HeatMap, Token, TokenLine, Tokens
from qt_bert.inspection.inputs import State, default_titles, plain_text, shipped_rows
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.shared import (
    AFTER,
    BEFORE,
    NO_GRADES,
    head_map,
    level_name,
    plain_and_without,
    score_name,
    score_unit,
    titles_cut,
)
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head
from qt_bert.results.quantities import metric_name
from qt_bert.scoring.explain import effects_of, filled_terms, filler_of
from qt_bert.scoring.judge import Outputs, default_scheme, judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text, number, signed

MOST_TITLES, MOST_CHARACTERS, MOST_TERMS, HEADS_SHOWN = 50, 500, 60, 10
NDCG = ("ndcg_at_3", "ndcg_at_10")
AREA, TYPED, SHIPPED = "ranking.titles", "ranking.typed", "ranking.shipped"


@dataclass(frozen=True)
class Title:
    """A title, its label as it was written, and the grades (or the level) that this may mean."""

    text: str
    label: str | None = None
    grades: GradeSet | None = None


@dataclass(frozen=True, eq=False)
class Ranking:
    """Titles from the best score of the whole model down.

    `outputs` are those of each way (whole, and without the heads, if there are any), their rows in
    the order of `titles`; `places` [ways, titles] count from 1, equal scores share one. `ndcg` has a
    value for each way by metric, over the `labelled` titles; `truncated` titles were cut.
    """

    titles: tuple[Title, ...]
    outputs: tuple[Outputs, ...]
    places: np.ndarray
    tau: float | None
    ndcg: dict[str, list[float | None]]
    labelled: int
    truncated: int

    @property
    def scores(self) -> np.ndarray:
        """What titles are ranked by [ways, titles]."""
        return np.stack([one.ranking_score for one in self.outputs])


def main() -> None:
    """Lay out the page."""
    here = visit()
    state, model = here.state, here.model
    st.header(say("排序：同一查询下的多条标题", "Ranking: several titles under one query"))
    caption(
        "同一查询下的标题按期望等级排序；去掉左栏所选的头之后再排一次。点一条标题，看哪些词、哪些头左右它。",
        "Titles of one query, ranked by their expected grade, and once more without the heads "
        "chosen on the left. Click a title to see which terms and which heads move it.",
    )
    here.stop_if_empty()
    if not model.classifies:
        info(NO_GRADES)
        return
    st.text(say("查询：{query}", "Query: {query}").format(query=state.query))
    titles = _asked(here)
    if not titles:
        info("请输入至少一条标题。", "Type at least one title.")
        return
    found = rank_titles(model, state.query, titles, state.out, state.mode)
    if not state.out:
        alone = Text(
            "左栏没有选中要去掉的头，只显示完整模型的排序。",
            "No heads are left out on the left: this is the whole model's ranking alone.",
        )
        info(alone)
    _summary(found)
    if found.truncated:
        caption(titles_cut(found.truncated, model.longest))
    chosen = table(
        ranking_rows(found),
        columns(model.labels),
        key="ranking.table",
        signed=("change",),
        select=True,
    )
    click = Text(
        "点一行，下面就分析那条标题（默认是左栏的标题）。",
        "Click a row: what is below then looks at that title (at first the one on the left).",
    )
    caption(click)
    for figure in ranking_figures(found, model.labels):
        draw(figure)
    at = [place for place, one in enumerate(found.titles) if one.text == state.title]
    _movers(here, found.titles[chosen if chosen is not None else (at or [0])[0]].text)


def _asked(here: Here) -> list[Title]:
    """The titles to rank under the state's query, with what had to be changed of them said."""
    state, store = here.state, st.session_state
    rows = shipped_rows("test")
    st.selectbox(
        say("取随包测试集的一个查询", "A query of the test set that ships"),
        queries_of(rows),
        index=None,
        key=SHIPPED,
        on_change=lambda: _take_shipped(here),
    )
    default = "\n".join(
        f"{one.title}\t{one.label}" if one.label else one.title
        for one in default_titles(state.query, state.title, rows, state.seed)
    )
    query, typed, before = store.get(TYPED, (None, "", ""))  # it outlives the widget
    store[AREA] = typed if query == state.query and typed != before else default
    text = st.text_area(
        say("标题，每行一条", "Titles, one a line"),
        key=AREA,
        height=26 * min(max(store[AREA].count("\n") + 3, 5), 14),
        help=say(
            "至多 50 条。行尾可加制表符（Tab）和标注，例如从表格粘贴两列；有标注就算 NDCG。",
            "50 at most. A label may follow after a tab, as two columns pasted from a spreadsheet "
            "have it; with labels there is NDCG.",
        ),
        on_change=lambda: store.update({TYPED: (state.query, store[AREA], default)}),
    )
    store[TYPED] = (state.query, text, default)
    if text != default:
        own_ones = Text(
            "这些标题是你自己的，不在链接里：别人打开链接看到的是默认的标题。",
            "These titles are your own and no link holds them: others see the default ones.",
        )
        caption(own_ones)
    titles, faults = typed_titles(text or "", here.model.labels)
    for fault in faults:
        st.warning(escaped(say(fault)), icon=":material/edit_off:")
    return titles


def _take_shipped(here: Here) -> None:
    query = st.session_state[SHIPPED]
    if query is not None:
        title = next(pair.title for pair in shipped_rows("test") if pair.query == query)
        st.session_state.pop(TYPED, None)
        visits.change(here.shelf, query=query, title=title)


def queries_of(pairs: Iterable[Pair]) -> list[str]:
    """The queries that have two different titles at least, in file order."""
    titles: dict[str, set[str]] = {}
    for pair in pairs:
        titles.setdefault(pair.query, set()).add(pair.title)
    return [query for query, found in titles.items() if len(found) > 1]


def typed_titles(text: str, labels: ModelLabels) -> tuple[list[Title], list[Text]]:
    """The titles typed in `text`, one a line, each with a label after a tab or without one.

    Empty lines and repeated titles are passed over. Also what had to be changed, in words: titles
    beyond 50, characters beyond 500 a title, and labels that this model cannot read.
    """
    scheme = default_scheme(labels)
    found: dict[str, Title] = {}
    repeated = cut = 0
    unknown: list[str] = []
    for line in text.splitlines():
        written, _, label = line.rpartition("\t") if "\t" in line else (line, "", "")
        shown, label = plain_text(written).strip(), label.strip()
        if not shown:
            continue
        cut += len(shown) > MOST_CHARACTERS
        shown = shown[:MOST_CHARACTERS]
        repeated += shown in found
        grades = None
        if label:
            try:
                grades = scheme.grades_of(label)
            except ValueError:
                unknown.append(label[:20])
        found.setdefault(shown, Title(shown, label[:20] or None, grades))
    more = len(found) - MOST_TITLES
    faults = []
    if more > 0:
        faults.append(
            Text(
                f"只取前 {MOST_TITLES} 条标题，其余 {more:,} 条没有用。",
                f"The first {MOST_TITLES} titles are taken; {more:,} more are left out.",
            )
        )
    if repeated:
        faults.append(
            Text(f"重复的标题只取一次（{repeated:,} 行）。", f"{repeated:,} lines repeat a title.")
        )
    if cut:
        faults.append(
            Text(
                f"{cut:,} 条标题超过 {MOST_CHARACTERS} 个字，只取开头。",
                f"{cut:,} titles are longer than {MOST_CHARACTERS} characters and were cut.",
            )
        )
    if unknown:
        few = "、".join(dict.fromkeys(unknown[:3]))
        faults.append(
            Text(
                f"{len(unknown):,} 个标注这个模型不认识（{few}），不用于 NDCG。",
                f"This model cannot read {len(unknown):,} of the labels ({few}): not in NDCG.",
            )
        )
    return list(found.values())[:MOST_TITLES], faults


def rank_titles(
    model: Inspected, query: str, titles: Sequence[Title], out: Sequence[Head], mode: str
) -> Ranking:
    """Grade every title under `query`, plainly and (where `out` names heads) without these."""
    texts = [(query, title.text) for title in titles]
    variants = plain_and_without(model, out, mode)
    key = ("ranking", tuple(texts), tuple(out), mode)
    logits = model.kept.get(key, lambda: model.run(texts, variants).logits)
    scores = [model.outputs(one).ranking_score for one in logits]
    order = np.argsort(-scores[0], kind="stable")
    tau = float(kendalltau(*scores).statistic) if len(scores) > 1 and len(titles) > 1 else np.nan
    rows = [row for row, title in enumerate(titles) if title.grades is not None]
    ndcg: dict[str, list[float | None]] = {}
    if len(rows) > 1:
        pairs = [
            Pair(query, titles[row].text, titles[row].grades, str(row), row, titles[row].label, {})
            for row in rows
        ]
        judged = [judge_logits(one[rows], pairs, model.labels) for one in logits]
        ndcg = {name: [METRICS[name].value(one) for one in judged] for name in NDCG}
    return Ranking(
        titles=tuple(titles[row] for row in order),
        outputs=tuple(model.outputs(one[order]) for one in logits),
        places=np.stack([rankdata(-one, method="min")[order] for one in scores]).astype(int),
        tau=tau if np.isfinite(tau) else None,
        ndcg={name: values for name, values in ndcg.items() if values[0] is not None},
        labelled=len(rows),
        truncated=sum(model.encode(*text).title_truncated for text in texts),
    )


def _summary(found: Ranking) -> None:
    """How far the two orders agree, and how good each is where there are labels."""
    places = st.columns(2 + len(found.ndcg))
    if len(found.places) > 1:
        moved = int((found.places[0] != found.places[1]).sum())
        with places[0]:
            metric(
                say("名次变了的标题", "titles that move"),
                f"{moved} / {len(found.titles)}",
                about=say(
                    "去掉所选的头之后名次不同的标题 / 全部标题。同分的标题名次相同。",
                    "Titles whose place differs without the heads, of all. Equal scores share a place.",
                ),
            )
        with places[1]:
            metric(
                say("Kendall τ（两种排序之间）", "Kendall's τ between both orders"),
                number(found.tau),
                about=say(
                    "τ-b：1 为顺序完全相同，−1 为完全相反；无：分数全相同。",
                    "τ-b: 1 the same order, −1 the reverse; none where all scores are equal.",
                ),
            )
    for column, (name, values) in zip(places[2:], found.ndcg.items(), strict=True):
        before, after = values[0], values[-1]
        change = None if len(values) < 2 or None in values else signed((after or 0) - (before or 0))
        zh, en = METRICS[name].description
        about = Text(
            f"{zh}在 {found.labelled} 条有标注的标题上；小字是去掉头后的变化。",
            f"{en} Over the {found.labelled} titles with labels; below, the change without the heads.",
        )
        with column:
            metric(say(metric_name(name)), number(before), change, about=say(about))


def columns(labels: ModelLabels) -> dict[str, Text]:
    """The columns of the ranking's table."""
    score = score_name(labels)
    return {
        "place": Text("名次", "place"),
        "moved": Text("去掉头后", "without heads"),
        "title": Text("标题", "title"),
        "label": Text("标注", "label"),
        "predicted": Text("预测", "predicted"),
        "score": score,
        "without": Text(f"{score.zh}，去掉头", f"{score.en}, heads left out"),
        "change": Text("变化", "change"),
    }


def ranking_rows(found: Ranking) -> list[dict[str, str | int | float | Text | None]]:
    """The titles as rows of a table, with arrows where a place changes, as in `3 ▲2`."""
    rows: list[dict[str, str | int | float | Text | None]] = []
    predicted = found.outputs[0].predicted
    for row, one in enumerate(found.titles):
        place, score = int(found.places[0, row]), float(found.scores[0, row])
        rows.append(
            {
                "place": place,
                "title": one.text,
                "label": one.label,
                "predicted": predicted[row] if predicted else None,
                "score": score,
            }
        )
        if len(found.places) > 1:
            other, without = int(found.places[1, row]), float(found.scores[1, row])
            up = place - other
            arrow = f"{'▲' if up > 0 else '▼'}{abs(up)}" if up else "="
            rows[-1] |= {"moved": f"{other} {arrow}", "without": without, "change": without - score}
    return rows


def ranking_figures(found: Ranking, labels: ModelLabels) -> list[Bars | HeatMap]:
    """Scores as bars, and the probabilities of each way, titles from the best down."""
    names = [
        f"{place}. {one.text if len(one.text) <= 22 else one.text[:21] + '…'}"
        for place, one in zip(found.places[0].tolist(), found.titles, strict=True)
    ]
    figures: list[Bars | HeatMap] = [
        Bars(
            name="ranking_scores",
            title=Text("排序分：每条标题", "Ranking score of every title"),
            x_label=Text(
                "标题（前面是完整模型的名次）", "title (with its place under the whole model)"
            ),
            y_label=score_name(labels),
            unit=score_unit(labels),
            categories=tuple(names),
            series=tuple(
                BarSeries(name=way, values=tuple(one.tolist()))
                for way, one in zip((BEFORE, AFTER), found.scores, strict=False)
            ),
            digits=3,
        )
    ]
    what = level_name(labels)
    for way, name, one in zip((BEFORE, AFTER), ("", "_without"), found.outputs, strict=False):
        if one.probabilities is not None:
            figures.append(
                HeatMap(
                    name=f"ranking_distribution{name}",
                    title=Text(
                        f"各{what.zh}的概率，{way.zh}", f"Probability of each {what.en}, {way.en}"
                    ),
                    x_label=what,
                    y_label=Text("标题", "title"),
                    unit=Text("概率 %", "probability, %"),
                    columns=tuple(labels.names),
                    rows=tuple(names),
                    values=tuple(tuple(100 * float(p) for p in row) for row in one.probabilities),
                    low=0.0,
                    high=100.0,
                    digits=1,
                )
            )
    return figures


def _movers(here: Here, title: str) -> None:
    """What moves one title: each term filled, and each head left out."""
    state, model = here.state, here.model
    st.subheader(say("什么左右这条标题", "What moves this title"))
    st.text(title)
    label = Text("在首页看这一对", "Look at this pair on the front page")
    if st.button(say(label), icon=":material/center_focus_strong:", key="ranking.open"):
        here.open("focus", title=title)
    figures, passed_over = term_moves(model, replace(state, title=title))
    for place, figure in enumerate(figures):
        draw(figure, key=f"ranking.terms.{place}")
    if passed_over:
        more = Text(
            f"只逐个换掉了前 {MOST_TERMS} 个词，还有 {passed_over} 个没有算。",
            f"The first {MOST_TERMS} terms were filled one by one; {passed_over} more were not.",
        )
        caption(more)
    bars, grid = head_moves(model, state.query, title)
    left, right = st.columns(2)
    with left:
        draw(bars)
    with right:
        cell = draw(grid, click=True)
    absent = Text(
        "每个头单独去掉（以 0 代替），对完整模型而言。这是缺了它的影响，不是可以相加的份额：头可以互相替代。"
        f"点图上一格即选中那个头，各页都用它；现在是 {state.chosen}。",
        "Each head is left out alone, of the whole model, replaced by 0. These are effects of its "
        "absence, not shares that add up: heads stand in for each other. A click on the map chooses a "
        f"head for all pages; now it is {state.chosen}.",
    )
    caption(absent)
    if cell is not None:
        here.change(layer=cell[0], head=cell[1])


def term_moves(model: Inspected, state: State) -> tuple[list[Tokens], int]:
    """The change of the score with each term filled, in each way; terms beyond 60 are counted alone.

    As `qt-bert explain` fills them, in one pass over all.
    """
    query, title = state.query, state.title
    whole, filler = model.encode(query, title), filler_of(model.scorer.checkpoint)
    filled = filled_terms(query, title, whole, model.segmenter, filler)
    kept = filled[:MOST_TERMS]
    variants = plain_and_without(model, state.out, state.mode)
    logits = model.kept.get(
        ("terms", query, title, state.out, state.mode),
        lambda: model.run_tokens([whole, *(one.encoded for one in kept)], variants).logits,
    )
    effects = [effects_of(kept, model.outputs(one).ranking_score) for one in logits]
    top = max((abs(one.change) for way in effects for one in way), default=0.0)
    name = score_name(model.labels)
    sides = (("query", query, Text("查询", "query")), ("title", title, Text("标题", "title")))
    figures = []
    for way, found in zip((BEFORE, AFTER), effects, strict=False):
        lines = []
        for side, text, said in sides:
            changes = {one.start: one.change for one in found if one.side == side}
            spans = model.segmenter.spans(text)
            tokens = tuple(Token(text=text[a:b], value=changes.get(a)) for a, b in spans)
            lines.append(TokenLine(name=said, tokens=tokens))
        figures.append(
            Tokens(
                name="term_moves",
                title=Text(
                    f"把每个词换成同样长的 {filler.token} 后{name.zh}的变化（{way.zh}）",
                    f"Change of the {name.en} with as many {filler.token} for each term ({way.en})",
                ),
                unit=score_unit(model.labels),
                lines=tuple(lines),
                scale="diverging",
                low=-top,
                high=top,
                digits=3,
            )
        )
    return figures, len(filled) - len(kept)


def head_moves(model: Inspected, query: str, title: str) -> tuple[Bars, HeatMap]:
    """The change of one title's score without each head alone, the same figures as `explain`."""
    variants = with_plain(single(model.shape, lambda heads: HeadMask(tuple(heads))))
    logits = model.kept.get(
        ("heads", query, title), lambda: model.run([(query, title)], variants).logits[:, 0]
    )
    effects = head_effects(variants, model.outputs(logits))
    changes = np.zeros(model.shape.size)
    for one in effects:
        changes[Head.parse(one.head)] = one.change
    shown = effects[:HEADS_SHOWN]
    unit, name = score_unit(model.labels), score_name(model.labels)
    without = Text("去掉它之后的变化", "change without it")
    bars = Bars(
        name="head_movers",
        title=Text(
            f"影响最大的 {len(shown)} 个头：单独去掉后{name.zh}的变化",
            f"The {len(shown)} heads that matter most: change of the {name.en} without each",
        ),
        x_label=Text("去掉的头", "head left out"),
        y_label=without,
        unit=unit,
        categories=tuple(Text(f"去掉 {one.head}", f"without {one.head}") for one in shown),
        series=(BarSeries(name=without, values=tuple(one.change for one in shown)),),
        digits=3,
    )
    title_of = Text(
        f"每个头单独去掉后{name.zh}的变化", f"Change of the {name.en} without each head"
    )
    return bars, head_map("head_moves", title_of, unit, changes, scale="diverging", digits=3)


if __name__ == "__main__":
    main()
