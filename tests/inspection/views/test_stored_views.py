"""What a study left of behaviours and routes: of a run with figures, of the file with scores alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from qt_bert.figures import Bars
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.studied import Studied
from qt_bert.inspection.turns import Turns
from qt_bert.inspection.views.atlas import routes
from qt_bert.inspection.views.behaviour import stored_card
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.results.heads import table_of
from qt_bert.results.probe import ProbeResult
from qt_bert.text import Text, in_language
from tests.results.made_heads import behaviour, made_routes


@pytest.fixture(scope="module")
def inspected(checkpoint_of: Callable[..., Path]) -> Inspected:
    return Inspected("tiny", open_checkpoint(checkpoint_of()), Turns())


def studied(*results: ProbeResult, run: bool) -> Studied:
    figures = {one.probe: one.figures for one in results}
    return Studied(
        tables=tuple(table_of(one) for one in results),
        origin=Text("来处", "its origin"),
        figures=figures if run else None,
    )


def test_no_study_has_no_card(inspected: Inspected) -> None:
    assert stored_card(None) is None
    assert stored_card(studied(made_routes(), run=True)) is None


def test_the_file_beside_the_weights_gives_the_scores_of_phenomena() -> None:
    found = stored_card(studied(behaviour(), run=False))
    assert found is not None and found.said.en == "It tells most."
    assert found.origin.en == "its origin; 350 cases of cases.tsv"
    (bars,) = found.figures
    assert isinstance(bars, Bars) and bars.series[0].values == (0.5, -0.25)
    assert [in_language(one, "en") for one in bars.categories] == [
        "direction swapped",
        "negation or opposite",
    ]
    assert bars.series[0].intervals == ((0.25, 0.75), None)
    first, second = found.rows
    assert (first["interval"], first["score"]) == ("[0.25, 0.75]", 0.5)
    assert (second["interval"], second["score"]) == (None, -0.25)


def test_a_run_gives_the_figures_of_the_report() -> None:
    result = behaviour()
    found = stored_card(studied(result, run=True))
    assert found is not None and found.figures == result.figures


def test_routes_are_the_graphs_of_the_run(inspected: Inspected) -> None:
    result = made_routes()
    found = routes(inspected, studied(result, run=True))
    assert found.graphs == result.figures and found.commands == ()
    assert found.said is not None and found.said.en == "Directly."


def test_a_run_without_a_graph_says_why_and_asks_for_no_other(inspected: Inspected) -> None:
    found = routes(inspected, studied(replace(made_routes(), figures=()), run=True))
    assert found.graphs == () and found.commands == () and found.said is not None


def test_without_a_run_the_commands_are_told(inspected: Inspected) -> None:
    for one in (None, studied(made_routes(), run=False), studied(behaviour(), run=True)):
        found = routes(inspected, one)
        report, page = found.commands
        assert found.graphs == ()
        assert report.startswith("qt-bert report --model ") and report.endswith(" --out run")
        assert page.startswith("qt-bert app --models ") and page.endswith(" --run run")
