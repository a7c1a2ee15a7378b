"""Weights set back in the masked loop, against a Hugging Face model that they were written into."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath

import numpy as np
import pytest

from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.weights import Earlier, Reverted, RevertedLayers
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head
from tests.ablation.test_loop import TEXTS, batches, plain, run
from tests.conftest import FAMILIES

LAYERS, HEADS = 3, 4
OPTIONS = {"layers": LAYERS, "heads": HEADS, "hidden": 16}
ALL = tuple(range(LAYERS))
EVERY_HEAD = tuple(Head(layer, head) for layer in ALL for head in range(HEADS))


@pytest.fixture
def opened(checkpoint_of: Callable[..., FilePath]) -> Callable[..., tuple]:
    def build(family: str = "bert", **others: int) -> tuple:
        checkpoint = open_checkpoint(checkpoint_of(family, **OPTIONS, seed=1))
        base = open_checkpoint(checkpoint_of(family, **(OPTIONS | others), seed=2))
        tuned = Encoder(checkpoint.model, checkpoint.family)
        return checkpoint, tuned, base, Earlier(Encoder(base.model, base.family), tuned)

    return build


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [1, 1000])
def test_equal_to_written_weights(opened: Callable[..., tuple], family: str, budget: int) -> None:
    checkpoint, tuned, _, earlier = opened(family)
    given = batches(checkpoint, budget)
    kept = tuple(head for head in EVERY_HEAD if head != Head(1, 1))
    variants = [
        NONE,
        *(Variant(f"revert:{h}", (Reverted((h,), earlier),)) for h in EVERY_HEAD[::3]),
        Variant("keep-one", (Reverted(kept, earlier),)),
        Variant("every head", (Reverted(EVERY_HEAD, earlier),)),
        Variant("layers", (RevertedLayers((0, 2), earlier),)),
        Variant("embeddings", (RevertedLayers((), earlier, embeddings=True),)),
        Variant("everything", (RevertedLayers(ALL, earlier, embeddings=True),)),
        Variant("and out", (Reverted((Head(1, 2),), earlier), HeadMask((Head(1, 2), Head(1, 0))))),
        Variant("layer and out", (Reverted((Head(2, 2),), earlier), HeadMask(EVERY_HEAD[8:]))),
    ]
    got = run(tuned, given, variants, len(TEXTS), tokens=60)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(TEXTS)), atol=1e-5)
    np.testing.assert_allclose(plain(checkpoint, given, [NONE], len(TEXTS))[0], got[0], atol=1e-5)


def test_everything_is_the_base_under_the_tuned_head(opened: Callable[..., tuple]) -> None:
    checkpoint, tuned, base, earlier = opened()
    given = batches(checkpoint, 1000)
    everything = Variant("all", (RevertedLayers(ALL, earlier, embeddings=True),))
    (_, got) = run(tuned, given, [NONE, everything], len(TEXTS))
    base.model.bert.pooler = checkpoint.model.bert.pooler
    base.model.classifier = checkpoint.model.classifier
    (want,) = run(Encoder(base.model, base.family), given, [NONE], len(TEXTS))
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_the_same_weights_change_nothing(checkpoint_of: Callable[..., FilePath]) -> None:
    checkpoint = open_checkpoint(checkpoint_of("bert", **OPTIONS))
    encoder = Encoder(checkpoint.model, checkpoint.family)
    earlier = Earlier(encoder, encoder)
    variants = [
        NONE,
        Variant("heads", (Reverted(EVERY_HEAD, earlier),)),
        Variant("all", (RevertedLayers(ALL, earlier, embeddings=True),)),
    ]
    got = run(encoder, batches(checkpoint, 1000), variants, len(TEXTS))
    np.testing.assert_allclose(got[1:], np.broadcast_to(got[0], got[1:].shape), atol=1e-5)


def test_a_base_of_another_shape_is_refused(opened: Callable[..., tuple]) -> None:
    with pytest.raises(ArgumentError, match="do not fit the model's"):
        opened(layers=2)
    _, _, _, earlier = opened()
    with pytest.raises(ArgumentError, match="no head to set back"):
        Reverted((), earlier)
    with pytest.raises(ArgumentError, match="no layer to set back"):
        RevertedLayers((), earlier)
