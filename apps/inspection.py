"""The script of the inspection page, which `qt-bert app` serves through `apps/server.py`.

Streamlit reads its settings for safety from `apps/.streamlit/config.toml` wherever it is started.
"""

from qt_bert.page.frame import run

run(__file__)
