"""The page Head atlas in Streamlit's own runner."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from streamlit.testing.v1 import AppTest

from qt_bert.inspection import sampled
from qt_bert.models.folder import HEADS, weights_sha256
from qt_bert.results.heads import heads_file
from qt_bert.results.probe import ModelRef
from tests.apps.conftest import Visit, shown
from tests.results.made_heads import matching, redundancy


@pytest.fixture
def studied(tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The model `tiny` with results beside it."""
    folder = shutil.copytree(tiny_models / "tiny", tmp_path / "models" / "tiny")
    model = ModelRef(name="tiny", sha256=weights_sha256(folder))
    results = [replace(one, model=model) for one in (redundancy(), matching())]
    heads_file(results, {}).write(folder / HEADS)
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(tmp_path / "models"))
    yield folder


def colours(at: AppTest) -> list[str]:
    (box,) = [box for box in at.selectbox if box.key == "atlas.colour"]
    return list(box.options)


def test_a_head_has_its_card(studied: Path, app: Visit) -> None:
    at = app("atlas", layer="0", head="1", q="京东小哥", t="京东小哥最近在干嘛")
    assert not at.exception and not at.error
    text = shown(at)
    assert "L0H1" in text and "tiny/heads" in text.replace("\\", "")
    assert "看对面文本里与自己相同的字" in text
    assert "9.0 倍" in text.replace("\\", "") and len(colours(at)) == 3


def test_a_head_is_left_out_by_its_card_and_taken_back(studied: Path, app: Visit) -> None:
    at = app("atlas", layer="0", head="1", out="none")
    at.button(key="atlas.out").click().run()
    assert at.query_params["out"] in ("L0H1", ["L0H1"])
    at.button(key="atlas.out").click().run()
    assert at.query_params["out"] in ("none", ["none"])


def test_every_colour_draws(studied: Path, app: Visit) -> None:
    at = app("atlas")
    box = at.selectbox(key="atlas.colour")
    for name in ("kl", "matching", "effect"):
        box.set_value(name).run()
        assert not at.exception and not at.error


def test_it_speaks_english(studied: Path, app: Visit) -> None:
    at = app("atlas", lang="en", layer="0", head="1")
    assert colours(at)[0] == "Change of the label's probability without this head"
    assert "They look at their own character" in shown(at) and not at.error


def test_results_of_other_weights_are_refused_with_a_word(studied: Path, app: Visit) -> None:
    heads_file([redundancy()], {}).write(studied / HEADS)
    assert "of other weights" in shown(app("atlas", lang="en")).replace("\\", "")


def test_without_results_they_are_computed_here(
    app: Visit, tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampled, "PAIRS", 12)
    own = shutil.copytree(tiny_models, tmp_path / "own")  # what is computed stays with its model
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(own))
    at = app("atlas", lang="en")
    assert not at.exception
    limit = time.monotonic() + 30
    while "untested" not in shown(at) or "computed here" not in shown(at):
        assert time.monotonic() < limit, shown(at)
        time.sleep(0.2)
        at.run()
    assert "KL" in shown(at) and not at.error
