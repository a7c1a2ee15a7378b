"""Ranking: several titles under one query, with heads left out and without, and what moves each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import streamlit as st
from scipy.stats import rankdata

from qt_bert.ablation.explain import head_effects
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import with_plain
from qt_bert.ablation.masks import HeadMask
from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.figures import HeatMap, Token, TokenLine, Tokens, head_map
from qt_bert.heads import Head
from qt_bert.models.card import ModelLabels
from qt_bert.page.figures import draw
from qt_bert.page.maps import (
    AFTER,
    BEFORE,
    plain_and_without,
    score_columns,
    score_name,
    score_unit,
    titles_cut,
)
from qt_bert.page.model import SharedModel
from qt_bert.page.pairs import default_titles, plain_text, shipped_rows
from qt_bert.page.state import State
from qt_bert.page.visit import Visit, visit
from qt_bert.page.widgets import caption, escaped, info, localised, metric, table
from qt_bert.results.quantities import metric_name
from qt_bert.scoring.explain import effects_of, filled_terms, filler_of
from qt_bert.scoring.judge import default_scheme, judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text, number, signed

MOST_TITLES, MOST_CHARACTERS, MOST_TERMS = 50, 500, 60
NDCG = "ndcg_at_10"
AREA, TYPED = "ranking.titles", "ranking.typed"


@dataclass(frozen=True)
class Title:
    """A title, its label as it was written, and the grades (or the level) that this may mean."""

    text: str
    label: str | None = None
    grades: GradeSet | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking:
    """Titles from the best score of the whole model down.

    `scores` and `places` [ways, titles] are of the whole model and, where heads are left out, without
    these; places count from 1, equal scores share one. `ndcg` has a value for each way, over the
    titles with labels; `truncated` titles were cut.
    """

    titles: tuple[Title, ...]
    predicted: tuple[str, ...] | None
    scores: np.ndarray
    places: np.ndarray
    ndcg: list[float | None]
    truncated: int


def main() -> None:
    """Lay out the page."""
    here = visit()
    state, model = here.state, here.model
    st.header(localised("排序：同一查询下的多条标题", "Ranking: several titles under one query"))
    caption(
        "同一查询下的标题按期望等级排序；去掉头时再排一次。",
        "Titles of one query by their expected grade, and again without the heads left out.",
    )
    here.stop_if_empty()
    st.text(localised("查询：{query}", "Query: {query}").format(query=state.query))
    titles = _asked(here)
    if not titles:
        info("请输入至少一条标题。", "Type at least one title.")
        return
    found = rank_titles(model, state.query, titles, state.out, state.mode)
    if found.ndcg:
        before, after = found.ndcg[0] or 0.0, found.ndcg[-1] or 0.0
        change = signed(after - before) if len(found.ndcg) > 1 else None
        about = localised(METRICS[NDCG].description)
        metric(localised(metric_name(NDCG)), number(before), change, about=about)
    if found.truncated:
        caption(titles_cut(found.truncated, model.longest))
    columns = {"place": Text("名次", "place"), "moved": Text("去掉头后", "without heads")}
    columns |= score_columns(model.labels)
    rows = ranking_rows(found)
    chosen = table(rows, columns, key="ranking.table", signed=("change",), select=True)
    caption(
        "点一行，看哪些词、哪些头左右那条标题。",
        "Click a row to see what moves that title.",
    )
    own = [place for place, one in enumerate(found.titles) if one.text == state.title]
    _movers(here, found.titles[chosen if chosen is not None else (own or [0])[0]].text)


def _asked(here: Visit) -> list[Title]:
    """The titles to rank under the state's query, with what had to be changed of them said."""
    state, store = here.state, st.session_state
    rows = shipped_rows("test")
    default = "\n".join(
        f"{one.title}\t{one.label}" if one.label else one.title
        for one in default_titles(state.query, state.title, rows, state.seed)
    )
    query, typed, before = store.get(TYPED, (None, "", ""))  # it outlives the widget
    store[AREA] = typed if query == state.query and typed != before else default
    text = st.text_area(
        localised("标题，每行一条", "Titles, one a line"),
        key=AREA,
        height=26 * min(max(store[AREA].count("\n") + 3, 5), 14),
        help=localised(
            "至多 50 条。行尾可加制表符（Tab）和标注，例如从表格粘贴两列；有标注就算 NDCG。",
            "50 at most. A label may follow after a tab, as two columns pasted from a spreadsheet "
            "have it; with labels there is NDCG.",
        ),
        on_change=lambda: store.update({TYPED: (state.query, store[AREA], default)}),
    )
    store[TYPED] = (state.query, text, default)
    if text != default:
        caption(
            "这些标题是你自己的，不在链接里：别人打开链接看到的是默认的标题。",
            "These titles are your own and no link holds them: others see the default ones.",
        )
    titles, faults = typed_titles(text or "", here.model.labels)
    for fault in faults:
        st.warning(escaped(localised(fault)), icon=":material/edit_off:")
    return titles


def typed_titles(text: str, labels: ModelLabels) -> tuple[list[Title], list[Text]]:
    """The titles typed in `text`, one a line, each with a label after a tab or without one.

    Empty lines and repeated titles are passed over. Also what had to be changed, in words: titles
    beyond 50, characters beyond 500 a title, and labels that this model cannot read.
    """
    scheme = default_scheme(labels)
    found: dict[str, Title] = {}
    cut = unknown = 0
    for line in text.splitlines():
        written, _, label = line.rpartition("\t") if "\t" in line else (line, "", "")
        shown, label = plain_text(written).strip(), label.strip()
        if not shown:
            continue
        cut += len(shown) > MOST_CHARACTERS
        shown = shown[:MOST_CHARACTERS]
        grades = None
        if label:
            try:
                grades = scheme.grades_of(label)
            except ValueError:
                unknown += 1
        found.setdefault(shown, Title(shown, label[:20] or None, grades))
    said = {
        Text(
            f"只取前 {MOST_TITLES} 条标题，每条只取前 {MOST_CHARACTERS} 个字。",
            f"The first {MOST_TITLES} titles are taken, and {MOST_CHARACTERS} characters of each.",
        ): cut or len(found) > MOST_TITLES,
        Text(
            f"{unknown:,} 个标注这个模型不认识，不用于 NDCG。",
            f"This model cannot read {unknown:,} of the labels: not in NDCG.",
        ): unknown,
    }
    return list(found.values())[:MOST_TITLES], [one for one, there in said.items() if there]


def rank_titles(
    model: SharedModel, query: str, titles: Sequence[Title], out: Sequence[Head], mode: str
) -> Ranking:
    """Grade every title under `query`, plainly and (where `out` names heads) without these."""
    texts = [(query, title.text) for title in titles]
    variants = plain_and_without(model, out, mode)
    key = ("ranking", tuple(texts), tuple(out), mode)
    logits = model.cache.get(key, lambda: model.run(texts, variants).logits)
    outputs = [model.outputs(one) for one in logits]
    scores = np.stack([one.ranking_score for one in outputs])
    order = np.argsort(-scores[0], kind="stable")
    predicted = outputs[0].predicted
    rows = [row for row, title in enumerate(titles) if title.grades is not None]
    ndcg: list[float | None] = []
    if len(rows) > 1:
        pairs = [
            Pair(query, titles[row].text, titles[row].grades, str(row), row, titles[row].label, {})
            for row in rows
        ]
        judged = [judge_logits(one[rows], pairs, model.labels) for one in logits]
        ndcg = [METRICS[NDCG].value(one) for one in judged]
    return Ranking(
        titles=tuple(titles[row] for row in order),
        predicted=tuple(predicted[row] for row in order) if predicted else None,
        scores=scores[:, order],
        places=rankdata(-scores, method="min", axis=1)[:, order].astype(int),
        ndcg=[] if None in ndcg else ndcg,
        truncated=sum(model.encode(*text).title_truncated for text in texts),
    )


def ranking_rows(found: Ranking) -> list[dict[str, str | int | float | Text | None]]:
    """The titles as rows of a table, with arrows where a place changes, as in `3 ▲2`."""
    rows: list[dict[str, str | int | float | Text | None]] = []
    for row, one in enumerate(found.titles):
        (place, *other), (score, *without) = found.places[:, row], found.scores[:, row]
        rows.append(
            {
                "place": int(place),
                "title": one.text,
                "label": one.label,
                "predicted": found.predicted[row] if found.predicted else None,
                "score": float(score),
            }
        )
        if other:
            up = int(place - other[0])
            arrow = f"{'▲' if up > 0 else '▼'}{abs(up)}" if up else "="
            rows[-1] |= {"moved": f"{other[0]} {arrow}", "without": float(without[0])}
            rows[-1]["change"] = float(without[0] - score)
    return rows


def _movers(here: Visit, title: str) -> None:
    """What moves one title: each term filled, and each head left out."""
    state, model = here.state, here.model
    st.subheader(localised("什么左右这条标题", "What moves this title"))
    st.text(title)
    label = Text("在首页看这一对", "Look at this pair on the front page")
    if st.button(localised(label), icon=":material/center_focus_strong:", key="ranking.open"):
        here.open("focus", title=title)
    figure, passed_over = term_moves(model, replace(state, title=title))
    draw(figure)
    if passed_over:
        caption(
            f"只逐个换掉了前 {MOST_TERMS} 个词，还有 {passed_over} 个没有算。",
            f"The first {MOST_TERMS} terms were filled one by one; {passed_over} more were not.",
        )
    cell = draw(head_moves(model, state.query, title), click=True)
    caption(
        "每个头单独从完整模型里去掉：是缺了它的影响，不是可以相加的份额。点一格即选中那个头。",
        "Each head alone is left out of the whole model: effects, not shares that add up. A click "
        "chooses the head.",
    )
    if cell is not None:
        here.change(layer=cell[0], head=cell[1])


def term_moves(model: SharedModel, state: State) -> tuple[Tokens, int]:
    """The change of the score with each term filled, in each way; terms beyond 60 are counted alone.

    As `qt-bert explain` fills them, in one pass over all.
    """
    query, title = state.query, state.title
    whole, filler = model.encode(query, title), filler_of(model.scorer.checkpoint)
    filled = filled_terms(query, title, whole, model.segmenter, filler)
    kept = filled[:MOST_TERMS]
    variants = plain_and_without(model, state.out, state.mode)
    logits = model.cache.get(
        ("terms", query, title, state.out, state.mode),
        lambda: model.run_tokens([whole, *(one.encoded for one in kept)], variants).logits,
    )
    effects = [effects_of(kept, model.outputs(one).ranking_score) for one in logits]
    top = max((abs(one.change) for way in effects for one in way), default=0.0)
    name, lines = score_name(model.labels), []
    sides = (("query", query, Text("查询", "query")), ("title", title, Text("标题", "title")))
    for way, found in zip((BEFORE, AFTER), effects, strict=False):
        for side, text, said in sides:
            own = [one for one in found if one.side == side]
            changes = {one.start: one.change for one in own}
            edges = {edge for span in model.segmenter.spans(text) for edge in span}
            edges -= {at for one in own for at in range(one.start + 1, one.end)}
            pieces = pairwise(sorted(edges))
            tokens = tuple(Token(text=text[a:b], value=changes.get(a)) for a, b in pieces)
            label = Text(f"{said.zh}，{way.zh}", f"{said.en}, {way.en}")
            lines.append(TokenLine(name=label, tokens=tokens))
    figure = Tokens(
        name="term_moves",
        title=Text(
            f"把每个词换成同样长的 {filler.token} 后{name.zh}的变化",
            f"Change of the {name.en} with as many {filler.token} for each term",
        ),
        unit=score_unit(model.labels),
        lines=tuple(lines),
        scale="diverging",
        low=-top,
        high=top,
        digits=3,
    )
    return figure, len(filled) - len(kept)


def head_moves(model: SharedModel, query: str, title: str) -> HeatMap:
    """The change of one title's score without each head alone, the same figures as `explain`."""
    variants = with_plain(single(model.shape, lambda heads: HeadMask(tuple(heads))))
    logits = model.cache.get(
        ("heads", query, title), lambda: model.run([(query, title)], variants).logits[:, 0]
    )
    changes = np.zeros(model.shape.size)
    for one in head_effects(variants, model.outputs(logits)):
        changes[Head.parse(one.head)] = one.change
    name = score_name(model.labels)
    return head_map(
        "head_moves",
        changes,
        title=Text(
            f"每个头单独去掉后{name.zh}的变化", f"Change of the {name.en} without each head"
        ),
        unit=score_unit(model.labels),
        scale="diverging",
        digits=3,
    )


if __name__ == "__main__":
    main()
