"""Gradient importance against hooks and autograd on the Hugging Face model, and finite differences."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch

from qt_bert.ablation.importance import importance
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch, to_batch
from qt_bert.models.checkpoint import Checkpoint, smaller_checkpoint
from qt_bert.models.families import at
from qt_bert.models.opening import open_checkpoint
from qt_bert.results.kept import KeptLayer

TEXTS = [
    ("北京到上海高铁票价", "上海到北京高铁票价"),
    ("京东小哥", "小"),
    ("狗", "猫追狗" * 9),
    ("苹果多少钱一斤", "苹果手机多少钱"),
    ("狗追猫", "猫追狗"),
    ("红烧排骨", "家常做法"),
    ("衣服沾了油", "怎么洗掉"),
    ("我", "我"),
]
EXACT = np.eye(5, dtype=bool)[[0, 4, 2, 1, 3, 0, 2, 4]]
LABELS = [(0, 1), (4,), (2, 3), (0, 1), (2, 3), (0, 1), (2, 3), (0, 2, 4)]
COARSE = np.array([[logit in label for logit in range(5)] for label in LABELS])


def batches(checkpoint: Checkpoint, size: int = 3) -> list[Batch]:
    """Batches of `size` pairs in file order, so that long and short pairs meet."""
    encoded = checkpoint.pair_tokenizer().encode(TEXTS)
    return [
        to_batch(np.arange(i, min(i + size, len(TEXTS))), encoded[i : i + size], pad=checkpoint.pad)
        for i in range(0, len(TEXTS), size)
    ]


@contextmanager
def gated(checkpoint: Checkpoint, gates: torch.Tensor) -> Iterator[None]:
    """The Hugging Face model with `gates` [layers, heads] times its z before W_O."""
    layers = checkpoint.family.layers_of(checkpoint.model)
    handles = []
    for number, layer in enumerate(layers):

        def hook(_: object, inputs: tuple[torch.Tensor], number: int = number) -> torch.Tensor:
            by_head = inputs[0].unflatten(-1, (checkpoint.heads, -1))
            return (by_head * gates[number, :, None]).flatten(-2)

        output = at(layer, checkpoint.family.parts.output)
        handles.append(output.register_forward_pre_hook(hook))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def plain_losses(checkpoint: Checkpoint, labels: np.ndarray | None) -> torch.Tensor:
    """L of every pair [n], each run alone; as the article writes it, by the probabilities."""
    losses = []
    for i, (query, title) in enumerate(TEXTS):
        inputs = checkpoint.tokenizer(query, title, return_tensors="pt")
        if not checkpoint.family.segments:
            inputs.pop("token_type_ids", None)
        (logits,) = checkpoint.model(**inputs).logits
        if labels is None:
            losses.append(logits[0])
        else:
            losses.append(-torch.log(torch.softmax(logits, 0)[labels[i]].sum()))
    return torch.stack(losses)


def by_autograd(checkpoint: Checkpoint, labels: np.ndarray | None) -> np.ndarray:
    gates = torch.ones(checkpoint.layers, checkpoint.heads, requires_grad=True)
    with gated(checkpoint, gates):
        losses = plain_losses(checkpoint, labels)
    each = [torch.autograd.grad(loss, gates, retain_graph=True)[0].abs() for loss in losses]
    return torch.stack(each).mean(0).numpy()


@pytest.mark.parametrize(
    ("family", "labels"),
    [
        *[("bert", EXACT), ("bert", COARSE), ("electra", COARSE), ("xlm-roberta", EXACT)],
        *[("gte", EXACT), ("modernbert", EXACT), ("qwen3", EXACT), ("deberta-v2", COARSE)],
        ("xlm-roberta", None),
    ],
)
def test_equals_hooks_on_the_hugging_face_model(checkpoint_of, family, labels):
    """Also where the encoder ran without gradients before, and kept what it made of positions."""
    options = {"layers": 3, "heads": 4, "hidden": 32, "labels": 1 if labels is None else 5}
    checkpoint = open_checkpoint(checkpoint_of(family, **options))
    encoder = checkpoint.encoder()
    with torch.inference_mode():
        for batch in batches(checkpoint):
            encoder.logits_of(batch)
    result = importance(encoder, batches(checkpoint), labels)
    expected = by_autograd(checkpoint, labels)
    assert expected.max() > 1e-2
    np.testing.assert_allclose(result, expected, rtol=3e-5, atol=3e-5)  # sums of another order


def test_units_equal_finite_differences(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of())
    checkpoint.model.double()
    result = importance(checkpoint.encoder(), batches(checkpoint), COARSE, units=True)
    assert [one.shape for one in result] == [(32,), (32,)]

    step = 1e-4
    for layer, unit in ((0, 0), (0, 31), (1, 7)):
        dense, sides = checkpoint.model.bert.encoder.layer[layer].output.dense, []
        for way in (1 + step, 1 - step):

            def hook(_, inputs, way=way, unit=unit):
                active = inputs[0].clone()
                active[..., unit] *= way
                return active

            handle = dense.register_forward_pre_hook(hook)
            with torch.no_grad():
                sides.append(plain_losses(checkpoint, COARSE).numpy())
            handle.remove()
        want = np.abs(sides[0] - sides[1]).mean() / (2 * step)
        assert result[layer][unit] == pytest.approx(want, rel=1e-4, abs=1e-9)


def test_a_layer_without_heads_has_units_too(checkpoint_of):
    bare = (KeptLayer(layer=0, heads=()), KeptLayer(layer=1, heads=(1,)))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of()), bare)
    result = importance(small.encoder(), batches(small), COARSE, units=True)
    assert all((one > 0).any() for one in result)


def test_leaves_no_gradient_and_works_in_inference_mode(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of())
    encoder = checkpoint.encoder()
    expected = importance(encoder, batches(checkpoint), EXACT)
    with torch.inference_mode():
        result = importance(encoder, batches(checkpoint), EXACT)
    np.testing.assert_array_equal(result, expected)
    assert all(parameter.grad is None for parameter in checkpoint.model.parameters())


def test_no_label_no_pair_and_half_precision_are_refused(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of())
    with pytest.raises(ArgumentError, match="the label of pair 7"):
        unlabelled = EXACT & (np.arange(8) < 7)[:, None]
        importance(checkpoint.encoder(), batches(checkpoint, 8), unlabelled)
    short = open_checkpoint(checkpoint_of(), dtype="bfloat16")
    for units in (False, True):
        with pytest.raises(ArgumentError, match="at least one pair"):
            importance(checkpoint.encoder(), [], EXACT, units=units)
        with pytest.raises(ArgumentError, match="opened in float32"):
            importance(short.encoder(), batches(short), EXACT, units=units)
