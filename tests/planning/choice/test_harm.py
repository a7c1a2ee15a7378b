from __future__ import annotations

import numpy as np
import pytest

from qt_bert.models.heads import Head
from qt_bert.planning import choice
from qt_bert.planning.choice import harmful_heads
from qt_bert.planning.runs import losses_of
from tests.planning.choice.conftest import pair, zero


def graded_by_many(count: int):
    return [pair(n + 2, f"查询{n}", f"标题{n}", (1 + n % 5,)) for n in range(count)]


def planted(pairs, better: dict[str, float], labels, names):
    """Logits under which some variants give each pair's label more than the whole model does."""
    rng = np.random.default_rng(len(pairs))
    logits = np.repeat(rng.normal(size=(1, len(pairs), labels.logits)), len(names) + 1, axis=0)
    for place, name in enumerate(names, start=1):
        gain = better.get(name, 0.0) + 0.05 * rng.normal(size=len(pairs))
        meant = 0 if labels.logits == 1 else [one.grades[0] - 1 for one in pairs]
        logits[place, np.arange(len(pairs)), meant] += gain
    return losses_of(logits.astype(np.float32), ["none", *names], pairs, labels)


@pytest.fixture
def model(scorer_of):
    scorer = scorer_of()
    return scorer, scorer.checkpoint.settings.labels


def test_found_on_discovery_and_confirmed_on_validation(model, monkeypatch) -> None:
    scorer, labels = model
    names = [str(head) for head in scorer.checkpoint.shape.all_heads]
    discovery, validation = graded_by_many(40), graded_by_many(60)
    first = planted(discovery, {"L0H1": 0.3, "L2H0": 0.8, "L1H0": -0.5}, labels, names)
    asked = []

    def measured(scorer, pairs, variants, **_):
        asked.extend(variant.name for variant in variants)
        return planted(pairs, {"L0H1": 0.4}, labels, [variant.name for variant in variants])

    monkeypatch.setattr(choice, "losses", measured)
    found = harmful_heads(scorer, validation, first, mask=zero)
    assert found.metric == "nll" and asked == ["L2H0", "L0H1"]
    assert found.candidates == (Head(2, 0), Head(0, 1))
    assert found.confirmed == (Head(0, 1),)
    assert set(found.gains) == set(found.candidates)
    assert found.gains[Head(2, 0)][0] > found.gains[Head(0, 1)][0] > 0.1
    assert found.gains[Head(0, 1)][1] > 0.1 > abs(found.gains[Head(2, 0)][1])


def test_none_where_nothing_gains(model) -> None:
    scorer, labels = model
    first = planted(graded_by_many(40), {"L1H0": -0.5}, labels, ["L0H0", "L1H0"])
    found = harmful_heads(scorer, graded_by_many(10), first, mask=zero)
    assert (found.candidates, found.confirmed, found.gains) == ((), (), {})


def test_a_candidate_is_run_on_validation(model) -> None:
    scorer, labels = model
    first = planted(graded_by_many(40), {"L1H0": 0.5}, labels, ["L0H0", "L1H0"])
    found = harmful_heads(scorer, graded_by_many(10), first, mask=zero)
    assert found.candidates == (Head(1, 0),)
    assert np.isfinite(found.gains[Head(1, 0)]).all()
