"""What several pages show: texts, choices, tables, large numbers, rejects, errors, progress."""

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
from qt_bert.text import MISSING, Label, Text, csv_bytes, in_language, printable

# The visitor's language, and text that stays text.


LANGUAGE = "qt_bert.language"
"""Where the session keeps the visitor's language."""
# What markdown, its colours (`:red[…]`), icons, links and formulas are made of.
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/])")


def language() -> str:
    """The visitor's language, `zh` or `en`."""
    return "en" if st.session_state.get(LANGUAGE) == "en" else "zh"


def localised(label: Label, english: str | None = None) -> str:
    """The words of `label` (or of its Chinese and `english`) in the visitor's language, as they are.

    Where user text may be in them, show them by `st.text`, or `escaped`.
    """
    if english is not None:
        return str(label) if language() == "zh" else english
    return in_language(label, language())


def escaped(text: str) -> str:
    """`text` for a place that Streamlit reads as markdown, so that it stays text."""
    return _MARKUP.sub(r"\\\1", printable(text).replace("\n", " "))


def caption(label: Label, english: str | None = None) -> None:
    """Small text."""
    st.caption(escaped(localised(label, english)))


def info(label: Label, english: str | None = None, *, icon: str | None = None) -> None:
    """A word in a box."""
    st.info(escaped(localised(label, english)), icon=icon)


def named(options: Mapping[str, Text]) -> Callable[[str], str]:
    """A widget's names for `options`, in the language of this run."""
    return {name: localised(text) for name, text in options.items()}.__getitem__


def choose(label: Text, options: Mapping[str, Text], key: str) -> str:
    """One of `options`, which stand beside each other; the first until a visitor chooses."""
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


# Tables of numbers and texts, saved as CSV that a spreadsheet does not run.


Cell = str | int | float | None
Row = Mapping[str, Cell | Text]
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
    """Show `rows` under the names that `columns` gives their keys, in its order, and offer a CSV.

    Columns that are empty in all rows are left out; `signed` ones show a plus, and `digits` says of
    which not three stand behind the point. With `select` a row can be clicked, and its number is
    returned while it is.
    """
    import pandas

    keys = [name for name in columns if any(row.get(name) is not None for row in rows)]
    cells = [{name: _cell(row.get(name)) for name in keys} for row in rows]
    spelled = {
        name: partial(_spelled, digits=(digits or {}).get(name, _DIGITS), sign=name in signed)
        for name in keys
    }
    options: dict[str, Any] = {"on_select": "rerun", "selection_mode": "single-row"}
    frame = pandas.DataFrame(cells, columns=keys)
    for name in keys:  # whole numbers stay whole beside missing ones
        if all(isinstance(cell[name], int | None) for cell in cells):
            frame[name] = frame[name].astype("Int64")
    event = st.dataframe(
        frame.style.format(spelled, na_rep=MISSING),
        hide_index=True,
        key=key,
        height="content" if len(rows) <= _SHOWN_WHOLE else "auto",
        placeholder=MISSING,
        column_config={name: localised(columns[name]) for name in keys},
        **(options if select else {}),
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


def _spelled(value: Any, digits: int, sign: bool) -> str:
    """A cell as the page spells numbers everywhere."""
    if isinstance(value, str):
        return value
    value = int(value) if isinstance(value, Integral) else float(value)
    return (text.signed if sign else text.number)(value, digits)


# One number in large type, with its name and what became of it.


_MINUS = "\N{MINUS SIGN}"


def metric(name: str, value: str, change: str | None = None, *, about: str | None = None) -> None:
    """Show `value` under `name`, which takes as many lines as it needs, and `change` with an arrow.

    Value and change are as `number` and `signed` spell them; `about` is told where one asks.
    """
    arrow: Literal["up", "down", "off"] = "off"
    if change is not None and change[0] in f"+{_MINUS}":
        # Streamlit would take the sign of a change from keyboards' hyphen alone.
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
"""Why a row is rejected, in words."""


def show_rejects(rejects: Sequence[Reject], rejected: int) -> None:
    """How many rows were rejected, why and where, as a table to open and to save."""
    if not rejected:
        return
    title = Text(f"{rejected:,} 行被剔除", f"{rejected:,} rows rejected")
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


# Errors as a visitor sees them: a plain word, never a trace.


_log = logging.getLogger(__name__)


@contextmanager
def show_faults() -> Iterator[None]:
    """Say an input's fault in plain words; log an unexpected error, and say that there was one.

    The entry runs every page in it. A function of `st.fragment` runs alone, and needs it too (it
    may stand above it as a decorator: `@st.fragment` first, then `@told()`).
    """
    try:
        yield
    except QtBertError as error:
        refused = localised("这一步做不了：", "This cannot be done: ")
        st.error(refused + escaped(fault_of(error)), icon=":material/block:")
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


def fault_of(error: QtBertError) -> str:
    """What is wrong, in the visitor's language where the error knows it."""
    said = getattr(error, "said", None)
    return localised(said) if isinstance(said, Text) else str(error)


# Long work as a visitor sees it: the place in the queue, a bar, the time left, a stop.


POLL_SECONDS = 1.0
STOP = Text("停止", "Stop")
LEAVING = Text(
    "请留在此页：离开约 20 秒后，这项计算会自动停止，让出队列。",
    "Stay on this page: about 20 seconds after you leave, the work stops and frees the queue.",
)


def finished(key: str) -> Any | None:
    """Forget the session's job `key` once it is finished: its result, or a word why there is none."""
    job: Job[Any] | None = st.session_state.get(key)
    if job is None or not job.standing().finished:
        return None
    del st.session_state[key]
    if isinstance(job.error, Stopped):
        info("已停止，没有结果。", "Stopped; there is no result.")
    elif job.error is not None:
        with show_faults():
            raise job.error
    return job.result


@st.fragment(run_every=POLL_SECONDS)
def watch(
    job: Job[Any], *, unit: Text, steps: Mapping[str, Text] | None = None, key: str = "job"
) -> None:
    """Show how far `job` is until it is finished; the page then runs anew.

    `unit` is what it counts, `steps` are the names of its notes in words.
    """
    with show_faults():
        standing = job.standing()
        if standing.finished:
            st.rerun()
        st.progress(standing.share, text=escaped(words_of(standing, unit, steps or {})))
        st.button(
            localised(STOP), key=f"{key}-stop", icon=":material/stop_circle:", on_click=job.stop
        )
        st.caption(localised(LEAVING))


def words_of(standing: JobState, unit: Text, steps: Mapping[str, Text]) -> str:
    """The place in the queue; or the step, what is done, and the time left."""
    if standing.place:
        before = standing.place
        return localised(f"排队中：前面还有 {before} 项计算", f"in the queue: {before} before it")
    parts = [localised(steps[standing.note])] if standing.note in steps else []
    total = f" / {standing.total:,}" if standing.total else ""
    parts.append(f"{standing.done:,}{total} {localised(unit)}")
    if standing.left is not None and standing.left >= 1:
        left = f"{standing.left:,.0f}"
        parts.append(localised(f"约剩 {left} 秒", f"about {left} s left"))
    return " · ".join(parts)
