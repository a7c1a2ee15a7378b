"""Ways to save a figure: its numbers, and a picture that any program shows."""

from __future__ import annotations

import streamlit as st

from qt_bert.app import words
from qt_bert.app.draw.table import csv_of
from qt_bert.app.words import language, say
from qt_bert.results.figures import Figure


def save_buttons(figure: Figure, key: str) -> None:
    """CSV and SVG behind one small button; the files are made when they are asked for."""
    shown = language()
    with st.popover(
        say(words.SAVE), icon=":material/download:", type="tertiary", help=say(words.SAVE_HELP)
    ):
        st.download_button(
            "CSV",
            data=lambda: csv_of(figure, shown),
            file_name=f"{figure.name}.csv",
            mime="text/csv",
            on_click="ignore",
            key=f"{key}-csv",
        )
        st.download_button(
            "SVG",
            data=lambda: svg_of(figure, shown),
            file_name=f"{figure.name}.svg",
            mime="image/svg+xml",
            on_click="ignore",
            key=f"{key}-svg",
        )


def svg_of(figure: Figure, language: str) -> bytes:
    """The figure as the report draws it, as a file of its own."""
    from qt_bert.report.charts import draw
    from qt_bert.report.charts.standalone import standalone

    return standalone(draw(figure), language)
