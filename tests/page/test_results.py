"""Stored results on heads, and their refusal."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from qt_bert.heads import Head
from qt_bert.models.folder import HEADS
from qt_bert.page.model import ModelPool, SharedModel
from qt_bert.page.results import find_results, named_beside
from qt_bert.results.heads import heads_file
from qt_bert.results.probe import ModelRef, ProbeResult
from qt_bert.run.folder import RunInputs
from tests.results.made_heads import matching, redundancy, run_of


@pytest.fixture
def model(checkpoint_of, tmp_path):
    """A checkpoint of one's own, two layers of two heads."""
    folder = shutil.copytree(checkpoint_of(), tmp_path / "shelf" / "mine")
    return ModelPool(folder).open("mine")


def of(model: SharedModel, *results: ProbeResult) -> list[ProbeResult]:
    """Results of this model's weights."""
    return [replace(one, model=ModelRef(name="mine", sha256=model.sha256)) for one in results]


def store(model: SharedModel, *results: ProbeResult) -> Path:
    path = model.scorer.checkpoint.folder / HEADS
    heads_file(results, {"qt_bert": "1"}).write(path)
    return path


def run_folder(path: Path, *results: ProbeResult) -> Path:
    inputs = RunInputs(model=results[0].model, pairs=results[0].pairs)
    return run_of(path, inputs, *results)


def test_no_results(model):
    assert find_results(model, None) == (None, ())


def test_the_file_beside_the_weights_is_read(model):
    older = replace(matching(), probe="a_probe_of_another_version")
    store(model, *of(model, redundancy(), matching(), older))
    results = find_results(model, None)[0]
    assert results is not None and [t.probe for t in results.tables] == ["redundancy", "matching"]
    assert results.has("matching") and not results.has("focus")
    assert results.sets == {
        "matching": (Head(0, 1),),
        "named": (Head(0, 1), Head(1, 0)),
        "harmful": (Head(1, 0),),
    }
    tables = {table.probe: table for table in results.tables}
    assert tables["matching"].rows()["L0H1"] == {"score": 9.0, "q": 0.001}
    assert results.origin.zh == "mine/heads.json：快速研究，test.tsv 的至多 78 对"


def test_random_heads_avoid_those_that_the_same_score_names(model):
    store(model, *of(model, matching()))
    results = find_results(model, None)[0]
    assert named_beside(results, [Head(0, 1)]) == {Head(0, 1), Head(1, 0)}
    assert named_beside(results, [Head(0, 1), Head(1, 1)]) == set()
    assert named_beside(None, [Head(0, 1)]) == set()


def test_a_run_precedes_the_file(model, tmp_path):
    store(model, *of(model, redundancy(), matching()))
    run = run_folder(tmp_path / "run", *of(model, matching()))
    results = find_results(model, run)[0]
    assert results is not None and [table.probe for table in results.tables] == ["matching"]
    assert results.origin.en == "run: quick study, up to 78 pairs of test.tsv"


def test_a_run_of_other_weights_is_refused(model, tmp_path):
    store(model, *of(model, redundancy()))
    results, refused = find_results(model, run_folder(tmp_path / "run", matching()))
    assert results is not None and results.tables[0].probe == "redundancy"
    assert len(refused) == 1 and "of other weights than mine" in refused[0].en


def test_heads_that_the_model_lacks_are_refused(model):
    store(model, *of(model, replace(matching(), sets={"matching": ("L7H0",)})))
    results, refused = find_results(model, None)
    assert results is None and "L7H0, which mine does not have" in refused[0].en


@pytest.mark.parametrize("text", ["", "[]", '{"kind": "heads"}', "[" * 100_000])
def test_a_damaged_file_is_refused(model, text):
    store(model, *of(model, redundancy())).write_text(text, encoding="utf-8")
    results, refused = find_results(model, None)
    assert results is None and "heads.json" in refused[0].en


def test_a_damaged_run_is_refused(model, tmp_path):
    run = run_folder(tmp_path / "run", *of(model, matching()))
    (run / "probes" / "matching.json").write_text(json.dumps({"schema": 1}), encoding="utf-8")
    results, refused = find_results(model, run)
    assert results is None and "missing" in refused[0].en
    (_, word) = find_results(model, tmp_path / "nowhere")
    assert "is no folder" in word[0].en
