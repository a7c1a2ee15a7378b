"""The page Behaviour card in Streamlit's own runner: own titles, cases judged here, a stored card."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from qt_bert.inspection.cache import Kept
from qt_bert.inspection.views import behaviour
from qt_bert.models.folder import HEADS, weights_sha256
from qt_bert.probes.behaviour_cases import COLUMNS, read_cases
from qt_bert.results.heads import heads_file
from qt_bert.results.probe import ModelRef
from tests.apps.conftest import shown
from tests.inspection.views.test_behaviour import ROWS
from tests.results import made_heads

Visit = Callable[..., AppTest]
PAIR = {"q": "北京到上海高铁", "t": "北京高铁票多少钱"}
OTHER = "上海到北京的高铁"
SECONDS = 30.0


@pytest.fixture(autouse=True)
def six_cases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cases.tsv"
    path.write_text("".join("\t".join(row) + "\n" for row in (COLUMNS, *ROWS)), encoding="utf-8")
    cases = read_cases(path)
    monkeypatch.setattr(behaviour, "shipped_cases", lambda: cases)
    monkeypatch.setattr(behaviour, "BAND_PAIRS", 10)
    monkeypatch.setattr(behaviour, "_kept_cards", Kept())
    monkeypatch.setattr(behaviour, "_kept_scores", Kept())


def parted(at: AppTest) -> list[float]:
    """How far one's own titles part: by the whole model, and without the heads."""
    assert not at.exception
    return [float(one.value.replace("−", "-")) for one in at.main.metric]


def typed(at: AppTest, text: str = OTHER) -> AppTest:
    return at.text_input(key="behaviour.other").set_value(text).run()


def judged(at: AppTest) -> AppTest:
    at.button(key="behaviour.go").click().run()
    end = time.monotonic() + SECONDS
    while not at.main.pills:
        assert time.monotonic() < end and not at.exception, "no card"
        time.sleep(0.1)
        at.run()
    return at


def tables(at: AppTest) -> list[list[str]]:
    return [list(frame.value.columns) for frame in at.main.dataframe]


def test_two_titles_are_judged_at_once_with_and_without_heads(app: Visit) -> None:
    at = typed(app("behaviour", **PAIR, out="none", lang="en"))
    (whole,) = parted(at)
    text = shown(at).replace("\\", "")
    assert "Band: 0.25 grade" in text and "No study of this model has a card" in text
    assert any(word in text for word in ("right ·", "undecided ·", "wrong ·"))
    at = typed(app("behaviour", **PAIR, out="L0H1", lang="en"))
    assert parted(at)[0] == whole and len(parted(at)) == 2


def test_titles_are_swapped(app: Visit) -> None:
    at = typed(app("behaviour", **PAIR, out="none"))
    (before,) = parted(at)
    at.button(key="behaviour.swap").click().run()
    assert at.query_params["t"] == OTHER
    assert at.text_input(key="behaviour.other").value == PAIR["t"]
    assert parted(at) == [-before]


def test_own_cases_are_kept_taken_along_and_let_go(app: Visit) -> None:
    at = typed(app("behaviour", **PAIR, out="L0H1", lang="en"))
    at.button(key="behaviour.add").click().run()
    mine = at.main.dataframe[0].value
    assert list(mine["other"]) == [OTHER] and "delta_without" in mine.columns
    assert "--cases my_cases.tsv" in at.main.code[0].value
    assert "fall into one half" in shown(at)
    at.button(key="behaviour.add").click().run()
    assert any("already" in one.value for one in at.main.warning)
    at.segmented_control(key="behaviour.relation").set_value("alike").run()
    at.button(key="behaviour.add").click().run()
    assert len(at.main.dataframe[0].value) == 2
    at.switch_page("screens/order.py").run()
    at.switch_page("screens/behaviour.py").run()
    assert len(at.main.dataframe[0].value) == 2
    assert at.text_input(key="behaviour.other").value == OTHER
    at.button(key="behaviour.clear").click().run()
    assert not at.main.dataframe and not at.exception


def test_all_cases_are_judged_here(app: Visit) -> None:
    at = judged(app("behaviour", **PAIR, out="none", lang="en"))
    assert "All 6 cases of 6 queries" in shown(at)
    lines = next(one.value for one in at.main.dataframe if "right" in one.value)
    assert list(lines["n"]) == [3, 3] and "change" not in lines
    assert not [one for one in at.main.button if one.key == "behaviour.go"]
    at.sidebar.text_input(key="side-out").set_value("L0H1").run()
    assert "without the chosen heads" in at.main.button(key="behaviour.go").label
    at.button(key="behaviour.go").click().run()
    end = time.monotonic() + SECONDS
    while not any("change" in columns for columns in tables(at)):
        assert time.monotonic() < end and not at.exception
        time.sleep(0.1)
        at.run()


def test_a_phenomenon_has_its_cases_and_a_case_its_pairs(app: Visit) -> None:
    at = judged(app("behaviour", **PAIR, out="none"))
    at.pills(key="behaviour.phenomenon").set_value("filler").run()
    cases = next(one.value for one in at.main.dataframe if "outcome" in one.value)
    assert sorted(cases["id"]) == ["f1", "f2", "f3"]
    assert list(cases["delta"].abs()) == sorted(cases["delta"].abs(), reverse=True)
    at.button(key="behaviour.open-other").click().run()
    assert not at.exception
    assert (at.query_params["q"], at.query_params["t"]) == tuple(cases.iloc[0][["query", "other"]])


def test_the_card_of_a_study_comes_first(
    app: Visit, tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = shutil.copytree(tiny_models / "tiny", tmp_path / "models" / "tiny")
    model = ModelRef(name="tiny", sha256=weights_sha256(folder))
    results = [replace(one, model=model) for one in (made_heads.matching(), made_heads.behaviour())]
    heads_file(results, {}).write(folder / HEADS)
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(tmp_path / "models"))
    at = app("behaviour", **PAIR, lang="en")
    assert not at.exception
    text = shown(at).replace("\\", "")
    assert "It tells most." in text and "350 cases of cases.tsv" in text
    stored = at.main.dataframe[0].value
    assert list(stored["phenomenon"]) == ["direction swapped", "negation or opposite"]


@pytest.mark.parametrize(
    "text", ["<img src=x onerror=alert(1)>", "👨‍👩‍👧", "=1+1", "$x$", "长" * 500]
)
def test_hostile_titles_stay_text(app: Visit, text: str) -> None:
    at = typed(app("behaviour", **PAIR, out="L0H0"), text)
    assert not at.exception and not at.error and len(parted(at)) == 2
    assert "<img" not in shown(at)


def test_nothing_to_compare_is_said(app: Visit) -> None:
    at = typed(app("behaviour", **PAIR), PAIR["t"])
    assert any("没有可比的" in one.value for one in at.main.info) and not at.main.metric
    at = app("behaviour", q="", t="标题")
    assert not at.exception and at.main.info and at.button(key="behaviour.go")


def test_a_model_of_one_logit(
    app: Visit, checkpoint_of: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(checkpoint_of(labels=1)))
    at = judged(typed(app("behaviour", **PAIR, out="none", lang="en")))
    assert "the median gap between neighbours" in shown(at).replace("\\", "")
