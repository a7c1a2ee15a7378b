"""The heads left out, on a grid of layers × heads: a click leaves one out or puts it back.

The set lives in the browser's selection, which shows it at once and sends the whole of it with each
click, so that no click of a quick hand is lost. Where the heads are changed by other means, a new
grid begins with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import streamlit as st

from qt_bert.app.draw.labels import Spec
from qt_bert.app.draw.look import Look, axis, framed, look
from qt_bert.app.sidebar import words
from qt_bert.app.words import say

if TYPE_CHECKING:
    from qt_bert.app.visit import Here
    from qt_bert.inspection.state import Head

KEY = "side-grid"
_SHOWN = "qt_bert.grid"
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


def draw(here: Here, leave_out: Callable[[tuple[Head, ...]], None]) -> None:
    """The grid; `leave_out` gets the heads that a click makes."""
    shape = here.model.shape
    shown = _shown(here)
    key = f"{KEY}-{shown.number}"

    def changed() -> None:
        chosen = chosen_in(st.session_state.get(key), shape.layers, shape.heads)
        if chosen is not None:
            st.session_state[_SHOWN] = replace(shown, now=chosen)
            leave_out(tuple(head for head in shape.all_heads if head in chosen))

    st.caption(say(words.GRID_HELP))
    with st.container(key=KEY):
        st.vega_lite_chart(
            cells_of(shape.layers, shape.heads),
            spec_of(look(), shape.layers, shape.heads, shown.first),
            width="stretch",
            alt=say(words.OUT),
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


def cells_of(layers: int, heads: int) -> pa.Table:
    """One row a head."""
    places = [(i, j) for i in range(layers) for j in range(heads)]
    rows, columns = (pa.array([place[k] for place in places], pa.int32()) for k in (0, 1))
    names = [f"L{i}H{j}" for i, j in places]
    return pa.table({"row": rows, "column": columns, "name": names})


def spec_of(look: Look, layers: int, heads: int, first: Places) -> Spec:
    """Squares that are dark where the head is left out."""
    value = [{"row": i, "column": j} for i, j in sorted(first | {_NOBODY})]
    select = {"type": "point", "fields": ["row", "column"], "toggle": "true", "clear": False}
    out = {"condition": {"param": _CHOSEN, "empty": False, "value": look.palette.heat}}
    labels: Spec = {"labelFontSize": 9, "labelAngle": 0, "labelOverlap": "greedy", "grid": False}
    across, down = (axis("", labelExpr=f"'{k}' + datum.value", **labels) for k in "HL")
    return framed(
        {
            "params": [{"name": _CHOSEN, "select": select, "value": value}],
            "height": _STEP * layers,
            "mark": {
                "type": "rect",
                "stroke": look.palette.muted,
                "strokeWidth": 0.4,
                "cursor": "pointer",
            },
            "encoding": {
                "x": {"field": "column", "type": "ordinal", "axis": across | {"orient": "top"}},
                "y": {"field": "row", "type": "ordinal", "axis": down},
                "fill": out | {"value": look.palette.surface},
                "tooltip": {"field": "name", "type": "nominal"},
            },
        }
    )


def _shown(here: Here) -> Shown:
    """The grid there is, or a new one where its heads are not those of the state."""
    out = frozenset((head.layer, head.head) for head in here.state.out)
    shown: Shown | None = st.session_state.get(_SHOWN)
    if shown is None or (shown.model, shown.now) != (here.state.model, out):
        shown = Shown(0 if shown is None else shown.number + 1, here.state.model, out, out)
        st.session_state[_SHOWN] = shown
    return shown
