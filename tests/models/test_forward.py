"""The layer-by-layer forward against the Hugging Face model, family by family."""

from __future__ import annotations

import pytest
import torch

from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.families import FAMILIES
from qt_bert.models.forward import Encoder

TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("京东小哥", "小"), ("狗", "猫追狗" * 12)]


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_logits_equal_the_hugging_face_model_under_padding(checkpoint_of, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    batch = checkpoint.tokenizer(
        [q for q, _ in TEXTS], [t for _, t in TEXTS], padding=True, return_tensors="pt"
    )
    types = batch.get("token_type_ids", torch.zeros_like(batch["input_ids"]))
    with torch.inference_mode():
        expected = checkpoint.model(**batch).logits
        got = Encoder(checkpoint.model, checkpoint.family).logits(
            batch["input_ids"], types, batch["attention_mask"]
        )
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_rows_of_one_length_need_no_mask(checkpoint_of, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    batch = checkpoint.tokenizer("狗追猫", "猫追狗", return_tensors="pt")
    types = batch.get("token_type_ids", torch.zeros_like(batch["input_ids"]))
    with torch.inference_mode():
        got = Encoder(checkpoint.model, checkpoint.family).logits(batch["input_ids"], types)
        expected = checkpoint.model(**batch).logits
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)


def test_a_single_layer_reads_the_first_token_alone(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of("bert", layers=1, heads=4))
    batch = checkpoint.tokenizer("狗追猫", "猫", return_tensors="pt")
    with torch.inference_mode():
        got = Encoder(checkpoint.model, checkpoint.family).logits(
            batch["input_ids"], batch["token_type_ids"]
        )
        expected = checkpoint.model(**batch).logits
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
