"""Long work as a visitor sees it: the place in the queue, a bar, the time left, a stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import streamlit as st

from qt_bert.app.faults import told
from qt_bert.app.words import escaped, language, say
from qt_bert.results.text import Text

if TYPE_CHECKING:
    from qt_bert.inspection.background import Background, Standing

POLL_SECONDS = 1.0
STOP = Text("停止", "Stop")
LEAVING = Text(
    "请留在此页：离开约 20 秒后，这项计算会自动停止，让出队列。",
    "Stay on this page: about 20 seconds after you leave, the work stops and frees the queue.",
)


@st.fragment(run_every=POLL_SECONDS)
def watch(
    job: Background[Any], *, unit: Text, steps: Mapping[str, Text] | None = None, key: str = "job"
) -> None:
    """Show how far `job` is until it is finished; the page then runs anew.

    `unit` is what it counts, `steps` are the names of its notes in words.
    """
    with told():
        standing = job.standing()
        if standing.finished:
            st.rerun()
        st.progress(standing.share, text=escaped(words_of(standing, unit, steps or {})))
        st.button(say(STOP), key=f"{key}-stop", icon=":material/stop_circle:", on_click=job.stop)
        st.caption(say(LEAVING))


def words_of(standing: Standing, unit: Text, steps: Mapping[str, Text]) -> str:
    """The place in the queue; or the step, what is done, the rate and the time left."""
    chinese = language() == "zh"
    if standing.place:
        before = standing.place
        return (
            f"排队中：前面还有 {before} 项计算" if chinese else f"in the queue: {before} before it"
        )
    parts = [say(steps[standing.note])] if standing.note in steps else []
    total = f" / {standing.total:,}" if standing.total else ""
    parts.append(f"{standing.done:,}{total} {say(unit)}")
    if standing.rate:
        parts.append(f"{standing.rate:,.0f} {say(unit)}/{'秒' if chinese else 's'}")
    if standing.left is not None and standing.left >= 1:
        left = f"{standing.left:,.0f}"
        parts.append(f"约剩 {left} 秒" if chinese else f"about {left} s left")
    return " · ".join(parts)
