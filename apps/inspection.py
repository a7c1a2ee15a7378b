"""The inspection page: its frame, and the pages in it.

Started by `qt-bert app`, or `streamlit run apps/inspection.py`; settings for safety lie in
`apps/.streamlit/config.toml`, which Streamlit reads wherever it is started.
"""

from qt_bert.page.frame import run

run(__file__)
