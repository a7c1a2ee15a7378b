"""The layer-by-layer forward against the Hugging Face model, family by family."""

import pytest
import torch

from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.families import FAMILIES
from qt_bert.models.forward import Encoder

TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("京东小哥", "小"), ("狗", "猫追狗" * 12)]


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize(("layers", "texts"), [(2, TEXTS), (2, TEXTS[:1]), (1, TEXTS[1:2])])
def test_logits_equal_the_hugging_face_model(checkpoint_of, family, layers, texts):
    """Padded under a mask, and alone without one."""
    checkpoint = open_checkpoint(checkpoint_of(family, layers=layers))
    batch = checkpoint.tokenizer(
        *map(list, zip(*texts, strict=True)), padding=True, return_tensors="pt"
    )
    types = batch.get("token_type_ids", torch.zeros_like(batch["input_ids"]))
    mask = batch["attention_mask"] if len(texts) > 1 else None
    with torch.inference_mode():
        expected = checkpoint.model(**batch).logits
        got = Encoder(checkpoint.model, checkpoint.family).logits(batch["input_ids"], types, mask)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=0)
