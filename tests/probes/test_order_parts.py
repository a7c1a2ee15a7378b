"""Word order, part by part: numbers by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.pairs import GRADES, GradeSet
from qt_bert.data.segmenters import segmenter
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Shape
from qt_bert.probes.order.disturbed import NOTHING, ORIGINAL, disturbed
from qt_bert.probes.order.grades import Ends, ends
from qt_bert.probes.order.maps import Aligned, align, identity_index, offset_sums
from qt_bert.probes.order.masks import Draws, masks
from qt_bert.probes.order.samples import of_all_labels, sensitivity_pairs
from qt_bert.probes.order.sensitivity import Sensitivity, Texts
from qt_bert.probes.order.texts import move_characters
from qt_bert.probes.order.training import trained_on_shuffled
from qt_bert.progress import silent
from qt_bert.scoring.bulk import Scorer
from tests.probes.planted_order import pair

Build = Callable[..., Path]
FIVE = ModelLabels(5, tuple((grade,) for grade in GRADES))


def shift(length: int, offset: int) -> np.ndarray:
    """A map whose rows look `offset` away; rows at the edge look nowhere."""
    return np.eye(length, k=offset)[None]


def test_an_even_map_has_lift_1_and_a_fixed_offset_all_of_it() -> None:
    even = offset_sums(np.full((1, 6, 6), 1 / 6), [[1, 2, 3, 4]])[0]
    assert even[:-1, 0] == pytest.approx(even[:-1, 1])
    assert even[-1] == pytest.approx([4 * 3 / 6, 4])  # four rows, three others, 1/6 each
    back = offset_sums(shift(6, -1), [[1, 2, 3, 4]])[0]
    # Offset −1: three rows have a character before, weight 1 each; others' mean is 1/3 each.
    assert back[2] == pytest.approx([3, 1])
    assert back[3] == pytest.approx([0, 2 / 3])  # offset +1: rows 1, 2, 3, of which 1 sees no other
    assert back[0] == pytest.approx([0, 1 / 3])


def test_offsets_count_tokens_and_two_characters_say_nothing() -> None:
    sums = offset_sums(shift(8, -1), [[1, 2, 4, 5], [6, 7]])[0]
    assert sums[2] == pytest.approx([2, 2 / 3])  # 4 does not follow 2
    assert sums[-1, 1] == 4


def test_the_identity_index_parts_characters_from_places() -> None:
    rng = np.random.default_rng(0)
    before = rng.random((1, 7, 7))
    order = np.array([3, 0, 4, 1, 2])
    places = np.arange(1, 6)
    tokens = Aligned(places, places, places[order])
    follows = before.copy()
    follows[:, 1:6, 1:6] = before[:, places[order]][:, :, places[order]]
    off = ~np.eye(5, dtype=bool)
    r = np.corrcoef(follows[0, 1:6, 1:6][off], before[0, 1:6, 1:6][off])[0, 1]
    assert identity_index(before, follows, tokens) == pytest.approx([1 - r])
    assert identity_index(before, before, tokens) == pytest.approx([r - 1])
    even = np.full((1, 7, 7), 1 / 7)
    assert np.isnan(identity_index(even, even, tokens)).all()
    few = Aligned(places[:3], places[:3], places[:3])
    assert np.isnan(identity_index(before, before, few)).all()


def test_only_tokens_of_one_character_on_both_sides_are_compared() -> None:
    sides = [SPECIAL, QUERY, SPECIAL, TITLE, TITLE, TITLE, SPECIAL]
    one = EncodedPair([0] * 7, [0] * 7, sides, [(0, 0)] * 7, False, False)
    # Before: 猫 · ab · 狗 as tokens 3, 4, 5; after: 狗 · 猫 · … with `ab` torn apart.
    before, after = {3: 0, 5: 3}, {3: 0, 4: 1, 5: 2}
    tokens = align(one, one, before, after, np.array([3, 0, 1, 2]))
    assert [one.tolist() for one in tokens] == [[3, 4], [3, 4], [5, 3]]


def test_moved_characters_say_where_they_came_from() -> None:
    rng = np.random.default_rng(1)
    for text in ("京东小哥", "aab", "狗猫狗"):
        moved = move_characters(text, rng)
        assert moved is not None and moved.text != text
        assert "".join(text[at] for at in moved.came_from) == moved.text
    assert move_characters("哈哈哈", rng) is None


@pytest.mark.parametrize(
    ("sets", "labels", "expected"),
    [
        ([(1,), (3,), (4,), (5,)], FIVE, Ends(((4,), (5,)), ((1,),))),
        ([(1, 2), (3, 4), (5,)], FIVE, Ends(((5,),), ((1, 2),))),
        ([(4,), (5,)], FIVE, Ends(((4,), (5,)), ())),
        ([(1,), (2,), (3,)], ModelLabels(3, None), Ends(((3,),), ((1,),))),
        ([(1,), (5,)], ModelLabels(1, None), Ends(((5,),), ((1,),))),
    ],
)
def test_the_ends_of_the_labels(sets: list[GradeSet], labels: ModelLabels, expected: Ends) -> None:
    assert ends([pair("q", "t", one) for one in sets], labels) == expected


def test_sensitivity_by_hand() -> None:
    pairs = [pair("甲", "ab", (5,)), pair("乙", "cd", (4,)), pair("乙", "ee", (4,))]
    pairs += [pair("甲", "f", (1,)), pair("乙", "g", (1,)), pair("乙", "h", (3,))]
    texts = Texts.of(pairs, Ends(((4,), (5,)), ((1,),)), draws=2, seed=0)
    parts = [row.part for row in texts.rows]
    assert parts == ["original", *["shuffled"] * 2] * 2 + ["low"] * 2
    assert texts.ineligible == 1 and texts.count("low") == 2
    grades = np.array([[5, 3, 4, 4, 2, 2, 1, 2], [2, 2, 2, 2, 2, 2, 3, 3]], float)
    found = Sensitivity(grades, texts, resamples=50, seed=0)
    assert [(one.title, one.grades) for one in texts.pairs][0] == ("ab", None)
    assert found.values("sensitivity", [0, 1]) == pytest.approx([4.5 - 2.75, 0])
    assert found.values("reach", [0, 1]) == pytest.approx([3, -1])
    assert found.values("ratio", [0])[0] == pytest.approx(1.75 / 3)
    assert np.isnan(found.values("ratio", [1])[0])  # low pairs are graded higher
    drawn = np.unique(found.resampled("sensitivity", [0]).round(6))
    assert set(drawn) == {1.5, 1.75, 2.0}


def test_a_single_query_has_no_resamples_and_no_ratio() -> None:
    texts = Texts.of(
        [pair("甲", "ab", (5,)), pair("甲", "f", (1,))], Ends(((5,),), ((1,),)), draws=1, seed=0
    )
    found = Sensitivity(np.array([[5.0, 3.0, 1.0]]), texts, resamples=50, seed=0)
    assert found.values("sensitivity", [0]) == pytest.approx([2])
    assert np.isnan(found.values("ratio", [0])[0])
    assert found.resampled("sensitivity", [0]).shape == (1, 0)


def test_controls_that_cannot_be_drawn_are_left_out() -> None:
    heads = Shape(2, 2).all_heads
    found = masks(heads, Shape(2, 2), Draws(9, 3, 2, 0), seed=0, matching=[])
    assert list(found.curve) == [1, 3, 4]
    assert found.claim is not None and found.claim.matched == ()
    assert found.claim.target.heads == tuple(heads)
    few = masks(heads, Shape(2, 2), Draws(9, 3, 2, 0, sizes=(1, 3)), seed=0, matching=[])
    assert list(few.curve) == [1, 3, 4]  # the claim's own k is always there
    nothing = masks([], Shape(2, 2), Draws(9, 3, 2, 0), seed=0, matching=heads[:1])
    assert nothing.claim is None and [v.name for v in nothing.variants] == ["none", "matching"]


def test_disturbed_texts_are_counted_and_grouped(checkpoint_of: Build) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    pairs = [pair("狗", "狗追猫", (4,), "order,short"), pair("猫狗", "哈哈", (1,))]
    found = disturbed(
        scorer, pairs, segmenter("jieba"), draws=3, resamples=20, seed=0, shown=silent
    )
    assert found.groups[:2] == ("1", "4") and found.groups[2].en == "tagged order"  # type: ignore[union-attr]
    assert found.ineligible["title", "characters"] == 1
    assert found.ineligible["query", "reversal"] == 1
    logits = scorer.logits([("狗", "狗追猫")])[0].astype(float)
    shares = np.exp(logits) / np.exp(logits).sum()
    four = found.cells[ORIGINAL][1]
    assert four.expected == pytest.approx(shares @ np.arange(1, 6), rel=1e-5)
    assert four.probabilities == pytest.approx(shares, rel=1e-5)
    turned = found.cells["title", "reversal"][1]
    logits = scorer.logits([("狗", "猫追狗")])[0].astype(float)
    after = np.exp(logits) / np.exp(logits).sum()
    assert turned.probabilities == pytest.approx(after, rel=1e-5)
    assert turned.change == pytest.approx((after - shares) @ np.arange(1, 6), abs=1e-5)
    assert turned.interval is None and turned.pairs == 1
    assert found.cells["title", "reversal"][0] == NOTHING


def test_a_change_is_one_of_the_pairs_that_can_be_disturbed(checkpoint_of: Build) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    texts = [("狗", "狗追猫"), ("猫", "哈哈哈哈"), ("京东", "小哥在东")]
    pairs = [pair(*text) for text in texts]
    found = disturbed(
        scorer, pairs, segmenter("jieba"), draws=1, resamples=50, seed=0, shown=silent
    )
    (cell,) = found.cells["title", "reversal"]
    assert cell.pairs == 2 and found.ineligible["title", "reversal"] == 1
    turned = [text if n == 1 else (text[0], text[1][::-1]) for n, text in enumerate(texts)]
    before, after = (_expected(scorer.logits(some)) for some in (texts, turned))
    changes = (after - before)[[0, 2]]
    assert cell.change == pytest.approx(changes.mean(), abs=1e-5)
    assert cell.interval == pytest.approx((changes.min(), changes.max()), abs=1e-5)


def _expected(logits: np.ndarray) -> np.ndarray:
    shares = np.exp(logits.astype(float))
    return np.asarray(shares @ np.arange(1, 6) / shares.sum(axis=1))


def test_training_on_shuffled_titles_is_known_from_the_records(tmp_path: Path) -> None:
    assert trained_on_shuffled(tmp_path) == "unknown"
    (tmp_path / "training.json").write_text('{"sources": ["made.tsv"]}', encoding="utf-8")
    assert trained_on_shuffled(tmp_path) == "unknown"
    card = tmp_path / "README.md"
    card.write_text("No rule of `shuffled_words` | `shuffled_words` |", encoding="utf-8")
    assert trained_on_shuffled(tmp_path) == "unknown"
    card.write_text("| rule | grades |\n| `shuffled_words` | 1-2 |\n", encoding="utf-8")
    assert trained_on_shuffled(tmp_path) == "yes"


def test_few_pairs_are_of_many_queries_and_of_all_labels() -> None:
    pairs = [pair(f"q{n}", f"t{n}{g}", (g,)) for n in range(20) for g in GRADES]
    found = of_all_labels(pairs, 12, seed=0)
    assert len(found) == len({one.query for one in found}) == 12
    assert set(Counter(one.grades for one in found).values()) == {2, 3}
    assert len(of_all_labels(pairs[:5], 12, seed=0)) == 5
    assert of_all_labels([], 12, seed=0) == []


def test_sensitivity_is_asked_of_one_pair_of_each_end_for_each_query() -> None:
    at = Ends(((4,), (5,)), ((1,),))
    pairs = [pair(f"q{n}", f"t{n}{g}", (g,)) for n in range(20) for g in GRADES]
    found = sensitivity_pairs([pair("p", "t", (5,)), *pairs], at, 6, seed=0)
    ended = {part: {p.query for p in found if p.grades in part} for part in (at.high, at.low)}
    assert len(found) == 12 and ended[at.high] == ended[at.low] and "p" not in ended[at.high]
    assert len(sensitivity_pairs(pairs, at, None, seed=0)) == 60
    apart = [pair(f"q{n}", "t", (5 if n % 2 else 1,)) for n in range(20)]
    assert Counter(p.grades for p in sensitivity_pairs(apart, at, 4, 0)) == {(5,): 4, (1,): 4}
    assert sensitivity_pairs([pair("q", "t", (5,))], at, 4, seed=0) == [pair("q", "t", (5,))]
