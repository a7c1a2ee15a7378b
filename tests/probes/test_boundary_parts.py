"""The parts of the boundary probe against brute force and figures by hand."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.heads import Head
from qt_bert.errors import PairFileError
from qt_bert.pairs.segmenters import SpanSegmenter
from qt_bert.probes.word_ends.calibrate import calibrate, shifted_labels
from qt_bert.probes.word_ends.conclusions import pretraining, worth
from qt_bert.probes.word_ends.decisions import Asked, decisions_of
from qt_bert.probes.word_ends.references import (
    edges_of,
    ends_of,
    gold_texts,
    split,
    uncrossed,
)
from qt_bert.probes.word_ends.together import best_voters, by_character, combine, vote
from qt_bert.probes.word_ends.union import union_of, worth_of
from qt_bert.probes.word_ends.weights import Weights, weights_of
from qt_bert.scoring.bulk import Scorer
from tests.probes.planted_boundary import made

RNG = np.random.default_rng(7)


def test_decisions_are_neighbours_that_are_tokens_of_their_own(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    pair = ("京东小哥ab在干", "京东 小哥")
    asked = [Asked(pair[0], pair, 0, "q"), Asked(pair[1], pair, 1, "q")]
    found = decisions_of(scorer.tokenizer, asked)
    assert found.characters() == list("京东小在京小")
    assert found.place.tolist() == [0, 1, 2, 6, 0, 3]
    assert found.run_starts.tolist() == [True, False, False, True, True, True]
    assert (found.coverage, found.n_queries) == (1.0, 1)
    longer = decisions_of(scorer.tokenizer, asked, least=4)
    assert (len(longer), longer.short, len(longer.asked)) == (4, 1, 1)
    assert longer.coverage == 1.0


def test_a_cut_text_is_covered_in_part(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()), max_length=10)
    pair = ("京东小哥", "京东小哥京东小哥")
    found = decisions_of(scorer.tokenizer, [Asked(pair[1], pair, 1, "q")])
    assert len(found) == 2 and found.coverage == pytest.approx(2 / 7)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_weights_are_those_of_the_hugging_face_model(checkpoint_of, family):
    import torch

    scorer = Scorer(open_checkpoint(checkpoint_of(family)))
    pairs = [("京东小哥", "京东小哥最近在干嘛"), ("狗追猫", "猫追狗")]
    asked = [Asked(pair[side], pair, side, pair[0]) for pair in pairs for side in (0, 1)]
    decisions = decisions_of(scorer.tokenizer, asked)
    weights = weights_of(scorer, decisions)
    own = np.zeros_like(weights.own)
    for d, (row, side, token) in enumerate(
        zip(decisions.pair, decisions.side, decisions.token, strict=True)
    ):
        encoded = scorer.tokenizer.encode([decisions.pairs[row]])[0]
        with torch.no_grad():
            maps = scorer.checkpoint.model(
                input_ids=torch.tensor([encoded.input_ids]),
                token_type_ids=torch.tensor([encoded.token_type_ids]),
                output_attentions=True,
            ).attentions
        for layer, one in enumerate(maps):
            seen = one[0, :, token].numpy()
            assert weights.next[layer, :, d] == pytest.approx(seen[:, token + 1], abs=1e-6)
            assert weights.sep[layer, :, d] == pytest.approx(
                seen[:, encoded.separators].sum(1), abs=1e-6
            )
            own[layer] += seen[:, np.array(encoded.side) == side].sum(1) / len(decisions)
    assert weights.own == pytest.approx(own, abs=1e-6)


def test_three_granularities():
    spans = [(0, 2), (0, 4), (2, 4), (4, 5)]
    assert ends_of([(0, 4), (4, 5)]) == {4, 5}
    assert edges_of(spans) == {0, 2, 4, 5}
    assert uncrossed(SpanSegmenter("full", lambda _: spans), "一二三四五") == {4, 5}


def test_long_lines_are_split_behind_punctuation_then_behind_words():
    words = ["今天", "天气", "好", "，", "我们", "出去", "玩", "。"]
    assert split(words, 20) == [words]
    assert split(words, 6) == [words[:4], words[4:]]
    assert split(words, 4) == [words[:2], words[2:5], words[5:]]
    assert split(["一二三四五"], 3) == [["一二三四五"]]
    assert split([], 3) == []


def test_a_gold_file_gives_each_segment_the_next_as_title(tmp_path):
    path = tmp_path / "gold.txt"
    path.write_text("扬帆 远东\n做 与 中国\n扬帆 远东\n", encoding="utf-8")
    asked, ends = gold_texts(path, 30)
    assert [one.pair for one in asked] == [("扬帆远东", "做与中国"), ("做与中国", "扬帆远东")]
    assert ends("做与中国") == {1, 2, 4}
    path.write_text("扬帆 远东\n", encoding="utf-8")
    with pytest.raises(PairFileError, match="two different lines"):
        gold_texts(path, 30)


def random_weights(number: int, heads: int = 3) -> Weights:
    following, separators = RNG.random((2, 1, heads, number)).astype(np.float32) / 2
    return Weights(following.round(2), separators.round(2), np.ones((1, heads)))


def test_the_best_reading_is_that_of_a_search_over_everything():
    decisions, weights = made([6] * 10), random_weights(60)
    labels = RNG.random(60) < 0.4
    found = calibrate(weights, decisions, labels, shifts=3, seed=0)
    features = weights.features(0)
    for head in range(3):
        best = max(
            ((one > cut) == side)[labels].mean() + ((one > cut) != side)[~labels].mean()
            for one in features[:, head]
            for cut in one
            for side in (True, False)
        )
        assert found.named.score[0, head] == pytest.approx(best / 2)
    said = found.say(weights)[0]
    for head in range(3):
        margin = found.margin(weights, Head(0, head))
        assert ((margin > 0) == said[head])[margin != 0].all()
        assert margin.max() > 0 > margin.min()
    got = [(said[h][labels].mean() + (~said[h][~labels]).mean()) / 2 for h in range(3)]
    assert got == pytest.approx(found.named.score[0])
    assert (found.values(weights)[0][0][labels].mean()) > found.values(weights)[0][0][
        ~labels
    ].mean()


def test_a_shift_moves_every_text_and_keeps_its_labels():
    decisions = made([4, 2, 9])
    labels = np.arange(15)
    for moved in shifted_labels(labels, decisions, 30, 1):
        assert (moved != labels).all()
        for start, size in zip(decisions.text_starts, decisions.text_sizes, strict=True):
            here = moved[start : start + size]
            assert sorted(here) == list(range(start, start + size))
            assert (np.diff(here) % size == 1).all()


def test_a_head_that_sees_word_ends_is_named_and_noise_is_not():
    decisions, labels = made([8] * 40), RNG.random(320) < 0.5
    weights = random_weights(320)
    weights.sep[0, 1] = np.where(labels, 0.6, 0.1) + RNG.random(320) / 10
    found = calibrate(weights, decisions, labels, shifts=20, seed=0)
    assert found.named.heads() == [Head(0, 1)]
    assert found.null[0, 1] < 0.6
    unread = Weights(weights.next, weights.sep, np.full((1, 3), 0.04))
    assert calibrate(unread, decisions, labels, shifts=20, seed=0).named.heads() == []


def test_labels_of_one_kind_name_nothing():
    decisions, weights = made([5, 5]), random_weights(10)
    found = calibrate(weights, decisions, np.ones(10, bool), shifts=5, seed=0)
    assert np.isnan(found.named.score).all() and found.named.heads() == []


def test_the_union_by_hand():
    decisions = made([4, 4, 2])
    said = RNG.random((2, 2, 10)) < 0.5
    labels = RNG.random(10) < 0.5
    order = [Head(1, 0), Head(0, 1), Head(0, 0), Head(1, 1)]
    found = union_of(said, labels, decisions, order, shifts=20, seed=2)
    long = np.arange(10) < 8
    moved = list(shifted_labels(labels, decisions, 20, 2))
    for k in range(1, 5):
        first = np.stack([said[head] for head in order[:k]])
        assert found.share[k] == pytest.approx((first == labels).any(0)[long].mean())
        null = np.mean([(first == one).any(0)[long].mean() for one in moved])
        assert found.chance[k] == pytest.approx(null)
        assert found.excess(k).mean() == pytest.approx(found.share[k] - null)
    assert found.share[0] == 0 and found.size.tolist() == [4, 4]


def test_worth_is_undefined_where_luck_leaves_nothing():
    assert worth_of(np.array([0.9, 1.0]), np.array([0.8, 0.996])) == pytest.approx(
        [0.5, np.nan], nan_ok=True
    )


def test_conclusions_say_their_own_numbers():
    found = worth(0.807, 0.624)["reproduced"]
    assert "80.7%" in found.en and "62.4%" in found.en and "80.7%" in found.zh
    assert "–" in worth(float("nan"), 0.5)["not reproduced"].en
    assert "one draw" in pretraining(1)["reproduced"].en
    assert "best of 3 draws" in pretraining(3)["reproduced"].en


def test_three_heads_that_err_apart_vote_better_than_one():
    labels = RNG.random(90) < 0.5
    said = np.stack([np.where(np.arange(90) % 3 == head, ~labels, labels) for head in range(3)])
    said = np.concatenate([said, RNG.random((1, 90)) < 0.5])[None]
    voters = best_voters(said, labels)
    assert sorted(voters) == [Head(0, 0), Head(0, 1), Head(0, 2)]
    assert (vote(said, voters) == labels).all()


def test_the_linear_combination_finds_what_two_heads_hold_together():
    weights = random_weights(400, heads=2)
    labels = np.log(weights.next[0, 0] + 1e-6) > np.log(weights.sep[0, 1] + 1e-6)
    assert (combine(weights, labels, weights, seed=0) == labels).mean() > 0.95
    assert combine(weights, np.ones(400, bool), weights, seed=0).all()


def test_characters_alone():
    learned, labels = list("的的我我的"), np.array([True, True, False, False, True])
    assert by_character(learned, labels, list("的我他")).tolist() == [True, False, True]
