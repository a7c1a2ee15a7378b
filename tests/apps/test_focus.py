"""The front page: [CLS] before and after heads are left out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.models.folder import weights_sha256
from qt_bert.results.probe import ModelRef
from qt_bert.run.folder import RunInputs
from tests.apps.conftest import shown
from tests.results.made_heads import made_routes, matching
from tests.run.test_save_heads import run_of

Visit = Callable[..., Any]
PAIR = {"q": "北京到上海高铁", "t": "北京高铁票多少钱", "layer": "1", "head": "1"}


def metrics(at: Any) -> dict[str, tuple[str, str]]:
    """Name → value and change of the numbers at the top."""
    return {one.label: (one.value, one.delta.replace("−", "-")) for one in at.metric}


def test_the_first_visit_shows_the_articles_case(app: Visit) -> None:
    at = app()
    assert not at.exception and not at.error
    assert "注意力" in at.header[0].value and "第 1 层" in at.header[0].value
    assert len(at.metric) == 4


def test_heads_left_out_change_the_numbers(app: Visit) -> None:
    whole, without = metrics(app(**PAIR, out="none")), metrics(app(**PAIR, out="L0H1"))
    assert whole.keys() == without.keys() and len(whole) == 4
    assert all(not delta for _, delta in whole.values())
    grade = next(name for name in whole if name.startswith("期望等级"))
    before, (after, change) = float(whole[grade][0]), without[grade]
    assert float(change) == pytest.approx(float(after) - before, abs=1e-3)
    assert float(change) != 0


def test_the_page_says_what_is_left_out(app: Visit) -> None:
    text = shown(app(**PAIR, out="L0H1", lang="en"))
    assert (
        "Heads left out" in text
        and "replaced by zero" in text
        and "whole model" in text
        and "random heads" in text
    )
    assert "do not lie below layer 1" in shown(app(**PAIR, out="L1H0", lang="en"))


def test_every_way_of_the_layers_heads(app: Visit) -> None:
    at = app(**PAIR, out="L0H1")
    for way in ("before", "after", "change"):
        at.session_state["focus.way"] = way
        assert not at.run().exception


def test_hostile_text_stays_text(app: Visit) -> None:
    at = app(q="<img src=x onerror=alert(1)>", t="**粗** :red[红] $x$ [a](http://b)")
    assert not at.exception and "<img" not in shown(at)


def test_nothing_typed_runs_nothing(app: Visit) -> None:
    at = app(q="", t="标题")
    assert not at.exception and not at.metric and at.info


def test_without_a_run_the_routes_are_a_command(app: Visit) -> None:
    at = app(**PAIR, lang="en")
    assert not at.exception
    assert "none is open here" in shown(at)
    assert [line.split()[:2] for line in at.code[-1].value.split("\n")] == [
        ["qt-bert", "report"],
        ["qt-bert", "app"],
    ]


def test_a_run_has_its_routes_beside_the_row(
    app: Visit, tiny_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = ModelRef(name="tiny", sha256=weights_sha256(tiny_models / "tiny"))
    results = [replace(one, model=model) for one in (matching(), made_routes())]
    inputs = RunInputs(model=model, pairs=results[0].pairs)
    run = run_of(tmp_path / "run", lambda: inputs, *results).path
    monkeypatch.setenv("QT_BERT_APP_RUN", str(run))
    at = app(**PAIR, lang="en")
    assert not at.exception and not at.code
    text = shown(at).replace("\\", "")
    assert "Routes to the focus" in text and "Directly." in text
