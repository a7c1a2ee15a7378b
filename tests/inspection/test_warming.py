"""What is done before the first visitor asks, so that nobody waits for it."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.models import Shelf
from qt_bert.inspection.state import first_state
from qt_bert.inspection.views import focus as cls_rows
from qt_bert.inspection.views import words
from qt_bert.inspection.views.focus import focus
from qt_bert.inspection.views.words import calibration_of
from qt_bert.inspection.warming import warm_up
from qt_bert.models.heads import Head


@pytest.fixture
def shelf(models: Path, monkeypatch: pytest.MonkeyPatch) -> Shelf:
    """One's own, and nothing kept by other tests."""
    monkeypatch.setattr(cls_rows, "_kept", Kept())
    monkeypatch.setattr(words, "_kept_readings", Kept())
    return Shelf(models)


def test_afterwards_the_first_visit_runs_nothing(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = replace(first_state(shelf, None), model="tuned", layer=1)
    warm_up(shelf, state)
    model, base = shelf.open("tuned"), shelf.open("before")
    assert "mean" in model.guards["variants"]
    monkeypatch.setattr(shelf.turns, "visit", None)  # nobody takes a turn any more
    assert focus(model, state).score is not None
    assert calibration_of(model).decisions == calibration_of(base).decisions > 0
    assert model.part([Head(1, 1)], "mean") is not None


def test_visitors_go_between_its_turns(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "TURN_TOKENS", 64)
    model: Inspected = shelf.open("tuned")
    turns, over, went = shelf.turns, threading.Event(), []

    def visit() -> None:
        while not over.is_set():
            with turns.visit():
                went.append(1)

    visitor = threading.Thread(target=visit, daemon=True)
    visitor.start()
    calibration_of(model)
    over.set()
    visitor.join(10)
    assert len(went) > 5 and not turns.mine


def test_a_fault_in_the_work_leaves_no_turn_taken(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = shelf.open("tuned")

    def fails(*given: object, **more: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(model.scorer.encoder, "embed", fails)
    with pytest.raises(ZeroDivisionError) as caught:
        calibration_of(model)
    assert caught.tb is not None  # whose frames hold the batches still
    with pytest.raises(ZeroDivisionError):
        model.part([Head(0, 0)], "mean")
    done = threading.Event()

    def visit() -> None:
        with shelf.turns.visit():
            done.set()

    threading.Thread(target=visit, daemon=True).start()
    assert done.wait(10)
