"""The frame round every page: navigation, and a skeleton while a thread loads PyTorch and opens the model.

This module imports neither PyTorch nor pandas, so the frame is there before they are.
"""

from __future__ import annotations

import atexit
import gc
import logging
import threading
import time
from functools import lru_cache
from pathlib import Path

import streamlit as st

from qt_bert.errors import QtBertError
from qt_bert.page.settings import Settings
from qt_bert.page.widgets import LANGUAGE, caption, escaped, localised, show_errors
from qt_bert.text import Text

# The pages by file name, in the order of the navigation; the first is the front page.
# Their folder is not called `pages`: Streamlit takes a folder of that name beside a script for its
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
LIBRARIES = Text("正在加载 PyTorch", "Loading PyTorch")
MODEL = Text("正在打开模型", "Opening the model")
SIDEBAR_HEIGHTS, PAGE_HEIGHTS = (70, 70, 70, 200, 110), (90, 320)
"""Of the skeletons' blocks, in pixels."""

_log = logging.getLogger(__name__)


def run(script: str) -> None:
    """Draw one run of the page whose entry lies at `script`, beside its pages and `icon.svg`."""
    settings, folder = Settings.read(), Path(script).parent
    requested = st.query_params.get("lang")
    first = requested if requested in ("zh", "en") else settings.language
    language = st.session_state.setdefault(LANGUAGE, first)
    st.set_page_config(page_title="qt-bert", page_icon=folder / "icon.svg", layout="wide")
    names = [name for name in SCREENS if (folder / "screens" / f"{name}.py").is_file()]
    page = st.navigation(
        [
            st.Page(
                folder / "screens" / f"{name}.py",
                title=escaped(localised(SCREENS[name][0])),
                icon=SCREENS[name][1],
                default=name == names[0],
                url_path=name,
            )
            for name in names
        ],
        position="top",
    )
    opening = opening_of(settings)
    _wait(opening, page.title)
    with show_errors():
        from qt_bert.page.sidebar import sidebar
        from qt_bert.page.visit import begin, link_faults, visit

        with st.spinner(localised(MODEL), show_time=True):  # of a link, where it is not the first
            state = begin(settings)
        if state.language != language:  # the address changed it: draw the navigation again
            st.rerun()
        with st.sidebar:
            sidebar(visit())
        for fault in link_faults():
            st.warning(escaped(localised(fault)), icon=":material/link_off:")
        page.run()
    opening.drawn.set()


class Opening:
    """A thread that loads the libraries and opens the first model, then sets `opened`.

    After the first page (`drawn`) it opens the base and computes the mean head outputs, which that
    page does not show. An error of the input is logged, and the page meets it again.
    """

    def __init__(self, settings: Settings) -> None:
        self.step, self.started = LIBRARIES, time.monotonic()
        self.opened, self.drawn, self._ending = (threading.Event() for _ in range(3))
        self._thread = threading.Thread(target=self._open, args=(settings,), daemon=True)
        self._thread.start()
        atexit.register(self._end)

    def _open(self, settings: Settings) -> None:
        gc.disable()  # while libraries load, collections take a fifth of the time and free nothing
        try:
            import pandas  # noqa: F401 (before Altair, which takes it half loaded from sys.modules)

            from qt_bert.page import sidebar, visit  # noqa: F401

            self.step = MODEL
            visit.open_first(settings)
            # Streamlit collects all garbage after every run; scanning torch and transformers takes
            # longer (0.3 s) than the run itself.
            gc.freeze()
            gc.enable()
            self.opened.set()
            self.drawn.wait(60)
            if not self._ending.is_set():
                visit.open_rest(settings)
                gc.freeze()
        except QtBertError as error:
            _log.warning("%s", error)
        finally:
            gc.enable()
            self.opened.set()

    def _end(self) -> None:
        """Wait for the thread: torch aborts a process that ends while it computes."""
        self._ending.set()
        self.drawn.set()
        self._thread.join(5)


@lru_cache(maxsize=8)
def opening_of(settings: Settings) -> Opening:
    """The opening of this server's models, begun by the first call."""
    return Opening(settings)


def _wait(opening: Opening, title: str) -> None:
    """Show the page's title, a skeleton and what is being loaded until the first model is open."""
    side, main = st.sidebar.empty(), st.empty()
    if opening.opened.is_set():
        return
    with side.container():
        for height in SIDEBAR_HEIGHTS:
            st.skeleton(height)
    with main.container():
        st.header(title)
        step = st.empty()
        for height in PAGE_HEIGHTS:
            st.skeleton(height)
    while not opening.opened.is_set():
        seconds = time.monotonic() - opening.started
        with step:  # drawing is where Streamlit ends a run that a click made obsolete
            caption(
                Text(f"{opening.step.zh}…{seconds:.0f} 秒", f"{opening.step.en}… {seconds:.0f} s")
            )
        opening.opened.wait(0.25)
    side.empty()
    main.empty()
