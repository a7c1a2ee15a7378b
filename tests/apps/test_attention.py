"""The page of attention maps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.apps.conftest import shown

Visit = Callable[..., Any]
PAIR = {"q": "北京到上海高铁", "t": "北京高铁票多少钱", "layer": "1", "head": "1", "lang": "en"}


def opened(app: Visit, **link: str) -> Any:
    at = app("attention", **(PAIR | link))
    assert not at.exception and not at.error
    return at


def test_before_and_after(app: Visit) -> None:
    at = opened(app, out="L0H1")
    assert not at.metric  # every row of a whole map adds up to 1
    at.session_state["attention.part"] = "query_title"
    at.run()
    assert not at.exception and len(at.metric) == 2 and at.metric[0].value != at.metric[1].value
    text = shown(at)
    assert "L1H1, whole model" in text and "L1H1, without the chosen heads" in text


def test_every_part_and_every_way(app: Visit) -> None:
    at = opened(app, out="L0H1")
    for part in ("all", "query_title", "title_query", "query", "title", "texts"):
        at.session_state["attention.part"] = part
        assert not at.run().exception
    for way in ("after", "change"):
        at.session_state["attention.way"] = way
        assert not at.run().exception


def test_fine_tuning_wants_the_model_before_it(app: Visit) -> None:
    at = opened(app, out="L0H1")
    at.session_state["attention.compare"] = "tuning"
    assert "not known" in shown(at.run())


def test_before_and_after_fine_tuning(
    app: Visit, checkpoint_of: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, seed in (("tuned", 0), ("untuned", 1)):
        shutil.copytree(checkpoint_of(positions=128, seed=seed), tmp_path / name)
    monkeypatch.setenv("QT_BERT_APP_MODELS", str(tmp_path))
    monkeypatch.setenv("QT_BERT_APP_BASE", "untuned")
    at = opened(app, model="tuned", out="L0H1")
    at.session_state["attention.compare"] = "tuning"
    text = shown(at.run())
    assert not at.exception and "strengthened" in text and "play no part" in text


def test_a_long_pair_is_drawn_a_stretch_at_a_time(app: Visit) -> None:
    at = opened(app, t="北京高铁票多少钱" * 20, out="none")
    assert "stretch" in shown(at) and "too long" in shown(at)
    assert not at.main.slider[0].set_value(5).run().exception


def test_nothing_typed_runs_nothing(app: Visit) -> None:
    at = app("attention", **(PAIR | {"t": "  "}))
    assert not at.exception and not at.metric and at.info
