"""The packed forward and the label-set loss against plain computations."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from qt_bert.data.tokenise import PairTokenizer
from qt_bert.models.checkpoint import open_checkpoint, open_tokenizer
from qt_bert.models.families import FAMILIES
from qt_bert.training.batches import (
    BatchLayout,
    LabelledExample,
    buckets_for,
    plan_epoch,
    to_tensors,
)
from qt_bert.training.model import TuningModel, label_set_loss

TEXTS = [("狗追猫", "猫追狗"), ("京东小哥", "小哥最近在干嘛"), ("狗", "猫" * 30), ("苹果", "手机")]


def examples_of(folder, auxiliary=()):
    tokenizer = PairTokenizer(open_tokenizer(folder), 48)
    out = []
    for i, tokens in enumerate(tokenizer.encode(TEXTS)):
        allowed = np.zeros(5, np.float32)
        if i not in auxiliary:
            allowed[i] = 1
        place = (0, i % 2) if i in auxiliary else (-1, 0)
        ids, types = np.array(tokens.input_ids), np.array(tokens.token_type_ids)
        out.append(LabelledExample(ids, types, allowed, place, 1.0))
    return out


def layout_of(folder, slots=96):
    tokenizer = open_tokenizer(folder)
    roberta = "roberta" in open_checkpoint(folder).family.model_type
    first = tokenizer.pad_token_id + 1 if roberta else 0
    return BatchLayout((48,), slots, tokenizer.pad_token_id, first)


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_packed_logits_equal_those_of_one_pair_alone(checkpoint_of, family):
    folder = checkpoint_of(family)
    model = TuningModel.open(folder, 5, {}, seed=0).eval()
    examples = examples_of(folder)
    (plan,) = plan_epoch(examples, layout_of(folder, slots=480), 0, 0)
    batch = to_tensors(plan, examples, layout_of(folder, slots=480))
    with torch.inference_mode():
        first = model.first_tokens(batch)
        got = model.family.head(model.model, first)[: len(TEXTS)]
        order = [i for row in plan.rows for i in row]
        tokenizer = open_tokenizer(folder)
        expected = [
            model.model(
                **tokenizer(*TEXTS[i], return_tensors="pt", truncation="only_second", max_length=48)
            ).logits
            for i in order
        ]
    torch.testing.assert_close(got, torch.cat(expected), atol=1e-5, rtol=0)


def test_label_set_loss_by_hand():
    logits = torch.log(torch.tensor([[0.1, 0.2, 0.3, 0.4]] * 3))
    allowed = torch.tensor([[0, 1, 1, 0], [0, 0, 0, 1], [0, 0, 0, 0]])
    expected = torch.tensor([-math.log(0.5), -math.log(0.4), 0.0])
    torch.testing.assert_close(label_set_loss(logits, allowed), expected)


def test_an_exact_label_is_cross_entropy_with_its_gradient():
    logits = torch.randn(6, 5, requires_grad=True, generator=torch.Generator().manual_seed(0))
    labels = torch.tensor([0, 1, 2, 3, 4, 0])
    label_set_loss(logits, torch.nn.functional.one_hot(labels, 5)).sum().backward()
    got, logits.grad = logits.grad.clone(), None
    torch.nn.functional.cross_entropy(logits, labels, reduction="sum").backward()
    torch.testing.assert_close(got, logits.grad)


def test_auxiliary_pairs_leave_the_grades_alone(checkpoint_of):
    folder = checkpoint_of()
    examples = examples_of(folder, auxiliary=(0, 1, 2, 3))
    model = TuningModel.open(folder, 5, {"current": ["0", "1"]}, seed=0)
    (plan,) = plan_epoch(examples, layout_of(folder, slots=480), 0, 0)
    loss = model.loss(to_tensors(plan, examples, layout_of(folder, slots=480)))
    loss.backward()
    assert float(loss.detach()) > 0
    assert model.model.classifier.weight.grad.abs().sum() == 0
    assert model.auxiliaries[0].weight.grad.abs().sum() > 0


def test_losses_of_two_processes_add_up_to_one(checkpoint_of):
    folder = checkpoint_of()
    model, examples = TuningModel.open(folder, 5, {}, seed=0), examples_of(folder)
    layout = layout_of(folder, slots=96)
    for plan in plan_epoch(examples, layout, 0, 0):
        whole = model.loss(to_tensors(plan, examples, layout))
        parts = [model.loss(to_tensors(plan, examples, layout, rank=r, size=2)) for r in (0, 1)]
        torch.testing.assert_close(parts[0] + parts[1], whole)


def test_the_share_of_an_example_is_spread_over_its_tokens(checkpoint_of):
    folder = checkpoint_of()
    examples, layout = examples_of(folder), layout_of(folder, slots=480)
    (plan,) = plan_epoch(examples, layout, 0, 0)
    batch = to_tensors(plan, examples, layout)
    assert batch["slot_share"].sum() == pytest.approx(1)
    assert torch.equal(batch["slot_share"] > 0, batch["segment"] > 0)
    first = batch["slot_share"].flatten()[batch["first_slot"][: len(examples)]]
    order = [i for row in plan.rows for i in row]
    assert first.tolist() == pytest.approx([1 / 4 / len(examples[i]) for i in order])


def test_an_epoch_holds_every_example_once_and_epochs_differ(checkpoint_of):
    examples = examples_of(checkpoint_of()) * 20
    layout = BatchLayout((24, 48), 96, 0, 0)
    epochs = [plan_epoch(examples, layout, 3, e) for e in (0, 1)]
    for plans in epochs:
        assert sorted(i for p in plans for row in p.rows for i in row) == list(range(80))
        assert {p.slots for p in plans} == {24, 48}
    assert [p.rows for p in epochs[0]] != [p.rows for p in epochs[1]]
    assert [p.rows for p in plan_epoch(examples, layout, 3, 0)] == [p.rows for p in epochs[0]]


@pytest.mark.parametrize(
    ("longest", "buckets"), [(128, (64, 128)), (48, (48,)), (100, (56, 104)), (64, (32, 64))]
)
def test_buckets(longest, buckets):
    assert buckets_for(longest) == buckets
