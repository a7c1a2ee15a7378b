"""Patches, paths and weights set back in the masked loop, against hooks on the Hugging Face model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath

import numpy as np
import pytest

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patches import Patch, donor_batches, donor_rows, recipient_batches
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import batches_of
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head
from tests.ablation.test_loop import plain, run
from tests.conftest import FAMILIES

LAYERS, HEADS = 3, 4
OPTIONS = {"layers": LAYERS, "heads": HEADS, "hidden": 16}
COUPLES = [
    ("票价", "北京票价"),
    ("票价", "北京电影"),
    ("苹果手机", "苹果手机上海高铁多"),
    ("苹果手机", "苹果高铁上海手机多"),
    ("猫", "狗"),
    ("猫", "猫"),
]
EVERY_HEAD = tuple(Head(layer, head) for layer in range(LAYERS) for head in range(HEADS))


@pytest.fixture
def opened(checkpoint_of: Callable[..., FilePath]) -> Callable[..., tuple]:
    def build(family: str = "bert", budget: int = 1000) -> tuple:
        checkpoint = open_checkpoint(checkpoint_of(family, **OPTIONS))
        encoder = Encoder(checkpoint.model, checkpoint.family)
        encoded = checkpoint.pair_tokenizer().encode(COUPLES, offsets=False)
        given = list(donor_batches(encoded, budget, pad=checkpoint.pad))
        return checkpoint, encoder, given

    return build


def exchanged(logits: np.ndarray) -> np.ndarray:
    """Each text's logits in its donor's place [texts, outputs]."""
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
        Variant("and a head out", (Patch((Head(0, 1),)), HeadMask((Head(1, 3),)))),
    ]
    got = run(encoder, given, variants, len(COUPLES), tokens=60)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(COUPLES)), atol=1e-5)
    assert all(np.abs(got[i] - got[0]).max() > 1e-5 for i in range(1, len(variants)))


@pytest.mark.parametrize("family", FAMILIES)
def test_z_of_every_head_makes_the_donor(opened: Callable[..., tuple], family: str) -> None:
    """[CLS] is the same token in both, so its residual stream needs no patch."""
    _, encoder, given = opened(family)
    logits = run(encoder, given, [NONE, Variant("z", (Patch(EVERY_HEAD),))], len(COUPLES))
    np.testing.assert_allclose(logits[1], exchanged(logits[0]), atol=1e-5)


def test_a_text_with_itself_stays(opened: Callable[..., tuple]) -> None:
    checkpoint, encoder, _ = opened()
    same = [text for text in COUPLES[::2] for _ in range(2)]
    encoded = checkpoint.pair_tokenizer().encode(same, offsets=False)
    given = list(donor_batches(encoded, 1000, pad=checkpoint.pad))
    variants = [NONE, *(Variant(f"patch:{h}", (Patch((h,)),)) for h in EVERY_HEAD)]
    logits = run(encoder, given, variants, len(same))
    np.testing.assert_allclose(logits, np.broadcast_to(logits[0], logits.shape), atol=1e-5)


def test_the_equivalence_check_takes_patches(opened: Callable[..., tuple]) -> None:
    checkpoint, encoder, _ = opened()
    encoded = checkpoint.pair_tokenizer().encode(COUPLES, offsets=False)
    variants = [Variant("patch:L0H1", (Patch((Head(0, 1),)),), "patch")]
    figures = check_equivalence(checkpoint, encoder, variants, encoded, donors=True)
    assert figures["pairs"] == 6 and figures["variants"]["patch:L0H1"] <= figures["bound"]
    with pytest.raises(ArgumentError, match=r"without its donor|tokens and its donor"):
        check_equivalence(checkpoint, encoder, variants, encoded[::2])


def test_donors_stand_together(opened: Callable[..., tuple]) -> None:
    checkpoint, _, given = opened(budget=1)
    assert len(given) == 3
    for batch in given:
        assert donor_rows(batch).tolist() == [1, 0]
    encoded = checkpoint.pair_tokenizer().encode(COUPLES, offsets=False)
    (batch,) = donor_batches(encoded, 1000, pad=checkpoint.pad)
    assert batch.rows.tolist() == [2, 3, 0, 1, 4, 5]
    assert donor_rows(batch).tolist() == [1, 0, 3, 2, 5, 4]


def test_the_second_text_alone_is_patched_alike(opened: Callable[..., tuple]) -> None:
    checkpoint, encoder, given = opened()
    encoded = checkpoint.pair_tokenizer().encode(COUPLES, offsets=False)
    variants = [
        NONE,
        Variant("heads", (Patch((Head(0, 1), Head(2, 0))),)),
        Variant("one head", (Patch((Head(1, 2),)),)),
    ]
    both = run(encoder, given, variants, len(COUPLES))
    for budget in (1, 1000):
        alone = list(recipient_batches(encoded, budget, pad=checkpoint.pad))
        assert sorted(row for batch in alone for row in batch.rows) == [1, 3, 5]
        got = run(encoder, alone, variants, len(COUPLES))
        np.testing.assert_allclose(got[:, 1::2], both[:, 1::2], atol=1e-5)
    with pytest.raises(ArgumentError, match=r"the text 0 has \d+ tokens and its donor \d+"):
        list(recipient_batches([encoded[0], encoded[4]], 1000, pad=checkpoint.pad))


def test_a_missing_or_longer_donor_is_refused(opened: Callable[..., tuple]) -> None:
    checkpoint, _, _ = opened()
    encode = checkpoint.pair_tokenizer().encode
    (alone,) = batches_of(encode(COUPLES[:1], offsets=False), 1000, pad=checkpoint.pad)
    with pytest.raises(ArgumentError, match="without its donor"):
        donor_rows(alone)
    (longer,) = batches_of(
        encode([COUPLES[0], COUPLES[4]], offsets=False), 1000, pad=checkpoint.pad
    )
    with pytest.raises(ArgumentError, match="tokens and its donor"):
        donor_rows(longer)
    with pytest.raises(ArgumentError, match="no heads"):
        Patch(())
