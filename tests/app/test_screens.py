"""The pages that are named are there, and lie where Streamlit does not take them for its own."""

from __future__ import annotations

from qt_bert.app.launch import entry_script
from qt_bert.app.settings import FOLDER, SCREENS


def test_every_page_has_its_script_and_every_script_is_a_page():
    folder = entry_script().parent
    assert {path.stem for path in (folder / FOLDER).glob("*.py")} == set(SCREENS)
    assert not (folder / "pages").exists()  # Streamlit's older navigation would begin
