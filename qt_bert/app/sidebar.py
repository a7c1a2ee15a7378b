"""The sidebar: language, model, pair, the heads left out, layer, head and seed.

A widget shows what the state says, in every run; what a visitor does with it changes the state, in
a callback, before the script runs. So there is one truth, and any widget may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.app import visit
from qt_bert.app.figures import palette, show_chart
from qt_bert.app.widgets import caption, escaped, fault_of, named, say
from qt_bert.errors import QtBertError
from qt_bert.inspection.inputs import (
    REASONS,
    UPLOADED_SUFFIXES,
    UploadedPairs,
    cases,
    rows,
    shipped_rows,
    typed_heads,
)
from qt_bert.inspection.state import MOST_SEED
from qt_bert.results.palette import Palette
from qt_bert.results.probe import set_label
from qt_bert.text import Text

if TYPE_CHECKING:
    import altair as alt
    from streamlit.runtime.uploaded_file_manager import UploadedFile

    from qt_bert.app.visit import Here
    from qt_bert.inspection.models import Shelf
    from qt_bert.inspection.state import State
    from qt_bert.models.heads import Head


def first(shelf: Shelf, state: State) -> None:
    """What needs no open model: the language, and which model (another one leaves no heads out)."""
    names = {"zh": "中文", "en": "English"}
    st.session_state["side-language"] = state.language
    st.radio(
        say("语言", "Language"),
        list(names),
        format_func=names.__getitem__,
        horizontal=True,
        label_visibility="collapsed",
        key="side-language",
        on_change=lambda: visit.change(shelf, language=st.session_state["side-language"]),
    )
    st.session_state["side-model"] = state.model
    st.selectbox(
        say("模型", "Model"),
        shelf.names,
        key="side-model",
        help=say(
            "服务器启动时给出的文件夹里的模型，和自带的模型。",
            "Models of the folder that the server was started with, and those that ship.",
        ),
        on_change=lambda: visit.change(shelf, model=st.session_state["side-model"]),
    )


def rest(here: Here) -> None:
    """The pair, the heads left out, and what is looked at."""
    _pair(here)
    st.divider()
    _heads(here)
    st.divider()
    _view(here)


# The pair: typed, a case, a row of the data that ships, or a row of an uploaded file.


_READ = "qt_bert.uploaded"
_SHOWN, _SHOWN_REJECTS = 40, 3


def _pair(here: Here) -> None:
    """Two fields, and behind a fold the ways to fill them."""
    _field(here, "query", say("查询", "Query"))
    _field(here, "title", say("标题", "Title"))
    fold = say("换一对：案例、数据、文件", "Another pair: cases, data, a file")
    with st.expander(fold, key="side-pair-box"):
        sources = {
            "cases": (Text("案例", "Cases"), _cases),
            "rows": (Text("自带数据", "Shipped data"), _shipped),
            "file": (Text("文件", "A file"), _uploaded),
        }
        chosen = st.segmented_control(
            say("从哪里选", "From where"),
            list(sources),
            format_func=named({name: one[0] for name, one in sources.items()}),
            label_visibility="collapsed",
            key="side-source",
        )
        if chosen != "file":
            st.session_state.pop(_READ, None)
        if chosen is not None:
            sources[chosen][1](here)


def _field(here: Here, field: str, label: str) -> None:
    key = f"side-{field}"
    st.session_state[key] = getattr(here.state, field)
    st.text_input(
        label,
        key=key,
        on_change=lambda: visit.change(here.shelf, **{field: st.session_state[key]}),
    )


def _cases(here: Here) -> None:
    _choose(here, "side-case", cases(), numbered=False)


def _shipped(here: Here) -> None:
    names = {"test": Text("测试集", "Test split"), "dev": Text("开发集", "Dev split")}
    split = st.radio(
        say("哪一部分", "Which part"),
        list(names),
        format_func=named(names),
        horizontal=True,
        label_visibility="collapsed",
        key="side-split",
    )
    _choose(here, f"side-row-{split}", shipped_rows(split))


def _uploaded(here: Here) -> None:
    file = st.file_uploader(
        say("句对文件，最大 10 MB", "A file of pairs, at most 10 MB"),
        type=[suffix.removeprefix(".") for suffix in UPLOADED_SUFFIXES],
        max_upload_size=10,
        key="side-file",
        help=say(
            "TSV、CSV 或 JSON Lines，有 query 和 title 两列。文件不会保存，别人也看不到。",
            "TSV, CSV or JSON Lines with the columns query and title. It is not kept, and nobody else "
            "sees it.",
        ),
    )
    if file is None:
        st.session_state.pop(_READ, None)
        return
    try:
        read = _rows_of(file)
    except QtBertError as error:
        st.error(escaped(fault_of(error)), icon=":material/block:")
        return
    total, offered = f"{read.total:,}", f"{len(read.pairs):,}"
    caption(
        f"读到 {total} 对，可选前 {offered} 对。",
        f"{total} pairs read, the first {offered} offered.",
    )
    if read.rejected:
        few = read.rejects[:_SHOWN_REJECTS]
        reasons = [REASONS.get(one.reason, Text(one.reason, one.reason)) for one in few]
        more = " …" if read.rejected > len(few) else ""
        zh, en = (
            "; ".join(spelled.format(one.line, why) for one, why in zip(few, whys, strict=True))
            for spelled, whys in (
                ("第 {} 行{}", [one.zh for one in reasons]),
                ("line {} {}", [one.en for one in reasons]),
            )
        )
        caption(
            f"{read.rejected:,} 行不是句对：{zh}{more}",
            f"{read.rejected:,} rows are no pairs: {en}{more}",
        )
    if read.pairs:
        _choose(here, f"side-row-{file.file_id}", read.pairs)
    caption(
        "选中的一对会写进链接；文件本身不在链接里。",
        "The chosen pair goes into the link; the file itself does not.",
    )


def _rows_of(file: UploadedFile) -> UploadedPairs:
    """The rows of this upload, read once: kept in the session while the file is there."""
    known, read = st.session_state.get(_READ, (None, None))
    if known != file.file_id or read is None:
        read = rows(file.getvalue(), file.name)
        st.session_state[_READ] = (file.file_id, read)
    return read


def _choose(here: Here, key: str, pairs: Sequence[Any], *, numbered: bool = True) -> None:
    """A list of pairs, with their lines where they have any; it shows the one in the fields."""
    now = (here.state.query, here.state.title)
    shown = st.session_state.get(key)
    if shown is None or (pairs[shown].query, pairs[shown].title) != now:
        at = (i for i, pair in enumerate(pairs) if (pair.query, pair.title) == now)
        st.session_state[key] = next(at, None)

    def changed() -> None:
        place = st.session_state[key]
        if place is not None:
            visit.change(here.shelf, query=pairs[place].query, title=pairs[place].title)

    def label(place: int) -> str:
        pair = pairs[place]
        texts = f"{_short(pair.query)} / {_short(pair.title)}"
        return f"{pair.line} · {texts}" if numbered else texts

    st.selectbox(
        say("选一对…", "Choose a pair…"),
        range(len(pairs)),
        index=None,
        format_func=label,
        placeholder=say("选一对…", "Choose a pair…"),
        label_visibility="collapsed",
        key=key,
        on_change=changed,
    )


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


# The heads left out, on a grid of layers × heads: a click leaves one out or puts it back.
#
# The set lives in the browser's selection, which shows it at once and sends the whole of it with
# each click, so that no click of a quick hand is lost. Where the heads are changed by other means,
# a new grid begins with them.


_GRID_SHOWN = "qt_bert.grid"
_CHOSEN = "heads"
_STEP = 17
_NOBODY = (-1, -1)
"""Always in the selection and on no grid: what is empty was never touched."""

Places = frozenset[tuple[int, int]]


@dataclass(frozen=True)
class Shown:
    """The grid on the page: its number, the model, the heads it began with, and those it has now."""

    number: int
    model: str
    first: Places
    now: Places


def _grid(here: Here, leave_out: Callable[[tuple[Head, ...]], None]) -> None:
    """The grid; `leave_out` gets the heads that a click makes."""
    shape = here.model.shape
    shown = _shown(here)
    key = f"side-grid-{shown.number}"

    def changed() -> None:
        chosen = chosen_in(st.session_state.get(key), shape.layers, shape.heads)
        if chosen is not None:
            st.session_state[_GRID_SHOWN] = replace(shown, now=chosen)
            leave_out(tuple(head for head in shape.all_heads if head in chosen))

    caption("点一格去掉或放回一个头。", "A click leaves a head out or puts it back.")
    with st.container(key="side-grid"):
        show_chart(
            chart_of(shape.layers, shape.heads, shown.first, palette()),
            alt=say("去掉的注意力头", "Heads left out"),
            key=key,
            on_select=changed,
        )


def chosen_in(state: Any, layers: int, heads: int) -> Places | None:
    """The places in the browser's selection; None where the grid was never touched."""
    try:
        places = {(int(one["row"]), int(one["column"])) for one in state["selection"][_CHOSEN]}
    except (KeyError, TypeError, ValueError):
        return None
    inside = {(i, j) for i, j in places if 0 <= i < layers and 0 <= j < heads}
    return frozenset(inside) if places else None


def chart_of(layers: int, heads: int, first: Places, palette: Palette) -> alt.Chart:
    """Squares that are dark where the head is left out; at the beginning, the `first` are."""
    import altair as alt

    value = [{"row": i, "column": j} for i, j in sorted(first | {_NOBODY})]
    select = alt.selection_point(
        name=_CHOSEN, fields=["row", "column"], toggle="true", clear=False, value=value
    )
    heads_of = [
        {"row": i, "column": j, "name": f"L{i}H{j}"} for i in range(layers) for j in range(heads)
    ]
    looks: dict[str, Any] = {
        "title": None,
        "labelAngle": 0,
        "labelOverlap": "greedy",
        "grid": False,
    }
    x, y = (alt.Axis(labelExpr=f"'{k}' + datum.value", **looks) for k in "HL")
    x.orient = "top"
    out = alt.condition(select, alt.value(palette.heat), alt.value(palette.surface), empty=False)
    squares = alt.Chart(alt.Data(values=heads_of), height=_STEP * layers, background="transparent")
    squares = squares.mark_rect(stroke=palette.muted, strokeWidth=0.4, cursor="pointer").encode(
        x=alt.X("column:O", axis=x), y=alt.Y("row:O", axis=y), fill=out, tooltip="name:N"
    )
    lines = alt.AxisConfig(labelFontSize=9, labelColor=palette.muted, domain=False, ticks=False)
    squares = squares.add_params(select)
    squares.config = alt.Config(view=alt.ViewConfig(stroke=None), axis=lines, aria=False)
    return squares


def _shown(here: Here) -> Shown:
    """The grid there is, or a new one where its heads are not those of the state."""
    out = frozenset((head.layer, head.head) for head in here.state.out)
    shown: Shown | None = st.session_state.get(_GRID_SHOWN)
    if shown is None or (shown.model, shown.now) != (here.state.model, out):
        shown = Shown(0 if shown is None else shown.number + 1, here.state.model, out, out)
        st.session_state[_GRID_SHOWN] = shown
    return shown


# The heads left out: a set that the probes found, typed, or clicked; and what replaces them.


SET_KEY, TYPED_KEY, MODE_KEY = "side-set", "side-out", "side-mode"
_FAULT = "qt_bert.out_fault"
_NONE, _OWN = "none", "own"


def _heads(here: Here) -> None:
    """Every way to choose heads, then the replacement."""
    st.markdown(f"**{say('去掉的注意力头', 'Heads left out')}**")
    _sets(here)
    _typed(here)
    with st.expander(say("在网格上点选", "Click on the grid"), key="side-grid-box"):
        _grid(here, lambda heads: _leave_out(here, heads))
    st.button(
        say("全部放回", "Put all back"),
        key="side-clear",
        icon=":material/restart_alt:",
        type="tertiary",
        disabled=not here.state.out,
        on_click=lambda: _leave_out(here, ()),
    )
    modes = {
        "zero": Text("零", "zero"),
        "uniform": Text("均匀", "uniform"),
        "mean": Text("均值", "mean"),
    }
    st.session_state[MODE_KEY] = here.state.mode
    st.radio(
        say("代之以", "Replaced by"),
        list(modes),
        format_func=named(modes),
        horizontal=True,
        key=MODE_KEY,
        help=say(
            "零：不给任何东西。均匀：对所有词元的平均。均值：这个头在自带开发集上的平均输出。",
            "Zero: it gives nothing. Uniform: the even average over all tokens. Mean: its own average "
            "over the dev split that ships.",
        ),
        on_change=lambda: visit.change(here.shelf, mode=st.session_state[MODE_KEY]),
    )


def _sets(here: Here) -> None:
    sets = {} if here.studied is None else here.studied.sets
    stability = {} if here.studied is None else here.studied.stability
    out = set(here.state.out)
    same = [name for name, heads in sets.items() if set(heads) == out]
    known = st.session_state.get(SET_KEY)
    own = known if known in same else (same or [_OWN])[0]
    st.session_state[SET_KEY] = own if out else _NONE

    def changed() -> None:
        name = st.session_state[SET_KEY]
        if name != _OWN:
            _leave_out(here, () if name == _NONE else tuple(sorted(sets[name])))

    names = {_NONE: say("一个也不去掉", "none")}
    for name, heads in sets.items():
        label = set_label(name, stability)
        names[name] = say(f"{label.zh}（{len(heads)}）", f"{label.en} ({len(heads)})")
    names[_OWN] = say("自选", "own choice")
    st.selectbox(
        say("现成的一组", "A set found by the probes"),
        list(names),
        format_func=names.__getitem__,
        key=SET_KEY,
        on_change=changed,
    )


def _typed(here: Here) -> None:
    fault, asked = st.session_state.get(_FAULT, (None, None))
    if asked != (here.state.model, here.state.out):  # the heads became others meanwhile
        fault = None
    if fault is None:
        st.session_state[TYPED_KEY] = " ".join(map(str, sorted(here.state.out)))

    def changed() -> None:
        try:
            heads = typed_heads(st.session_state[TYPED_KEY], here.model.shape)
        except QtBertError as error:
            st.session_state[_FAULT] = (fault_of(error), (here.state.model, here.state.out))
        else:
            _leave_out(here, heads)

    st.text_input(
        say("自己写（从 0 数起）", "Typed (counted from 0)"),
        key=TYPED_KEY,
        placeholder="L3H7 L2H1",
        on_change=changed,
    )
    if fault is not None:
        st.error(escaped(fault))


def _leave_out(here: Here, heads: tuple[Head, ...]) -> None:
    st.session_state.pop(_FAULT, None)
    visit.change(here.shelf, out=heads)


# The layer and head looked at, the seed, and where the named sets come from.


def _view(here: Here) -> None:
    """Three numbers, and a line on the results."""
    st.markdown(f"**{say('看哪里', 'What is looked at')}**")
    shape = here.model.shape
    left, right = st.columns(2)
    with left:
        _number(here, "layer", say("层", "Layer"), shape.layers - 1)
    with right:
        _number(here, "head", say("头", "Head"), shape.heads - 1)
    tip = say(
        "随机抽取（随机的头、打乱、抽样）都由它决定。",
        "It decides every random draw: random heads, shuffles, samples.",
    )
    _number(here, "seed", say("随机种子", "Seed"), MOST_SEED, tip)
    studied = here.studied
    if studied is None:
        caption(
            "没有这个模型的探针结果；头图谱页可以现算。",
            "No probe results for this model; the head atlas can compute them.",
        )
    else:
        caption(f"探针结果：{studied.origin.zh}", f"Probe results: {studied.origin.en}")
    for why in here.looked.refused:
        caption(why)


def _number(here: Here, field: str, label: str, most: int, tip: str | None = None) -> None:
    key = f"side-{field}"
    st.session_state[key] = getattr(here.state, field)

    def changed() -> None:
        visit.change(here.shelf, **{field: int(st.session_state[key] or 0)})

    st.number_input(
        label, min_value=0, max_value=most, step=1, key=key, help=tip, on_change=changed
    )
