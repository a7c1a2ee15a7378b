"""Bulk scoring: order, batches, truncation, precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qt_bert.encoder import open_checkpoint
from qt_bert.errors import ArgumentError
from qt_bert.scoring.bulk import Scorer, length_batches

TEXTS = [("狗追猫" * (1 + i % 5), "猫追狗" * (1 + i % 7)) for i in range(40)]


def reference(checkpoint, texts):
    """One pair at a time through the Hugging Face model."""
    with torch.inference_mode():
        return np.concatenate(
            [
                checkpoint.model(**checkpoint.tokenizer(q, t, return_tensors="pt")).logits.numpy()
                for q, t in texts
            ]
        )


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
@pytest.mark.parametrize("budget", [1, 60, 4096])
def test_logits_keep_the_order_and_equal_one_pair_at_a_time(checkpoint_of, family, budget):
    checkpoint = open_checkpoint(checkpoint_of(family))
    got = Scorer(checkpoint, batch_tokens=budget).logits(TEXTS)
    np.testing.assert_allclose(got, reference(checkpoint, TEXTS), atol=1e-5)


def test_no_pair_gives_no_row(checkpoint_of):
    assert Scorer(open_checkpoint(checkpoint_of())).logits([]).shape == (0, 5)


def test_bfloat16_stays_near_float32(checkpoint_of):
    exact = Scorer(open_checkpoint(checkpoint_of())).logits(TEXTS)
    short = Scorer(open_checkpoint(checkpoint_of(), dtype="bfloat16")).logits(TEXTS)
    assert short.dtype == np.float32
    assert 0 < np.abs(short - exact).max() < 0.3


def test_truncated_texts_are_counted(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()), max_length=20)
    scorer.logits([("狗", "猫"), ("狗", "猫" * 30), ("狗" * 30, "猫")])
    assert (scorer.counts.pairs, scorer.counts.truncated_titles) == (3, 2)
    assert scorer.counts.truncated_queries == 1


def test_a_length_beyond_the_positions_is_refused(checkpoint_of):
    with pytest.raises(ArgumentError, match="has positions for 64 tokens"):
        Scorer(open_checkpoint(checkpoint_of()), max_length=65)


def test_batches_hold_every_row_once_within_the_budget():
    lengths = [9, 3, 5, 5, 40, 5, 3, 9, 9, 2]
    batches = list(length_batches(lengths, 20))
    assert sorted(np.concatenate(batches)) == list(range(10))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * max(lengths[i] for i in rows) <= 20


def test_a_full_enough_batch_ends_where_the_length_changes():
    assert [list(b) for b in length_batches([5, 5, 5, 4], 20)] == [[0, 1, 2], [3]]


def test_a_small_batch_goes_on_into_shorter_rows():
    assert [list(b) for b in length_batches([5, 4, 3], 40)] == [[0, 1, 2]]
