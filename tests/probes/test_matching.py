"""The probe of term matching as a whole: planted heads, claims and measurements, odd inputs."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.masks import zeroed
from qt_bert.heads import Head
from qt_bert.probes import contests, matching, matching_scores
from qt_bert.probes.contests import ablate
from qt_bert.stats import estimate
from tests.conftest import write_pairs
from tests.probes.planted_matching import MATCHING, pairs_of, plant_matching
from tests.probes.planted_tuning import tuned_again
from tests.probes.probe_results import reasons, result_of, values
from tests.probes.verdicts_again import of_result


@pytest.fixture(scope="module")
def planted(tmp_path_factory) -> Path:
    return plant_matching(tmp_path_factory.mktemp("planted") / "model")


@pytest.fixture
def pairs(tmp_path) -> Path:
    """Pairs of a hundred queries."""
    return write_pairs(tmp_path / "p.tsv", pairs_of(100))


def test_the_planted_head_is_found_and_shown(context_of, planted, pairs, tmp_path):
    second = tuned_again(planted, tmp_path / "second")
    found = result_of("matching", context_of(planted, pairs, second=second))
    assert found.sets["named"] == (str(MATCHING),) and found.sets["matching"][0] == str(MATCHING)
    assert [len(found.sets[name]) for name in ("matching", "low_half")] == [2, 1]
    assert set(found.stability) == {name for name, heads in found.sets.items() if heads}
    named = found.stability["named"]
    assert (named.overlap, named.halves, named.k) == (1.0, 1.0, 1)
    assert [(one.source.en, one.overlap) for one in named.sources] == [
        ("validation", 1.0),
        ("another seed (second)", 1.0),
    ]
    best = {one.head: one.scores for one in found.heads}[str(MATCHING)]
    assert 100 * best["score"] == pytest.approx(values(found)["best_score"])
    assert best["score"] > 0.5
    marked = [(one.head, one.shown) for one in found.heads if one.selected]
    assert dict(marked)[str(MATCHING)] is True and len(marked) == 2
    assert 0.5 < best["matched_weight"] <= best["weight"] < 1.001
    # A model that grades at random has nothing to lose.
    assert reasons(found) == {"grades_nothing"}


def test_losses_are_of_validation(context_of, planted, pairs):
    made = context_of(planted, pairs)
    found = result_of("matching", made)
    lost, five = values(found), [Head.parse(one) for one in found.sets["matching"]]
    assert [one for one in lost if one.startswith("alone")] == ["alone_1", "alone_2"]
    low = {Head(0, head) for head in range(4)} - {Head.parse(one) for one in found.sets["low_half"]}
    variants = [Variant("out", (zeroed(five),)), Variant("kept", (zeroed(low),))]
    again = ablate(made, "again", variants, made.validation)
    assert lost["five_loss"] == pytest.approx(again.loss("out").value, abs=1e-4)

    def right(name):
        rows = zip(again.logits(name), again.pairs, strict=True)
        return np.mean([row.argmax() + 1 in pair.grades for row, pair in rows])

    assert lost["accuracy_relative"] == pytest.approx(100 * (right("out") / right("none") - 1))
    assert lost["low_half_kept"] == pytest.approx(100 * right("kept") / right("none"))
    assert found.facts["free_sets"] == matching.QUICK_FREE_SETS  # of which the texts tell the mean


def choose(five: list[Head], monkeypatch: pytest.MonkeyPatch) -> list[Head]:
    """Let these be chosen, the first two in the low half, and the model be judged."""
    monkeypatch.setattr(matching, "grades_nothing", lambda context: False)
    monkeypatch.setattr(estimate, "LEAST_QUERIES", 5)
    monkeypatch.setattr(
        matching, "chosen_heads", lambda context, within=None: five[:2] if within else five
    )
    return five


def test_claims_are_set_against_every_layer_matched_set(
    context_of, checkpoint_of, pairs, monkeypatch
):
    five = choose([Head(layer, 1) for layer in range(4)], monkeypatch)
    monkeypatch.setattr(matching_scores.Scores, "named", lambda self: [Head(0, 0)])
    # Without this 20 sets are enough.
    monkeypatch.setattr(contests, "_beyond_margin", lambda *arguments: True)
    made = context_of(checkpoint_of("bert", layers=4, heads=4), pairs, full=True)
    found = result_of("matching", made)
    claims = {one.id: one for one in found.claims}
    assert list(claims) == [f"matching.{name}" for name in matching.CLAIMS]
    # One head a layer, but for the five and the named one: 2 · 3 · 3 · 3 sets.
    sets = list(product((2, 3), *3 * ((0, 2, 3),)))
    variants = [Variant("five", (zeroed(five),))]
    for numbers in sets:
        heads = (Head(layer, number) for layer, number in enumerate(numbers))
        variants.append(Variant(str(numbers), (zeroed(heads),)))
    again = ablate(made, "again", variants, made.validation)
    losses = [again.loss(one.name).value for one in variants]
    assert claims["matching.five"].value == pytest.approx(losses[0] - np.mean(losses[1:]), abs=1e-4)
    rank = (1 + sum(one >= losses[0] for one in losses[1:])) / 55
    assert claims["matching.five"].p == pytest.approx(rank)
    assert "not testable" not in {claims[f"matching.{name}"].verdict for name in ("five", "cut")}
    alone = [Variant(str(head), (zeroed([head]),)) for head in five]
    cost = ablate(made, "alone_again", alone, made.discovery)
    worst = max(five, key=lambda head: cost.loss(str(head)).value)
    assert found.facts["costliest"] == str(worst)
    of_worst = ablate(made, "worst_again", [Variant("w", (zeroed([worst]),))], made.validation)
    beyond_worst = losses[0] - of_worst.loss("w").value
    assert claims["matching.set"].value == pytest.approx(beyond_worst, abs=1e-4)
    assert found.values["matching.five"].target and len(found.values["matching.five"].sets) == 54
    assert [row[1] == row[2] for row in of_result(found.to_json())] == [True] * 3


def test_heads_alone_in_the_low_half_keep_a_share_of_what_it_carries(
    context_of, checkpoint_of, pairs, monkeypatch
):
    """Half of the low half's 12 heads are the five and a named one; the loss is set, not measured."""
    monkeypatch.setattr(matching, "LEAST_LOW_LOSS", -100)
    five = choose([Head(layer, head) for layer in range(2) for head in range(2)], monkeypatch)
    made = context_of(checkpoint_of("bert", layers=4, heads=6, hidden=24), pairs)
    found = result_of("matching", made)
    kept = {one.id: one for one in found.claims}["matching.kept"]
    low = matching.low_half_of(made.model.checkpoint.shape)
    variants = [Variant("low", (zeroed(low),)), Variant("kept", (zeroed({*low} - {*five}),))]
    again = ablate(made, "again", variants, made.validation)
    stored = found.values["matching.kept"]
    assert np.mean(stored.whole) == pytest.approx(again.loss("low").value, abs=1e-4)
    saved = again.loss("low").value - again.loss("kept").value
    assert np.mean(stored.target) == pytest.approx(saved, abs=1e-4)
    beyond = saved - np.mean(stored.sets)
    assert kept.value == pytest.approx(beyond / again.loss("low").value, rel=1e-3)
