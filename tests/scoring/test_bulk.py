import numpy as np
import pytest
import torch

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import LeftOut, Scorer

TEXTS = [("狗追猫" * (1 + i % 5), "猫追狗" * (1 + i % 7)) for i in range(40)]


def reference(checkpoint, texts):
    """One pair at a time through the Hugging Face model."""
    with torch.inference_mode():
        encoded = [checkpoint.tokenizer(*pair, return_tensors="pt") for pair in texts]
        return np.concatenate([checkpoint.model(**pair).logits.numpy() for pair in encoded])


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
@pytest.mark.parametrize("budget", [1, 60, 4096])
def test_logits_keep_the_order_and_equal_one_pair_at_a_time(checkpoint_of, family, budget):
    checkpoint = open_checkpoint(checkpoint_of(family))
    logits = Scorer(checkpoint, batch_tokens=budget).logits(TEXTS)
    np.testing.assert_allclose(logits, reference(checkpoint, TEXTS), atol=1e-5)


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


def test_windows_change_nothing_but_the_batches(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    batches = list(scorer.batches(TEXTS, 60, window=7))
    rows = np.concatenate([batch.rows for batch in batches])
    assert sorted(rows) == list(range(len(TEXTS)))
    encoded = scorer.tokenizer.encode(TEXTS, offsets=False)
    assert all(b.encoded == tuple(encoded[i] for i in b.rows) for b in batches)
    assert all(max(b.rows) // 7 == min(b.rows) // 7 for b in batches)
    assert scorer.counts.pairs == len(TEXTS)


def test_a_scorer_without_heads_has_counts_and_logits_of_its_own(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()))

    def ones(batch):
        return torch.ones(len(batch), 5)

    other = scorer.without(LeftOut("L0H1", "mean", ones, means="ab", guards={"bound": 1e-5}))
    assert (other.logits(TEXTS) == 1).all() and (scorer.logits(TEXTS[:3]) != 1).any()
    assert (other.counts.pairs, scorer.counts.pairs) == (len(TEXTS), 3)
    described = {"heads_out": "L0H1", "mode": "mean", "means_sha256": "ab"}
    assert other.describe() == scorer.describe() | described
    assert "heads_out" not in scorer.describe()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_outputs_that_are_no_numbers_are_refused(checkpoint_of, value):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    with torch.no_grad():
        scorer.checkpoint.model.classifier.bias[2] = value
    broken = Scorer(scorer.checkpoint)
    with pytest.raises(CheckpointError, match="2 of 2 pairs, the first '京东' / '小哥'"):
        broken.logits([("京东", "小哥"), ("紫熨斗", "好用吗")])
