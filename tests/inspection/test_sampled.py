"""A model that nobody studied, scored on few of the pairs that ship."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.inspection import sampled
from qt_bert.inspection.models import Shelf
from qt_bert.inspection.sampled import STEPS, TOTAL, begin_study, study_here
from qt_bert.inspection.studied import Studied, computed_here
from qt_bert.inspection.turns import Stopped
from qt_bert.inspection.views.atlas import colourings
from qt_bert.models.heads import Head

PAIRS = 12


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "PAIRS", PAIRS)


@pytest.fixture
def fresh(models: Path) -> Shelf:
    """A shelf of one's own: what is computed here is kept by model."""
    return Shelf(models)


class Counted:
    def __init__(self) -> None:
        self.done = 0
        self.notes: list[str] = []

    def advance(self, amount: int = 1, note: str = "") -> None:
        assert amount >= 0
        self.done += amount
        self.notes.append(note)


def study(shelf: Shelf, name: str, base: str | None = None) -> tuple[Studied, Counted]:
    shown, model = Counted(), shelf.open(name)
    with shelf.turns.job() as job:
        before = shelf.open(base) if base else None
        return study_here(model, job, shown, base=before), shown


def test_every_head_is_scored_and_nothing_is_tested(shelf: Shelf) -> None:
    studied, shown = study(shelf, "tuned", "before")
    probes = [table.probe for table in studied.tables]
    assert probes == ["redundancy", "boundary", "order", "matching", "shift", "focus"]
    assert all(len(table.heads) == 6 for table in studied.tables)
    assert not studied.tested and not any(table.claims for table in studied.tables)
    assert studied.origin.en == f"computed here on {2 * PAIRS} pairs that ship, untested"
    assert shown.done == TOTAL and set(shown.notes) == set(STEPS)
    names = [one.name for one in colourings(studied)]
    assert {"kl", "boundary", "order", "shift", "focus"} <= set(names)
    assert "effect" not in names


def test_sets_are_of_the_layers_that_the_probes_look_at(shelf: Shelf) -> None:
    studied, _ = study(shelf, "tuned")
    assert all(head.layer == 1 for head in studied.sets.get("reader", ()))
    assert all(head.layer < 1 for head in studied.sets.get("matching_below", ()))
    assert len(studied.sets.get("matching", ())) <= 1  # a quarter of six heads


def test_the_base_itself_has_no_effects(shelf: Shelf) -> None:
    studied, shown = study(shelf, "before")
    assert [table.probe for table in studied.tables] == ["boundary", "order", "matching", "focus"]
    assert "reader" not in studied.sets and shown.done < TOTAL


def test_a_model_of_one_logit_has_a_reader_and_no_divergence(shelf: Shelf) -> None:
    studied, _ = study(shelf, "score")
    assert studied.sets["reader"][0] in (Head(1, 0), Head(1, 1))
    assert studied.scores("redundancy")[Head(0, 0)] == {}


def test_the_same_model_gives_the_same_tables(shelf: Shelf) -> None:
    assert study(shelf, "tuned")[0].tables == study(shelf, "tuned")[0].tables


def test_visitors_go_between_its_slices(shelf: Shelf) -> None:
    visits: list[float] = []
    model, over = shelf.open("tuned"), threading.Event()

    def visit() -> None:
        while not over.is_set():
            began = time.perf_counter()
            with shelf.turns.visit():
                visits.append(time.perf_counter() - began)
            time.sleep(0.005)

    visitor = threading.Thread(target=visit)
    with shelf.turns.job() as job:
        visitor.start()
        study_here(model, job)
        over.set()
    visitor.join()
    assert len(visits) > 5


def test_a_stop_ends_it_and_frees_the_turn(shelf: Shelf) -> None:
    stop, model = threading.Event(), shelf.open("tuned")

    class Stopping(Counted):
        def advance(self, amount: int = 1, note: str = "") -> None:
            super().advance(amount, note)
            if self.done > TOTAL // 4:
                stop.set()

    shown = Stopping()
    with pytest.raises(Stopped), shelf.turns.job(stop=stop) as job:
        study_here(model, job, shown)
    assert shown.done < TOTAL
    with shelf.turns.visit():
        pass


def until(ready: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not ready():
        assert time.monotonic() < limit
        time.sleep(0.02)


def test_a_study_is_shared_and_kept_for_all_visitors(fresh: Shelf) -> None:
    model = fresh.open("tuned")
    assert computed_here(model) is None
    job = begin_study(model)
    assert begin_study(model) is job
    until(lambda: job.standing().finished)
    assert job.error is None and job.result is not None
    assert computed_here(model) is job.result
    assert begin_study(model) is not job


def test_a_stopped_study_leaves_nothing(fresh: Shelf) -> None:
    model = fresh.open("tuned")
    with fresh.turns.job():  # another job is first, so that this one waits
        job = begin_study(model)
        until(lambda: job.standing().place == 1)
        job.stop()
        until(lambda: job.standing().finished)
    assert isinstance(job.error, Stopped) and computed_here(model) is None


def test_a_study_stopped_in_the_queue_can_be_begun_again(fresh: Shelf) -> None:
    model = fresh.open("tuned")
    with fresh.turns.job():
        stopped = begin_study(model)
        until(lambda: stopped.standing().place == 1)
        stopped.stop()
        again = begin_study(model)  # the one before is still about to end
        assert again is not stopped and begin_study(model) is again
    until(lambda: again.standing().finished)
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
