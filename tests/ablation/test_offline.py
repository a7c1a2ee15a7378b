"""The masked loop on an offline model, against hooks on the Hugging Face model, and its own cuts."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath

import numpy as np
import pytest
import torch

from qt_bert.ablation.importance import gradient_importance
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import BlocksOut, Cut, HeadMask
from qt_bert.ablation.patches import Patch, Path, donor_batches
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head
from tests.ablation.test_loop import OPTIONS, SHAPE, TEXTS, batches, many_variants, plain, run
from tests.ablation.test_patching import COUPLES
from tests.conftest import FAMILIES

Folder = Callable[..., FilePath]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [1, 1000])
def test_equal_to_hooks(offline_checkpoint_of: Folder, family: str, budget: int) -> None:
    checkpoint = open_checkpoint(offline_checkpoint_of(family, below=2, **OPTIONS))
    given = batches(checkpoint, budget)
    sender = HeadMask((Head(0, 1), Head(1, 0)))
    variants = [
        *many_variants(),
        Variant("B1", (BlocksOut((1,)),)),
        Variant("cut", (Cut("T<Q", 0, 2, "after"),)),
        Variant("path", (Path(sender, Head(2, 1), "k"),)),
        Variant("path, nothing held", (Path(sender, Head(2, 1), "qk", "nothing"),)),
    ]
    got = run(checkpoint.encoder(), given, variants, len(TEXTS), tokens=60)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(TEXTS)), atol=5e-5)


def test_patches_equal_to_hooks(offline_checkpoint_of: Folder) -> None:
    checkpoint = open_checkpoint(offline_checkpoint_of("bert", below=2, **OPTIONS))
    encoded = checkpoint.pair_tokenizer().encode(COUPLES, offsets=False)
    given = list(donor_batches(encoded, 1000, pad=checkpoint.pad))
    variants = [NONE, Variant("heads", (Patch((Head(0, 1), Head(1, 2))),))]
    got = run(checkpoint.encoder(), given, variants, len(COUPLES))
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(COUPLES)), atol=1e-5)


def test_the_cut_of_the_same_layers_changes_nothing(offline_checkpoint_of: Folder) -> None:
    checkpoint = open_checkpoint(offline_checkpoint_of("bert", below=2, **OPTIONS))
    variants = [NONE, Variant("below", (Cut("all", 0, 1),)), Variant("above", (Cut("all", 2, 2),))]
    none, below, above = run(checkpoint.encoder(), batches(checkpoint, 1000), variants, len(TEXTS))
    np.testing.assert_allclose(below, none, atol=1e-6)
    assert np.abs(above - none).max() > 1e-3


def test_without_moved_positions_it_is_the_cut_model(
    checkpoint_of: Folder, offline_checkpoint_of: Folder
) -> None:
    usual = open_checkpoint(checkpoint_of("bert", **OPTIONS))
    made = open_checkpoint(offline_checkpoint_of("bert", below=2, start=3, tokens=40, **OPTIONS))
    cut = [Variant("cut", (Cut("all", 0, 1),))]
    (want,) = run(usual.encoder(), batches(usual, 1000), cut, len(TEXTS))
    (got,) = run(made.encoder(), batches(made, 1000), [NONE], len(TEXTS))
    np.testing.assert_allclose(got, want, atol=1e-5)


def test_importance_is_the_gradient_through_the_block(offline_checkpoint_of: Folder) -> None:
    """∂ logits / ∂ gate, of the loop's own heads out by a little: a head times 1 − ε."""
    checkpoint = open_checkpoint(offline_checkpoint_of("bert", below=2, labels=1, **OPTIONS))
    found = gradient_importance(checkpoint.encoder(), batches(checkpoint, 1000), None)
    step, moved = 1e-4, np.zeros(SHAPE.size)
    exact = checkpoint.model.double()
    for head in SHAPE.all_heads:
        dense = exact.bert.encoder.layer[head.layer].attention.output.dense
        columns = slice(4 * head.head, 4 * head.head + 4)
        kept = dense.weight[:, columns].clone()
        sides = []
        for factor in (1 + step, 1 - step):
            with torch.no_grad():
                dense.weight[:, columns] = kept * factor
                encoder = Encoder(exact, checkpoint.family, checkpoint.offline)
                sides.append(run_exactly(encoder, batches(checkpoint, 1000)))
                dense.weight[:, columns] = kept
        moved[head] = np.abs(sides[0] - sides[1]).mean() / (2 * step)
    np.testing.assert_allclose(found.raw, moved, rtol=1e-3, atol=1e-6)


@torch.inference_mode()
def run_exactly(encoder: Encoder, given: list) -> np.ndarray:
    rows = np.concatenate([batch.rows for batch in given])
    logits = torch.cat([encoder.logits_of(batch)[:, 0] for batch in given]).numpy()
    return logits[np.argsort(rows)]
