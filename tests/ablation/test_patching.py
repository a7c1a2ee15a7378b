"""Patches, paths and weights set back in the masked loop, against hooks on the Hugging Face model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath

import numpy as np
import pytest
import torch

from qt_bert.ablation.guards import run_guards
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patching import Patch, Places, StatePatch, second_batches, twin_batches, twins
from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder import Encoder, open_checkpoint
from qt_bert.encoder.batches import CLS, TITLE, Batch, batches_of
from qt_bert.encoder.heads import Head
from qt_bert.errors import ArgumentError
from tests.ablation.test_loop import plain, run
from tests.conftest import FAMILIES

LAYERS, HEADS = 3, 4
OPTIONS = {"layers": LAYERS, "heads": HEADS, "hidden": 16}
TWINS = [
    ("票价", "北京票价"),
    ("票价", "北京电影"),
    ("苹果手机", "苹果手机上海高铁多"),
    ("苹果手机", "苹果高铁上海手机多"),
    ("猫", "狗"),
    ("猫", "猫"),
]
EVERY_HEAD = tuple(Head(layer, head) for layer in range(LAYERS) for head in range(HEADS))
FIRST = Places("[CLS]", lambda batch: batch.groups == CLS)
TITLES = Places("title", lambda batch: batch.groups == TITLE)


@pytest.fixture
def opened(checkpoint_of: Callable[..., FilePath]) -> Callable[..., tuple]:
    def build(family: str = "bert", budget: int = 1000) -> tuple:
        checkpoint = open_checkpoint(checkpoint_of(family, **OPTIONS))
        encoder = Encoder(checkpoint.model, checkpoint.family)
        encoded = checkpoint.pair_tokenizer().encode(TWINS, offsets=False)
        given = list(twin_batches(encoded, budget, pad=checkpoint.pad))
        return checkpoint, encoder, given

    return build


def exchanged(logits: np.ndarray) -> np.ndarray:
    """Each text's logits in its twin's place [texts, outputs]."""
    return logits.reshape(-1, 2, logits.shape[-1])[:, ::-1].reshape(logits.shape)


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [1, 1000])
def test_equal_to_hooks(opened: Callable[..., tuple], family: str, budget: int) -> None:
    checkpoint, encoder, given = opened(family, budget)
    variants = [
        NONE,
        Variant("patch:L0H1", (Patch((Head(0, 1),)),)),
        Variant("patch:L1H2", (Patch((Head(1, 2),)),)),
        Variant("patch:L2H3", (Patch((Head(2, 3),)),)),
        Variant("several layers", (Patch((Head(0, 1), Head(1, 2), Head(2, 0))),)),
        Variant("a layer", (Patch(tuple(Head(1, head) for head in range(HEADS))),)),
        Variant("[CLS]", (Patch((Head(1, 0), Head(2, 1)), FIRST),)),
        Variant("titles", (Patch(tuple(Head(0, head) for head in range(HEADS)), TITLES),)),
        Variant("and a head out", (Patch((Head(0, 1),)), HeadMask((Head(1, 3),)))),
        *(Variant(f"r{n}", (StatePatch(n, TITLES),)) for n in range(LAYERS)),
        Variant("r3", (StatePatch(3, FIRST),)),
    ]
    got = run(encoder, given, variants, len(TWINS), tokens=60)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(TWINS)), atol=1e-5)
    assert all(np.abs(got[i] - got[0]).max() > 1e-5 for i in range(1, len(variants)))


@pytest.mark.parametrize("family", FAMILIES)
def test_whole_states_make_the_twin(opened: Callable[..., tuple], family: str) -> None:
    """Hidden states of all tokens at any one place, or contexts of all heads in all layers."""
    _, encoder, given = opened(family)
    variants = [
        NONE,
        *(Variant(f"r{n}", (StatePatch(n),)) for n in range(LAYERS + 1)),
    ]
    logits = run(encoder, given, variants, len(TWINS))
    for one in logits[1:]:
        np.testing.assert_allclose(one, exchanged(logits[0]), atol=1e-5)
    contexts = Variant("contexts", (Patch(EVERY_HEAD), StatePatch(0, FIRST)))
    logits = run(encoder, given, [NONE, contexts, Variant("p", (Patch(EVERY_HEAD),))], len(TWINS))
    np.testing.assert_allclose(logits[1], exchanged(logits[0]), atol=1e-5)
    # [CLS] is the same token in both, so its residual stream needs no patch.
    np.testing.assert_allclose(logits[2], exchanged(logits[0]), atol=1e-5)


def test_a_text_with_itself_stays(opened: Callable[..., tuple]) -> None:
    checkpoint, encoder, _ = opened()
    same = [text for text in TWINS[::2] for _ in range(2)]
    encoded = checkpoint.pair_tokenizer().encode(same, offsets=False)
    given = list(twin_batches(encoded, 1000, pad=checkpoint.pad))
    variants = [NONE, *(Variant(f"patch:{h}", (Patch((h,)),)) for h in EVERY_HEAD)]
    logits = run(encoder, given, variants, len(same))
    np.testing.assert_allclose(logits, np.broadcast_to(logits[0], logits.shape), atol=1e-5)


def test_the_guards_check_patches(opened: Callable[..., tuple]) -> None:
    checkpoint, encoder, _ = opened()
    encoded = checkpoint.pair_tokenizer().encode(TWINS, offsets=False)
    variants = [Variant("patch:L0H1", (Patch((Head(0, 1),)),), "patch")]
    figures = run_guards(checkpoint, encoder, variants, encoded, twins=True)
    assert figures["pairs"] == 6 and figures["variants"]["patch:L0H1"] <= figures["bound"]
    with pytest.raises(ArgumentError, match=r"without its twin|tokens and its twin"):
        run_guards(checkpoint, encoder, variants, encoded[::2])


def test_twins_stand_together(opened: Callable[..., tuple]) -> None:
    checkpoint, _, given = opened(budget=1)
    assert len(given) == 3
    for batch in given:
        assert twins(batch).tolist() == [1, 0]
    encoded = checkpoint.pair_tokenizer().encode(TWINS, offsets=False)
    (batch,) = twin_batches(encoded, 1000, pad=checkpoint.pad)
    assert batch.rows.tolist() == [2, 3, 0, 1, 4, 5]
    assert twins(batch).tolist() == [1, 0, 3, 2, 5, 4]


def test_the_second_text_alone_is_patched_alike(opened: Callable[..., tuple]) -> None:
    checkpoint, encoder, given = opened()
    encoded = checkpoint.pair_tokenizer().encode(TWINS, offsets=False)
    variants = [
        NONE,
        Variant("heads", (Patch((Head(0, 1), Head(2, 0))),)),
        Variant("titles", (Patch((Head(1, 2),), TITLES),)),
        Variant("r1", (StatePatch(1),)),
    ]
    both = run(encoder, given, variants, len(TWINS))
    for budget in (1, 1000):
        alone = list(second_batches(encoded, budget, pad=checkpoint.pad))
        assert sorted(row for batch in alone for row in batch.rows) == [1, 3, 5]
        got = run(encoder, alone, variants, len(TWINS))
        np.testing.assert_allclose(got[:, 1::2], both[:, 1::2], atol=1e-5)
    with pytest.raises(ArgumentError, match=r"the text 0 has \d+ tokens and its twin \d+"):
        list(second_batches([encoded[0], encoded[4]], 1000, pad=checkpoint.pad))


def test_a_missing_or_longer_twin_is_refused(opened: Callable[..., tuple]) -> None:
    checkpoint, _, _ = opened()
    encode = checkpoint.pair_tokenizer().encode
    (alone,) = batches_of(encode(TWINS[:1], offsets=False), 1000, pad=checkpoint.pad)
    with pytest.raises(ArgumentError, match="without its twin"):
        twins(alone)
    (longer,) = batches_of(encode([TWINS[0], TWINS[4]], offsets=False), 1000, pad=checkpoint.pad)
    with pytest.raises(ArgumentError, match="tokens and its twin"):
        twins(longer)
    with pytest.raises(ArgumentError, match="no heads"):
        Patch(())


def test_places_are_asked_for_every_batch(opened: Callable[..., tuple]) -> None:
    _, encoder, given = opened(budget=1)
    seen: list[Batch] = []

    def none(batch: Batch) -> torch.Tensor:
        seen.append(batch)
        return torch.zeros_like(batch.groups, dtype=torch.bool)

    variants = [NONE, Variant("nowhere", (Patch((Head(0, 0),), Places("none", none)),))]
    logits = run(encoder, given, variants, len(TWINS))
    np.testing.assert_allclose(logits[1], logits[0], atol=1e-5)
    assert {id(batch) for batch in seen} == {id(batch) for batch in given}
