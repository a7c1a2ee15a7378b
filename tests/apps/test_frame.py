"""The page's frame: state and address, sidebar, errors; on pages that print their state."""

import json
import shutil

import pytest
from streamlit.testing.v1 import AppTest

from tests.apps.conftest import ENTRY, SECONDS, shown

FOCUS = """
import json
import streamlit as st
from qt_bert.page.visit import visit

here = visit()
here.stop_if_empty()
st.code(json.dumps(here.state.to_query()))
st.button("layer 1", on_click=None, key="one") and here.change(layer=1)
"""
ATLAS = """
import streamlit as st
from qt_bert.errors import ArgumentError

kind = st.radio("kind", ["expected", "unexpected"], key="kind")
if kind == "expected":
    raise ArgumentError("no <b>such</b> thing")
raise ZeroDivisionError("secret /path")
"""
START = {"q": "京东小哥", "t": "京东小哥最近在干嘛"}


@pytest.fixture
def visit(tmp_path, tiny_models, monkeypatch):
    """The frame around the pages of this test, at an address."""
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(tiny_models))
    pages = tmp_path / "screens"
    pages.mkdir()
    shutil.copy(ENTRY, tmp_path / "inspection.py")
    (pages / "focus.py").write_text(FOCUS, encoding="utf-8")
    (pages / "atlas.py").write_text(ATLAS, encoding="utf-8")

    def run(**link: str) -> AppTest:
        at = AppTest.from_file(tmp_path / "inspection.py", default_timeout=SECONDS)
        at.query_params.update(link)
        return at.run()

    return run


def state_of(at: AppTest) -> dict[str, str]:
    assert not at.exception
    return json.loads(at.code[0].value)


def test_a_first_visit_shows_the_articles_query_and_writes_its_address(visit):
    at = visit()
    state = state_of(at)
    assert state["q"] == "紫熨斗" and state["model"] == "tiny" and state["lang"] == "zh"
    assert at.query_params == state
    assert at.text_input(key="side-query").value == "紫熨斗"


def test_a_link_leads_to_its_state(visit):
    link = START | {"out": "L0H1 L1H0", "layer": "1", "head": "1", "mode": "uniform", "lang": "en"}
    at = visit(**link, seed="7")
    assert state_of(at) == link | {"seed": "7", "model": "tiny"}
    assert at.text_input(key="side-out").value == "L0H1 L1H0"
    assert at.text_input(key="side-query").label == "Query"
    assert not at.warning


def test_invalid_parameters_are_reported_once(visit):
    at = visit(**START, layer="99", out="L0H1 <b>", lang="xx")
    state = state_of(at)
    assert state["layer"] == "1" and state["lang"] == "zh"
    assert len(at.warning) == 3
    assert not any("<b>" in warning.value for warning in at.warning)
    assert not at.run().warning


def test_typed_heads_are_left_out(visit):
    at = visit(**START)
    at.text_input(key="side-out").set_value("l1h0, L0H1").run()
    assert state_of(at)["out"] == "L0H1 L1H0" == at.query_params["out"]
    at.selectbox(key="side-set").set_value("none").run()
    assert state_of(at)["out"] == "none"
    assert at.text_input(key="side-out").value == ""


def test_an_invalid_head_is_reported_beside_its_field(visit):
    at = visit(**START, out="L0H0")
    at.text_input(key="side-out").set_value("L9H9").run()
    assert "L9H9" in at.sidebar.error[0].value
    assert at.text_input(key="side-out").value == "L9H9"
    assert state_of(at)["out"] == "L0H0"
    at.radio(key="side-language").set_value("en").run()
    assert "is no head of this model" in at.sidebar.error[0].value
    at.query_params["out"] = "L1H0"  # changed elsewhere: the word goes
    at.run()
    assert not at.sidebar.error and at.text_input(key="side-out").value == "L1H0"


def test_every_widget_changes_state_and_address(visit):
    at = visit(**START)
    at.radio(key="side-language").set_value("en").run()
    at.radio(key="side-mode").set_value("mean").run()
    at.number_input(key="side-layer").set_value(1).run()
    at.number_input(key="side-head").set_value(1).run()
    at.number_input(key="side-seed").set_value(5).run()
    at.text_input(key="side-title").set_value("京东\t快递").run()
    state = state_of(at)
    changed = {"lang": "en", "mode": "mean", "layer": "1", "head": "1", "seed": "5"}
    assert changed.items() <= state.items()
    assert state["t"] == "京东 快递" and at.query_params == state
    assert "control characters" in at.warning[0].value


def test_a_page_changes_the_state(visit):
    at = visit(**START)
    at.button(key="one").click().run()
    assert state_of(at)["layer"] == "1" == at.query_params["layer"]
    assert at.number_input(key="side-layer").value == 1


def test_the_state_survives_a_change_of_page_which_empties_the_address(visit):
    at = visit(**START, out="L0H1")
    at.query_params.clear()
    at.switch_page("screens/atlas.py").run()
    assert at.query_params["out"] == "L0H1"
    at.query_params.clear()
    at.switch_page("screens/focus.py").run()
    assert state_of(at)["out"] == "L0H1" == at.query_params["out"]


def test_another_address_under_a_living_session_is_read(visit):
    at = visit(**START, out="L0H1")
    at.query_params.update({"out": "L1H1", "layer": "1"})
    at.run()
    assert (state_of(at)["out"], state_of(at)["layer"]) == ("L1H1", "1")


def test_a_late_answer_with_the_address_before_changes_nothing(visit):
    at = visit(**START, out="L0H1")
    before = dict(at.query_params)
    at.text_input(key="side-out").set_value("L1H1").run()
    at.query_params.clear()
    at.query_params.update(before)
    at.run()
    assert state_of(at)["out"] == "L1H1" == at.query_params["out"]


def test_an_empty_text_is_reported_and_not_run(visit):
    at = visit(q="", t="x")
    assert at.info and not at.code and not at.exception


def test_a_case_and_a_row_fill_the_fields(visit):
    at = visit(**START)
    at.selectbox(key="side-case").select_index(2).run()
    assert state_of(at)["q"] == "我在伊朗长大"
    at.selectbox(key="side-row").select_index(0).run()
    assert at.text_input(key="side-query").value == state_of(at)["q"] != "我在伊朗长大"


def test_errors_are_shown_without_a_traceback(visit):
    at = visit(**START)
    at.switch_page("screens/atlas.py").run()
    assert at.error[0].value == r"这一步做不了：no \<b\>such\<\/b\> thing"
    at.radio(key="kind").set_value("unexpected").run()
    assert "日志" in at.error[0].value and "secret" not in shown(at)
    assert not at.exception


def test_a_model_that_cannot_be_opened_leaves_the_others(visit, tiny_models, tmp_path, monkeypatch):
    models = tmp_path / "models"
    shutil.copytree(tiny_models / "tiny", models / "tiny")
    shutil.copytree(tiny_models / "tiny", models / "torn")
    (models / "torn" / "model.safetensors").write_bytes(b"nothing")
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(models))
    at = visit(**START, model="torn")
    assert state_of(at)["model"] == "tiny" and "torn" in at.warning[0].value
    at.selectbox(key="side-model").set_value("torn").run()
    assert state_of(at)["model"] == "tiny" and at.warning
