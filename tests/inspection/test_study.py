"""What is known of heads: stored results and their refusal, and few pairs scored here."""

from __future__ import annotations

import gc
import json
import shutil
import time
import weakref
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from weakref import WeakKeyDictionary

import pytest

from qt_bert.inspection import study
from qt_bert.inspection.inspected import Inspected, Shelf
from qt_bert.inspection.study import (
    STEPS,
    Studied,
    begin_study,
    computed_here,
    look_for_studied,
)
from qt_bert.inspection.work import Job, Stopped
from qt_bert.models.folder import HEADS
from qt_bert.models.heads import Head
from qt_bert.results.heads import heads_file, offered
from qt_bert.results.probe import ModelRef, ProbeResult
from qt_bert.run.folder import RunInputs
from tests.results.made_heads import matching, redundancy, run_of

PAIRS = 12


@pytest.fixture
def model(checkpoint_of: Callable[..., Path], tmp_path: Path) -> Inspected:
    """A checkpoint of one's own, two layers of two heads."""
    folder = shutil.copytree(checkpoint_of(), tmp_path / "shelf" / "mine")
    return Shelf(folder).open("mine")


def of(model: Inspected, *results: ProbeResult) -> list[ProbeResult]:
    """Results of this model's weights."""
    return [replace(one, model=ModelRef(name="mine", sha256=model.sha256)) for one in results]


def store(model: Inspected, *results: ProbeResult) -> Path:
    path = model.scorer.checkpoint.folder / HEADS
    heads_file(results, {"qt_bert": "1"}).write(path)
    return path


def run_folder(path: Path, *results: ProbeResult) -> Path:
    inputs = RunInputs(model=results[0].model, pairs=results[0].pairs)
    return run_of(path, inputs, *results)


def test_nothing_there_is_nothing_found(model: Inspected) -> None:
    assert look_for_studied(model, None) == (None, ())


def test_the_file_beside_the_weights_is_read(model: Inspected) -> None:
    store(model, *of(model, redundancy(), matching()))
    studied = look_for_studied(model, None).studied
    assert studied is not None
    assert studied.sets == {
        "matching": (Head(0, 1),),
        "named": (Head(0, 1), Head(1, 0)),
        "harmful": (Head(1, 0),),
    }
    assert studied.table("matching").rows()["L0H1"] == {"score": 9.0, "q": 0.001}
    assert studied.table("depth") is None
    assert studied.origin.zh == "mine/heads.json：快速研究，test.tsv 的至多 80 对"


def test_a_run_comes_before_the_file(model: Inspected, tmp_path: Path) -> None:
    store(model, *of(model, redundancy(), matching()))
    run = run_folder(tmp_path / "run", *of(model, matching()))
    studied = look_for_studied(model, run).studied
    assert studied is not None and [table.probe for table in studied.tables] == ["matching"]
    assert studied.origin.en == "run: quick study, up to 80 pairs of test.tsv"


def test_a_run_of_other_weights_is_passed_over_with_a_word(
    model: Inspected, tmp_path: Path
) -> None:
    store(model, *of(model, redundancy()))
    studied, refused = look_for_studied(model, run_folder(tmp_path / "run", matching()))
    assert studied is not None and studied.tables[0].probe == "redundancy"
    assert len(refused) == 1 and "of other weights than mine" in refused[0].en


def test_heads_that_the_model_lacks_are_refused(model: Inspected) -> None:
    store(model, *of(model, replace(matching(), sets={"matching": ("L7H0",)})))
    studied, refused = look_for_studied(model, None)
    assert studied is None and "L7H0, which mine does not have" in refused[0].en


@pytest.mark.parametrize("text", ["", "[]", '{"kind": "heads"}', "[" * 100_000])
def test_a_damaged_file_is_refused(model: Inspected, text: str) -> None:
    store(model, *of(model, redundancy())).write_text(text, encoding="utf-8")
    studied, refused = look_for_studied(model, None)
    assert studied is None and "heads.json" in refused[0].en


def test_a_damaged_run_is_passed_over(model: Inspected, tmp_path: Path) -> None:
    run = run_folder(tmp_path / "run", *of(model, matching()))
    (run / "probes" / "matching.json").write_text(json.dumps({"schema": 1}), encoding="utf-8")
    studied, refused = look_for_studied(model, run)
    assert studied is None and "missing" in refused[0].en
    (_, word) = look_for_studied(model, tmp_path / "nowhere")
    assert "is no folder" in word[0].en


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study, "PAIRS", PAIRS)
    monkeypatch.setattr(study, "_HERE", WeakKeyDictionary())


@pytest.fixture
def fresh(models: Path, few: None) -> Shelf:
    """A shelf of one's own: what is computed here is kept by model."""
    return Shelf(models)


def until(ready: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < limit
        time.sleep(0.02)


def studied_here(shelf: Shelf, name: str) -> tuple[Studied, Job[Studied]]:
    job = begin_study(shelf.open(name))
    until(lambda: job.standing().finished)
    assert job.result is not None, job.error
    return job.result, job


def test_every_head_is_scored_and_the_best_of_the_layers_looked_at_are_named(fresh: Shelf) -> None:
    studied, job = studied_here(fresh, "tuned")
    assert [table.probe for table in studied.tables] == ["redundancy", "order", "matching"]
    assert all(len(table.heads) == 6 and not table.claims for table in studied.tables)
    assert studied.origin.en == f"computed here on {2 * PAIRS} pairs that ship, untested"
    standing = job.standing()
    assert 0.5 < standing.done / standing.total <= 1 and standing.note in STEPS
    names = [quantity.name for quantity, _ in offered(studied.tables)]
    assert {"kl", "matching", "order"} <= set(names) and "effect" not in names
    assert all(head.layer == 1 for head in studied.sets.get("reader", ()))
    assert all(head.layer < 1 for head in studied.sets.get("matching_below", ()))
    assert len(studied.sets.get("matching", ())) <= 1  # a quarter of six heads


def test_the_base_itself_has_no_effects(fresh: Shelf) -> None:
    studied, _ = studied_here(fresh, "before")
    assert [table.probe for table in studied.tables] == ["order", "matching"]
    assert "reader" not in studied.sets


def test_a_model_of_one_logit_has_a_reader_and_no_divergence(fresh: Shelf) -> None:
    studied, _ = studied_here(fresh, "score")
    assert studied.sets["reader"][0] in (Head(1, 0), Head(1, 1))
    table = studied.table("redundancy")
    assert table is not None and table.rows()["L0H0"] == {}


def test_a_study_is_shared_and_kept_for_all_visitors(fresh: Shelf) -> None:
    model = fresh.open("tuned")
    assert computed_here(model) is None
    job = begin_study(model)
    assert begin_study(model) is job
    until(lambda: job.standing().finished)
    assert job.error is None and job.result is not None
    assert computed_here(model) is job.result
    assert begin_study(model) is job


def test_a_study_stopped_in_the_queue_leaves_nothing_and_can_be_begun_again(fresh: Shelf) -> None:
    def waiting(job: Job[None]) -> None:
        while True:
            time.sleep(0.01)
            job.advance()

    model, first = fresh.open("tuned"), fresh.worker.start(waiting, 0)
    stopped = begin_study(model)
    until(lambda: stopped.standing().place == 1)
    stopped.stop()
    again = begin_study(model)  # the one before is still about to end
    assert again is not stopped and begin_study(model) is again
    assert computed_here(model) is None
    first.stop()
    until(lambda: again.standing().finished)
    assert isinstance(stopped.error, Stopped)
    assert again.error is None and computed_here(model) is again.result


def test_a_study_does_not_keep_its_model_open(fresh: Shelf) -> None:
    model = weakref.ref(fresh.open("score"))
    job = begin_study(model())  # type: ignore[arg-type]
    job.stop()
    until(lambda: job.standing().finished)
    fresh._open.clear()

    def gone() -> bool:
        gc.collect()
        return model() is None

    until(gone)
