"""Encoded against used: erasers against the package, controls by hand, a sign that the grades rest on."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from concept_erasure import LeaceEraser
from scipy.stats import spearmanr

from qt_bert.data.pairs import Pair
from qt_bert.figures import HeatMap
from qt_bert.probes import layers_reading as reading
from qt_bert.probes import usage
from qt_bert.probes.base import Context
from qt_bert.results.probe import ProbeResult
from tests.probes import planted_order, planted_usage
from tests.probes.made_context import context_of
from tests.probes.probe_results import measured, result_of

SIZE, N = 12, 400


def data() -> tuple[torch.Tensor, torch.Tensor]:
    """Vectors [N, SIZE] far from 0 and their classes [N, 3], which they hold; a last number that
    they do not."""
    rng = np.random.default_rng(0)
    classes = rng.integers(3, size=N)
    x = rng.normal(size=(N, SIZE)) @ rng.normal(size=(SIZE, SIZE)) + 5
    x[:, :3] += 2 * np.eye(3)[classes]
    targets = np.concatenate([np.eye(3)[classes], np.zeros((N, 1))], axis=1)
    return torch.from_numpy(x), torch.from_numpy(targets)


def sums(x: torch.Tensor, y: torch.Tensor) -> reading.Moments:
    """The vectors as the second of two layers, in two batches, shifted."""
    found = reading.Moments.empty(torch.full((2, SIZE), 4.0, dtype=torch.float64), y.shape[1])
    for part in (slice(0, 150), slice(150, None)):
        found.add(torch.stack([torch.zeros_like(x[part]), x[part]]), y[part])
    return found


def test_erasers_from_sums_are_those_of_the_package():
    x, y = data()
    whole, block = sums(x, y), slice(0, 3)
    made = usage.leace(whole, 1, block)
    theirs = LeaceEraser.fit(x, y[:, :3], svd_tol=1e-6)
    assert made.rank == 2
    torch.testing.assert_close(made.outputs(x), theirs(x), rtol=0, atol=1e-9)
    centred = y[:, :3] - y[:, :3].mean(0)
    assert (made.outputs(x).T @ centred / N).abs().max() < 1e-9  # nothing covaries any more


def test_what_an_eraser_takes():
    x, y = data()
    made, spread = usage.leace(sums(x, y), 1, slice(0, 3)), usage.covariance(sums(x, y), 1)
    np.testing.assert_allclose(spread, np.cov(x.numpy().T, bias=True), rtol=1e-9)
    gone = (x - made.outputs(x)).square().sum(1).mean()
    assert usage.removed_variance(made, spread) == pytest.approx(float(gone), rel=1e-9)


def test_labels_that_do_not_vary_leave_all_as_it_is():
    x, y = data()
    made = usage.leace(sums(x, y), 1, slice(3, 4))
    assert made.rank == 0 and torch.equal(made.outputs(x), x)
    spread, rng = usage.covariance(sums(x, y), 1), np.random.default_rng(0)
    assert usage.matched_subspaces(spread, made, 3, rng) == []


VARIANCES = np.array([100.0, 5.0, *np.full(20, 0.5), *np.full(10, 0.01)])
"""As those of a trained model: the first direction holds most."""


def projection(directions: Sequence[int], scale: float = 1.0) -> usage.AffineMap:
    """Off some principal directions, or by a share of them."""
    left = torch.eye(len(VARIANCES), dtype=torch.float64)[:, list(directions)]
    return usage.AffineMap(scale * left, left.T, torch.arange(len(VARIANCES)).double())


@pytest.mark.parametrize("directions", [[5], [1, 7, 25], range(2, 14), [0, 30, 31]])
def test_random_subspaces_take_as_much_variance(directions):
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(len(VARIANCES),) * 2))[0]
    spread, turn = axes @ np.diag(VARIANCES) @ axes.T, torch.from_numpy(axes)
    like = projection(directions)
    like = replace(like, left=turn @ like.left, right=like.right @ turn.T)
    removed = usage.removed_variance(like, spread)
    assert removed == pytest.approx(VARIANCES[list(directions)].sum())
    drawn, again = (
        usage.matched_subspaces(spread, like, 6, np.random.default_rng(1)) for _ in range(2)
    )
    assert len(drawn) == 6
    for one, other in zip(drawn, again, strict=True):
        assert one.rank == like.rank and one.centre.tolist() == like.centre.tolist()
        assert abs(usage.removed_variance(one, spread) / removed - 1) <= usage.WITHIN
        torch.testing.assert_close(one.right @ one.left, torch.eye(one.rank, dtype=torch.float64))
        assert torch.equal(one.left, other.left)
    across = [np.abs(drawn[0].right.numpy() @ one.left.numpy()).min() for one in drawn[1:]]
    assert min(across) < 0.99  # not the same one again


def test_what_no_subspace_holds_is_left_out():
    spread, rng = np.diag(VARIANCES), np.random.default_rng(0)
    # Four times the most, less than any two directions, and all of them.
    for like in ([0], 2.0), ([30, 31], 0.01), (range(len(VARIANCES)), 1.0):
        assert usage.matched_subspaces(spread, projection(*like), 3, rng) == []
    flat = np.diag([3.0, 2.0, 1.0, *np.zeros(len(VARIANCES) - 3)])
    (one,) = usage.matched_subspaces(flat, projection([0, 2]), 1, rng)
    assert np.abs(one.right.numpy()[:, 3:]).max() < 1e-12


TEXT = np.array([0, 0, 0, 1, 1, 3, 3, 3, 3])


def task(
    about: reading.Property, unit: reading.Unit, text: Any, labels: Any, kinds: Any, ends: int = 1
) -> reading.Task:
    spans = np.arange(len(text) * ends * 2).reshape(len(text), ends, 2)
    texts = tuple((str(number), "t") for number in range(4))
    positions = reading.Positions(unit, texts, text, spans)
    examples = reading.Examples(about, positions, labels, ("a", "b"), kinds)
    return reading.Task(examples, examples)


def test_labels_are_permuted_within_a_text_and_those_of_texts_among_all():
    labels = np.arange(len(TEXT))
    drawn = usage.permuted(task(reading.POS, "token", TEXT, labels, labels), 20, seed=0)
    assert [one.name for one in drawn[:2]] == ["pos#0", "pos#1"]
    for one in drawn:
        for text in set(TEXT):
            assert sorted(one.fit[text == TEXT]) == sorted(labels[text == TEXT])
    assert len({tuple(one.fit) for one in drawn}) > 10
    whole = task(reading.LENGTH, "text", np.arange(4), np.array([10.0, 20.0, 30.0, 40.0]), None)
    (one,), (again,) = (usage.permuted(whole, 1, seed=1) for _ in range(2))
    assert sorted(one.fit) == [10, 20, 30, 40] and list(one.fit) != [10, 20, 30, 40]
    assert list(one.fit) == list(again.fit)


def test_arcs_are_reduced_to_the_dependent_word():
    labels = np.arange(len(TEXT))
    reduced = usage.on_dependents(task(reading.DEPENDENCY, "edge", TEXT, labels, labels, ends=2))
    positions = reduced.fit.positions
    assert positions.unit == "text"
    assert positions.spans[:, 0].tolist() == [[4 * n, 4 * n + 1] for n in range(len(TEXT))]


def test_readable_is_the_share_between_control_and_a_perfect_score():
    labels = np.array([0, 1, 0, 1])
    matched = task(reading.MATCHED, "token", np.arange(4), labels, labels)

    def right(*answers):
        good = np.array(answers, float).T
        return reading.Sums(good, np.ones_like(good), False)

    own = right([1, 1, 1, 0], [1, 1, 1, 1], [1, 1, 1, 0])
    control = right([1, 0, 1, 0], [0, 0, 1, 0], [1, 1, 1, 1])
    one = reading.Decoded(matched, own, (control,), right([1, 0, 1, 0]))
    found = usage.readable(one)
    assert [each.value for each in found[:2]] == [0.5, 1]  # from 0.5; from the guess, which is more
    assert np.isnan(found[2].value)  # a perfect control
    # Without the query whose answer is wrong all is right: 1; without another (2/3 − b) / (1 − b).
    left = found[0].leave_one_out
    assert left[3] == pytest.approx(1) and left[1] == pytest.approx((2 / 3 - 2 / 3) / (1 / 3))
    bare = usage.readable(replace(one, controls=()))
    assert bare[2].value == pytest.approx(0.5)


def run_of(logits: dict[str, list[list[float]]]) -> Any:
    """A run on three pairs, two of them of one query."""
    outputs = len(logits["none"][0])
    return SimpleNamespace(
        logits=lambda name: np.array(logits[name]),
        scores=lambda name: np.array(logits[name])[:, 0],
        labels=SimpleNamespace(logits=outputs),
        queries=["a", "a", "b"],
    )


def test_the_divergence_of_some_variants_by_hand():
    even, odd = [0.0, 0.0], [np.log(3), 0.0]
    logits = {"none": [even] * 3, "one": [even, odd, odd], "two": [even] * 3}
    found = usage.divergence(run_of(logits), ["one", "two"])
    away = 0.5 * np.log(0.5 / 0.75) + 0.5 * np.log(0.5 / 0.25)
    # Query a: half of its pairs moved; query b: its only one; and half of the variants.
    np.testing.assert_allclose(found.values, [away / 4, away / 2])


def test_one_logit_diverges_as_a_normal_distribution():
    """A clean spread of √(2/3): a score 2 away is 2² / (2 · 2/3) nats away."""
    logits = {"none": [[0.0], [1.0], [2.0]], "one": [[0.0], [3.0], [2.0]]}
    np.testing.assert_allclose(usage.divergence(run_of(logits), ["one"]).values, [1.5, 0])


def test_the_change_of_rho_is_that_of_the_erasers_less_that_of_their_controls():
    rng = np.random.default_rng(0)
    names = ["a", "b", "a#0", "a#1", "b#0", "b#1", "b#2"]
    logits = {name: rng.normal(size=(30, 1)).round(1) for name in names}
    pairs = [SimpleNamespace(grades=(1 + n % 5,)) for n in range(30)]
    run: Any = SimpleNamespace(
        logits=logits.__getitem__,
        labels=SimpleNamespace(logits=1),
        pairs=pairs,
        queries=[n // 2 for n in range(30)],
    )
    families: Any = [
        {
            "erased": [SimpleNamespace(name=at)],
            "random": [SimpleNamespace(name=one) for one in names if one.startswith(f"{at}#")],
        }
        for at in "ab"
    ]
    found = usage.change_of_rho(run, families, "random")

    def by_hand(rows):
        grades = np.arange(30)[rows] % 5
        rho = {name: spearmanr(logits[name][rows, 0], grades).statistic for name in names}
        first = rho["a"] - (rho["a#0"] + rho["a#1"]) / 2
        return (first + rho["b"] - (rho["b#0"] + rho["b#1"] + rho["b#2"]) / 3) / 2

    assert found.value == pytest.approx(by_hand(np.arange(30)))
    assert found.leave_one_out[0] == pytest.approx(by_hand(np.arange(2, 30)))


# The whole probe.


def made(folder: Path, pairs: Sequence[Pair], tmp_path: Path, **changes: Any) -> Context:
    """The first half of the pairs is discovery, the other validation."""
    middle = len(pairs) // 2
    return context_of("usage", folder, tmp_path, (pairs[:middle], pairs[middle:]), **changes)


@pytest.fixture(scope="module")
def planted(checkpoint_of, tmp_path_factory) -> ProbeResult:
    """The whole probe on the planted model, with the two signs as properties under --full."""
    tmp_path = tmp_path_factory.mktemp("usage")
    folder = planted_usage.plant(checkpoint_of(**planted_usage.SHAPE), tmp_path / "model")
    pairs = planted_usage.pairs(120)
    context = made(folder, pairs, tmp_path, full=True, resamples=1000)
    properties = planted_usage.tasks(pairs[:60], pairs[60:], folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usage, "tasks", lambda context, names: properties)
        patch.setattr(usage, "FULL_DRAWS", {"probe": 1, "eraser": 12})
        return result_of("usage", context)


def test_both_signs_are_read_and_one_is_used(planted):
    found: Any = measured(planted)
    used = found[f"usage_used_{planted_usage.USED.name}"]
    idle = found[f"usage_used_{planted_usage.UNUSED.name}"]
    assert used.value > 0.3 and used.ci_low > 0 and used.n_queries == 60
    assert abs(idle.value) < 0.1 and idle.ci_low < 0.01
    (heat,) = (one for one in planted.figures if isinstance(one, HeatMap))
    assert heat.columns == ("r0", "r1", "r2")
    row = heat.rows.index(planted_usage.USED.title)
    assert {(row, 0), (row, 1)} <= set(heat.marked)
    assert all(float(share) > 0.95 for shares in heat.annotations for share in shares[:2])
    one = found["usage_encoded_not_used"]
    assert planted.settings["nearest_to_unused"] == planted_usage.UNUSED.name
    assert -0.02 < one.ci_low <= one.value <= one.ci_high < 0.02
    assert planted.settings["guards"]["erased"]["unmasked"] < 1e-4
    controls = planted.settings["properties"][planted_usage.USED.name]["controls"]["r0"]
    assert controls == {"permuted": 12, "random": 12}


@pytest.mark.parametrize("name", ["usage", "layers"])
def test_too_few_pairs_give_nothing(name, checkpoint_of, tmp_path):
    found = result_of(name, made(checkpoint_of(), planted_order.pairs(6), tmp_path))
    assert (found.probe, found.measurements, found.figures) == (name, (), ())
    assert found.facts == {"fitted": 3, "scored": 3, "least": 5}
