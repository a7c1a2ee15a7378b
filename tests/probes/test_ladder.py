"""Texts cut apart layer by layer: planted layers, values by hand, odd models."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from qt_bert.data.pairs import Pair
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes import ladder
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.estimate import over_queries
from tests.conftest import PAIRS, edited
from tests.probes.probe_results import measured, result_of
from tests.wired import WORDS, wired_checkpoint


def numbered(texts: list[tuple[str, str]], sets: list[tuple[int, ...]]) -> list[Pair]:
    return [
        Pair(query, title, grades, str(i), i + 1, "", {})
        for i, ((query, title), grades) in enumerate(zip(texts, sets, strict=True))
    ]


def texts_of(count: int) -> list[tuple[str, str]]:
    """Queries of three words with one, two or none of them in the title."""
    rng = np.random.default_rng(0)
    found = []
    for number in range(count):
        words, shared = [WORDS[i] for i in rng.permutation(len(WORDS))], number % 3
        found.append((" ".join(words[:3]), " ".join(words[3 : 6 - shared] + words[:shared])))
    return found


def graded_by(model: Path, texts: list[tuple[str, str]]) -> list[Pair]:
    """Pairs labelled by the model's own likeliest grade, so that uncut it makes no mistake."""
    grades = Scorer(open_checkpoint(model)).logits(texts).argmax(axis=1)
    return numbered(texts, [(int(one) + 1,) for one in grades])


@pytest.fixture(scope="module")
def matches_low(tmp_path_factory) -> Path:
    """Three layers, of which L0 matches the texts."""
    return wired_checkpoint(tmp_path_factory.mktemp("wired") / "model")


@pytest.fixture(scope="module")
def matches_in_the_middle(tmp_path_factory) -> Path:
    """The heads of L0 give nothing, L1 matches the texts, L2 reads what is marked."""
    folder = wired_checkpoint(tmp_path_factory.mktemp("wired") / "model")
    with edited(folder) as model:
        first, second, _ = (layer.attention for layer in model.bert.encoder.layer)
        second.load_state_dict(first.state_dict())
        for part in (first.self.query, first.self.key, first.self.value, first.output.dense):
            part.weight.zero_()
            part.bias.zero_()
    return folder


def test_lower_layers_that_never_mix_the_texts_are_free(matches_in_the_middle, context_of):
    pairs = graded_by(matches_in_the_middle, texts_of(60))
    assert {pair.grades for pair in pairs} == {(1,), (5,)}
    result = result_of("ladder", context_of(matches_in_the_middle, pairs))
    first = {"discovery": 1, "validation": 1, "layers": 3, "confirmed": True, "bar": 2.0}
    assert result.settings["first_layer"] == first
    # With its own text alone to see each character matches itself, so that every pair gets grade 5.
    wrong = 100 * sum(pair.grades == (1,) for pair in pairs) / len(pairs)
    found = measured(result)
    assert found["ladder_all_accuracy"].value == pytest.approx(wrong)
    assert found["low_half"].value == pytest.approx(0, abs=1e-3)
    assert found["first_layer_loss"].value > 2 and found["high_half"].value > 2
    assert not result.claims and found["low_beyond_high"].value < -2


def test_texts_that_meet_in_the_low_half(matches_low, context_of):
    pairs = graded_by(matches_low, texts_of(60))
    result = result_of("ladder", context_of(matches_low, pairs))
    assert result.settings["first_layer"]["discovery"] == 0
    found = measured(result)
    beyond = found["low_half"].value - found["high_half"].value
    assert found["low_beyond_high"].value == pytest.approx(beyond) and beyond > 2


def test_values_by_hand(checkpoint_of, context_of):
    """The changes of ρ, against SciPy on the logits of the stored sweep."""
    texts = [(f"{query}{i}", title) for i, (query, title, _) in enumerate(PAIRS * 5)]
    grades = np.arange(40) % 5 + 1
    pairs = numbered(texts, [(int(grade),) for grade in grades])
    made = context_of(checkpoint_of(layers=4, seed=3), pairs)
    found = measured(result_of("ladder", made))
    folder = made.work / "validation"
    logits = np.load(folder / "logits.npy").astype(float)
    names = [line.split(",")[0] for line in (folder / "variants.csv").read_text().splitlines()[1:]]

    def rho(name):
        shares = np.exp(logits[names.index(name)])
        shares /= shares.sum(1, keepdims=True)
        return float(spearmanr(shares @ np.arange(1, 6), grades).statistic)

    changes = {one: rho(f"cut:{one}@0-3") - rho("none") for one in ("all", "C<T", "T<Q", "Q<T")}
    assert found["ladder_all_spearman"].value == pytest.approx(-changes["all"])
    assert found["ladder_cls"].value == pytest.approx(changes["C<T"])
    assert found["ladder_direction"].value == pytest.approx(changes["T<Q"] - changes["Q<T"])


def test_one_title_a_query_gives_one_logit_no_loss(checkpoint_of, context_of):
    pairs = numbered(texts_of(6), [(1,)] * 6)
    result = result_of("ladder", context_of(checkpoint_of(labels=1), pairs))
    assert "no loss to measure" in result.summary.en


@pytest.mark.parametrize(
    ("losses", "free"),
    [
        ([0, 0, 50, 50], 2),
        ([50, 0, 0, 0], 0),
        ([0, 50, 0, 0], 1),  # what is free above a rung that loses does not count
        ([0, 0, 0, 0], 4),
        ([1.9, 0, 0, 0], 0),  # its interval reaches above two points
    ],
)
def test_rungs_are_free_while_their_interval_ends_below_two_points(
    losses, free, checkpoint_of, context_of
):
    spread = np.linspace(-1, 1, 100)
    queries = [f"q{number}" for number in range(100)]
    made = [over_queries(loss * (1 + spread), queries) for loss in losses]
    assert ladder.free_rungs(made, context_of(checkpoint_of(), [])) == free
    alone = [over_queries([0.0], ["q"])]
    assert ladder.free_rungs(alone, context_of(checkpoint_of(), [])) == 0


@pytest.mark.parametrize(
    ("losses", "layer"),
    [([0, 8, 8, 8], 1), ([2, 4, 6, 8], 1), ([0, 0, 0, 8], 3), ([6, 2, 2, 8], 0)],
)
def test_half_way_by_hand(losses, layer):
    assert ladder.half_way(np.array(losses, float)) == layer
