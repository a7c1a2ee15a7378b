"""The sidebar: language, model, pair, the heads left out, layer, head and seed.

Each run sets the widgets to the state. A visitor's input changes the state in a callback, before the
script runs, so any widget may change it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.data.pairs import Pair
from qt_bert.page.figures import palette, show_chart, spec_of
from qt_bert.page.pairs import RefusedInput, cases, shipped_rows
from qt_bert.page.state import MOST_SEED, typed_heads
from qt_bert.page.visit import Visit, change, results_of
from qt_bert.page.widgets import caption, escaped, localised, named
from qt_bert.results.palette import Palette
from qt_bert.results.probe import set_label
from qt_bert.text import Text, clip

if TYPE_CHECKING:
    import altair as alt

    from qt_bert.heads import Head


_FAULT, _GRID = "qt_bert.out_fault", "qt_bert.grid"
_SHOWN = 40
_NONE, _CUSTOM = "none", "own"


def sidebar(here: Visit) -> None:
    """Draw the sidebar."""
    languages = {"zh": "中文", "en": "English"}
    _bound(
        here,
        "language",
        st.radio,
        localised("语言", "Language"),
        options=list(languages),
        format_func=languages.__getitem__,
        horizontal=True,
        label_visibility="collapsed",
    )
    tip = localised(
        "启动服务时指定的模型，以及自带的模型。",
        "The models that the server was started with, and those that ship.",
    )
    label = localised("模型", "Model")
    _bound(here, "model", st.selectbox, label, options=here.pool.names, help=tip)
    _bound(here, "query", st.text_input, localised("查询", "Query"))
    _bound(here, "title", st.text_input, localised("标题", "Title"))
    with st.expander(
        localised("换一对：示例、自带数据", "Another pair: cases, data"), key="side-pair-box"
    ):
        _choose(here, "side-case", localised("示例", "Cases"), cases())
        _choose(here, "side-row", localised("自带数据", "Shipped data"), shipped_rows("test"))
    st.divider()
    st.markdown(f"**{localised('去掉的注意力头', 'Heads left out')}**")
    _sets(here)
    _typed(here)
    with st.expander(localised("在网格上点选", "Click on the grid"), key="side-grid-box"):
        _grid(here)
    modes = dict(
        zero=Text("零", "zero"), uniform=Text("均匀", "uniform"), mean=Text("均值", "mean")
    )
    _bound(
        here,
        "mode",
        st.radio,
        localised("替换为", "Replaced by"),
        options=list(modes),
        format_func=named(modes),
        horizontal=True,
        help=localised(
            "零：输出置零。均匀：对所有词元取平均。均值：这个头在自带开发集上的平均输出。",
            "Zero: no output. Uniform: equal attention to all tokens. Mean: the head's mean output over "
            "the shipped dev split.",
        ),
    )
    st.divider()
    st.markdown(f"**{localised('查看的头', 'Head to look at')}**")
    shape = here.model.shape
    for column, field, label, count in zip(
        st.columns(2),
        ("layer", "head"),
        (localised("层", "Layer"), localised("头", "Head")),
        (shape.layers, shape.heads),
        strict=True,
    ):
        with column:
            _number(here, field, label, count - 1)
    tip = localised(
        "用于所有随机抽取：随机头、打乱、抽样。",
        "For every random draw: random heads, shuffles, samples.",
    )
    _number(here, "seed", localised("随机种子", "Seed"), MOST_SEED, help=tip)
    results, refused = results_of(here.model, here.settings)
    if results is None:
        caption("没有这个模型的探针结果。", "No probe results for this model.")
    else:
        caption(f"探针结果：{results.origin.zh}", f"Probe results: {results.origin.en}")
    for reason in refused:
        caption(reason)


def _bound(here: Visit, field: str, widget: Callable[..., Any], label: str, **options: Any) -> None:
    """A widget that shows a field of the state and changes it."""
    key = f"side-{field}"
    st.session_state[key] = getattr(here.state, field)

    def changed() -> None:
        change(here.pool, **{field: st.session_state[key]})

    widget(label, key=key, on_change=changed, **options)


def _number(here: Visit, field: str, label: str, most: int, **more: Any) -> None:
    limits: dict[str, Any] = {"min_value": 0, "max_value": most, "step": 1}
    _bound(here, field, st.number_input, label, **limits, **more)


# The pair: typed, a shipped case, or a row of the shipped data.


def _choose(here: Visit, key: str, label: str, pairs: Sequence[Pair]) -> None:
    """A list of pairs; it shows the current pair where it has it."""
    now = (here.state.query, here.state.title)
    shown = st.session_state.get(key)
    if shown is None or (pairs[shown].query, pairs[shown].title) != now:
        at = (i for i, pair in enumerate(pairs) if (pair.query, pair.title) == now)
        st.session_state[key] = next(at, None)

    def changed() -> None:
        place = st.session_state[key]
        if place is not None:
            change(here.pool, query=pairs[place].query, title=pairs[place].title)

    def texts(place: int) -> str:
        pair = pairs[place]
        return f"{clip(pair.query, _SHOWN)} / {clip(pair.title, _SHOWN)}"

    st.selectbox(
        label,
        range(len(pairs)),
        index=None,
        format_func=texts,
        placeholder=localised("选一对…", "Choose a pair…"),
        key=key,
        on_change=changed,
    )


# The heads left out: a set named by the probes, typed, or clicked.


def _leave_out(here: Visit, heads: Iterable[Head]) -> None:
    st.session_state.pop(_FAULT, None)
    change(here.pool, out=tuple(sorted(heads)))


def _sets(here: Visit) -> None:
    results, key, out = here.results, "side-set", set(here.state.out)
    sets = {} if results is None else results.sets
    same = [name for name, heads in sets.items() if set(heads) == out]
    known = st.session_state.get(key)
    choice = known if known in same else (same or [_CUSTOM])[0]
    st.session_state[key] = choice if out else _NONE

    def changed() -> None:
        name = st.session_state[key]
        if name != _CUSTOM:
            _leave_out(here, sets.get(name, ()))

    names = {_NONE: Text("不去掉", "none")}
    for name, heads in sets.items():
        known_as = set_label(name, {} if results is None else results.stability)
        names[name] = Text(f"{known_as.zh}（{len(heads)}）", f"{known_as.en} ({len(heads)})")
    names[_CUSTOM] = Text("自选", "own choice")
    label = localised("探针找到的一组", "A set found by the probes")
    st.selectbox(label, list(names), format_func=named(names), key=key, on_change=changed)


def _typed(here: Visit) -> None:
    key, heads_now = "side-out", (here.state.model, here.state.out)
    fault, heads_then = st.session_state.get(_FAULT, (None, None))
    if fault is None or heads_then != heads_now:  # the heads were changed by other means
        fault = None
        st.session_state[key] = " ".join(map(str, sorted(here.state.out)))

    def changed() -> None:
        try:
            heads = typed_heads(st.session_state[key], here.model.shape)
        except RefusedInput as error:
            st.session_state[_FAULT] = (error.message, heads_now)
        else:
            _leave_out(here, heads)

    label = localised("手动输入（从 0 数起）", "Typed (counted from 0)")
    st.text_input(label, key=key, placeholder="L3H7 L2H1", on_change=changed)
    if fault is not None:
        st.error(escaped(localised(fault)))


# The grid of layers × heads: a click leaves a head out or puts it back.
#
# The browser's selection holds the set: it shows a click at once and sends the whole set with it, so
# quick clicks are not lost. Where the heads are changed by other means, a new grid starts with them.


_CHOSEN = "heads"
_STEP = 17
_NOBODY = (-1, -1)
"""Always in the selection and outside every grid, so an empty selection means an untouched grid."""

Places = frozenset[tuple[int, int]]


def _grid(here: Visit) -> None:
    shape, out = here.model.shape, frozenset((head.layer, head.head) for head in here.state.out)
    # The grid's number, its model, the heads it started with, and those it has now.
    number, model, first, now = st.session_state.get(_GRID, (0, None, out, out))
    if (model, now) != (here.state.model, out):
        number, model, first, now = number + 1, here.state.model, out, out
        st.session_state[_GRID] = (number, model, first, now)
    key = f"side-grid-{number}"

    def changed() -> None:
        chosen = chosen_in(st.session_state.get(key), shape.layers, shape.heads)
        if chosen is not None:
            st.session_state[_GRID] = (number, model, first, chosen)
            _leave_out(here, [head for head in shape.all_heads if head in chosen])

    caption("点一格：去掉或放回这个头。", "A click leaves a head out or puts it back.")
    with st.container(key="side-grid"):
        grid = _grid_spec(shape.layers, shape.heads, first, palette())
        show_chart(
            grid, alt=localised("去掉的注意力头", "Heads left out"), key=key, on_select=changed
        )


@lru_cache(maxsize=64)
def _grid_spec(layers: int, heads: int, first: Places, colours: Palette) -> str:
    return spec_of(grid_of(layers, heads, first, colours))


def chosen_in(state: Any, layers: int, heads: int) -> Places | None:
    """The places in the browser's selection; None where the grid was not touched."""
    try:
        places = {(int(cell["row"]), int(cell["column"])) for cell in state["selection"][_CHOSEN]}
    except (KeyError, TypeError, ValueError):
        return None
    inside = {(i, j) for i, j in places if 0 <= i < layers and 0 <= j < heads}
    return frozenset(inside) if places else None


def grid_of(layers: int, heads: int, first: Places, palette: Palette) -> alt.Chart:
    """A grid of squares, dark where the head is left out; at the start, `first` are."""
    import altair as alt

    value = [{"row": i, "column": j} for i, j in sorted(first | {_NOBODY})]
    select = alt.selection_point(
        name=_CHOSEN, fields=["row", "column"], toggle="true", clear=False, value=value
    )
    places = [{"row": i, "column": j} for i in range(layers) for j in range(heads)]
    data = [{**place, "name": f"L{place['row']}H{place['column']}"} for place in places]
    looks: dict[str, Any] = {
        "title": None,
        "labelAngle": 0,
        "labelOverlap": "greedy",
        "grid": False,
    }
    x, y = (alt.Axis(labelExpr=f"'{k}' + datum.value", **looks) for k in "HL")
    x.orient = "top"
    out = alt.condition(select, alt.value(palette.heat), alt.value(palette.surface), empty=False)
    squares = alt.Chart(alt.Data(values=data), height=_STEP * layers, background="transparent")
    squares = squares.mark_rect(stroke=palette.muted, strokeWidth=0.4, cursor="pointer").encode(
        x=alt.X("column:O", axis=x), y=alt.Y("row:O", axis=y), fill=out, tooltip="name:N"
    )
    lines = alt.AxisConfig(labelFontSize=9, labelColor=palette.muted, domain=False, ticks=False)
    squares = squares.add_params(select)
    squares.config = alt.Config(view=alt.ViewConfig(stroke=None), axis=lines, aria=False)
    return squares
