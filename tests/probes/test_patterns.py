"""The probe `patterns`: planted heads, with and without a base, models of every kind."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes import patterns
from qt_bert.probes.base import Context
from qt_bert.probes.pattern_maps import Errors, are_known, open_classifier, rates
from qt_bert.probes.patterns import commonest
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import PATTERNS, shipped
from tests.conftest import CHARACTERS, edited
from tests.probes import planted_tuning
from tests.probes.planted_matching import HEADS, WIDTH, plant_matching
from tests.probes.planted_matching import _plant as plant
from tests.probes.probe_results import result_of, values

PAIRS = planted_tuning.pairs()


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    """A model of uniform heads, but L0H1 attends five positions on, L0H2 one on, L1H0 to [CLS]."""
    folder = plant_matching(tmp_path_factory.mktemp("planted") / "model")
    next_one, first = np.zeros((2, 2, WIDTH, HEADS * WIDTH))
    next_one[:, :, WIDTH : 2 * WIDTH] = np.eye(WIDTH)
    next_one[0] = np.roll(next_one[0], 1, axis=0)
    first[0, 0, WIDTH : 2 * WIDTH] = first[1, 0, WIDTH] = 1
    with edited(folder) as model:
        for head, projections in ((Head(0, 2), next_one), (Head(1, 0), first)):
            plant(model, head, (projections[0], projections[1]))
    return folder


def test_planted_heads_have_their_kinds(planted):
    han = sorted({one for one in CHARACTERS if not one.isascii()})
    texts = [("".join(han[i : i + 4]), "".join(han[i + 8 : i + 24])) for i in range(3)]
    pairs = [Pair(*text, (4,), str(i), i + 1, "4", {}) for i, text in enumerate(texts)]
    scorer = Scorer(open_checkpoint(planted))
    classifier = open_classifier(shipped(PATTERNS))
    found = patterns.classify(scorer, pairs, scorer.checkpoint.shape.all_heads, classifier)
    assert found.of_head("heterogeneous")[0, 1] == 1
    assert found.of_head("diagonal")[0, 2] == 1
    assert found.of_head("vertical")[1, 0] == 1
    assert found.of_head("block")[0, 0] == 1
    assert commonest(found)[Head(0, 2)] == "diagonal"
    np.testing.assert_allclose(found.of_all.sum(1), 1)


def test_shares_before_and_after(context_of, checkpoint_of):
    model, base = checkpoint_of(seed=1, heads=4), checkpoint_of(seed=2, heads=4)
    result = result_of("patterns", context_of(model, PAIRS, base=base))
    found = values(result)
    after, before = (
        np.mean([one.scores[name] for one in result.heads])
        for name in ("vertical", "vertical_before")
    )
    assert found["vertical"] == pytest.approx(100 * after)
    assert found["vertical_rise"] == pytest.approx(100 * (after - before))
    back = values(result_of("patterns", context_of(base, PAIRS, base=model)))
    assert back["vertical_rise"] == pytest.approx(-found["vertical_rise"])


def measurements_of(
    after: list[float], before: list[float], errors: Errors, context: Context
) -> Any:
    """The measurements on made shares of two heads, about [KINDS] each, over 60 queries."""

    def shares(about: list[float], seed: int) -> patterns.Shares:
        drawn = np.random.default_rng(seed).dirichlet(200 * np.array(about), (60, 1, 2))
        return patterns.Shares(drawn, [Head(0, 0), Head(0, 1)])

    classifier = replace(open_classifier(shipped(PATTERNS)), errors=errors)
    return patterns._measurements(context, shares(after, 1), shares(before, 2), classifier)


def test_correction_gives_back_planted_shares(context_of, tmp_path):
    """Answers made of known shares by known errors; the interval holds what so few labels leave open."""
    tables = np.zeros((40, 5, 5))
    tables[:, [0, 1, 3, 4], [0, 1, 3, 4]] = 2
    tables[:10, 0, 0], tables[:10, 0, 4] = 0, 2
    tables[:5, 4, 4], tables[:5, 4, 0] = 0, 2
    errors = Errors(tables)
    known = rates(errors.confusion, are_known(errors.confusion))
    after, before = np.array([0.4, 0.1, 0.0, 0.1, 0.4]), np.array([0.2, 0.1, 0.0, 0.1, 0.6])
    answers = [(known.T @ one).clip(1e-4).tolist() for one in (after, before)]
    context = context_of(tmp_path)  # no model is needed
    found = measurements_of(*answers, errors, context)
    for figure, truth in (("vertical_rise", 20), ("vertical", 40), ("others", 60)):
        one, plain = found[f"{figure}_corrected"], found[figure]
        assert one.value == pytest.approx(truth, abs=2.5)
        (low, high), ends = one.interval(), plain.interval()
        assert low < truth < high and high - low > 2 * (ends[1] - ends[0])
    # Without errors nothing is corrected.
    perfect = Errors(np.tile(20 * np.eye(5), (10, 1, 1)))
    found = measurements_of(*answers, perfect, context)
    assert found["vertical_corrected"].value == pytest.approx(found["vertical"].value, abs=1e-6)


def test_without_the_classifier_there_is_an_error(context_of, checkpoint_of, monkeypatch, tmp_path):
    monkeypatch.setattr(patterns, "shipped", lambda name: tmp_path)
    with pytest.raises(ArgumentError, match="no classifier of patterns"):
        result_of("patterns", context_of(checkpoint_of()))
