"""A property planted in one layer is found there, and its controls nowhere."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.probes.layers.decode import decode, majority
from qt_bert.probes.layers.estimates import gained, mix_entropy, mix_gravity
from qt_bert.probes.layers.examples import Examples, Task, fewer
from qt_bert.probes.layers.gravity import centre, gains
from qt_bert.probes.layers.mix import mixed
from qt_bert.probes.layers.property import BOUNDARY, LENGTH, POSITION, Property
from qt_bert.probes.layers.targets import controls
from tests.probes.layers import planted

FIT, CHECK = 400, 200
HERE = 2


def halves(about: Property, kinds: bool = True) -> tuple[Task, dict[int, np.ndarray]]:
    """Labels of two classes, or numbers, that stand in the first dimension of layer HERE."""
    made, values = [], {}
    for seed, count in ((1, FIT), (2, CHECK)):
        rng = np.random.default_rng([3, seed])
        at = planted.places(count, about.unit)
        classes = ("no", "yes") if about.labels == "classes" else ()
        labels = rng.integers(2, size=count) if classes else rng.standard_normal(count)
        x = planted.noise(count, seed)
        x[HERE, :, 0] = 2 * (2 * labels - 1 if classes else labels) + 0.3 * x[HERE, :, 0]
        kind = rng.integers(20, size=count) if kinds else None
        made.append(Examples(about, at, labels, classes, kind))
        values[id(at)] = x
    return planted.task(about, *made), values


@pytest.mark.parametrize("about", [BOUNDARY, POSITION], ids=["classes", "number"])
def test_the_planted_layer_has_it_and_no_other(about: Property) -> None:
    task, values = halves(about)
    found = decode(planted.reader(values), [task], draws=3, seed=0)[about.name]
    floor = found.majority.score()[0]
    elsewhere = np.delete(found.score, HERE)
    assert found.score[HERE] > 0.95
    assert np.abs(elsewhere - floor).max() < 0.12
    assert found.selectivity[HERE] > 0.35
    gravity = gained(found, 50, seed=0)
    assert gravity.value == pytest.approx(HERE, abs=0.1)
    assert gravity.samples == pytest.approx(HERE, abs=0.3)
    assert len(found.controls) == 3
    assert np.isnan(found.own.macro_f1()).all() == (about is POSITION)


def test_what_every_layer_holds_alike_is_gained_at_r0() -> None:
    """Noise makes one layer or another a little better; that is no gain."""
    task, values = halves(BOUNDARY)
    for seed, x in enumerate(values.values()):
        noise = np.random.default_rng(50 + seed).standard_normal((len(x), x.shape[1]))
        x[:, :, 0] = 2 * x[HERE, :, 0] + 6 * noise
    found = decode(planted.reader(values), [task], draws=0, seed=0)["boundary"]
    scores = np.array([found.majority.score()[0], *found.score])
    assert centre(gains(scores, scores)) > 0.4
    assert gained(found, 200, seed=0).value < 0.1


def test_what_no_layer_holds_has_no_centre() -> None:
    task, values = halves(BOUNDARY)
    values = {key: planted.noise(x.shape[1], 9 + n) for n, (key, x) in enumerate(values.items())}
    found = decode(planted.reader(values), [task], draws=0, seed=0)["boundary"]
    gravity = gained(found, 200, seed=0)
    assert np.isnan(gravity.value) and np.isnan(gravity.samples).all()


def test_properties_at_the_same_places_are_fitted_as_if_alone() -> None:
    task, values = halves(BOUNDARY)
    numbers = Task(
        *(
            Examples(POSITION, half.places, half.labels.astype(float), (), half.kinds)
            for half in (task.fit, task.check)
        )
    )
    read = planted.reader(values)
    together = decode(read, [task, numbers], draws=1, seed=0)
    assert list(together) == ["boundary", "position"]
    for one in (task, numbers):
        name = one.about.name
        alone = decode(read, [one], draws=1, seed=0)[name]
        assert together[name].score == pytest.approx(alone.score, abs=1e-6)
        assert together[name].control == pytest.approx(alone.control, abs=1e-6)


def test_without_draws_there_is_no_control() -> None:
    task, values = halves(BOUNDARY)
    found = decode(planted.reader(values), [task], draws=0, seed=0)["boundary"]
    assert np.isnan(found.control).all()
    assert found.selectivity == pytest.approx(found.score - found.majority.score()[0])


def test_a_probe_that_knows_nothing_says_the_commonest_class_of_those_fitted() -> None:
    at, other = planted.places(5), planted.places(4)
    fit = Examples(BOUNDARY, at, np.array([1, 1, 1, 0, 0]), ("a", "b"))
    check = Examples(BOUNDARY, other, np.array([1, 0, 0, 0]), ("a", "b"))
    assert majority(Task(fit, check)) == 0.25


def test_a_control_task_gives_each_character_one_label_wherever_it_stands() -> None:
    task, _ = halves(BOUNDARY)
    for one in controls(task, 4, seed=0):
        of_kind = {}
        for labels, half in ((one.fit, task.fit), (one.check, task.check)):
            assert half.kinds is not None
            for kind, label in zip(half.kinds, labels, strict=True):
                assert of_kind.setdefault(kind, label) == label
        assert len(of_kind) == 20
        assert set(of_kind.values()) == {0, 1}
    first, second = (one.fit for one in controls(task, 2, seed=0))
    assert (first != second).any()


def test_labels_of_texts_are_permuted_and_the_true_ones_asked() -> None:
    task, _ = halves(LENGTH, kinds=False)
    (one,) = controls(task, 1, seed=0)
    assert sorted(one.fit) == sorted(task.fit.labels)
    assert (one.fit != task.fit.labels).any()
    assert (one.check == task.check.labels).all()


def test_fewer_examples_are_those_of_whole_texts() -> None:
    task, _ = halves(BOUNDARY)
    few = fewer(task.fit, 38, seed=0)
    assert len(few) == 40 and len(few.places.texts) == 8  # five to a text
    assert few.places.n_groups == 8
    for text in range(8):
        name = few.places.texts[text][0]
        before = task.fit.places.text == int(name.split()[1])
        assert (few.labels[few.places.text == text] == task.fit.labels[before]).all()
    assert len(fewer(task.fit, 10_000, seed=0)) == FIT


def test_the_mix_rests_on_the_planted_layer() -> None:
    task, values = halves(BOUNDARY)
    found = mixed(planted.reader(values), [task], seed=0)["boundary"]
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.weights.argmax() == HERE and found.weights[HERE] > 0.8
    assert found.gravity == pytest.approx(HERE, abs=0.3)
    assert found.expected == pytest.approx(HERE, abs=0.4)
    assert found.entropy < 0.8
    assert found.refitted.shape == (16, planted.LAYERS)
    gravity, spread = (of(found, "a", 500, 0) for of in (mix_gravity, mix_entropy))
    assert (gravity.value, spread.value) == (found.gravity, found.entropy)
    assert 0 < gravity.samples.std() < 0.3 and 0 < spread.samples.std() < 0.3
    assert found.cumulative[HERE] > 0.95 and found.cumulative[HERE - 1] < 0.65
    assert found.scored.score()[0] == found.cumulative[-1]


def test_what_all_layers_hold_alike_is_spread_over_them() -> None:
    task, values = halves(BOUNDARY)
    for x in values.values():
        x[:] = x[HERE]
    found = mixed(planted.reader(values), [task], seed=0)["boundary"]
    assert found.entropy == pytest.approx(np.log(planted.LAYERS), abs=1e-3)
    assert found.gravity == pytest.approx((planted.LAYERS - 1) / 2, abs=1e-2)
