"""Gradient importance against hooks and autograd on the Hugging Face model, and finite differences."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.importance import agreement, gradient_importance
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch, to_batch
from qt_bert.models.checkpoint import Checkpoint, open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.shipped import GRADED, shipped

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
EXACT = [(0,), (4,), (2,), (1,), (3,), (0,), (2,), (4,)]
COARSE = [(0, 1), (4,), (2, 3), (0, 1), (2, 3), (0, 1), (2, 3), (0, 2, 4)]


def batches(checkpoint: Checkpoint, size: int) -> list[Batch]:
    """Batches of `size` pairs in file order, so that long and short pairs meet."""
    encoded = checkpoint.pair_tokenizer().encode(TEXTS)
    starts = range(0, len(TEXTS), size)
    pad = checkpoint.tokenizer.pad_token_id
    return [
        to_batch(np.arange(i, i + len(encoded[i : i + size])), encoded[i : i + size], pad=pad)
        for i in starts
    ]


def encoder_of(checkpoint: Checkpoint) -> Encoder:
    return Encoder(checkpoint.model, checkpoint.family)


@contextmanager
def gated(checkpoint: Checkpoint, gates: torch.Tensor) -> Iterator[None]:
    """The Hugging Face model with `gates` [layers, heads] times its z before W_O."""
    layers = getattr(checkpoint.model, checkpoint.family.backbone).encoder.layer
    handles = []
    for number, layer in enumerate(layers):

        def hook(_: object, inputs: tuple[torch.Tensor], number: int = number) -> torch.Tensor:
            by_head = inputs[0].unflatten(-1, (checkpoint.heads, -1))
            return (by_head * gates[number, :, None]).flatten(-2)

        handles.append(layer.attention.output.dense.register_forward_pre_hook(hook))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def plain_losses(checkpoint: Checkpoint, gates: torch.Tensor, labels: list | None) -> torch.Tensor:
    """L of every pair [n], each run alone; as the article writes it, by the probabilities."""
    losses = []
    with gated(checkpoint, gates):
        for i, (query, title) in enumerate(TEXTS):
            inputs = checkpoint.tokenizer(query, title, return_tensors="pt")
            (logits,) = checkpoint.model(**inputs).logits
            if labels is None:
                losses.append(logits[0])
            else:
                losses.append(-torch.log(torch.softmax(logits, 0)[list(labels[i])].sum()))
    return torch.stack(losses)


def by_autograd(checkpoint: Checkpoint, labels: list | None) -> np.ndarray:
    gates = torch.ones(checkpoint.layers, checkpoint.heads, requires_grad=True)
    losses = plain_losses(checkpoint, gates, labels)
    each = [torch.autograd.grad(loss, gates, retain_graph=True)[0].abs() for loss in losses]
    return torch.stack(each).mean(0).numpy()


@pytest.mark.parametrize("family", ["bert", "electra", "xlm-roberta"])
@pytest.mark.parametrize("labels", [EXACT, COARSE], ids=["exact", "coarse"])
def test_equals_hooks_on_the_hugging_face_model(
    checkpoint_of: Callable[..., Path], family: str, labels: list
) -> None:
    checkpoint = open_checkpoint(checkpoint_of(family, layers=3, heads=4))
    found = gradient_importance(encoder_of(checkpoint), batches(checkpoint, 3), labels)
    expected = by_autograd(checkpoint, labels)
    assert expected.max() > 1e-2
    np.testing.assert_allclose(found.raw, expected, atol=3e-5)  # float32 sums of another order
    norms = np.sqrt((expected**2).sum(1, keepdims=True))
    np.testing.assert_allclose(found.normalised, expected / norms, atol=1e-4)


def test_one_logit_is_its_own_loss(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of("xlm-roberta", labels=1))
    found = gradient_importance(encoder_of(checkpoint), batches(checkpoint, 3), None)
    np.testing.assert_allclose(found.raw, by_autograd(checkpoint, None), atol=1e-5)


@pytest.mark.parametrize("labels", [EXACT, COARSE], ids=["exact", "coarse"])
def test_equals_finite_differences(checkpoint_of: Callable[..., Path], labels: list) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    found = gradient_importance(encoder_of(checkpoint), batches(checkpoint, 8), labels)
    checkpoint.model.double()
    step = 1e-4
    for place in np.ndindex(found.raw.shape):
        gates = torch.ones(found.raw.shape, dtype=torch.float64)
        sides = []
        for way in (step, -step):
            gates[place] = 1 + way
            with torch.no_grad():
                sides.append(plain_losses(checkpoint, gates, labels))
        slopes = (sides[0] - sides[1]) / (2 * step)
        assert found.raw[place] == pytest.approx(slopes.abs().mean().item(), abs=1e-5)


def of_batches(checkpoint: Checkpoint) -> list[np.ndarray]:
    """Raw importance at batches of 1, 3 and 8 pairs; one pair a batch needs no padding."""
    assert all(batch.mask is None for batch in batches(checkpoint, 1))
    assert all(batch.mask is not None for batch in batches(checkpoint, 8))
    return [
        gradient_importance(encoder_of(checkpoint), batches(checkpoint, size), COARSE).raw
        for size in (1, 3, 8)
    ]


def test_batches_do_not_matter(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of(layers=3, heads=4))
    checkpoint.model.double()
    one, *others = of_batches(checkpoint)
    for other in others:
        np.testing.assert_allclose(other, one, atol=1e-12, rtol=0)


def test_batches_do_not_matter_in_float32_on_a_trained_model() -> None:
    one, *others = of_batches(open_checkpoint(shipped(GRADED)))
    assert one.max() > 0.05
    for other in others:
        np.testing.assert_allclose(other, one, atol=1e-6, rtol=0)


def test_leaves_no_gradient_and_works_in_inference_mode(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    encoder = encoder_of(checkpoint)
    expected = gradient_importance(encoder, batches(checkpoint, 3), EXACT).raw
    with torch.inference_mode():
        found = gradient_importance(encoder, batches(checkpoint, 3), EXACT).raw
    np.testing.assert_array_equal(found, expected)
    assert all(parameter.grad is None for parameter in checkpoint.model.parameters())


def test_a_label_that_may_be_anything_teaches_nothing(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    whole = [(0, 1, 2, 3, 4)] * len(TEXTS)
    found = gradient_importance(encoder_of(checkpoint), batches(checkpoint, 3), whole)
    np.testing.assert_allclose(found.raw, 0, atol=1e-6)


def test_a_dead_layer_stays_zero(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    checkpoint.model.bert.encoder.layer[0].attention.output.dense.weight.data.zero_()
    found = gradient_importance(encoder_of(checkpoint), batches(checkpoint, 3), EXACT)
    assert (found.raw[0] == 0).all() and (found.normalised[0] == 0).all()
    assert np.linalg.norm(found.normalised[1]) == pytest.approx(1)


@pytest.mark.parametrize(
    ("labels", "word"),
    [
        (None, "a model of 5 logits, and no labels"),
        (EXACT[:-1], "the label of pair 7"),
        ([*EXACT[:-1], ()], "the label of pair 7"),
        ([*EXACT[:-1], (5,)], r"names the logits \(5,\)"),
    ],
)
def test_labels_that_do_not_fit_are_refused(
    checkpoint_of: Callable[..., Path], labels: list | None, word: str
) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    with pytest.raises(ArgumentError, match=word):
        gradient_importance(encoder_of(checkpoint), batches(checkpoint, 8), labels)


def test_no_pair_and_half_precision_are_refused(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    with pytest.raises(ArgumentError, match="at least one pair"):
        gradient_importance(encoder_of(checkpoint), [], EXACT)
    short = open_checkpoint(checkpoint_of(), dtype="bfloat16")
    with pytest.raises(ArgumentError, match="opened in float32"):
        gradient_importance(encoder_of(short), batches(short, 8), EXACT)


def test_agreement_by_hand() -> None:
    importance = np.array([[6.0, 5, 4, 3], [2, 1, 0.5, 0.1]])
    effects = np.array([[5.0, 6, 4, 0.1], [2, 1, 0.5, 3]])
    found = agreement(importance, effects)
    # Ranks 1 2 3 4 5 6 7 8 against 2 1 3 8 5 6 7 4: the squared differences add up to 34.
    assert found.spearman == pytest.approx(1 - 6 * 34 / (8 * 63))
    assert [(top.k, top.shared, top.chance) for top in found.top] == [(5, 4 / 5, 5 / 8)]


def test_equal_values_share_the_last_places() -> None:
    importance = np.arange(12.0).reshape(3, 4)
    flat = np.zeros((3, 4))
    found = agreement(importance, flat)
    assert found.spearman is None
    assert [(top.k, top.shared) for top in found.top] == [
        (5, pytest.approx(5 / 12)),
        (10, pytest.approx(10 / 12)),
    ]


def test_agreement_refuses_what_cannot_be_ranked() -> None:
    with pytest.raises(ArgumentError, match=r"\(2, 3\).*\(3, 2\)"):
        agreement(np.zeros((2, 3)), np.zeros((3, 2)))
    with pytest.raises(ArgumentError, match="missing for some heads"):
        agreement(np.zeros((1, 2)), np.array([[1.0, np.nan]]))
