"""What every run of the page begins with: the address, the navigation, the sidebar; then the page."""

from __future__ import annotations

from pathlib import Path

import pandas  # noqa: F401 (Altair takes it from sys.modules, where another visitor's import may be half done)
import streamlit as st

from qt_bert.app import sidebar, visit
from qt_bert.app.launch import Settings
from qt_bert.app.visit import SCREENS, script_of
from qt_bert.app.widgets import LANGUAGE, escaped, say, told


def run(script: str) -> None:
    """Draw one run of the page whose entry lies at `script`, beside its pages and `icon.svg`."""
    settings = Settings.read()
    drawn = st.session_state.setdefault(LANGUAGE, _first_language(settings))
    folder = Path(script).parent
    st.set_page_config(page_title="qt-bert", page_icon=folder / "icon.svg", layout="wide")
    page = st.navigation(_pages(folder), position="top")
    with told():
        with st.spinner(say("正在打开模型…", "Opening the model…"), show_time=True):
            shelf = visit.shelf_of(settings)
            state = visit.arrive(settings, shelf)
        if state.language != drawn:  # the address turned to another one: the navigation too
            st.rerun()
        with st.sidebar:
            sidebar.first(shelf, state)
            here = visit.visit()
            sidebar.rest(here)
        visit.say_faults()
        page.run()


def _first_language(settings: Settings) -> str:
    """The link's language, else the server's: known before the model is open."""
    asked = st.query_params.get("lang")
    return asked if asked in ("zh", "en") else settings.language


def _pages(folder: Path) -> list[st.Page]:
    """The pages that are there, titled in the visitor's language."""
    found = [name for name in SCREENS if (folder / script_of(name)).is_file()]
    return [
        st.Page(
            folder / script_of(name),
            title=escaped(say(SCREENS[name][0])),
            icon=SCREENS[name][1],
            default=name == found[0],
            url_path=name,
        )
        for name in found
    ]
