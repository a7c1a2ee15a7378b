"""The masked loop against hooks on the Hugging Face model: every kind of part, every family."""

from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import torch

from qt_bert.ablation.engine import LayerPass, Reduction, masked_forward, sweep
from qt_bert.ablation.families import sublayers
from qt_bert.ablation.interventions import EMBEDDINGS, NONE, LayerIntervention, MeanZ, Variant
from qt_bert.ablation.masks import BlocksOut, Cut, HeadMask, SegmentBlock, blocks, without_blocks
from qt_bert.ablation.patches import ENTRIES, Path
from qt_bert.ablation.reference import PlainModel
from qt_bert.ablation.resample import Donors, Resample
from qt_bert.ablation.weights import AffineMap, Erasure
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape
from qt_bert.models.batches import REMOVED, Batch, batches_of
from qt_bert.models.opening import open_checkpoint
from tests.conftest import FAMILIES, GROUPED

TEXTS = [
    ("北京到上海高铁票价", "北京上海高铁票多少钱"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("狗追猫", "猫"),
    ("苹果", "苹果手机多少钱"),
    ("怎么去除衣服上的油渍", "红烧排骨的家常做法"),
]
SHAPE = Shape(3, 4)
OPTIONS = {"layers": 3, "heads": 4, "hidden": 16}
FEW = [Head(0, 1), Head(1, 0), Head(1, 2), Head(2, 3)]
OTHER = ("uniform", "mean", "resample")
IDLE = {"cut:T<Q@2-2", "cut:Q<T@2-2", "cut:<C@2-2"}
"""Above the last layer only the first token is read, which these do not touch."""
NEVER_SEEN = {f"cut:{way}@{ends}" for way in ("Q<T", "<C") for ends in ("0-1", "0-2", "2-2")}
"""A causal model's query does not see the title, and nobody the last token."""


@pytest.fixture
def opened(checkpoint_of) -> Callable[..., tuple]:
    def build(family="bert", attention="eager", **options):
        folder = checkpoint_of(family, **(OPTIONS | options))
        checkpoint = open_checkpoint(folder, attention=attention)
        return checkpoint, checkpoint.encoder()

    return build


def batches(checkpoint, budget: int = 1000, texts=TEXTS) -> list[Batch]:
    return list(batches_of(checkpoint.pair_tokenizer().encode(texts), budget, pad=checkpoint.pad))


def mask(heads, mode: str = "zero") -> HeadMask | Resample:
    if mode == "resample":
        z = torch.randn(3, 3, 4, 5, 4, generator=torch.Generator().manual_seed(2))
        return Resample(tuple(heads), Donors.of(z, ((1,), (2,), (3,))))
    vectors = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(1))
    return HeadMask(tuple(heads), mode, MeanZ("seed 1", vectors) if mode == "mean" else None)


def heads_of(*layers: int) -> list[Head]:
    return [head for head in SHAPE.all_heads if head.layer in layers]


def a_map(seed: int = 0, rank: int = 3, size: int = 16) -> AffineMap:
    """An oblique map in float64, as LEACE gives them."""
    made = torch.Generator().manual_seed(seed)
    left, right = (
        torch.randn(*shape, generator=made).double() for shape in ((size, rank), (rank, size))
    )
    return AffineMap(left / 4, right / 4, torch.randn(size, generator=made).double())


def erased(place: int, seed: int = 0) -> Variant:
    return Variant(f"r{place}#{seed}", (Erasure(place, a_map(seed)),), "erased")


def masks() -> list[Variant]:
    """Every replacement: one head, several, most, whole layers, all heads; blocks, and both."""
    everywhere = SegmentBlock(tuple(SHAPE.all_heads))
    sets = {
        "one": [Head(1, 2)],
        "top": [Head(2, 0)],
        "few": FEW,
        "most": [head for head in SHAPE.all_heads if head not in FEW],
        "bottom layer": heads_of(0),
        "top layer": heads_of(2),
        "upper layers": heads_of(1, 2),
        "all": SHAPE.all_heads,
    }
    variants = [
        Variant("block everywhere", (everywhere,)),
        Variant("block some heads", (SegmentBlock(tuple(FEW)),)),
    ]
    for mode in ("zero", "uniform", "mean", "resample"):
        variants += [Variant(f"{mode} {n}", (mask(heads, mode),)) for n, heads in sets.items()]
        block = SegmentBlock(tuple(heads_of(0, 1)))
        variants.append(Variant(f"{mode} under a block", (block, mask(FEW, mode))))
        variants += [
            Variant(f"{mode} {name} blocked", (everywhere, mask(sets[name], mode)))
            for name in ("all", "upper layers")
        ]
    return variants


def other_parts(family: str = "bert") -> list[Variant]:
    """Cuts, maps of the residual stream, layers out, paths, and several of them at once."""
    entries = [one for one in ENTRIES if one == "q" or family not in GROUPED]
    cuts = [Cut(way, *ends) for way in REMOVED for ends in ((0, 1), (2, 2), (0, 2))]
    sender = mask([Head(0, 1), Head(1, 0)])
    top_off, one = mask(heads_of(2)), mask([Head(1, 2)])
    return [
        *(Variant(cut.name, (cut,), "cut") for cut in cuts),
        Variant("cut and head out", (Cut("all", 0, 1), mask([Head(1, 2)], "uniform"))),
        *(erased(place, seed) for place in range(4) for seed in (0, 1)),
        Variant("erased, same layer", (one, Erasure(2, a_map()))),
        Variant("erased, layer above", (Erasure(1, a_map()), mask([Head(1, 2)], "uniform"))),
        Variant("erased, first token above", (Erasure(2, a_map()), top_off)),
        Variant("erased twice", (Erasure(0, a_map()), Erasure(3, a_map(1)))),
        *blocks(SHAPE),
        *sublayers(SHAPE, mask),
        *(Variant(f"{m} both", sublayers(SHAPE, partial(mask, mode=m))[4].parts) for m in OTHER),
        Variant("layer and heads out", (BlocksOut((1,)), mask([Head(0, 1), Head(2, 0)]))),
        Variant("nothing above mixes", (BlocksOut((2,)), mask(heads_of(1)))),
        Variant("blocks out, one erased", (BlocksOut((0, 2), "feed_forward"), Erasure(1, a_map()))),
        *(Variant(f"path {entry}", (Path(sender, Head(2, 1), entry),)) for entry in entries),
        Variant("path of uniform", (Path(mask([Head(0, 0)], "uniform"), Head(1, 0), entries[-1]),)),
        Variant("path beside a head out", (one, Path(sender, Head(2, 1), "q"))),
    ]


def run(encoder, given: list[Batch], variants, n: int = len(TEXTS), **options) -> np.ndarray:
    out = np.full((len(variants), n, encoder.model.config.num_labels), np.nan, np.float32)
    for swept in sweep(encoder, given, variants, **options):
        out[:, swept.rows] = swept.logits
    return out


def plain(checkpoint, given: list[Batch], variants, n: int = len(TEXTS)) -> np.ndarray:
    model = PlainModel(checkpoint.model, checkpoint.family)
    out = np.full((len(variants), n, checkpoint.model.config.num_labels), np.nan, np.float32)
    for batch in given:
        for i, variant in enumerate(variants):
            out[i, batch.rows] = model.logits(batch, variant.parts).numpy()
    return out


@pytest.mark.parametrize(
    ("family", "budget", "tokens"),
    [*((family, 1000, 60) for family in FAMILIES), ("bert", 1, 60), ("bert", 1000, 100_000)],
)
def test_every_variant_equals_hooks(opened, family, budget, tokens):
    checkpoint, encoder = opened(family, biases=0.05)  # larger ones round beyond the bound
    given, variants = batches(checkpoint, budget), [NONE, *masks(), *other_parts(family)]
    got = run(encoder, given, variants, tokens=tokens)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants), atol=2e-5)
    idle = IDLE | (NEVER_SEEN if checkpoint.family.causal else set())
    for variant, logits in zip(variants[1:], got[1:], strict=True):
        assert (np.abs(logits - got[0]).max() < 1e-5) == (variant.name in idle), variant.name


def test_any_attention_kernel(opened):
    checkpoint, encoder = opened("bert", attention="sdpa")
    given, variants = batches(checkpoint), [NONE, *masks()]
    got = run(encoder, given, variants)
    np.testing.assert_allclose(got, plain(checkpoint, given, variants), atol=2e-5)


def test_masked_forward_is_one_variant(opened):
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint)
    part = mask([Head(1, 2)])
    swept = next(sweep(encoder, [batch], [NONE, Variant("masked", (part,))]))
    np.testing.assert_allclose(masked_forward(encoder, part)(batch), swept.logits[1], atol=1e-5)
    np.testing.assert_allclose(masked_forward(encoder)(batch), swept.logits[0], atol=1e-5)
    want = checkpoint.model(batch.input_ids, batch.mask, batch.token_type_ids).logits.detach()
    np.testing.assert_allclose(swept.logits[0], want, atol=1e-5)


def test_bfloat16_follows_float32(checkpoint_of):
    folder, variants = checkpoint_of("bert", **OPTIONS), [NONE, *masks()]
    opened = [open_checkpoint(folder, dtype=dtype) for dtype in ("float32", "bfloat16")]
    a, b = (run(one.encoder(), batches(one), variants) for one in opened)
    assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.99


# What is computed once.


@pytest.fixture
def finished(monkeypatch) -> list[tuple[int, int]]:
    """(states, rows) of every stack that went through a layer's end."""
    result, finish = [], LayerPass.finish

    def counted(self, chunk):
        out = finish(self, chunk)
        working = sum(branch.passed is None for branch in chunk)
        result.append((working, out.shape[2]))
        return out

    monkeypatch.setattr(LayerPass, "finish", counted)
    return result


@pytest.mark.parametrize(
    ("variants", "states"),
    [
        # Twelve single heads: 1 + 4, 5 + 4 and 9 + 4 states are finished, not 13 a layer.
        ([NONE, *(Variant(str(h), (mask([h]),)) for h in SHAPE.all_heads)], [5, 9, 13]),
        # Blocks of layers 0, 0–1 and 0–2 have layer 0 in common, the last two layer 1.
        (
            [Variant(f"to {n}", (SegmentBlock(tuple(heads_of(*range(n + 1)))),)) for n in range(3)],
            [1, 2, 3],
        ),
        ([without_blocks(out) for out in ((1,), (1, 2))], [1, 0, 1]),
        # Twenty maps behind the last layer cost no layer more than the plain pass.
        ([NONE, *(erased(3, seed) for seed in range(20))], [1, 1, 1]),
        ([NONE, *(erased(2, seed) for seed in range(20))], [1, 1, 21]),
    ],
)
def test_what_variants_share_is_computed_once(opened, finished, variants, states):
    checkpoint, encoder = opened()
    list(sweep(encoder, batches(checkpoint), variants, tokens=100_000))
    assert [number for number, _ in finished] == states


def test_only_the_first_row_goes_on_above_the_last_live_head(opened, finished):
    checkpoint, encoder = opened()
    given = batches(checkpoint)
    length = given[0].input_ids.shape[1]
    for part in (mask(heads_of(1, 2)), mask(heads_of(1, 2), "uniform"), BlocksOut((1, 2))):
        list(sweep(encoder, given, [Variant("v", (part,))]))
    assert [rows for _, rows in finished] == [1, 1, 1, length, length, 1, 1, 1, 1]


@pytest.mark.parametrize("place", [0, 2])
def test_a_stack_keeps_within_its_budget(opened, place, monkeypatch):
    checkpoint, encoder = opened()
    sizes: list[int] = []
    begin = LayerPass.__init__

    def watched(self, number, layer, clean, hidden, branches, **options):
        sizes.append(hidden.shape[0] * hidden.shape[1] * hidden.shape[2])
        begin(self, number, layer, clean, hidden, branches, **options)

    monkeypatch.setattr(LayerPass, "__init__", watched)
    run(encoder, batches(checkpoint, 1), [NONE, *(erased(place, n) for n in range(12))], tokens=70)
    assert max(sizes) <= 70


# Reductions.


@pytest.mark.parametrize("first_row", [False, True])
def test_reductions_see_what_the_model_computes(opened, first_row):
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint)
    layers = (0, 2)
    reductions = [
        Reduction(of, of, layers, lambda view: view.values, first_row)
        for of in ("attention", "hidden")
    ]
    variants = [NONE, Variant("L1H1", (mask([Head(1, 1)]),))]
    (swept,) = sweep(encoder, [batch], variants, reductions)
    want = checkpoint.model(
        batch.input_ids,
        batch.mask,
        batch.token_type_ids,
        output_attentions=True,
        output_hidden_states=True,
    )
    rows = slice(0, 1) if first_row else slice(None)
    for place, layer in enumerate(layers):
        attention, hidden = (swept.reduced[of][0, :, place] for of in ("attention", "hidden"))
        for pair, real in enumerate(batch.real.numpy()):
            keep = real[rows]
            maps = want.attentions[layer][pair].detach()[:, rows][:, keep]
            states = want.hidden_states[layer + 1][pair].detach()[rows][keep]
            np.testing.assert_allclose(attention[pair][:, keep], maps, atol=1e-5)
            np.testing.assert_allclose(hidden[pair][keep], states, atol=1e-5)
    none, masked = swept.reduced["attention"]
    assert np.array_equal(none[:, 0], masked[:, 0])
    assert not np.allclose(none[:, 1], masked[:, 1])


def test_a_reduction_of_z_sees_what_reaches_the_output_matrix(opened):
    checkpoint, encoder = opened()
    norm = Reduction("norm", "z", (1,), lambda view: view.values[:, :, 0].norm(dim=-1))
    variants = [
        NONE,
        Variant("one", (mask([Head(1, 1)]),)),
        Variant("layer", (mask(heads_of(1)),)),
        Variant("block", (SegmentBlock(tuple(heads_of(1))), mask([Head(1, 3)]))),
    ]
    (swept,) = sweep(encoder, batches(checkpoint), variants, [norm])
    none, one, layer, block = swept.reduced["norm"][:, :, 0]
    assert (none > 0).all() and (one[:, 1] == 0).all() and (layer == 0).all()
    np.testing.assert_allclose(one[:, [0, 2, 3]], none[:, [0, 2, 3]])
    assert (block[:, 3] == 0).all() and (block[:, :3] > 0).all()


def test_reductions_do_not_change_the_logits(opened):
    checkpoint, encoder = opened()
    given, variants = batches(checkpoint), [NONE, *masks()]
    reductions = [
        Reduction(of, of, (0, 1, 2), lambda view: view.values.flatten(1).sum(1))
        for of in ("attention", "z", "hidden")
    ]
    got = run(encoder, given, variants, reductions=reductions)
    np.testing.assert_allclose(got, run(encoder, given, variants), atol=1e-5)


def test_reductions_of_a_skipped_layer_s_output_see_its_input(opened):
    checkpoint, encoder = opened()
    hidden = Reduction("hidden", "hidden", (0, 1), lambda view: view.values)
    (swept,) = sweep(encoder, batches(checkpoint), [NONE, without_blocks((1,))], [hidden])
    below, above = swept.reduced["hidden"][1, :, 0], swept.reduced["hidden"][1, :, 1]
    np.testing.assert_array_equal(below, above)
    np.testing.assert_allclose(below, swept.reduced["hidden"][0, :, 0], atol=1e-6)


# Faults.


class Strange:
    """A part that leaves out the embeddings."""

    kind, heads, means = "strange", (), None

    def changes(self):
        return {EMBEDDINGS: LayerIntervention(skipped=True)}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ((mask([Head(3, 0)]),), "there is no head L3H0: the model has 3 layers"),
        ((mask([Head(0, 4)]),), "there is no head L0H4"),
        ((mask([Head(0, -1)]),), "there is no head L0H-1"),
        ((BlocksOut((3,)),), "changes layer 3; the model has layers 0 to 2"),
        ((Erasure(4, a_map()),), "changes layer 3; the model has layers 0 to 2"),
        ((mask([Head(0, 0)]), mask([Head(0, 1)])), "changes the z of layer 0 twice"),
        ((Erasure(2, a_map()), Erasure(2, a_map(1))), "changes the output of layer 1 twice"),
        ((BlocksOut((1,)), mask([Head(1, 0)])), "layer 1: .* cannot be changed besides"),
        (
            (BlocksOut((1,)), BlocksOut((1,), "feed_forward")),
            "layer 1: .* cannot be changed besides",
        ),
        ((BlocksOut((3,), "feed_forward"),), "changes layer 3; the model has layers 0 to 2"),
        ((BlocksOut((0, 1, 2)),), "'v' leaves out every layer"),
        ((Strange(),), "more of the embeddings than their output"),
    ],
)
def test_a_variant_that_cannot_be_is_named(opened, parts, message):
    with pytest.raises(ArgumentError, match=message):
        list(sweep(opened()[1], [], [Variant("v", parts)]))


def test_a_reduction_that_cannot_be_is_named(opened):
    def of(kind, *layers):
        return Reduction("r", kind, layers, lambda view: view.values)

    for reductions, message in (
        ([of("hidden", 5)], "'r' asks for layers"),
        ([of("hidden")], "'r' asks for layers"),
        ([of("hidden", 0), of("hidden", 0)], "two reductions"),
        ([of("attention", 1)], "'r' asks for the attention of layer 1, which variant 'B1'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            list(sweep(opened()[1], [], [NONE, without_blocks((1,))], reductions))
