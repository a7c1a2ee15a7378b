"""Paths in the masked loop, against hooks on the Hugging Face model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path as FilePath

import numpy as np
import pytest

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.engine import Reduction, sweep
from qt_bert.ablation.interventions import NONE, MeanZ, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patches import ENTRIES, HOLDS, Detour, Inflow, Path, path_name
from qt_bert.ablation.request import mean_z
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head
from tests.ablation.test_loop import TEXTS, batches, plain, run
from tests.conftest import FAMILIES

LAYERS, HEADS = 4, 2
OPTIONS = {"layers": LAYERS, "heads": HEADS, "hidden": 16}
SENDER = HeadMask((Head(0, 1), Head(1, 0)))


@pytest.fixture
def opened(checkpoint_of: Callable[..., FilePath]) -> Callable[..., tuple]:
    def build(family: str = "bert") -> tuple:
        checkpoint = open_checkpoint(checkpoint_of(family, **OPTIONS))
        return checkpoint, Encoder(checkpoint.model, checkpoint.family)

    return build


def paths(sender: HeadMask, **options: str) -> list[Variant]:
    return [
        Variant(f"{layer}.{entry}", (Path(sender, Head(layer, 1), entry, **options),))
        for layer in (2, 3)
        for entry in ENTRIES
    ]


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("hold", HOLDS)
@pytest.mark.parametrize("budget", [1, 1000])
def test_equal_to_hooks(opened: Callable[..., tuple], family: str, hold: str, budget: int) -> None:
    checkpoint, encoder = opened(family)
    given = batches(checkpoint, budget)
    variants = [
        NONE,
        *paths(SENDER, hold=hold),
        Variant("uniform", (Path(HeadMask((Head(0, 0),), "uniform"), Head(2, 0), "k", hold),)),
        Variant("inflow", (Inflow(Detour(SENDER, 3, hold)),)),
    ]
    got = run(encoder, given, variants, len(TEXTS), tokens=60)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(TEXTS)), atol=1e-5)
    assert all(np.abs(got[i] - got[0]).max() > 1e-6 for i in range(1, len(variants)))


@pytest.mark.parametrize("mode", ["zero", "uniform", "mean"])
def test_holding_nothing_every_reader_is_leaving_out(
    opened: Callable[..., tuple], mode: str
) -> None:
    checkpoint, encoder = opened()
    given = batches(checkpoint, 1000)
    means: MeanZ | None = mean_z(encoder, given) if mode == "mean" else None
    out = HeadMask(SENDER.heads, mode, means)  # type: ignore[arg-type]
    variants = [
        NONE,
        Variant("out", (out,)),
        *(Variant(f"L{n}", (Inflow(Detour(out, n, "nothing")),)) for n in (2, 3)),
    ]
    got = run(encoder, given, variants, len(TEXTS))
    for one in got[2:]:
        np.testing.assert_allclose(one, got[1], atol=1e-5)


def test_only_what_is_entered_changes(opened: Callable[..., tuple]) -> None:
    """Attention of other heads of the layer stays; a value changes no attention at all."""
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint, 1000)
    watch = Reduction("row", "attention", (2, 3), lambda view: view.values[:, :, 0], True)
    variants = [NONE, *paths(SENDER)[:4]]
    (found,) = sweep(encoder, [batch], variants, [watch])
    none, *others = np.nan_to_num(found.reduced["row"])
    for variant, one in zip(variants[1:], others, strict=True):
        np.testing.assert_array_equal(one[:, 0, 0], none[:, 0, 0])
        moved = np.abs(one[:, 0, 1] - none[:, 0, 1]).max()
        assert (moved < 1e-6) == variant.name.endswith(".v")
        assert np.abs(one[:, 1] - none[:, 1]).max() > 0  # above it, all runs free


def test_the_guards_check_paths(opened: Callable[..., tuple]) -> None:
    checkpoint, encoder = opened()
    encoded = checkpoint.pair_tokenizer().encode(TEXTS, offsets=False)
    figures = check_equivalence(checkpoint, encoder, paths(SENDER), encoded)
    assert max(figures["variants"].values()) <= figures["bound"]
    assert len(figures["variants"]) >= len(ENTRIES)


def test_what_cannot_be_meant_is_refused() -> None:
    with pytest.raises(ArgumentError, match="L1H0 does not lie below layer 1"):
        Path(SENDER, Head(1, 1), "k")
    with pytest.raises(ArgumentError, match="entry 'x'"):
        Path(SENDER, Head(2, 1), "x")  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="hold 'all'"):
        Path(SENDER, Head(2, 1), "k", "all")  # type: ignore[arg-type]
    assert path_name("L3H7", Head(10, 2), "k") == "path:L3H7>L10H2.k"
    assert Path(SENDER, Head(2, 1), "qk").kind == "path.qk"
    assert Path(SENDER, Head(2, 1), "qk").heads == (Head(0, 1), Head(1, 0), Head(2, 1))
