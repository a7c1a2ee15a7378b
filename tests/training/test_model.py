"""The model as it is tuned: packed forward and label-set loss, against plain computations."""

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from qt_bert.errors import CheckpointError
from qt_bert.models.loading import open_for_tuning
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.distill import without_dropout
from qt_bert.training.batches import (
    BatchLayout,
    LabelledExample,
    buckets_for,
    plan_epoch,
    to_tensors,
)
from qt_bert.training.finetune import TuningModel
from qt_bert.training.packing import packed_hidden, read_states
from tests.conftest import FAMILIES

TEXTS = [("狗追猫", "猫追狗"), ("京东小哥", "小哥最近在干嘛"), ("狗", "猫" * 30), ("苹果", "手机")]


def examples_of(folder, auxiliary=False):
    tokenizer = open_checkpoint(folder).pair_tokenizer(48)
    examples = []
    for i, tokens in enumerate(tokenizer.encode(TEXTS)):
        allowed = np.zeros(5, np.float32)
        if not auxiliary:
            allowed[i] = 1
        place = (0, i % 2) if auxiliary else (-1, 0)
        ids, types = np.array(tokens.input_ids), np.array(tokens.token_type_ids)
        examples.append(LabelledExample(ids, types, allowed, place, 1.0, at=tokens.at))
    return examples


def batch_of(folder, examples):
    """One batch of all of them, and their order in it."""
    checkpoint = open_checkpoint(folder)
    pad = checkpoint.tokenizer.pad_token_id
    first = checkpoint.family.first_position(pad)
    layout = BatchLayout((48,), 480, pad, first)
    (plan,) = plan_epoch(examples, layout, 0, 0)
    return to_tensors(plan, examples, layout), [i for row in plan.rows for i in row]


@pytest.mark.parametrize(
    ("family", "options"),
    [*((family, {}) for family in FAMILIES), ("modernbert", {"classifier_pooling": "mean"})],
)
def test_packed_logits_equal_those_of_one_pair_alone(checkpoint_of, family, options):
    folder = checkpoint_of(family, **options)
    model = TuningModel(*open_for_tuning(folder, 5), {}).eval()
    examples = examples_of(folder)
    batch, order = batch_of(folder, examples)
    with torch.inference_mode():
        hidden = packed_hidden(model.model, model.family, batch)
        first = read_states(model.model, model.family, hidden, batch)
        packed = model.family.head(model.model, first)[: len(TEXTS)]
        expected = torch.cat([alone(model, examples[i]).logits for i in order])
        labels = torch.tensor([examples[i].allowed.argmax() for i in order])
        loss = model.loss(batch)
    torch.testing.assert_close(packed, expected, atol=1e-5, rtol=0)
    plain = torch.nn.functional.cross_entropy(expected, labels)
    torch.testing.assert_close(loss, plain, atol=1e-5, rtol=0)


def alone(model, example):
    """transformers' own forward of one pair."""
    inputs = {"input_ids": torch.from_numpy(example.input_ids)[None]}
    if model.family.segments:
        inputs["token_type_ids"] = torch.from_numpy(example.token_type_ids)[None]
    return model.model(**inputs)


DROPOUTS = (
    "hidden_dropout_prob", "attention_probs_dropout_prob", "attention_dropout", "pooler_dropout",
    "classifier_dropout", "embedding_dropout", "mlp_dropout", "summary_last_dropout",
)  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_drops_out_in_training(checkpoint_of, family):
    """Neither of a base that is opened to be tuned, nor of a student of a model that is."""
    folder = checkpoint_of(family, **dict.fromkeys(DROPOUTS, 0.3))
    tuned = open_for_tuning(folder, 5)[0]
    student = open_checkpoint(folder).model.train()
    ids = {"input_ids": torch.arange(10, 30)[None]}
    assert not torch.equal(student(**ids).logits, student(**ids).logits)
    for model in (tuned, without_dropout(student)):
        assert torch.equal(model.train()(**ids).logits, model.eval()(**ids).logits)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_base_without_a_classifier_gets_one(checkpoint_of, tmp_path, family):
    """Its encoder is kept; a weight of that which is missing is an error."""
    whole = open_checkpoint(checkpoint_of(family))
    encoder = whole.family.backbone_of(whole.model)
    encoder.save_pretrained(tmp_path)
    whole.tokenizer.save_pretrained(tmp_path)
    model, _ = open_for_tuning(tmp_path, 3)
    assert model.config.num_labels == 3
    weights = whole.family.backbone_of(model).state_dict()
    for name, value in encoder.state_dict().items():
        assert torch.equal(weights[name], value), name
    stored = load_file(tmp_path / "model.safetensors")
    del stored[next(name for name in stored if ".0." in name and name.endswith(".weight"))]
    save_file(stored, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(CheckpointError, match="encoder weights are missing"):
        open_for_tuning(tmp_path, 3)


def test_auxiliary_pairs_leave_the_grades_alone(checkpoint_of):
    folder = checkpoint_of()
    model = TuningModel(*open_for_tuning(folder, 5), {"current": ["0", "1"]})
    loss = model.loss(batch_of(folder, examples_of(folder, auxiliary=True))[0])
    loss.backward()
    assert float(loss.detach()) > 0
    assert model.model.classifier.weight.grad.abs().sum() == 0
    assert model.auxiliaries[0].weight.grad.abs().sum() > 0


@pytest.mark.parametrize(
    ("longest", "buckets"), [(128, (64, 128)), (48, (48,)), (100, (56, 104)), (64, (32, 64))]
)
def test_buckets(longest, buckets):
    assert buckets_for(longest) == buckets
