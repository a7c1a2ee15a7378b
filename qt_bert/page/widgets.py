"""What several pages draw: texts, choices, tables, metrics, rejects, errors, progress."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from numbers import Integral
from typing import Any, Literal

import streamlit as st

from qt_bert import text
from qt_bert.data.pairs import Reason, Reject
from qt_bert.errors import QtBertError
from qt_bert.page.work import Job, JobState, Stopped
from qt_bert.text import MISSING, Label, Text, counted, csv_bytes, in_language, printable

# Texts in the visitor's language, escaped.


LANGUAGE = "qt_bert.language"
"""Where the session keeps the visitor's language."""
# The characters of markdown, its colours (`:red[…]`), icons, links and formulas.
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/])")


def language() -> str:
    """The visitor's language, `zh` or `en`."""
    return "en" if st.session_state.get(LANGUAGE) == "en" else "zh"


def localised(label: Label, english: str | None = None) -> str:
    """`label`, or its Chinese and `english`, in the visitor's language; not escaped.

    Text of a user in it must be shown by `st.text` or `escaped`.
    """
    if english is not None:
        return str(label) if language() == "zh" else english
    return in_language(label, language())


def escaped(text: str) -> str:
    """`text` with its markdown escaped."""
    return _MARKUP.sub(r"\\\1", printable(text).replace("\n", " "))


def caption(label: Label, english: str | None = None) -> None:
    """Small text."""
    st.caption(escaped(localised(label, english)))


def info(label: Label, english: str | None = None, *, icon: str | None = None) -> None:
    """A message in a box."""
    st.info(escaped(localised(label, english)), icon=icon)


def named(options: Mapping[str, Text]) -> Callable[[str], str]:
    """A widget's `format_func`: the names of `options` in the visitor's language."""
    return {name: localised(text) for name, text in options.items()}.__getitem__


def choose(label: Text, options: Mapping[str, Text], key: str) -> str:
    """One of `options`, as buttons in a row; the first until a visitor chooses."""
    chosen: str = st.segmented_control(
        localised(label),
        list(options),
        default=next(iter(options)),
        format_func=named(options),
        key=key,
        required=True,
        persist_state="session",
    )
    return chosen


# Tables, saved as CSV without formulas that a spreadsheet would run.


Cell = str | int | float | None
Row = dict[str, Cell | Text]
_SHOWN_WHOLE, _DIGITS = 30, 3


def table(
    rows: Sequence[Row],
    columns: Mapping[str, Label],
    *,
    key: str,
    digits: Mapping[str, int] | None = None,
    signed: Sequence[str] = (),
    select: bool = False,
) -> int | None:
    """Show `rows`, with `columns` (key → name) in its order, and offer them as CSV.

    Columns that are empty in all rows are left out; `signed` ones show a plus, `digits` are decimals
    other than three. With `select` a row can be clicked; its number is returned while it is selected.
    """
    import pandas

    keys = [name for name in columns if any(row.get(name) is not None for row in rows)]
    cells = [{name: _cell(row.get(name)) for name in keys} for row in rows]
    formats = {
        name: partial(_formatted, digits=(digits or {}).get(name, _DIGITS), sign=name in signed)
        for name in keys
    }
    selection: dict[str, Any] = {"on_select": "rerun", "selection_mode": "single-row"}
    frame = pandas.DataFrame(cells, columns=keys)
    for name in keys:  # whole numbers stay whole beside missing ones
        if all(isinstance(cell[name], int | None) for cell in cells):
            frame[name] = frame[name].astype("Int64")
    event = st.dataframe(
        frame.style.format(formats, na_rep=MISSING),
        hide_index=True,
        key=key,
        height="content" if len(rows) <= _SHOWN_WHOLE else "auto",
        placeholder=MISSING,
        column_config={name: localised(columns[name]) for name in keys},
        **(selection if select else {}),
    )
    st.download_button(
        localised("保存表格（CSV）", "Save the table (CSV)"),
        csv_bytes([[localised(columns[name]) for name in keys], *(row.values() for row in cells)]),
        file_name=f"{key}.csv",
        mime="text/csv",
        key=f"{key}-csv",
        icon=":material/download:",
        on_click="ignore",
    )
    chosen = list(event.selection.rows) if select else []
    return int(chosen[0]) if chosen and chosen[0] < len(rows) else None


def _cell(value: str | int | float | Text | None) -> Cell:
    if isinstance(value, Text):
        return localised(value)
    return printable(value) if isinstance(value, str) else value


def _formatted(value: Any, digits: int, sign: bool) -> str:
    """A cell in the number format of the page."""
    if isinstance(value, str):
        return value
    value = int(value) if isinstance(value, Integral) else float(value)
    return (text.signed if sign else text.number)(value, digits)


# One number in large type, with its name and its change.


_MINUS = "\N{MINUS SIGN}"


def metric(name: str, value: str, change: str | None = None, *, about: str | None = None) -> None:
    """Show `value` under `name`, which may wrap, and `change` with an arrow; `about` is the tooltip.

    Value and change are formatted by `number` and `signed`.
    """
    arrow: Literal["up", "down", "off"] = "off"
    if change is not None and change[0] in f"+{_MINUS}":
        # Streamlit knows only the hyphen as a minus sign.
        arrow = "down" if change.startswith(_MINUS) else "up"
    with st.container(gap=None):
        st.caption(escaped(name), help=None if about is None else escaped(about))
        st.metric(
            escaped(name),
            value,
            change,
            delta_color="off",
            delta_arrow=arrow,
            label_visibility="collapsed",
        )


REASONS: dict[str, Text] = {
    reason.value: Text(zh, reason.value)
    for reason, zh in {
        Reason.EMPTY_QUERY: "查询为空",
        Reason.EMPTY_TITLE: "标题为空",
        Reason.MISSING_GRADE: "没有标注",
        Reason.BAD_GRADE: "标注读不懂",
        Reason.TOO_FEW_FIELDS: "列太少",
        Reason.TOO_MANY_FIELDS: "列太多",
        Reason.UNDECODABLE: "不是有效的文本编码",
        Reason.NUL: "含 NUL 字符",
        Reason.SURROGATE: "含不成对的代理字符",
        Reason.BAD_JSON: "不是 JSON",
        Reason.NOT_AN_OBJECT: "不是 JSON 对象",
        Reason.MISSING_QUERY: "没有查询",
        Reason.MISSING_TITLE: "没有标题",
        Reason.QUERY_NOT_TEXT: "查询不是文本",
        Reason.TITLE_NOT_TEXT: "标题不是文本",
        Reason.NAN: "NaN 不是文本或标注",
        Reason.NOT_A_LIST: "pos 或 neg 不是标题列表",
        Reason.UNCLOSED_QUOTE: "引号没有闭合",
        Reason.HEADER: "表头重复",
    }.items()
}
"""Why a row is rejected."""


def show_rejects(rejects: Sequence[Reject], rejected: int) -> None:
    """The number of rejected rows; with their lines and reasons as a table to open and save."""
    if not rejected:
        return
    title = Text(f"{rejected:,} 行被剔除", f"{counted(rejected, 'row')} rejected")
    with st.expander(localised(title), icon=":material/rule:"):
        if len(rejects) < rejected:
            most = f"{len(rejects):,}"
            st.caption(localised(Text(f"只列出前 {most} 行。", f"The first {most} are listed.")))
        rows: list[Row] = [
            {"line": r.line, "reason": REASONS.get(r.reason, r.reason), "text": r.text[:200]}
            for r in rejects
        ]
        columns = {"line": Text("行", "line"), "reason": Text("原因", "reason")}
        table(rows, {**columns, "text": Text("开头", "start of its text")}, key="rejects")


# Errors as a visitor sees them: one line, never a traceback.


_log = logging.getLogger(__name__)


@contextmanager
def show_errors() -> Iterator[None]:
    """Show an error of the input; log an unexpected one, and show that there was one.

    The frame runs every page in it. A function of `st.fragment` runs alone and needs it too.
    """
    try:
        yield
    except QtBertError as error:
        refused = localised("这一步做不了：", "This cannot be done: ")
        st.error(refused + escaped(message_of(error)), icon=":material/block:")
    except Exception:
        _log.exception("a page failed")
        st.error(
            localised(
                "出了意外的错误，已记入服务器的日志。换一个输入，或重新载入此页。",
                "Something unexpected went wrong; it is in the server's log. Try another input, or "
                "reload the page.",
            ),
            icon=":material/error:",
        )


def message_of(error: QtBertError) -> str:
    """What is wrong, in the visitor's language where the error knows it."""
    message = getattr(error, "message", None)
    return localised(message) if isinstance(message, Text) else str(error)


# A job as its visitor sees it: its place in the queue, a progress bar, the time left, a stop button.


POLL_SECONDS = 1.0
STOP = Text("停止", "Stop")
LEAVING = Text(
    "请留在此页：离开约 20 秒后，这项计算会自动停止，让出队列。",
    "Stay on this page: about 20 seconds after you leave, the work stops and frees the queue.",
)


def finished(key: str) -> Any | None:
    """The result of the session's job `key` once it is finished, which is then forgotten; else None.

    Shows why a finished job has no result.
    """
    job: Job[Any] | None = st.session_state.get(key)
    if job is None or not job.state().finished:
        return None
    del st.session_state[key]
    if isinstance(job.error, Stopped):
        info("已停止，没有结果。", "Stopped; there is no result.")
    elif job.error is not None:
        with show_errors():
            raise job.error
    return job.result


@st.fragment(run_every=POLL_SECONDS)
def watch(job: Job[Any], *, steps: Mapping[str, Text], key: str) -> None:
    """Progress of `job`, counted in pairs, its notes worded by `steps`; at its end a rerun."""
    with show_errors():
        state = job.state()
        if state.finished:
            st.rerun()
        st.progress(state.share, text=escaped(progress_text(state, steps)))
        st.button(
            localised(STOP), key=f"{key}-stop", icon=":material/stop_circle:", on_click=job.stop
        )
        st.caption(localised(LEAVING))


def progress_text(state: JobState, steps: Mapping[str, Text]) -> str:
    """The place in the queue; or the step, what is done, and the time left."""
    if state.place:
        before = state.place
        return localised(f"排队中：前面还有 {before} 项计算", f"in the queue: {before} before it")
    parts = [localised(steps[state.note])] if state.note in steps else []
    total = f" / {state.total:,}" if state.total else ""
    parts.append(f"{state.done:,}{total} {localised('对', 'pairs')}")
    if state.left is not None and state.left >= 1:
        left = f"{state.left:,.0f}"
        parts.append(localised(f"约剩 {left} 秒", f"about {left} s left"))
    return " · ".join(parts)
