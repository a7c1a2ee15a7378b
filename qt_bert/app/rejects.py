"""The rows of a file that were no pairs."""

from __future__ import annotations

from collections.abc import Sequence

import streamlit as st

from qt_bert.app.tables import Row, table
from qt_bert.app.words import say
from qt_bert.inspection.file_faults import REASONS
from qt_bert.pairs.pair import Reject
from qt_bert.results import Text

COLUMNS = {
    "line": Text("行", "line"),
    "reason": Text("原因", "reason"),
    "text": Text("开头", "start of its text"),
}
_SHOWN = 200


def show_rejects(rejects: Sequence[Reject], rejected: int) -> None:
    """How many rows were rejected, why and where, as a table to open and to save."""
    if not rejected:
        return
    title = Text(f"{rejected:,} 行被剔除", f"{rejected:,} rows rejected")
    with st.expander(say(title), icon=":material/rule:"):
        if len(rejects) < rejected:
            most = f"{len(rejects):,}"
            st.caption(say(Text(f"只列出前 {most} 行。", f"The first {most} are listed.")))
        rows: list[Row] = [
            {"line": r.line, "reason": REASONS.get(r.reason, r.reason), "text": r.text[:_SHOWN]}
            for r in rejects
        ]
        table(rows, COLUMNS, key="rejects")
