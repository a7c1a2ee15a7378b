"""Word order: maps, scores and S/R by hand, a planted head, the claim on known logits, odd models."""

from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.heads import Head
from qt_bert.models.card import ModelLabels
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes import order
from qt_bert.probes.base import Context
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.estimate import over_queries
from tests.conftest import FIVE, ONE
from tests.probes import planted_order
from tests.probes.planted_order import pair
from tests.probes.planted_tuning import tuned_again
from tests.probes.probe_results import claim, result_of, values

PLANTED = Head(0, planted_order.HEAD)


# Maps.


ALL = np.ones((9, 9), bool)
"""Every row sees every column."""


def shift(length: int, offset: int) -> np.ndarray:
    """A map whose rows attend `offset` away; rows at the edge attend nowhere."""
    return np.eye(length, k=offset)[None]


def test_an_even_map_has_lift_1_and_a_fixed_offset_all_of_it():
    even = order.offset_sums(np.full((1, 6, 6), 1 / 6), [[1, 2, 3, 4]], ALL)[0]
    assert even[:-1, 0] == pytest.approx(even[:-1, 1])
    assert even[-1] == pytest.approx([4 * 3 / 6, 4])  # four rows, three others, 1/6 each
    back = order.offset_sums(shift(6, -1), [[1, 2, 3, 4]], ALL)[0]
    # Offset −1: three rows have a character before, weight 1 each; others' mean is 1/3 each.
    assert back[2] == pytest.approx([3, 1])
    assert back[3] == pytest.approx([0, 2 / 3])  # offset +1: rows 1, 2, 3, of which 1 sees no other
    assert back[0] == pytest.approx([0, 1 / 3])


def test_a_head_that_looks_at_itself_keeps_what_it_gives_to_others():
    sharp = np.eye(6, dtype=np.float32)[None] + np.float32(3e-9) * (1 - np.eye(6, dtype=np.float32))
    sums = order.offset_sums(sharp, [[1, 2, 3, 4]], ALL)[0]
    assert sums[-1] == pytest.approx([4 * 3 * 3e-9, 4], rel=1e-6)
    assert sums[:-1, 0] == pytest.approx(sums[:-1, 1], rel=1e-6)


def test_offsets_count_tokens_and_two_characters_are_too_few():
    sums = order.offset_sums(shift(8, -1), [[1, 2, 4, 5], [6, 7]], ALL)[0]
    assert sums[2] == pytest.approx([2, 2 / 3])  # 4 does not follow 2
    assert sums[-1, 1] == 4


def test_the_identity_index_parts_characters_from_places():
    rng = np.random.default_rng(0)
    before = rng.random((1, 7, 7))
    moved = np.array([3, 0, 4, 1, 2])
    places = np.arange(1, 6)
    tokens = order.Aligned(places, places, places[moved])
    follows = before.copy()
    follows[:, 1:6, 1:6] = before[:, places[moved]][:, :, places[moved]]
    off = ~np.eye(5, dtype=bool)
    r = np.corrcoef(follows[0, 1:6, 1:6][off], before[0, 1:6, 1:6][off])[0, 1]
    assert order.identity_index(before, follows, tokens, ALL) == pytest.approx([1 - r])
    assert order.identity_index(before, before, tokens, ALL) == pytest.approx([r - 1])
    even = np.full((1, 7, 7), 1 / 7)
    assert np.isnan(order.identity_index(even, even, tokens, ALL)).all()
    few = order.Aligned(places[:3], places[:3], places[:3])
    assert np.isnan(order.identity_index(before, before, few, ALL)).all()


def test_invisible_characters_do_not_count():
    """A uniform causal head has lift 1, and follows no position."""
    causal = np.tril(np.ones((9, 9), bool))
    even = (causal / causal.sum(1, keepdims=True))[None]
    sums = order.offset_sums(even, [list(range(1, 8))], causal)[0]
    assert sums[:3, 0] == pytest.approx(sums[:3, 1]) and (sums[:3, 0] > 0).all()
    assert (sums[3:6] == 0).all()
    assert sums[-1, 1] == 5  # the first two of seven see one character beside them, or none
    rng = np.random.default_rng(0)
    places = np.arange(1, 8)
    moved = np.array([3, 0, 4, 1, 2, 6, 5])
    before = rng.random((1, 9, 9)) * causal
    after = np.zeros_like(before)
    after[:, 1:8, 1:8] = before[:, places[moved]][:, :, places[moved]]
    tokens = order.Aligned(places, places, places[moved])
    off = causal[1:8, 1:8] & causal[np.ix_(places[moved], places[moved])] & ~np.eye(7, dtype=bool)
    r = np.corrcoef(after[0, 1:8, 1:8][off], before[0, 1:8, 1:8][off])[0, 1]
    assert order.identity_index(before, after * causal, tokens, causal) == pytest.approx([1 - r])


def test_only_tokens_of_one_character_on_both_sides_are_compared():
    sides = [SPECIAL, QUERY, SPECIAL, TITLE, TITLE, TITLE, SPECIAL]
    one = EncodedPair([0] * 7, [0] * 7, sides, [(0, 0)] * 7, False, False)
    # Before: 猫 · ab · 狗 as tokens 3, 4, 5; after: 狗 · 猫 · … with `ab` torn apart.
    before, after = {3: 0, 5: 3}, {3: 0, 4: 1, 5: 2}
    tokens = order.align(one, one, before, after, np.array([3, 0, 1, 2]))
    assert [one.tolist() for one in tokens] == [[3, 4], [3, 4], [5, 3]]


def test_moved_characters_keep_their_former_positions():
    rng = np.random.default_rng(1)
    for text in ("京东小哥", "aab", "狗猫狗"):
        moved = order.move_characters(text, rng)
        assert moved is not None and moved.text != text
        assert "".join(text[at] for at in moved.came_from) == moved.text
    assert order.move_characters("哈哈哈", rng) is None


# Scores.


def scores_of(sums: np.ndarray, identities: np.ndarray) -> order.OrderScores:
    """Scores of one layer from [queries, heads] at the first offset, others evenly at 1."""
    both = np.ones((*sums.shape, len(order.OFFSETS) + 1, 2))
    both[..., 0, 0] = sums
    return order.OrderScores(both[:, None], identities[:, None], len(sums), 0, 1.0)


def test_the_lift_is_a_ratio_of_sums_over_queries():
    found = scores_of(np.array([[1.0], [5.0]]), np.full((2, 1), -1.0))
    found.sums[1, 0, 0, 0, 1] = 3.0
    assert found.lift[0, 0, 0] == pytest.approx(6 / 4)
    assert found.named_rule(np.array([2.0, 1.0]))[0, 0] == pytest.approx((2 + 5) / (2 + 3))


def test_heads_are_named_by_lift_and_by_weight():
    sums = np.tile([9.0, 8.0, 1.9], (20, 1)) + np.linspace(0, 0.05, 20)[:, None]
    found = scores_of(sums, np.full((20, 3), 0.5))
    assert found.named().heads() == [Head(0, 0), Head(0, 1)]
    found.sums[:, 0, 1, -1, 0] = 0.01
    assert scores_of(sums, np.full((20, 3), 0.5)).weight.min() == 1.0
    light = order.OrderScores(found.sums, found.identities, 20, 0, 1.0)
    assert light.named().heads() == [Head(0, 0)]


# S and R.


@pytest.mark.parametrize(
    ("sets", "labels", "expected"),
    [
        ([(1,), (3,), (4,), (5,)], FIVE, (((4,), (5,)), ((1,),))),
        ([(1, 2), (3, 4), (5,)], FIVE, (((5,),), ((1, 2),))),
        ([(4,), (5,)], FIVE, (((4,), (5,)), ())),
        ([(1,), (2,), (3,)], ModelLabels(3, None), (((3,),), ((1,),))),
        ([(1,), (5,)], ONE, (((5,),), ((1,),))),
    ],
)
def test_the_labels_of_good_and_poor_titles(sets, labels, expected):
    assert order.good_and_poor([pair("q", "t", one) for one in sets], labels) == expected


def test_s_and_r_by_hand():
    pairs = [pair("甲", "ab", (5,)), pair("乙", "cd", (4,)), pair("乙", "ef", (5,))]
    pairs += [pair("乙", "gg", (4,)), pair("丙", "hi", (5,)), pair("丁", "j", (1,))]
    pairs += [pair("甲", "k", (1,)), pair("乙", "l", (1,)), pair("乙", "m", (3,))]
    texts = order.GoodAndPoor.of(pairs, FIVE, most=2, seed=0)
    # 丙 has no poor title, 丁 no good one; gg has no other order.
    assert texts.queries == ["甲", "甲", "乙", "乙", "乙", "乙", "甲", "乙"]
    assert texts.part == ["good", "shuffled"] * 3 + ["poor"] * 2
    assert [one.title for one in texts.pairs] == ["ab", "ba", "cd", "dc", "ef", "fe", "k", "l"]
    assert {(one.grades, one.label) for one in texts.pairs} == {(None, None)}
    grades = np.array([5, 4, 4, 2, 3, 3, 1, 2], float)
    assert texts.cost(grades).values == pytest.approx([1, 1])
    assert texts.reach(grades).values == pytest.approx([4, 1.5])


@pytest.mark.parametrize(
    ("labels", "least"),
    [
        (FIVE, 0.3),
        (ModelLabels(3, ((1, 2), (3, 4), (5,))), 0.3),  # expected grades all the same
        (ModelLabels(5, None), 0.3),
        (ModelLabels(2, None), 0.075),
    ],
)
def test_the_least_s_is_a_share_of_the_scale(labels, least):
    reach = over_queries([2.0, 6.0], ["甲", "乙"])
    assert order.least_cost(labels, reach) == pytest.approx(least)
    assert order.least_cost(ONE, reach).value == pytest.approx(0.4)


def test_training_on_shuffled_titles_is_known_from_the_card(tmp_path):
    assert order.trained_on_shuffled(tmp_path) == "unknown"
    card = tmp_path / "README.md"
    card.write_text("No rule of `shuffled_words` | `shuffled_words` |", encoding="utf-8")
    assert order.trained_on_shuffled(tmp_path) == "unknown"
    card.write_text("| rule | grades |\n| `shuffled_words` | 1-2 |\n", encoding="utf-8")
    assert order.trained_on_shuffled(tmp_path) == "yes"


# The probe on a model in which one head attends to the previous token.


@pytest.fixture(scope="module")
def planted(checkpoint_of, tmp_path_factory) -> Path:
    out = tmp_path_factory.mktemp("planted") / "order"
    return planted_order.plant(checkpoint_of(**planted_order.SHAPE), out)


@pytest.fixture(scope="module")
def graded(planted) -> list[Pair]:
    """Pairs of which the planted model grades the good ones above the poor ones."""
    return planted_order.graded_by(Scorer(open_checkpoint(planted)), 90)


def halves(pairs: list[Pair]) -> tuple[list[Pair], list[Pair]]:
    return pairs[: len(pairs) // 2], pairs[len(pairs) // 2 :]


def test_heads_that_hardly_look_at_characters_take_no_order_heads_place(
    planted, graded, context_of, monkeypatch
):
    """Seven of eight have a larger lift, on 2 % of their attention."""
    sums = np.ones((20, 2, 4, len(order.OFFSETS) + 1, 2))
    sums[..., 0, 0] = 9 + np.linspace(0, 0.05, 20)[:, None, None]
    sums[..., -1, 0] = 0.02
    sums[:, 1, 3, 0, 0] -= 6
    sums[:, 1, 3, -1, 0] = 1
    scores = order.OrderScores(sums, np.full((20, 2, 4), -0.5), 20, 0, 1.0)
    monkeypatch.setattr(order, "scores_of_half", lambda *_: scores)
    found = result_of("order", context_of(planted, halves(graded)))
    assert (found.facts["heads"], found.facts["named_by_places"]) == ("L1H3", 1)


def test_the_probe_ablates_the_planted_head(planted, graded, context_of, tmp_path, monkeypatch):
    monkeypatch.setattr(Context, "sign", lambda *_: 1)  # it hardly notices
    second = tuned_again(planted, tmp_path / "second")
    found = result_of("order", context_of(planted, halves(graded), second=second))
    assert found.sets["order_named"] == (str(PLANTED),)
    assert found.sets["order"][0] == str(PLANTED)
    stable = found.stability["order_named"]
    assert stable.overlap == 1.0
    assert [(one.source.en, one.overlap) for one in stable.sources] == [
        ("validation", 1.0),
        ("another seed (second)", 1.0),
    ]
    assert found.settings["guards"]["order_heads"]["unmasked"] < 1e-4
    assert found.settings["texts"] == dict.fromkeys(order.PARTS, 45)
    # Three unnamed heads of its layer and four of the next: too few for a rank, whatever they do.
    judged = claim(found)
    assert judged.n_queries == 45
    assert judged.verdict != "reproduced" and (judged.p is None or judged.p >= 1 / 8)
    measured = values(found)
    clean = measured["order_sensitivity"]
    share = -measured["order_sensitivity_change"] / clean
    assert measured["order_share_lost"] == pytest.approx(share)
    assert judged.value == pytest.approx(share - measured["order_share_matched"])
    assert measured["order_resampled"] is not None
