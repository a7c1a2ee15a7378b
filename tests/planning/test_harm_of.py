"""Heads that harm, as plain data."""

from __future__ import annotations

from types import SimpleNamespace

from qt_bert.models.heads import Head
from qt_bert.planning import make_plan
from qt_bert.planning.choice import Harmful


def test_a_gain_that_validation_does_not_define_is_none(monkeypatch):
    known, unknown = Head(0, 1), Head(1, 0)
    gains = {known: (0.02, 0.01), unknown: (0.01, float("nan"))}
    found = Harmful("pairwise_accuracy", (known, unknown), (known,), gains)
    monkeypatch.setattr(make_plan, "harmful_heads", lambda *_, **__: found)
    task = SimpleNamespace(
        scorer=None,
        validation=SimpleNamespace(pairs=[]),
        singles=None,
        mask=None,
        seed=0,
        work=None,
    )
    rows = make_plan.harm_of(task).heads
    assert [(row.head, row.validation, row.confirmed) for row in rows] == [
        ("L0H1", 0.01, True),
        ("L1H0", None, False),
    ]
