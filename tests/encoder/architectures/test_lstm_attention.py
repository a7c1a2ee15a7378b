"""The matcher's parts by hand, and a pair's logits whatever stands beside it."""

from __future__ import annotations

import math

import numpy as np
import torch

from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.architectures.lstm_attention import aligned, pooled
from qt_bert.scoring.bulk import Scorer


def test_soft_alignment_of_two_tokens_with_three_by_hand():
    ln2, ln3 = math.log(2), math.log(3)
    a = torch.tensor([[[1.0, 0.0], [0.0, 1.0]]])
    b = torch.tensor([[[ln2, 0.0], [0.0, ln3], [9.0, 9.0]]])  # the third is padding
    real_b = torch.tensor([[True, True, False]])
    to_a, to_b = aligned(a, b, torch.tensor([[True, True]]), real_b)
    # a·b = [[ln 2, 0], [0, ln 3]]: of b the weights 2:1 and 1:3, of a 2:1 and 1:3.
    expected = [[2 / 3 * ln2, 1 / 3 * ln3], [1 / 4 * ln2, 3 / 4 * ln3]]
    torch.testing.assert_close(to_a[0], torch.tensor(expected))
    torch.testing.assert_close(to_b[0, :2], torch.tensor([[2 / 3, 1 / 3], [1 / 4, 3 / 4]]))


def test_pooling_by_hand_leaves_padding_out():
    tokens = torch.tensor([[[1.0, -4.0], [3.0, -2.0], [0.0, 0.0]]])
    got = pooled(tokens, torch.tensor([[True, True, False]]))
    assert got.tolist() == [[2.0, -3.0, 3.0, -2.0]]


def test_a_pairs_logits_do_not_depend_on_its_batch(stored):
    scorer = Scorer(open_checkpoint(stored("lstm-attention")))
    pairs = [
        ("狗", "猫" * 30),
        ("京东小哥最近在干嘛", "狗"),
        ("狗追猫", "猫追狗"),
        ("苹果", "手机"),
    ]
    alone = np.concatenate([scorer.logits([pair]) for pair in pairs])
    np.testing.assert_allclose(scorer.logits(pairs), alone, atol=1e-6)
    assert np.ptp(alone, axis=0).max() > 1e-3


def test_query_and_title_are_told_apart_and_order_counts(stored):
    scorer = Scorer(open_checkpoint(stored("lstm-attention")))
    logits = scorer.logits([("狗追猫", "苹果"), ("苹果", "狗追猫"), ("猫追狗", "苹果")])
    assert np.abs(logits[0] - logits[1]).max() > 1e-4
    assert np.abs(logits[0] - logits[2]).max() > 1e-4
