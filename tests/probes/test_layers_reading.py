"""Vectors, ridge and scores against references; a property planted in one layer is found there."""

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as Reference

from qt_bert.data.tokenise import SPECIAL
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.layers import centre_of_gravity, gains
from qt_bert.probes.layers_reading import (
    BOUNDARY,
    LENGTH,
    OTHER,
    POSITION,
    Column,
    Examples,
    Labelled,
    Moments,
    Positions,
    Property,
    Task,
    Vectors,
    columns_of,
    decided_at,
    decode,
    fit,
    in_words,
    majority_sums,
    read_vectors,
    scores_by_layer,
    sums_of,
    task_of,
)
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import ranking_scores
from qt_bert.text import signed
from tests.probes import planted_layers as planted

# Vectors.

TEXTS = (("苹果多少钱", "苹果手机多少钱一斤"), ("狗追猫", "猫狗"), ("大小", "开关大小"))


def places_of(scorer: Scorer, unit: str) -> Positions:
    """Of each text: its second and third token; or all tokens of its texts; or two spans of two tokens."""
    encoded = scorer.tokenizer.encode(TEXTS)
    if unit == "token":
        text, spans = np.repeat(np.arange(3), 2), [[[1, 2]], [[2, 3]]] * 3
    elif unit == "edge":
        text, spans = np.arange(3), [[[1, 3], [2, 4]]] * 3
    else:
        text = np.arange(3)
        spans = [[_span(one.side, side) for side in (0, 1)] for one in encoded]
    return Positions(unit, TEXTS, text, np.array(spans))


def _span(sides: list[int], side: int) -> list[int]:
    return [sides.index(side), sides.index(side) + sides.count(side)]


def gathered(
    scorer: Scorer, positions: Positions, layers: Sequence[int] | None = None
) -> np.ndarray:
    """All that is read at some places, in their order [layers, n, width]."""
    seen: list[Vectors] = [one for (one,) in read_vectors(scorer, [positions], layers)]
    order = np.argsort(np.concatenate([one.rows for one in seen]))
    return torch.cat([one.values for one in seen], dim=1).numpy()[:, order]


def states_of(scorer: Scorer, text: int) -> np.ndarray:
    """The Hugging Face model's hidden states of one pair, without padding [layers, L, hidden]."""
    (one,) = scorer.tokenizer.encode([TEXTS[text]])
    with torch.inference_mode():
        predictions = scorer.encoder.backbone(
            input_ids=torch.tensor([one.input_ids]),
            token_type_ids=torch.tensor([one.token_type_ids]),
            output_hidden_states=True,
        )
    return torch.stack(predictions.hidden_states)[:, 0].numpy()


@pytest.fixture(scope="module", params=("bert", "xlm-roberta", "electra"))
def scorer(request, checkpoint_of) -> Scorer:
    return Scorer(open_checkpoint(checkpoint_of(request.param, layers=3)))


def test_vectors_are_made_of_the_hidden_states(scorer):
    """A token's own; the mean of all but special tokens; of an edge both words and their product."""
    tokens, means, edges = (
        gathered(scorer, places_of(scorer, unit)) for unit in ("token", "text", "edge")
    )
    for text, one in enumerate(scorer.tokenizer.encode(TEXTS)):
        states = states_of(scorer, text)
        assert tokens[:, 2 * text : 2 * text + 2] == pytest.approx(states[:, 1:3], abs=1e-4)
        own = [at for at, side in enumerate(one.side) if side != SPECIAL]
        assert means[:, text] == pytest.approx(states[:, own].mean(axis=1), abs=1e-4)
        left, right = states[:, 1:3].mean(axis=1), states[:, 2:4].mean(axis=1)
        expected = np.concatenate([left, right, left * right], axis=1)
        assert edges[:, text] == pytest.approx(expected, abs=1e-4)


def test_some_layers_are_those_of_all(scorer):
    positions = places_of(scorer, "token")
    every = gathered(scorer, positions)
    assert (gathered(scorer, positions, [0, 2]) == every[[0, 2]]).all()


# The model's own head.


def test_scores_by_layer_end_in_the_models_own(scorer):
    scores = scores_by_layer(scorer, scorer.tokenizer.encode(TEXTS))
    labels = scorer.settings.labels
    assert scores.shape == (3, 4)
    assert scores[:, -1] == pytest.approx(ranking_scores(scorer.logits(TEXTS), labels), abs=1e-5)


def test_a_score_is_decided_once_it_stays_near_the_last_one():
    scores = np.array([[4.6, 1, 4.2, 4.6], [1, 1, 1, 4], [3.6, 4.4, 3.5, 4]])
    assert decided_at(scores).tolist() == [2, 3, 0]
    assert decided_at(scores / 4, within=0.125).tolist() == [2, 3, 0]


def test_properties_are_worded_with_a_minus_sign():
    found = in_words({"pos": -0.0884, "matched": 0.0126, "order": 0.0}, signed, reverse=True)
    assert found.en == "term matched +0.013, word order 0.000, part of speech −0.088"


# Ridge.

N, WIDTH, LAYERS = 60, 7, 2
FAR = 50.0
"""How far the vectors lie from 0: what float32 sums of squares would lose without a shift."""


def examples(targets: int = 3, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((LAYERS, N, WIDTH)) * np.linspace(0.3, 2, WIDTH) + FAR
    y = (x[0] - FAR) @ rng.standard_normal((WIDTH, targets)) + rng.standard_normal((N, targets))
    return torch.from_numpy(x).float(), torch.from_numpy(y).float()


def summed(x: torch.Tensor, y: torch.Tensor, pieces: int = 3) -> Moments:
    sums = Moments.empty(torch.full((LAYERS, WIDTH), FAR), y.shape[1])
    for rows in np.array_split(np.arange(len(y)), pieces):
        sums.add(x[:, rows], y[rows])
    return sums


def empty(y: torch.Tensor) -> Moments:
    return Moments.empty(torch.full((LAYERS, WIDTH), FAR), y.shape[1])


@pytest.mark.parametrize("penalty", [1e-4, 0.1, 10.0])
def test_the_weights_are_those_of_scikit_learn(penalty):
    x, y = examples()
    found = fit(summed(x, y), empty(y), [slice(0, 3)], [penalty])
    for layer in range(LAYERS):
        mean_variance = np.var(x[layer].double().numpy(), axis=0).mean()
        reference = Reference(alpha=N * penalty * mean_variance).fit(x[layer].double(), y.double())
        assert found.weights[layer].T.numpy() == pytest.approx(reference.coef_, abs=2e-4)
        predictions = found.predict(x)[layer].numpy()
        assert predictions == pytest.approx(reference.predict(x[layer].double()), abs=2e-3)


def test_the_penalty_has_the_least_error_on_held_back_examples():
    x, y = examples(targets=1, seed=3)
    y = y + 5 * torch.from_numpy(np.random.default_rng(4).standard_normal((N, 1))).float()
    held, tried = np.arange(N) % 3 == 0, (1e-4, 1.0, 100.0)
    part, rest = summed(x[:, ~held], y[~held]), summed(x[:, held], y[held])
    found = fit(part, rest, [slice(0, 1)], tried).weights
    for layer in range(LAYERS):
        errors = []
        for penalty in tried:
            ridge = fit(part, empty(y), [slice(0, 1)], [penalty])
            missed = ridge.predict(x[:, held])[layer] - y[held]
            errors.append(float(missed.square().sum()))
        best = tried[int(np.argmin(errors))]
        assert torch.equal(found[layer], fit(part, rest, [slice(0, 1)], [best]).weights[layer])


def test_vectors_without_variance_predict_the_mean():
    _, y = examples()
    same = torch.full((LAYERS, N, WIDTH), FAR)
    found = fit(summed(same, y), empty(y), [slice(0, 3)])
    assert found.weights.abs().max() == 0
    assert found.predict(same)[0].numpy() == pytest.approx(
        np.tile(y.mean(0).numpy(), (N, 1)), abs=1e-5
    )


# Labels and scores.


def described(labels: Sequence[float | str]) -> Labelled:
    count = len(labels)
    return Labelled(
        Positions("token", (("a", "b"),), np.zeros(count, int), np.zeros((count, 1, 2), int)),
        labels,
    )


def test_rare_classes_and_those_of_one_half_alone_are_one():
    task = task_of(BOUNDARY, described(["a"] * 6 + ["b"] * 4 + ["c"]), described([*"abcd", *"ab"]))
    assert task is not None and task.classes == ("a", "b", OTHER)
    assert task.check.labels.tolist() == [0, 1, 2, 2, 0, 1]


def test_trivial_labels_are_no_task():
    assert task_of(BOUNDARY, described(["a"] * 9), described(["a", "b"] * 5)) is None
    assert task_of(POSITION, described([1.0, 2.0] * 5), described([2.0] * 9)) is None
    assert task_of(POSITION, described([1.0, 2.0]), described([1.0, 2.0] * 9)) is None


def of_labels(about: Property, true: Sequence[float], classes: tuple[str, ...] = ()) -> Column:
    """Labels of four places in three texts, the first text with two."""
    text = np.array([0, 0, 1, 2])
    positions = Positions(
        "token", (("a", ""), ("b", ""), ("c", "")), text, np.zeros((4, 1, 2), int)
    )
    labels = np.array(true)
    examples = Examples(about, positions, labels, classes)
    return Column(Task(examples, examples), None, labels, labels)


def test_accuracy_by_hand_and_with_queries_weighed():
    column = of_labels(BOUNDARY, [0, 1, 1, 0], ("no", "yes"))
    sums = sums_of(column, np.array([[0, 1, 0, 1], [1, 1, 1, 1]]))
    assert sums.score() == pytest.approx([2 / 4, 2 / 4])
    # Query a has two right of two, b none of one, c none of one.
    weights = np.array([[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]])
    assert sums.score(weights)[:, 0] == pytest.approx([2 / 4, 0.0])


def test_r2_by_hand_is_against_the_mean_of_those_fitted():
    column = of_labels(POSITION, [1.0, 2.0, 4.0, 2.0])._replace(fit=np.array([1.0, 3.0]))
    sums = sums_of(column, np.array([[1.0, 3.0, 4.0, 2.0]]))
    assert sums.score() == pytest.approx([1 - 1 / 5])  # distances from 2: 1, 0, 4, 0


# A planted layer.

FIT, CHECK = 400, 200
HERE = 2


def halves(about: Property, kinds: bool = True) -> tuple[Task, dict[int, np.ndarray]]:
    """Labels of two classes, or numbers, that stand in the first dimension of layer HERE."""
    made, values = [], {}
    for seed, count in ((1, FIT), (2, CHECK)):
        rng = np.random.default_rng([3, seed])
        at = planted.positions(count, about.unit)
        classes = ("no", "yes") if not about.number else ()
        labels = rng.integers(2, size=count) if classes else rng.standard_normal(count)
        x = planted.noise(count, seed)
        x[HERE, :, 0] = 2 * (2 * labels - 1 if classes else labels) + 0.3 * x[HERE, :, 0]
        kind = rng.integers(20, size=count) if kinds else None
        made.append(Examples(about, at, labels, classes, kind))
        values[id(at)] = x
    return Task(*made), values


@pytest.mark.parametrize("about", [BOUNDARY, POSITION], ids=["classes", "number"])
def test_the_planted_layer_has_it_and_no_other(about):
    task, values = halves(about)
    found = decode(planted.reader(values), [task], draws=3, seed=0)[about.name]
    floor = found.majority.score()[0]
    elsewhere = np.delete(found.score, HERE)
    assert found.score[HERE] > 0.95
    assert np.abs(elsewhere - floor).max() < 0.12
    assert found.selectivity[HERE] > 0.35
    gravity = centre_of_gravity(found, 200, seed=0)
    assert gravity is not None and gravity.value == pytest.approx(HERE, abs=0.1)
    assert gravity.interval(200) == pytest.approx((HERE, HERE), abs=0.3)
    assert gravity.n_queries == len(found.task.check.positions.names)
    assert len(found.controls) == 3


def test_what_every_layer_holds_alike_is_gained_at_r0():
    """Noise makes one layer or another a little better; that is no gain."""
    task, values = halves(BOUNDARY)
    for seed, x in enumerate(values.values()):
        noise = np.random.default_rng(50 + seed).standard_normal((len(x), x.shape[1]))
        x[:, :, 0] = 2 * x[HERE, :, 0] + 6 * noise
    found = decode(planted.reader(values), [task], draws=0, seed=0)["boundary"]
    scores = np.array([found.majority.score()[0], *found.score])
    own = gains(scores, scores)
    assert own @ np.arange(planted.LAYERS) / own.sum() > 0.4
    gravity = centre_of_gravity(found, 200, seed=0)
    assert gravity is not None and gravity.value < 0.1


def test_what_no_layer_holds_has_no_centre():
    task, values = halves(BOUNDARY)
    values = {key: planted.noise(x.shape[1], 9 + n) for n, (key, x) in enumerate(values.items())}
    found = decode(planted.reader(values), [task], draws=0, seed=0)["boundary"]
    assert centre_of_gravity(found, 200, seed=0) is None


def test_properties_at_the_same_places_are_fitted_as_if_alone():
    task, values = halves(BOUNDARY)
    numbers = Task(
        *(
            Examples(POSITION, half.positions, half.labels.astype(float), (), half.kinds)
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
        assert together[name].selectivity == pytest.approx(alone.selectivity, abs=1e-6)


def test_the_trivial_probe_predicts_the_majority_class():
    at, other = planted.positions(5), planted.positions(4)
    fit = Examples(BOUNDARY, at, np.array([1, 1, 1, 0, 0]), ("a", "b"))
    check = Examples(BOUNDARY, other, np.array([1, 0, 0, 0]), ("a", "b"))
    assert majority_sums(Task(fit, check)).score() == 0.25


def test_a_control_task_gives_each_character_one_label():
    task, _ = halves(BOUNDARY)
    for one in columns_of(task, 4, seed=0)[1:]:
        of_kind = {}
        for labels, half in ((one.fit, task.fit), (one.check, task.check)):
            assert half.kinds is not None
            for kind, label in zip(half.kinds, labels, strict=True):
                assert of_kind.setdefault(kind, label) == label
        assert len(of_kind) == 20
        assert set(of_kind.values()) == {0, 1}
    first, second = (one.fit for one in columns_of(task, 2, seed=0)[1:])
    assert (first != second).any()


def test_labels_of_texts_are_permuted_to_fit_and_true_to_score():
    task, _ = halves(LENGTH, kinds=False)
    _, one = columns_of(task, 1, seed=0)
    assert sorted(one.fit) == sorted(task.fit.labels)
    assert (one.fit != task.fit.labels).any()
    assert (one.check == task.check.labels).all()
