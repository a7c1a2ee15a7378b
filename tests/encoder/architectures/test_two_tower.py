"""The towers against the Hugging Face model on each text alone, for every family."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoModel

from qt_bert.encoder import FAMILIES, open_checkpoint
from qt_bert.encoder.architectures.two_tower import compared
from qt_bert.scoring.bulk import Scorer

PAIRS = [("狗追猫", "京东小哥最近在干嘛"), ("苹果手机多少钱", "狗")]


def test_compared_by_hand():
    got = compared(torch.tensor([[1.0, 2.0]]), torch.tensor([[3.0, -1.0]]))
    assert got.tolist() == [[1.0, 2.0, 3.0, -1.0, 2.0, 3.0, 3.0, -2.0]]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_logits_equal_the_plain_computation_on_the_base(checkpoint_of, stored, family):
    checkpoint = open_checkpoint(stored("two-tower", family))
    plain = AutoModel.from_pretrained(checkpoint_of(family)).eval()

    def vector(text: str) -> torch.Tensor:
        encoded = checkpoint.tokenizer(text, return_tensors="pt")
        return plain(**encoded).last_hidden_state[:, 0]

    with torch.inference_mode():
        rows = [compared(vector(query), vector(title)) for query, title in PAIRS]
        expected = checkpoint.model.classifier(torch.cat(rows))
    got = torch.from_numpy(Scorer(checkpoint).logits(PAIRS))
    torch.testing.assert_close(got, expected, atol=2e-5, rtol=0)


def test_joined_with_the_matcher_each_half_is_its_own(stored):
    checkpoint = open_checkpoint(stored("bert+lstm"))
    model, scorer = checkpoint.model, Scorer(checkpoint)
    before = scorer.logits(PAIRS)
    with torch.no_grad():
        model.classifier.weight[:, : -model.config.matcher_size] = 0
        model.classifier.bias[:] = 0
        from_matcher = Scorer(checkpoint).logits(PAIRS)
        model.classifier.weight[:] = 0
    assert abs(from_matcher).max() > 1e-3 and abs(before - from_matcher).max() > 1e-3
    assert (Scorer(checkpoint).logits(PAIRS) == 0).all()
