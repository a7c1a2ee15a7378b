"""The frame round every page: a visitor's state, what visitors share, the sidebar."""

from __future__ import annotations

import gc
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import streamlit as st

from qt_bert.data.pairs import Pair
from qt_bert.errors import QtBertError
from qt_bert.page.figures import palette, show_chart, spec_of
from qt_bert.page.model import Inspected, Shelf
from qt_bert.page.pairs import cases, shipped_rows
from qt_bert.page.settings import Settings
from qt_bert.page.state import KEYS, MOST_SEED, State, first_state, read_state, typed_heads
from qt_bert.page.study import Looked, Studied, look_for_studied
from qt_bert.page.widgets import (
    LANGUAGE,
    caption,
    escaped,
    fault_of,
    info,
    localised,
    named,
    show_faults,
)
from qt_bert.results.palette import Palette
from qt_bert.results.probe import set_label
from qt_bert.text import Text, clip

if TYPE_CHECKING:
    import altair as alt

    from qt_bert.heads import Head


# The pages there are, by file name, in the order of the navigation; the first is the front page.
# Their folder is not called `pages`: beside a script, Streamlit takes a folder of that name for its
# older kind of navigation, and would show a page without the frame.


SCREENS = {
    "focus": (Text("[CLS] 注意力", "CLS focus"), ":material/center_focus_strong:"),
    "attention": (Text("注意力图", "Attention"), ":material/grid_on:"),
    "atlas": (Text("头图谱", "Atlas"), ":material/map:"),
    "words": (Text("分词", "Words"), ":material/text_fields:"),
    "order": (Text("语序", "Order"), ":material/swap_horiz:"),
    "ranking": (Text("排序", "Ranking"), ":material/format_list_numbered:"),
    "behaviour": (Text("行为卡", "Behaviour"), ":material/rule:"),
    "evaluate": (Text("评测", "Evaluate"), ":material/fact_check:"),
}


def run(script: str) -> None:
    """Draw one run of the page whose entry lies at `script`, beside its pages and `icon.svg`."""
    settings, folder = Settings.read(), Path(script).parent
    asked = st.query_params.get("lang")  # known before the model is open
    first = asked if asked in ("zh", "en") else settings.language
    drawn = st.session_state.setdefault(LANGUAGE, first)
    st.set_page_config(page_title="qt-bert", page_icon=folder / "icon.svg", layout="wide")
    there = [name for name in SCREENS if (folder / "screens" / f"{name}.py").is_file()]
    page = st.navigation(
        [
            st.Page(
                folder / "screens" / f"{name}.py",
                title=escaped(localised(SCREENS[name][0])),
                icon=SCREENS[name][1],
                default=name == there[0],
                url_path=name,
            )
            for name in there
        ],
        position="top",
    )
    with show_faults():
        with st.spinner(localised("正在打开模型…", "Opening the model…"), show_time=True):
            shelf = shelf_of(settings)
            state = _begin(settings, shelf)
        if state.language != drawn:  # the address turned to another one: the navigation too
            st.rerun()
        with st.sidebar:
            _first(shelf, state)
            _sidebar(visit())
        for fault in st.session_state.pop(_FAULTS, []):
            st.warning(escaped(localised(fault)), icon=":material/link_off:")
        page.run()
    _DRAWN.set()


# A visitor's state: in the session while it lives, and in the address for everybody else.
#
# Streamlit empties the address on a change of page, and a page's own widgets rerun the script with
# the address the browser had. So the session's state counts, and the address is written again. It is
# read at a visitor's first run, and where it became another one under a living session (the back
# button, a colleague's link).


_STATE, _CHANGED, _FAULTS = "qt_bert.state", "qt_bert.changed", "qt_bert.faults"
_WRITTEN, _BEFORE, _WRITTEN_AT = "qt_bert.written", "qt_bert.before", "qt_bert.written_at"
_ON_ITS_WAY = 2.0
"""Seconds in which a browser may still answer with the address before the last one."""


def change(shelf: Shelf, **fields: Any) -> None:
    """Change fields of the state, checked like a link; what does not fit stays as it was, and is said.

    For callbacks, after which Streamlit runs the script; elsewhere `Here.change`.
    """
    state: State = st.session_state[_STATE]
    asked = replace(state, **fields).to_query()
    _keep(*read_state({KEYS[field]: asked[KEYS[field]] for field in fields}, state, shelf))
    st.session_state[_CHANGED] = True


def _begin(settings: Settings, shelf: Shelf) -> State:
    """The state at the start of a run: the session's, or what the address says.

    What the address leaves out is as on a first visit: the shelf's first model on the first case.
    """
    params, session = st.query_params.to_dict(), st.session_state
    # The address is this session's where it was written here, or emptied by a change of page.
    late = time.monotonic() - session.get(_WRITTEN_AT, 0.0) < _ON_ITS_WAY
    own = not params or params == session.get(_WRITTEN) or (late and params == session.get(_BEFORE))
    if _STATE not in session or not (session.pop(_CHANGED, False) or own):
        studied = studied_of(shelf.open(shelf.names[0]), settings).studied
        first = replace(first_state(shelf, studied), language=settings.language)
        _keep(*read_state(params, first, shelf))
    _write()
    state: State = session[_STATE]
    return state


def _write() -> None:
    """Bring the address up to the state."""
    session = st.session_state
    wanted = session[_STATE].to_query()
    if session.get(_WRITTEN) != wanted:
        session[_BEFORE], session[_WRITTEN_AT] = session.get(_WRITTEN), time.monotonic()
        session[_WRITTEN] = wanted
    if st.query_params.to_dict() != wanted:
        st.query_params.from_dict(wanted)


def _keep(state: State, faults: list[Text]) -> None:
    st.session_state[_STATE], st.session_state[LANGUAGE] = state, state.language
    st.session_state[_FAULTS] = [*st.session_state.get(_FAULTS, []), *faults]


# Models and results, opened once a process and shared by all visitors.


_log = logging.getLogger(__name__)
_LOCK = threading.RLock()
_LOOKED: WeakKeyDictionary[Inspected, Looked] = WeakKeyDictionary()


def shelf_of(settings: Settings) -> Shelf:
    """The models that this server offers. Raises ArgumentError where there is none."""
    with _LOCK:
        return _shelf(settings)


@lru_cache(maxsize=8)
def _shelf(settings: Settings) -> Shelf:
    return Shelf(*settings.models, base=settings.base, device=settings.device)


def studied_of(inspected: Inspected, settings: Settings) -> Looked:
    """The stored results on one model, and why others were refused."""
    with _LOCK:
        if inspected not in _LOOKED:
            _LOOKED[inspected] = look_for_studied(inspected, settings.run)
        return _LOOKED[inspected]


_DRAWN = threading.Event()
"""Some visitor's page was drawn."""


def warm(settings: Settings) -> None:
    """Open the first model, while the browser connects; once a page is drawn its base, and mean head outputs.

    A fault is left to the page, which meets it again and says it.
    """
    try:
        shelf = shelf_of(settings)
        model = shelf.open(shelf.names[0])
        for why in studied_of(model, settings).refused:
            print(why.en, file=sys.stderr, flush=True)
        _set_aside()
        _DRAWN.wait(60)  # what the first page does not show must not slow it
        shelf.base_of(model.name)
        model.part(model.shape.all_heads[:1], "mean")
    except QtBertError as error:
        _log.warning("%s", error)
    _set_aside()


def _set_aside() -> None:
    """Take what is there for good, libraries and models, out of the garbage collector's sight.

    Streamlit collects all garbage at the end of every run, and looking through torch and
    transformers for it takes longer (0.3 s) than the run itself.
    """
    gc.collect()
    gc.freeze()


# Who looks at what: the one thing a page asks for.


@dataclass(frozen=True, kw_only=True)
class Here:
    """One run of one visitor's page: the model, the state, the results."""

    settings: Settings
    shelf: Shelf
    model: Inspected
    state: State

    @cached_property
    def base(self) -> Inspected | None:
        """The model before fine-tuning, where the shelf knows it; opened when first asked for."""
        return self.shelf.base_of(self.state.model)

    @cached_property
    def looked(self) -> Looked:
        """The stored results on this model, and in words which were refused."""
        return studied_of(self.model, self.settings)

    @property
    def studied(self) -> Studied | None:
        """What the probes found for this model, where it is stored."""
        return self.looked.studied

    def change(self, **fields: Any) -> None:
        """Change fields of the state, and with it the address; the script runs anew."""
        change(self.shelf, **fields)
        _write()
        st.rerun()

    def open(self, page: str, **fields: Any) -> None:
        """Change fields of the state, and look at another page, such as `focus`, with it."""
        change(self.shelf, **fields)
        st.switch_page(f"screens/{page}.py", query_params=st.session_state[_STATE].to_query())

    def stop_if_empty(self) -> None:
        """End the page with a word where query or title is empty."""
        if self.state.empty:
            info(
                "请在左栏输入查询和标题，两者都不能为空。",
                "Enter a query and a title on the left; neither may be empty.",
                icon=":material/edit:",
            )
            st.stop()


def visit() -> Here:
    """This run of this visitor.

    Raises ArgumentError or CheckpointError where the model cannot be opened.
    """
    settings = Settings.read()
    shelf, state = shelf_of(settings), st.session_state[_STATE]
    return Here(settings=settings, shelf=shelf, model=shelf.open(state.model), state=state)


# The sidebar: language, model, pair, the heads left out, layer, head and seed.
#
# A widget shows what the state says, in every run; what a visitor does with it changes the state, in
# a callback, before the script runs. So there is one truth, and any widget may change it.


_FAULT, _GRID = "qt_bert.out_fault", "qt_bert.grid"
_SHOWN = 40
_NONE, _OWN = "none", "own"


def _sidebar(here: Here) -> None:
    """Language and model stand above it."""
    _bound(here.shelf, here.state, "query", st.text_input, localised("查询", "Query"))
    _bound(here.shelf, here.state, "title", st.text_input, localised("标题", "Title"))
    with st.expander(
        localised("换一对：案例、数据", "Another pair: cases, data"), key="side-pair-box"
    ):
        _choose(here, "side-case", localised("案例", "Cases"), cases())
        _choose(here, "side-row", localised("自带数据", "Shipped data"), shipped_rows("test"))
    st.divider()
    st.markdown(f"**{localised('去掉的注意力头', 'Heads left out')}**")
    _sets(here)
    _typed(here)
    with st.expander(localised("在网格上点选", "Click on the grid"), key="side-grid-box"):
        _grid(here)
    modes = {"zero": Text("零", "zero"), "uniform": Text("均匀", "uniform")}
    modes["mean"] = Text("均值", "mean")
    _bound(
        here.shelf,
        here.state,
        "mode",
        st.radio,
        localised("代之以", "Replaced by"),
        options=list(modes),
        format_func=named(modes),
        horizontal=True,
        help=localised(
            "零：不给任何东西。均匀：对所有词元的平均。均值：这个头在自带开发集上的平均输出。",
            "Zero: it gives nothing. Uniform: the even average over all tokens. Mean: its own average "
            "over the dev split that ships.",
        ),
    )
    st.divider()
    st.markdown(f"**{localised('看哪里', 'What is looked at')}**")
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
    tip = "随机抽取（随机的头、打乱、抽样）都由它决定。"
    tip = localised(tip, "It decides every random draw: random heads, shuffles, samples.")
    _number(here, "seed", localised("随机种子", "Seed"), MOST_SEED, help=tip)
    studied = here.studied
    if studied is None:
        caption("没有这个模型的探针结果。", "No probe results for this model.")
    else:
        caption(f"探针结果：{studied.origin.zh}", f"Probe results: {studied.origin.en}")
    for why in here.looked.refused:
        caption(why)


def _first(shelf: Shelf, state: State) -> None:
    """What needs no open model: the language, and which model (another one leaves no heads out)."""
    names = {"zh": "中文", "en": "English"}
    _bound(
        shelf,
        state,
        "language",
        st.radio,
        localised("语言", "Language"),
        options=list(names),
        format_func=names.__getitem__,
        horizontal=True,
        label_visibility="collapsed",
    )
    tip = "服务器启动时给出的文件夹里的模型，和自带的模型。"
    tip = localised(
        tip, "Models of the folder that the server was started with, and those that ship."
    )
    label = localised("模型", "Model")
    _bound(shelf, state, "model", st.selectbox, label, options=shelf.names, help=tip)


def _bound(
    shelf: Shelf, state: State, field: str, widget: Callable[..., Any], label: str, **options: Any
) -> None:
    """A widget that shows a field of the state and changes it."""
    key = f"side-{field}"
    st.session_state[key] = getattr(state, field)

    def changed() -> None:
        change(shelf, **{field: st.session_state[key]})

    widget(label, key=key, on_change=changed, **options)


def _number(here: Here, field: str, label: str, most: int, **more: Any) -> None:
    limits: dict[str, Any] = {"min_value": 0, "max_value": most, "step": 1}
    _bound(here.shelf, here.state, field, st.number_input, label, **limits, **more)


# The pair: typed, a case, or a row of the data that ships.


def _choose(here: Here, key: str, label: str, pairs: Sequence[Pair]) -> None:
    """A list of pairs; it shows the one in the fields."""
    now = (here.state.query, here.state.title)
    shown = st.session_state.get(key)
    if shown is None or (pairs[shown].query, pairs[shown].title) != now:
        at = (i for i, pair in enumerate(pairs) if (pair.query, pair.title) == now)
        st.session_state[key] = next(at, None)

    def changed() -> None:
        place = st.session_state[key]
        if place is not None:
            change(here.shelf, query=pairs[place].query, title=pairs[place].title)

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


# The heads left out: a set that the probes found, typed, or clicked.


def _leave_out(here: Here, heads: Iterable[Head]) -> None:
    st.session_state.pop(_FAULT, None)
    change(here.shelf, out=tuple(sorted(heads)))


def _sets(here: Here) -> None:
    studied, key, out = here.studied, "side-set", set(here.state.out)
    sets = {} if studied is None else studied.sets
    same = [name for name, heads in sets.items() if set(heads) == out]
    known = st.session_state.get(key)
    own = known if known in same else (same or [_OWN])[0]
    st.session_state[key] = own if out else _NONE

    def changed() -> None:
        name = st.session_state[key]
        if name != _OWN:
            _leave_out(here, sets.get(name, ()))

    names = {_NONE: Text("一个也不去掉", "none")}
    for name, heads in sets.items():
        known_as = set_label(name, {} if studied is None else studied.stability)
        names[name] = Text(f"{known_as.zh}（{len(heads)}）", f"{known_as.en} ({len(heads)})")
    names[_OWN] = Text("自选", "own choice")
    label = localised("现成的一组", "A set found by the probes")
    st.selectbox(label, list(names), format_func=named(names), key=key, on_change=changed)


def _typed(here: Here) -> None:
    key, there = "side-out", (here.state.model, here.state.out)
    fault, asked = st.session_state.get(_FAULT, (None, None))
    if fault is None or asked != there:  # or the heads became others meanwhile
        fault = None
        st.session_state[key] = " ".join(map(str, sorted(here.state.out)))

    def changed() -> None:
        try:
            heads = typed_heads(st.session_state[key], here.model.shape)
        except QtBertError as error:
            st.session_state[_FAULT] = (fault_of(error), there)
        else:
            _leave_out(here, heads)

    label = localised("自己写（从 0 数起）", "Typed (counted from 0)")
    st.text_input(label, key=key, placeholder="L3H7 L2H1", on_change=changed)
    if fault is not None:
        st.error(escaped(fault))


# The grid of layers × heads: a click leaves a head out or puts it back.
#
# The set lives in the browser's selection, which shows it at once and sends the whole of it with
# each click, so that no click of a quick hand is lost. Where the heads are changed by other means,
# a new grid begins with them.


_CHOSEN = "heads"
_STEP = 17
_NOBODY = (-1, -1)
"""Always in the selection and on no grid: what is empty was never touched."""

Places = frozenset[tuple[int, int]]


def _grid(here: Here) -> None:
    shape, out = here.model.shape, frozenset((head.layer, head.head) for head in here.state.out)
    # The grid's number, its model, the heads it began with, and those it has now.
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

    caption("点一格去掉或放回一个头。", "A click leaves a head out or puts it back.")
    with st.container(key="side-grid"):
        grid = _grid_spec(shape.layers, shape.heads, first, palette())
        show_chart(
            grid, alt=localised("去掉的注意力头", "Heads left out"), key=key, on_select=changed
        )


@lru_cache(maxsize=64)
def _grid_spec(layers: int, heads: int, first: Places, colours: Palette) -> str:
    return spec_of(grid_of(layers, heads, first, colours))


def chosen_in(state: Any, layers: int, heads: int) -> Places | None:
    """The places in the browser's selection; None where the grid was never touched."""
    try:
        places = {(int(one["row"]), int(one["column"])) for one in state["selection"][_CHOSEN]}
    except (KeyError, TypeError, ValueError):
        return None
    inside = {(i, j) for i, j in places if 0 <= i < layers and 0 <= j < heads}
    return frozenset(inside) if places else None


def grid_of(layers: int, heads: int, first: Places, palette: Palette) -> alt.Chart:
    """Squares that are dark where the head is left out; at the beginning, the `first` are."""
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
