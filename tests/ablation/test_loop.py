"""The masked loop against hooks on the Hugging Face model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.engine import Reduction, masked_forward, sweep
from qt_bert.ablation.interventions import NONE, LayerIntervention, MeanZ, Variant
from qt_bert.ablation.masks import HeadMask, SegmentBlock
from qt_bert.ablation.reference import PlainModel
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder, Layer
from qt_bert.models.heads import Head, Shape
from tests.conftest import FAMILIES

TEXTS = [
    ("北京到上海高铁票价", "北京上海高铁票多少钱"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("狗追猫", "猫"),
    ("苹果", "苹果手机多少钱"),
    ("怎么去除衣服上的油渍", "红烧排骨的家常做法"),
]
SHAPE = Shape(3, 4)
OPTIONS = {"layers": 3, "heads": 4, "hidden": 16}


@pytest.fixture
def opened(checkpoint_of: Callable[..., Path]) -> Callable[..., tuple]:
    def build(family: str = "bert", attention: str = "eager", **options: int) -> tuple:
        checkpoint = open_checkpoint(
            checkpoint_of(family, **(OPTIONS | options)), attention=attention
        )
        return checkpoint, Encoder(checkpoint.model, checkpoint.family)

    return build


def batches(checkpoint, budget: int, texts=TEXTS) -> list[Batch]:
    encoded = checkpoint.pair_tokenizer().encode(texts)
    return list(batches_of(encoded, budget, pad=checkpoint.model.config.pad_token_id))


def means(shape: Shape = SHAPE, width: int = 4) -> MeanZ:
    vectors = torch.randn(
        shape.layers, shape.heads, width, generator=torch.Generator().manual_seed(1)
    )
    return MeanZ("seed 1", vectors)


def mask(heads, mode: str) -> HeadMask:
    return HeadMask(tuple(heads), mode, means() if mode == "mean" else None)


def heads_of(*layers: int) -> list[Head]:
    return [head for head in SHAPE.all_heads if head.layer in layers]


def many_variants() -> list[Variant]:
    """Every kind and replacement: one head, several, most, whole layers, all heads, blocks, both."""
    few = [Head(0, 1), Head(1, 0), Head(1, 2), Head(2, 3)]
    most = [head for head in SHAPE.all_heads if head not in few]
    variants = [NONE]
    for mode in ("zero", "uniform", "mean"):
        sets = {
            "one": [Head(1, 2)],
            "top": [Head(2, 0)],
            "few": few,
            "most": most,
            "bottom layer": heads_of(0),
            "top layer": heads_of(2),
            "upper layers": heads_of(1, 2),
            "all": SHAPE.all_heads,
        }
        variants += [Variant(f"{mode} {n}", (mask(heads, mode),)) for n, heads in sets.items()]
        block = SegmentBlock(tuple(heads_of(0, 1)))
        variants.append(Variant(f"{mode} under a block", (block, mask(few, mode))))
        for name, heads in (("all", SHAPE.all_heads), ("upper layers", heads_of(1, 2))):
            blocked = SegmentBlock(tuple(SHAPE.all_heads))
            variants.append(Variant(f"{mode} {name} under a block", (blocked, mask(heads, mode))))
    variants.append(Variant("block everywhere", (SegmentBlock(tuple(SHAPE.all_heads)),)))
    variants.append(Variant("block some heads", (SegmentBlock(tuple(few)),)))
    return variants


def run(encoder, given: list[Batch], variants, n: int, **options) -> np.ndarray:
    out = np.full((len(variants), n, encoder.model.config.num_labels), np.nan, np.float32)
    for swept in sweep(encoder, given, variants, **options):
        out[:, swept.rows] = swept.logits
    return out


def plain(checkpoint, given: list[Batch], variants, n: int) -> np.ndarray:
    model = PlainModel(checkpoint.model, checkpoint.family, checkpoint.offline)
    out = np.full((len(variants), n, checkpoint.model.config.num_labels), np.nan, np.float32)
    for batch in given:
        for i, variant in enumerate(variants):
            out[i, batch.rows] = model.logits(batch, variant.parts).numpy()
    return out


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("budget", [1, 1000])
def test_every_variant_equals_hooks(opened, family, budget):
    checkpoint, encoder = opened(family)
    given, variants = batches(checkpoint, budget), many_variants()
    got = run(encoder, given, variants, len(TEXTS), tokens=60)
    want = plain(checkpoint, given, variants, len(TEXTS))
    np.testing.assert_allclose(got, want, atol=1e-5)
    assert all(np.abs(got[i] - got[0]).max() > 1e-3 for i in range(1, len(variants)))


@dataclass(frozen=True)
class OtherWeights:
    """A part of a kind that the loop has never heard of: one layer's weights are another model's."""

    layer: int
    weights: Layer
    kind = "weights"
    heads = ()

    def changes(self):
        return {self.layer: LayerIntervention(weights=self.weights)}


@dataclass(frozen=True)
class OtherQueries:
    """Another such part: the queries of one layer are those of the tokens in reverse."""

    layer: int
    kind = "queries"
    heads = ()

    def changes(self):
        return {self.layer: LayerIntervention(projections=self)}

    def projections(self, site):
        query, key, value = site.project()
        reversed_hidden = site.hidden.flip(1)
        full = site.layer.split(site.layer.query(reversed_hidden))
        return full[:, :, : query.shape[2]], key, value


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_weights_of_another_model_in_one_layer(opened, layer):
    checkpoint, encoder = opened()
    other, its_encoder = opened(seed=1)
    part = OtherWeights(layer, its_encoder.layers[layer])
    masked = mask([Head(layer, 1)], "zero")
    variants = [NONE, Variant("weights", (part,)), Variant("both", (part, masked))]
    given = batches(checkpoint, 1000)
    got = run(encoder, given, variants, len(TEXTS))
    mixed, _ = opened()
    module = other.model.bert.encoder.layer[layer]
    mixed.model.bert.encoder.layer[layer].load_state_dict(module.state_dict())
    as_hooked = [NONE, Variant("both", (masked,))]
    np.testing.assert_allclose(got[1:], plain(mixed, given, as_hooked, len(TEXTS)), atol=1e-5)


@pytest.mark.parametrize("layer", [0, 1, 2])
def test_queries_of_another_input_in_one_layer(opened, layer):
    checkpoint, encoder = opened()
    given = batches(checkpoint, 1)  # rows of one length: reversing moves no padding
    masked = mask([Head(layer, 1)], "zero")
    part = OtherQueries(layer)
    variants = [NONE, Variant("queries", (part,)), Variant("both", (part, masked))]
    got = run(encoder, given, variants, len(TEXTS))
    model = PlainModel(checkpoint.model, checkpoint.family)
    query = model.layers[layer].attention.self.query
    hook = query.register_forward_pre_hook(lambda module, inputs: (inputs[0].flip(1),))
    try:
        want = plain(checkpoint, given, [NONE, Variant("both", (masked,))], len(TEXTS))
    finally:
        hook.remove()
    np.testing.assert_allclose(got[1:], want, atol=1e-5)
    assert np.abs(got[1] - got[0]).max() > 1e-3


@pytest.mark.parametrize("kernel", ["eager", "sdpa"])
def test_any_attention_kernel(opened, kernel):
    checkpoint, encoder = opened("bert", attention=kernel)
    given, variants = batches(checkpoint, 1000), many_variants()
    got = run(encoder, given, variants, len(TEXTS))
    np.testing.assert_allclose(got, plain(checkpoint, given, variants, len(TEXTS)), atol=2e-5)


@pytest.mark.parametrize("tokens", [1, 50, 130, 100_000])
def test_the_token_budget_changes_nothing(opened, tokens):
    checkpoint, encoder = opened()
    given, variants = batches(checkpoint, 1000), many_variants()
    got = run(encoder, given, variants, len(TEXTS), tokens=tokens)
    np.testing.assert_allclose(got, run(encoder, given, variants, len(TEXTS)), atol=2e-5)


def test_without_padding_as_with_it(opened):
    checkpoint, encoder = opened()
    variants = many_variants()
    alone = run(encoder, batches(checkpoint, 1), variants, len(TEXTS))
    padded = run(encoder, batches(checkpoint, 1000), variants, len(TEXTS))
    np.testing.assert_allclose(alone, padded, atol=1e-5)


def test_a_batch_of_one_pair_with_a_title_of_one_character(opened):
    checkpoint, encoder = opened()
    given, variants = batches(checkpoint, 64, [("狗追猫", "猫")]), many_variants()
    np.testing.assert_allclose(
        run(encoder, given, variants, 1), plain(checkpoint, given, variants, 1), atol=1e-5
    )


def test_the_plain_variant_is_the_model(opened):
    checkpoint, encoder = opened("electra")
    (batch,) = batches(checkpoint, 1000)
    (swept,) = sweep(encoder, [batch], [NONE])
    got = checkpoint.model(batch.input_ids, batch.mask, batch.token_type_ids).logits.detach()
    np.testing.assert_allclose(swept.logits[0], got, atol=1e-5)


def test_masked_forward_is_one_variant(opened):
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint, 1000)
    part = mask([Head(1, 2)], "zero")
    swept = next(sweep(encoder, [batch], [NONE, Variant("masked", (part,))]))
    np.testing.assert_allclose(masked_forward(encoder, part)(batch), swept.logits[1], atol=1e-5)
    np.testing.assert_allclose(masked_forward(encoder)(batch), swept.logits[0], atol=1e-5)


def test_layers_below_the_first_change_are_computed_once(opened, monkeypatch):
    """Twelve single heads of three layers: 1 + 5 + 9 states are finished, not 13 a layer."""
    checkpoint, encoder = opened()
    finished = []
    kind = type(encoder.layers[0])
    original = kind.feed_forward
    monkeypatch.setattr(
        kind, "feed_forward", lambda s, m, h: finished.append(len(m)) or original(s, m, h)
    )
    (batch,) = batches(checkpoint, 1000)
    variants = [NONE] + [Variant(str(h), (mask([h], "zero"),)) for h in SHAPE.all_heads]
    list(sweep(encoder, [batch], variants, tokens=100_000))
    assert finished == [5, 9, 13]


def test_equal_changes_share_their_layers(opened, monkeypatch):
    """Blocks of layers 0, 0–1 and 0–2 have layer 0 in common, the last two layer 1."""
    checkpoint, encoder = opened()
    finished = []
    kind = type(encoder.layers[0])
    original = kind.feed_forward
    monkeypatch.setattr(
        kind, "feed_forward", lambda s, m, h: finished.append(len(m)) or original(s, m, h)
    )
    variants = [
        Variant(f"to {n}", (SegmentBlock(tuple(heads_of(*range(n + 1)))),)) for n in range(3)
    ]
    list(sweep(encoder, batches(checkpoint, 1000), variants, tokens=100_000))
    assert finished == [1, 2, 3]


def test_only_the_first_row_goes_on_above_the_last_live_head(opened, monkeypatch):
    checkpoint, encoder = opened()
    rows = []
    kind = type(encoder.layers[0])
    original = kind.feed_forward
    monkeypatch.setattr(
        kind, "feed_forward", lambda s, m, h: rows.append(m.shape[2]) or original(s, m, h)
    )
    given = batches(checkpoint, 1000)
    length = given[0].input_ids.shape[1]
    list(sweep(encoder, given, [Variant("v", (mask(heads_of(1, 2), "zero"),))]))
    list(sweep(encoder, given, [Variant("v", (mask(heads_of(1, 2), "uniform"),))]))
    assert rows == [1, 1, 1, length, length, 1]


def eager_outputs(checkpoint, batch: Batch):
    return checkpoint.model(
        batch.input_ids,
        batch.mask,
        batch.token_type_ids,
        output_attentions=True,
        output_hidden_states=True,
    )


@pytest.mark.parametrize("first_row", [False, True])
def test_reductions_see_what_the_model_computes(opened, first_row):
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint, 1000)
    layers = (0, 2)
    reductions = [
        Reduction(of, of, layers, lambda view: view.values, first_row)
        for of in ("attention", "hidden")
    ]
    variants = [NONE, Variant("L1H1", (mask([Head(1, 1)], "zero"),))]
    (swept,) = sweep(encoder, [batch], variants, reductions)
    want = eager_outputs(checkpoint, batch)
    rows = slice(0, 1) if first_row else slice(None)
    real = batch.real.numpy()
    for place, layer in enumerate(layers):
        attention = swept.reduced["attention"][0, :, place]
        hidden = swept.reduced["hidden"][0, :, place]
        for pair in range(len(batch)):
            keep = real[pair][rows]
            np.testing.assert_allclose(
                attention[pair][:, keep],
                want.attentions[layer][pair].detach()[:, rows][:, keep],
                atol=1e-5,
            )
            np.testing.assert_allclose(
                hidden[pair][keep],
                want.hidden_states[layer + 1][pair].detach()[rows][keep],
                atol=1e-5,
            )
    assert np.array_equal(swept.reduced["attention"][0, :, 0], swept.reduced["attention"][1, :, 0])
    assert not np.allclose(swept.reduced["attention"][0, :, 1], swept.reduced["attention"][1, :, 1])


def test_a_reduction_of_z_sees_what_reaches_the_output_matrix(opened):
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint, 1000)
    norm = Reduction("norm", "z", (1,), lambda view: view.values[:, :, 0].norm(dim=-1))
    variants = [
        NONE,
        Variant("one", (mask([Head(1, 1)], "zero"),)),
        Variant("layer", (mask(heads_of(1), "zero"),)),
        Variant("block", (SegmentBlock(tuple(heads_of(1))), mask([Head(1, 3)], "zero"))),
    ]
    (swept,) = sweep(encoder, [batch], variants, [norm])
    found = swept.reduced["norm"][:, :, 0]
    assert (found[0] > 0).all()
    assert (found[1][:, 1] == 0).all()
    np.testing.assert_allclose(found[1][:, [0, 2, 3]], found[0][:, [0, 2, 3]])
    assert (found[2] == 0).all()
    assert (found[3][:, 3] == 0).all() and (found[3][:, :3] > 0).all()


def test_reductions_do_not_change_the_logits(opened):
    checkpoint, encoder = opened()
    given, variants = batches(checkpoint, 1000), many_variants()
    reductions = [
        Reduction(of, of, (0, 1, 2), lambda view: view.values.flatten(1).sum(1))
        for of in ("attention", "z", "hidden")
    ]
    got = run(encoder, given, variants, len(TEXTS), reductions=reductions)
    np.testing.assert_allclose(got, run(encoder, given, variants, len(TEXTS)), atol=1e-5)


def test_padding_rows_are_told_apart(opened):
    checkpoint, encoder = opened()
    (batch,) = batches(checkpoint, 1000)
    seen = []
    reduction = Reduction(
        "n", "attention", (0,), lambda v: seen.append(v.batch.real.sum(1)) or v.batch.real.sum(1)
    )
    (swept,) = sweep(encoder, [batch], [NONE], [reduction])
    assert swept.reduced["n"][0, :, 0].tolist() == [len(one) for one in batch.encoded]


def test_faults_are_named(opened):
    checkpoint, encoder = opened()
    given = batches(checkpoint, 1000)
    outside = Variant("v", (mask([Head(3, 0)], "zero"),))
    with pytest.raises(ArgumentError, match="there is no head L3H0: the model has 3 layers"):
        list(sweep(encoder, given, [outside]))
    beyond = Variant("v", (OtherQueries(3),))
    with pytest.raises(ArgumentError, match="changes layer 3; the model has layers 0 to 2"):
        list(sweep(encoder, given, [beyond]))
    reduction = Reduction("r", "hidden", (5,), lambda view: view.values)
    with pytest.raises(ArgumentError, match="'r' asks for layers"):
        list(sweep(encoder, given, [NONE], [reduction]))
    fine = Reduction("r", "hidden", (0,), lambda view: view.values)
    with pytest.raises(ArgumentError, match="two reductions"):
        list(sweep(encoder, given, [NONE], [fine, fine]))
    for wrong in (Head(0, 4), Head(0, -1)):
        with pytest.raises(ArgumentError, match="there is no head"):
            list(sweep(encoder, given, [Variant("v", (mask([wrong], "zero"),))]))
    twice = Variant("v", (mask([Head(0, 0)], "zero"), mask([Head(0, 1)], "zero")))
    with pytest.raises(ArgumentError, match="changes the z of layer 0 twice"):
        list(sweep(encoder, given, [twice]))


def test_bfloat16_follows_float32(checkpoint_of):
    folder = checkpoint_of("bert", **OPTIONS)
    exact, short = (open_checkpoint(folder, dtype=d) for d in ("float32", "bfloat16"))
    variants = many_variants()
    a, b = (
        run(Encoder(c.model, c.family), batches(c, 1000), variants, len(TEXTS))
        for c in (exact, short)
    )
    assert np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.99
