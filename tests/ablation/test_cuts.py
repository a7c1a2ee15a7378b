"""Cuts between the texts in the masked loop, against a plainly masked Hugging Face model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import CONVENTIONS, Cut, HeadMask
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import DIRECTIONS
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head
from tests.ablation.test_loop import TEXTS, batches, plain, run
from tests.conftest import FAMILIES

OPTIONS = {"layers": 3, "heads": 4, "hidden": 16}


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [1, 1000])
def test_equal_to_a_masked_model(
    checkpoint_of: Callable[..., Path], family: str, budget: int
) -> None:
    checkpoint = open_checkpoint(checkpoint_of(family, **OPTIONS))
    encoder = Encoder(checkpoint.model, checkpoint.family)
    given = batches(checkpoint, budget)
    cuts = [
        Cut(direction, first, last, convention)
        for direction in DIRECTIONS
        for convention in CONVENTIONS
        for first, last in ((0, 0), (0, 1), (2, 2), (0, 2))
    ]
    variants = [
        NONE,
        *(Variant(cut.name, (cut,), "cut") for cut in cuts),
        Variant("and a head out", (Cut("all", 0, 1), HeadMask((Head(1, 2),), "uniform"))),
    ]
    got = run(encoder, given, variants, len(TEXTS), tokens=60)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(TEXTS)), atol=1e-5)
    for variant, logits in zip(variants[1:], got[1:], strict=True):
        # Above the last layer only the first token is read, which T<Q and Q<T there do not touch.
        idle = variant.name.split("/")[0] in ("cut:T<Q@2-2", "cut:Q<T@2-2", "cut:<C@2-2")
        assert (np.abs(logits - got[0]).max() < 1e-5) == idle, variant.name


def test_the_first_token_knows_nothing_of_the_title_under_all(
    checkpoint_of: Callable[..., Path],
) -> None:
    """With every layer cut, the logits do not depend on the title."""
    checkpoint = open_checkpoint(checkpoint_of("bert", **OPTIONS))
    encoder = Encoder(checkpoint.model, checkpoint.family)
    texts = [("苹果手机", "苹果多少钱"), ("苹果手机", "红烧排骨")]
    given = batches(checkpoint, 1000, texts)
    variants = [NONE, Variant("all", (Cut("all", 0, 2),)), Variant("C", (Cut("C<T", 0, 2),))]
    none, cut, first = run(encoder, given, variants, len(texts))
    np.testing.assert_allclose(cut[0], cut[1], atol=1e-6)
    assert np.abs(none[0] - none[1]).max() > 1e-3
    assert np.abs(first[0] - first[1]).max() > 1e-4  # through the query's tokens


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ArgumentError, match="direction is 'T>Q'"):
        Cut("T>Q", 0, 1)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="convention is 'never'"):
        Cut("all", 0, 1, "never")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="layers 2 to 1"):
        Cut("all", 2, 1)
    assert Cut("T<Q", 0, 4).name == "cut:T<Q@0-4"
    assert Cut("T<Q", 0, 4, "after").name == "cut:T<Q@0-4/after"
