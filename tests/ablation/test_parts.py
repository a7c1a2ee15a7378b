"""What single kinds of parts must do besides agreeing with hooks (`test_loop`)."""

import copy
from collections.abc import Callable

import numpy as np
import pytest
import torch

from qt_bert.ablation.engine import Reduction, sweep
from qt_bert.ablation.interventions import NONE, LayerIntervention, Variant
from qt_bert.ablation.masks import BlocksOut, HeadMask, SegmentBlock, blocks
from qt_bert.ablation.patches import (
    ENTRIES,
    Patch,
    Path,
    donor_batches,
    recipient_batches,
)
from qt_bert.ablation.weights import AffineMap
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape
from qt_bert.models.opening import open_checkpoint
from tests.ablation.test_loop import OPTIONS, SHAPE, a_map, batches, plain, run
from tests.conftest import FAMILIES

EVERY_HEAD = tuple(SHAPE.all_heads)
COUPLES = [
    ("票价", "北京票价"),
    ("票价", "北京电影"),
    ("苹果手机", "苹果手机上海高铁多"),
    ("苹果手机", "苹果高铁上海手机多"),
    ("猫", "狗"),
    ("猫", "猫"),
]

OF_LETTERS = [
    ("ab", "cd"),
    ("ab", "ce"),
    ("x1", "y2"),
    ("x2", "y1"),
    ("abc", "xyz"),
    ("abd", "xyw"),
]
"""Bytes and tokens are one here, so that both texts of a couple have as many."""


@pytest.fixture
def opened(checkpoint_of) -> Callable[..., tuple]:
    def build(family="bert", **options):
        checkpoint = open_checkpoint(checkpoint_of(family, **(OPTIONS | options)))
        return checkpoint, checkpoint.encoder()

    return build


# Layers and cuts.


@pytest.mark.parametrize(
    ("family", "normed_after"),
    [("bert", True), ("gte", True), ("modernbert", False), ("qwen3", False)],
)
def test_without_feed_forward_by_hand(opened, family, normed_after):
    """Post-norm layers normalise once more, others do not."""
    layer = opened(family, biases=0.1)[1].layers[1]
    hidden = torch.randn(2, 3, 16, generator=torch.Generator().manual_seed(0))
    left = layer.feed_forward(hidden, hidden, block=False)
    alone = layer.down_norm(layer.output_norm(2 * hidden)) if normed_after else 2 * hidden
    torch.testing.assert_close(left, alone)


def test_uniform_heads_are_those_whose_queries_say_nothing(opened):
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint)
    uniform = Variant("uniform", (HeadMask(EVERY_HEAD[4:8], "uniform"),))
    _, got = run(encoder, [batch], [NONE, uniform])
    model = copy.deepcopy(checkpoint.model)
    with torch.no_grad():
        for weights in model.bert.encoder.layer[1].attention.self.query.parameters():
            weights.zero_()
        want = model(batch.input_ids, batch.real.long(), batch.token_type_ids).logits
    np.testing.assert_allclose(got[batch.rows], want, atol=1e-5)


# Affine maps.


def test_an_affine_map_by_hand():
    one = AffineMap(torch.tensor([[2.0], [0.0]]), torch.tensor([[1.0, 1.0]]), torch.ones(2))
    assert one.outputs(torch.tensor([[3.0, 0.0], [1.0, 1.0]])).tolist() == [[1.0, 0.0], [1.0, 1.0]]
    assert one.rank == 1
    assert len({repr(a_map(seed)) for seed in (0, 0, 1)}) == 2
    vectors = torch.randn(5, 16, generator=torch.Generator().manual_seed(3)).bfloat16()
    result = a_map().outputs(vectors)
    assert result.dtype == torch.bfloat16
    assert torch.equal(result, a_map().outputs(vectors.float()).bfloat16())


# Patches.


def couples_of(checkpoint, budget: int = 1000, texts=COUPLES):
    encoded = checkpoint.pair_tokenizer().encode(texts, offsets=False)
    alike = [len(a) == len(b) for a, b in zip(encoded[::2], encoded[1::2], strict=True)]
    encoded = [one for at, one in enumerate(encoded) if alike[at // 2]]  # bytes may differ
    return encoded, list(donor_batches(encoded, budget, pad=checkpoint.pad))


def patched() -> list[Variant]:
    singles = [Variant(f"patch:{h}", (Patch((h,)),)) for h in EVERY_HEAD[1::4]]
    return [
        NONE,
        *singles,
        Variant("several layers", (Patch((Head(0, 1), Head(1, 2), Head(2, 0))),)),
        Variant("a layer", (Patch(EVERY_HEAD[4:8]),)),
        Variant("above a head out", (HeadMask((Head(0, 1),)), Patch((Head(1, 3),)))),
    ]


@pytest.mark.parametrize(
    ("family", "budget"), [*((family, 1000) for family in FAMILIES), ("bert", 1)]
)
def test_patches_equal_hooks(opened, family, budget):
    checkpoint, encoder = opened(family)
    texts = OF_LETTERS if checkpoint.family.causal else COUPLES
    encoded, given = couples_of(checkpoint, budget, texts)
    n = len(encoded)
    assert n >= 4
    got = run(encoder, given, patched(), n, tokens=60)
    np.testing.assert_allclose(got, plain(checkpoint, given, patched(), n), atol=2e-5)
    assert all(np.abs(one - got[0]).max() > 1e-5 for one in got[1:])
    if checkpoint.family.causal:  # the token that is read may be another one
        return
    # [CLS] is the same token in both texts: z of all heads makes the donor.
    none, donor = run(encoder, given, [NONE, Variant("z", (Patch(EVERY_HEAD),))], 6)
    exchanged = none.reshape(3, 2, -1)[:, ::-1].reshape(none.shape)
    np.testing.assert_allclose(donor, exchanged, atol=1e-5)


def test_the_second_text_alone_is_patched_alike(opened):
    checkpoint, encoder = opened()
    encoded, given = couples_of(checkpoint)
    both = run(encoder, given, patched(), 6)
    for budget in (1, 1000):
        alone = list(recipient_batches(encoded, budget, pad=checkpoint.pad))
        assert sorted(row for batch in alone for row in batch.rows) == [1, 3, 5]
        got = run(encoder, alone, patched(), 6)
        np.testing.assert_allclose(got[:, 1::2], both[:, 1::2], atol=1e-5)


def test_donors_stand_together(opened):
    checkpoint, _ = opened()
    encoded, (batch,) = couples_of(checkpoint)
    assert batch.rows.tolist() == [2, 3, 0, 1, 4, 5]
    assert batch.donor.rows.tolist() == [3, 2, 1, 0, 5, 4]
    assert [len(one) for one in couples_of(checkpoint, 1)[1]] == [2, 2, 2]
    for of in (donor_batches, recipient_batches):
        with pytest.raises(ArgumentError, match=r"has \d+ tokens and its donor \d+"):
            list(of([encoded[0], encoded[4]], 1000, pad=checkpoint.pad))


# Paths.


def test_only_what_a_path_enters_changes(opened):
    """Attention of other heads of the layer stays; a value changes no attention at all."""
    checkpoint, encoder = opened(layers=4)
    sender = HeadMask((Head(0, 1), Head(1, 0)))
    watch = Reduction("row", "attention", (2, 3), lambda view: view.values[:, :, 0], True)
    paths = [Variant(entry, (Path(sender, Head(2, 1), entry),)) for entry in ENTRIES]
    (result,) = sweep(encoder, batches(checkpoint), [NONE, *paths], [watch])
    none, *others = np.nan_to_num(result.reduced["row"])
    for entry, one in zip(ENTRIES, others, strict=True):
        np.testing.assert_array_equal(one[:, 0, [0, 2, 3]], none[:, 0, [0, 2, 3]])
        assert (np.abs(one[:, 0, 1] - none[:, 0, 1]).max() < 1e-6) == (entry == "v")
        assert np.abs(one[:, 1] - none[:, 1]).max() > 0  # above it, all runs free


SENDER = HeadMask((Head(0, 1), Head(1, 0)))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: HeadMask(()), "no heads for 'zero'"),
        (lambda: SegmentBlock(()), "no heads for 'block'"),
        (lambda: Patch(()), "no heads for 'patch'"),
        (lambda: HeadMask((Head(0, 0),), "mean"), "needs the heads' mean head outputs"),
        (lambda: BlocksOut(()), "name layers from 0"),
        (lambda: BlocksOut((-1,)), "name layers from 0"),
        (lambda: blocks(Shape(1, 2)), "the only layer"),
        (lambda: Path(SENDER, Head(1, 1), "k"), "L1H0 does not lie below layer 1"),
        (lambda: Path(SENDER, Head(2, 1), "x"), "entry 'x'"),
        (lambda: LayerIntervention(output=a_map(), skipped=True), "changed besides"),
    ],
)
def test_invalid_parts_are_refused(make, message):
    with pytest.raises(ArgumentError, match=message):
        make()
