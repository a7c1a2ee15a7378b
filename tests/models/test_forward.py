"""The layer-by-layer forward against the Hugging Face model, family by family."""

from dataclasses import replace

import pytest
import torch

from qt_bert.models.families import FAMILIES, put
from qt_bert.models.forward import Encoder
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer

TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("京东小哥", "小"), ("狗", "猫追狗" * 12)]


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize(("layers", "texts"), [(2, TEXTS), (2, TEXTS[:1]), (1, TEXTS[1:2])])
def test_logits_equal_the_hugging_face_model(checkpoint_of, family, layers, texts):
    """Padded under a mask, and alone without one."""
    checkpoint = open_checkpoint(checkpoint_of(family, layers=layers))
    assert (checkpoint.layers, checkpoint.heads, checkpoint.longest) == (layers, 2, 64)
    batch = checkpoint.tokenizer(
        *map(list, zip(*texts, strict=True)), padding=True, return_tensors="pt"
    )
    types = batch.get("token_type_ids", torch.zeros_like(batch["input_ids"]))
    mask = batch["attention_mask"] if len(texts) > 1 else None
    with torch.inference_mode():
        expected = checkpoint.model(**batch).logits
        ours = Encoder(checkpoint.model, checkpoint.family).logits(batch["input_ids"], types, mask)
    torch.testing.assert_close(ours, expected, atol=1e-5, rtol=0)


def test_learned_positions_need_no_token_types(checkpoint_of):
    model = open_checkpoint(checkpoint_of("bert")).model
    ids, places = torch.tensor([[5, 6, 7, 8]]), torch.tensor([[0, 1, 0, 1]])
    ours = replace(FAMILIES["bert"], segments=False).embed(model, ids, ids, places)
    assert torch.equal(ours, model.bert.embeddings(input_ids=ids, position_ids=places))


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_what_a_row_sees_is_what_the_hugging_face_model_gives_weight(checkpoint_of, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    encoder = Encoder(checkpoint.model, checkpoint.family)
    batch = checkpoint.tokenizer(*TEXTS[2], return_tensors="pt")
    if not checkpoint.family.segments:
        batch.pop("token_type_ids", None)
    with torch.inference_mode():  # in double precision no weight is rounded to 0
        maps = checkpoint.model.double()(**batch, output_attentions=True).attentions
    for layer, attention in enumerate(maps):
        assert torch.equal(encoder.visible(layer, attention.shape[-1]), attention[0].amax(0) > 0)
    narrow, causal = family == "modernbert", checkpoint.family.causal
    assert encoder.visible(0, 40).all() == (not causal)
    assert encoder.visible(1, 40)[20].sum() == (9 if narrow else 21 if causal else 40)
    assert checkpoint.windows == ((None, 4) if narrow else ())


@pytest.mark.parametrize(
    ("family", "options"),
    [
        *((family, {}) for family in sorted(FAMILIES)),
        ("modernbert", {"classifier_pooling": "mean"}),
    ],
)
def test_a_layers_logits_are_those_of_the_hugging_face_model_cut_off_there(
    checkpoint_of, family, options
):
    scorer = Scorer(open_checkpoint(checkpoint_of(family, layers=3, **options)))
    (batch,) = scorer.batches(TEXTS, 1000)
    with torch.inference_mode():
        ours = scorer.encoder.logits_by_layer(batch)
        torch.testing.assert_close(ours[-1], scorer.encoder.logits_of(batch), atol=1e-5, rtol=0)
    model, declared = scorer.checkpoint.model, scorer.checkpoint.family
    layers, inputs = declared.layers_of(model), {"input_ids": batch.input_ids}
    inputs |= {"attention_mask": batch.mask}
    inputs |= {"token_type_ids": batch.token_type_ids} if declared.segments else {}
    for depth in range(family == "deberta-v2", 4):  # DeBERTa's own code needs a layer
        put(declared.backbone_of(model), declared.layers, layers[:depth])
        with torch.inference_mode():
            torch.testing.assert_close(ours[depth], model(**inputs).logits, atol=1e-4, rtol=0)
