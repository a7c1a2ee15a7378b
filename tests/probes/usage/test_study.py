"""What is used beyond which control, by hand; what the words say where something failed."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from qt_bert.probes.layers_reading import GRADE, POS
from qt_bert.probes.naming import Estimate, mean_of
from qt_bert.probes.usage.claims import margin
from qt_bert.probes.usage.reading import Draws
from qt_bert.probes.usage.study import Study
from qt_bert.probes.usage.summary import summary
from qt_bert.probes.usage.sweeping import Changes, Effect, Metrics


def estimate(value: float) -> Estimate:
    return Estimate(value, value + np.array([-0.01, 0.0, 0.01]))


def made(place: int, random: int) -> SimpleNamespace:
    return SimpleNamespace(place=place, random=(None,) * random)


def study(effects: dict, *, logits: int = 5, holds: bool = True, random: int = 3) -> Study:
    """One property and the ceiling at r1 and r2; `effects`: place → (erased, permuted, random)."""
    metrics = Metrics.of(logits)
    found = {}
    for place, (erased, *controls) in effects.items():
        named = dict(zip(("permuted", "random"), map(estimate, controls), strict=False))
        found["pos", place, metrics.moved] = Effect(estimate(erased), named)
        found["grade", place, metrics.moved] = Effect(estimate(erased), {})
    both = tuple(
        SimpleNamespace(
            name=about.name,
            task=SimpleNamespace(about=about),
            erasers=[made(place, random if about is POS else 0) for place in effects],
        )
        for about in (POS, GRADE)
    )
    return Study(
        both,
        tuple(effects),
        [],
        Changes(found, metrics, {}, 10, 10),
        Draws(probe=1, eraser=3, alone=("grade",)),
        {(one.name, place): holds for one in both for place in effects},
        3,
        0,
    )


def test_the_control_that_moves_most_is_the_one_to_beat():
    found = study({1: (0.5, 0.1, 0.2), 2: (0.3, 0.4, 0.0)})
    assert found.used("pos", 1).value == pytest.approx(0.3)
    assert found.used("pos", 2).value == pytest.approx(-0.1)
    assert found.used("grade", 1).value == pytest.approx(0.5)  # the ceiling has no control
    # Over both places: 0.4 − 0.25 beyond permuted labels, 0.4 − 0.1 beyond random subspaces.
    assert found.mean_used("pos").value == pytest.approx(0.15)
    assert found.mean_used("grade") is None
    assert [one.name for one in found.tested] == ["pos"]


def test_a_control_that_is_missing_somewhere_is_no_control_of_the_mean():
    found = study({1: (0.5, 0.1, 0.2), 2: (0.3, 0.4)})
    assert found.everywhere("pos") == ["permuted"]
    assert found.mean_used("pos").value == pytest.approx(0.15)


def test_one_logit_moves_by_the_rank_correlation_it_loses():
    found = study({1: (-0.5, -0.1, -0.2), 2: (-0.3, -0.1, -0.1)}, logits=1)
    assert found.moved("pos", 1).value == pytest.approx(0.5)
    assert found.used("pos", 1).value == pytest.approx(0.3)
    assert margin(found) == 0.02
    assert margin(study({1: (0.5, 0.1, 0.2)})) == pytest.approx(0.0008)


def test_the_mean_keeps_resamples_together():
    found = mean_of([estimate(0.2), estimate(0.4)])
    assert found.value == pytest.approx(0.3)
    np.testing.assert_allclose(found.samples, [0.29, 0.3, 0.31])


def test_the_words_say_what_is_used_and_what_failed():
    used = summary(study({1: (0.5, 0.1, 0.2), 2: (0.5, 0.1, 0.2)}), full=True)
    assert "Beyond both controls for part of speech." in used.en and "Not visibly" not in used.en
    assert "incomplete" not in used.en and "quick" not in used.en
    broken = study({1: (0.1, 0.1, 0.2), 2: (0.1, 0.1, 0.2)}, holds=False, random=2)
    said = summary(broken, full=False)
    assert "Not visibly beyond controls for part of speech." in said.en
    assert "still reads something: part of speech at r1" in said.en
    assert "within 10 % of the variance could be drawn: part of speech at r1" in said.en
    assert "grade at r1" not in said.en.split("variance could be drawn")[1]
    assert "gives no verdict" in said.en
