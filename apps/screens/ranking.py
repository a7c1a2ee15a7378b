"""Ranking: titles of one query, whole and with heads left out, and which terms and heads move each."""

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
from qt_bert.ablation.masks import zeroed
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
from qt_bert.page.widgets import Row, caption, escaped, info, localised, metric, table
from qt_bert.scoring.explain import effects_of, filled_terms, filler_of
from qt_bert.scoring.judge import default_scheme, judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Text, number, signed

MOST_TITLES, MOST_CHARACTERS, MOST_TERMS = 50, 500, 60
NDCG = "ndcg_at_10"
AREA, TYPED = "ranking.titles", "ranking.typed"


@dataclass(frozen=True)
class Title:
    """A title, its label as written, and the grades (or the level) that the label may mean."""

    text: str
    label: str | None = None
    grades: GradeSet | None = None


@dataclass(frozen=True, eq=False, kw_only=True)
class Ranking:
    """Titles in descending order of the whole model's score.

    `scores` and `places` [ways, titles] are of the whole model and, where heads are left out, without
    them; places count from 1, equal scores share one. `ndcg` has a value for each way, over the titles
    with labels; `truncated` titles were cut.
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
    score = score_name(model.labels)
    caption(
        f"同一查询下的标题按{score.zh}排序；去掉头时再排一次。",
        f"Titles of one query by their {score.en}, and again without the heads left out.",
    )
    here.stop_if_empty()
    st.text(localised("查询：{query}", "Query: {query}").format(query=state.query))
    titles = _titles(here)
    if not titles:
        info("请至少输入一条标题。", "Type at least one title.")
        return
    ranking = rank_titles(model, state.query, titles, state.out, state.mode)
    if ranking.ndcg:
        before, after = ranking.ndcg[0] or 0.0, ranking.ndcg[-1] or 0.0
        change = signed(after - before) if len(ranking.ndcg) > 1 else None
        about = localised(METRICS[NDCG].description)
        metric(localised(METRICS[NDCG].title), number(before), change, about=about)
    if ranking.truncated:
        caption(titles_cut(ranking.truncated, model.longest))
    columns = {"place": Text("名次", "place"), "moved": Text("去掉头后", "without heads")}
    columns |= score_columns(model.labels)
    rows = ranking_rows(ranking)
    chosen = table(rows, columns, key="ranking.table", signed=("change",), select=True)
    caption("点一行，看哪些词、哪些头影响这条标题。", "Click a row to see what moves that title.")
    current = [place for place, title in enumerate(ranking.titles) if title.text == state.title]
    _movers(here, ranking.titles[chosen if chosen is not None else (current or [0])[0]].text)


def _titles(here: Visit) -> list[Title]:
    """The titles to rank under the state's query; shows what was changed of them."""
    state, store = here.state, st.session_state
    rows = shipped_rows("test")
    default = "\n".join(
        f"{pair.title}\t{pair.label}" if pair.label else pair.title
        for pair in default_titles(state.query, state.title, rows, state.seed)
    )
    query, typed, before = store.get(TYPED, (None, "", ""))  # kept when the page is left
    store[AREA] = typed if query == state.query and typed != before else default
    text = st.text_area(
        localised("标题，每行一条", "Titles, one a line"),
        key=AREA,
        height=26 * min(max(store[AREA].count("\n") + 3, 5), 14),
        help=localised(
            "最多 50 条。行尾可加制表符（Tab）和标注，例如从表格粘贴两列；有标注则计算 NDCG。",
            "50 at most. A label may follow after a tab, as in two columns pasted from a spreadsheet; "
            "NDCG is computed from labels.",
        ),
        on_change=lambda: store.update({TYPED: (state.query, store[AREA], default)}),
    )
    store[TYPED] = (state.query, text, default)
    if text != default:
        caption(
            "你输入的标题不在链接里：别人打开链接看到的是默认标题。",
            "The titles you typed are in no link: others see the default ones.",
        )
    titles, faults = typed_titles(text or "", here.model.labels)
    for fault in faults:
        st.warning(escaped(localised(fault)), icon=":material/edit_off:")
    return titles


def typed_titles(text: str, labels: ModelLabels) -> tuple[list[Title], list[Text]]:
    """The titles typed in `text`, one a line, a label after a tab; and messages on what was left out.

    Empty lines and repeated titles are skipped. Left out are titles beyond 50, characters beyond 500
    a title, and labels that this model cannot read.
    """
    scheme = default_scheme(labels)
    titles: dict[str, Title] = {}
    cut = unknown = 0
    for line in text.split("\n"):  # a title may hold any other break
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
        titles.setdefault(shown, Title(shown, label[:20] or None, grades))
    faults = []
    if cut or len(titles) > MOST_TITLES:
        zh = f"只取前 {MOST_TITLES} 条标题，每条只取前 {MOST_CHARACTERS} 个字符。"
        en = f"The first {MOST_TITLES} titles are taken, and {MOST_CHARACTERS} characters of each."
        faults.append(Text(zh, en))
    if unknown:
        zh = f"{unknown:,} 个标注不适用于这个模型，不计入 NDCG。"
        en = f"This model cannot read {unknown:,} of the labels; they are not in NDCG."
        faults.append(Text(zh, en))
    return list(titles.values())[:MOST_TITLES], faults


def rank_titles(
    model: SharedModel, query: str, titles: Sequence[Title], out: Sequence[Head], mode: str
) -> Ranking:
    """Grade every title under `query` by the whole model and, where `out` names heads, without them."""
    texts = [(query, title.text) for title in titles]
    variants = plain_and_without(model, out, mode)
    key = ("ranking", tuple(texts), tuple(out), mode)
    logits = model.cache.get(key, lambda: model.run(texts, variants).logits)
    outputs = [model.outputs(way) for way in logits]
    scores = np.stack([way.ranking_score for way in outputs])
    order = np.argsort(-scores[0], kind="stable")
    predicted = outputs[0].predicted
    rows = [row for row, title in enumerate(titles) if title.grades is not None]
    ndcg: list[float | None] = []
    if len(rows) > 1:
        pairs = [
            Pair(query, titles[row].text, titles[row].grades, str(row), row, titles[row].label, {})
            for row in rows
        ]
        judged = [judge_logits(way[rows], pairs, model.labels) for way in logits]
        ndcg = [METRICS[NDCG].value(way) for way in judged]
    return Ranking(
        titles=tuple(titles[row] for row in order),
        predicted=tuple(predicted[row] for row in order) if predicted else None,
        scores=scores[:, order],
        places=rankdata(-scores, method="min", axis=1)[:, order].astype(int),
        ndcg=[] if None in ndcg else ndcg,
        truncated=sum(model.encode(*text).title_truncated for text in texts),
    )


def ranking_rows(ranking: Ranking) -> list[Row]:
    """The titles as rows of a table, with arrows where a place changes, as in `3 ▲2`."""
    rows: list[Row] = []
    for row, title in enumerate(ranking.titles):
        (place, *other), (score, *without) = ranking.places[:, row], ranking.scores[:, row]
        rows.append(
            {
                "place": int(place),
                "title": title.text,
                "label": title.label,
                "predicted": ranking.predicted[row] if ranking.predicted else None,
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
    """The change of one title's score with each term masked, and with each head left out."""
    state, model = here.state, here.model
    st.subheader(localised("哪些词、哪些头影响这条标题", "What moves this title"))
    st.text(title)
    label = Text("在首页查看这一对", "Look at this pair on the front page")
    if st.button(localised(label), icon=":material/center_focus_strong:", key="ranking.open"):
        here.open("focus", title=title)
    figure, skipped = term_moves(model, replace(state, title=title))
    draw(figure)
    if skipped:
        caption(
            f"只算了前 {MOST_TERMS} 个词，其余 {skipped} 个未算。",
            f"The first {MOST_TERMS} terms were masked one by one; {skipped} more were not.",
        )
    cell = draw(head_moves(model, state.query, title), click=True)
    caption(
        "从完整模型里逐个单独去掉；各头的影响不能相加。点一格选中这个头。",
        "Each head alone is left out of the whole model; the effects do not add up. A click chooses the "
        "head.",
    )
    if cell is not None:
        here.change(layer=cell[0], head=cell[1])


def term_moves(model: SharedModel, state: State) -> tuple[Tokens, int]:
    """The change of the score with each term masked, in each way; and the number of terms beyond 60.

    Terms are masked as `qt-bert explain` does, all in one pass.
    """
    query, title = state.query, state.title
    whole, filler = model.encode(query, title), filler_of(model.scorer.checkpoint)
    filled = filled_terms(query, title, whole, model.segmenter, filler)
    kept = filled[:MOST_TERMS]
    variants = plain_and_without(model, state.out, state.mode)
    logits = model.cache.get(
        ("terms", query, title, state.out, state.mode),
        lambda: model.run_tokens([whole, *(term.encoded for term in kept)], variants).logits,
    )
    effects = [effects_of(kept, model.outputs(way).ranking_score) for way in logits]
    top = max((abs(term.change) for way in effects for term in way), default=0.0)
    name, lines = score_name(model.labels), []
    sides = (("query", query, Text("查询", "query")), ("title", title, Text("标题", "title")))
    for way, terms in zip((BEFORE, AFTER), effects, strict=False):
        for side, text, side_name in sides:
            masked = [term for term in terms if term.side == side]
            changes = {term.start: term.change for term in masked}
            edges = {edge for span in model.segmenter.spans(text) for edge in span}
            edges -= {at for term in masked for at in range(term.start + 1, term.end)}
            pieces = pairwise(sorted(edges))
            tokens = tuple(Token(text=text[a:b], value=changes.get(a)) for a, b in pieces)
            label = Text(f"{side_name.zh}，{way.zh}", f"{side_name.en}, {way.en}")
            lines.append(TokenLine(name=label, tokens=tokens))
    figure = Tokens(
        name="term_moves",
        title=Text(
            f"把每个词换成等长的 {filler.token} 后{name.zh}的变化",
            f"Change of the {name.en} with each term replaced by as many {filler.token}",
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
    """The change of one title's score without each single head, as `qt-bert explain` computes it."""
    variants = with_plain(single(model.shape, zeroed))
    logits = model.cache.get(
        ("heads", query, title), lambda: model.run([(query, title)], variants).logits[:, 0]
    )
    changes = np.zeros(model.shape.size)
    for effect in head_effects(variants, model.outputs(logits)):
        changes[Head.parse(effect.head)] = effect.change
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
