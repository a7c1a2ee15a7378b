"""Weights taken out: against the Hugging Face model with the same slices at zero."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.checkpoint import open_checkpoint, smaller_checkpoint
from qt_bert.models.families import FAMILIES
from qt_bert.models.forward import Encoder
from qt_bert.models.heads import Head, checked_heads
from qt_bert.models.pruned import smaller_model
from qt_bert.planning.prune import save_smaller
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer

TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("京东小哥", "小"), ("狗", "猫追狗" * 12)]
SHAPE = {"layers": 3, "heads": 4, "hidden": 32}
IRREGULAR = (
    KeptLayer(layer=0, heads=(1, 3)),
    KeptLayer(layer=1, heads=()),
    KeptLayer(layer=2, heads=(0, 1, 2)),
)


def kept(*layers: int, heads: int = 4) -> tuple[KeptLayer, ...]:
    return tuple(KeptLayer(layer=one, heads=tuple(range(heads))) for one in layers)


def exact(folder):
    """Opened in float64, so that two ways to the same logits agree far within 1e-9."""
    checkpoint = open_checkpoint(folder)
    checkpoint.model.double()
    return checkpoint


def inputs(checkpoint):
    batch = checkpoint.tokenizer(
        [q for q, _ in TEXTS], [t for _, t in TEXTS], padding=True, return_tensors="pt"
    )
    return batch | {
        "token_type_ids": batch.get("token_type_ids", torch.zeros_like(batch["input_ids"]))
    }


def hooked(checkpoint, gone: dict[int, list[int]], filling: torch.Tensor | None = None):
    """Logits of the Hugging Face model with slices of heads overwritten before W_O."""

    def overwrite(layer: int, heads: list[int]):
        def hook(module, args):
            context = args[0].clone().unflatten(-1, (4, -1))
            for head in heads:
                context[..., head, :] = 0 if filling is None else filling[layer, head]
            return (context.flatten(-2),)

        return hook

    layers = getattr(checkpoint.model, checkpoint.family.backbone).encoder.layer
    handles = [
        layers[n].attention.output.dense.register_forward_pre_hook(overwrite(n, heads))
        for n, heads in gone.items()
    ]
    try:
        with torch.inference_mode():
            return checkpoint.model(**accepted(checkpoint)).logits
    finally:
        for handle in handles:
            handle.remove()


def accepted(checkpoint):
    batch = inputs(checkpoint)
    return {k: batch[k] for k in ("input_ids", "attention_mask", "token_type_ids")}


def logits(model, checkpoint):
    batch = inputs(checkpoint)
    with torch.inference_mode():
        return Encoder(model, checkpoint.family).logits(
            batch["input_ids"], batch["token_type_ids"], batch["attention_mask"]
        )


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_heads_of_irregular_layers_go_as_if_their_contexts_were_zero(checkpoint_of, family):
    checkpoint = exact(checkpoint_of(family, **SHAPE))
    expected = hooked(checkpoint, {0: [0, 2], 1: [0, 1, 2, 3], 2: [3]})
    small = smaller_model(checkpoint.model, checkpoint.family, IRREGULAR)
    torch.testing.assert_close(logits(small, checkpoint), expected, atol=1e-9, rtol=0)
    with torch.inference_mode():  # the Hugging Face forward of the smaller model agrees
        own = small(**accepted(checkpoint)).logits
    torch.testing.assert_close(own, expected, atol=1e-9, rtol=0)


@pytest.mark.parametrize("family", sorted(FAMILIES))
@pytest.mark.parametrize("layers", [(1,), (0, 2), (2,), (0, 1)])
def test_whole_layers_go_as_if_deleted(checkpoint_of, family, layers):
    checkpoint = exact(checkpoint_of(family, **SHAPE))
    small = smaller_model(checkpoint.model, checkpoint.family, kept(*layers))
    assert small.config.num_hidden_layers == len(layers)
    assert checkpoint.model.config.num_hidden_layers == 3  # the teacher is not touched
    stack = getattr(checkpoint.model, checkpoint.family.backbone).encoder
    full = stack.layer
    stack.layer = torch.nn.ModuleList(full[n] for n in layers)
    try:
        with torch.inference_mode():
            expected = checkpoint.model(**accepted(checkpoint)).logits
    finally:
        stack.layer = full
    torch.testing.assert_close(logits(small, checkpoint), expected, atol=1e-9, rtol=0)


def test_mean_contexts_are_folded_into_the_output_bias(checkpoint_of):
    checkpoint = exact(checkpoint_of("bert", **SHAPE))
    means = torch.randn(3, 4, 8, generator=torch.Generator().manual_seed(0)).double()
    expected = hooked(checkpoint, {0: [0, 2], 1: [0, 1, 2, 3], 2: [3]}, means)
    small = smaller_model(checkpoint.model, checkpoint.family, IRREGULAR, fold=means)
    torch.testing.assert_close(logits(small, checkpoint), expected, atol=1e-9, rtol=0)


def test_units_go_as_if_their_activations_were_zero(checkpoint_of):
    checkpoint = exact(checkpoint_of("bert", **SHAPE))
    narrow = (KeptLayer(layer=0, heads=(0, 1, 2, 3), units=3), *kept(1, 2))
    small = smaller_model(checkpoint.model, checkpoint.family, narrow, units={0: [5, 1, 60]})
    layer = checkpoint.model.bert.encoder.layer[0]
    others = [unit for unit in range(64) if unit not in (1, 5, 60)]

    def silence(module, args):
        active = args[0].clone()
        active[..., others] = 0
        return (active,)

    handle = layer.output.dense.register_forward_pre_hook(silence)
    with torch.inference_mode():
        expected = checkpoint.model(**accepted(checkpoint)).logits
    handle.remove()
    torch.testing.assert_close(logits(small, checkpoint), expected, atol=1e-9, rtol=0)


def test_a_smaller_model_trains_and_a_layer_without_heads_learns_its_bias(checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    small = smaller_model(checkpoint.model, checkpoint.family, IRREGULAR).train()
    small(**accepted(checkpoint)).logits.square().sum().backward()
    layers = small.bert.encoder.layer
    assert layers[0].attention.self.query.weight.grad.abs().sum() > 0
    assert layers[1].attention.output.dense.bias.grad.abs().sum() > 0
    assert checkpoint.model.bert.encoder.layer[0].attention.self.query.weight.grad is None


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ((), "cannot be kept"),
        (kept(1, 0), "lowest first"),
        (kept(3), "0 to 2"),
        (kept(0, heads=5), "no head L0H4"),
        ((KeptLayer(layer=0, heads=(0,), units=65),), "units of 64"),
        ((KeptLayer(layer=0, heads=(0,), units=2),), "but 0 are named"),
        (
            (KeptLayer(layer=1, heads=(0,), units=2),),
            "no feed-forward unit 64: its units are 0 to 63",
        ),
        ((KeptLayer(layer=2, heads=(0,), units=2),), "no feed-forward unit -1"),
    ],
)
def test_what_the_teacher_does_not_have_is_refused(checkpoint_of, wrong, says):
    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    with pytest.raises(ArgumentError, match=says):
        smaller_model(checkpoint.model, checkpoint.family, wrong, units={1: [0, 64], 2: [-1, 3]})


@pytest.mark.parametrize("shape", [(2, 4, 8), (3, 4, 4)])
def test_mean_contexts_of_another_model_are_refused(checkpoint_of, shape):
    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    with pytest.raises(ArgumentError, match=r"do not fit a model of \(3, 4, 8\)"):
        smaller_model(checkpoint.model, checkpoint.family, IRREGULAR, fold=torch.zeros(shape))


def saved(tmp_path, checkpoint, layers, **options):
    small = smaller_checkpoint(checkpoint, layers, **options)
    return save_smaller(tmp_path / "small", small, dtype=torch.float32), small


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_a_pruned_folder_opens_small_and_with_heads_of_zeros(checkpoint_of, tmp_path, family):
    checkpoint = open_checkpoint(checkpoint_of(family, **SHAPE))
    folder, small = saved(tmp_path, checkpoint, IRREGULAR)
    expected = Scorer(small).logits(TEXTS)
    compact, spread = open_checkpoint(folder, compact=True), open_checkpoint(folder)
    for opened in (compact, spread):
        found = Scorer(opened).logits(TEXTS)
        assert abs(found - expected).max() <= 1e-5
    assert compact.parameters == spread.parameters == small.parameters < checkpoint.parameters
    assert [layer.heads for layer in Encoder(compact.model, compact.family).layers] == [2, 0, 3]
    assert spread.shape.all_heads == [Head(0, 1), Head(0, 3), Head(2, 0), Head(2, 1), Head(2, 2)]
    with pytest.raises(ArgumentError, match="L1H2: it was pruned"):
        checked_heads([Head(1, 2)], spread.shape)


def test_heads_keep_their_numbers_and_layers_name_the_teacher(checkpoint_of, tmp_path):
    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    layers = (KeptLayer(layer=1, heads=(2,)), KeptLayer(layer=2, heads=(0, 3)))
    folder, _ = saved(tmp_path, checkpoint, layers)
    opened = open_checkpoint(folder)
    assert opened.kept.names == {"L0H2": "L1H2", "L1H0": "L2H0", "L1H3": "L2H3"}
    assert opened.kept.teacher.sha256 == checkpoint.sha256
    own = opened.model.bert.encoder.layer[1].attention.self.query.weight.unflatten(0, (4, 8))
    theirs = checkpoint.model.bert.encoder.layer[2].attention.self.query.weight.unflatten(0, (4, 8))
    torch.testing.assert_close(own[3], theirs[3])
    assert own[1].abs().sum() == 0


def test_whole_layers_open_in_plain_transformers(checkpoint_of, tmp_path):
    from transformers import AutoModelForSequenceClassification

    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    narrow = [KeptLayer(layer=n, heads=(0, 1, 2, 3), units=2) for n in (0, 2)]
    folder, small = saved(tmp_path, checkpoint, narrow, units={0: [1, 2], 2: [3, 4]})
    assert small.kept.plain
    plain = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        found = plain(**accepted(checkpoint)).logits
    torch.testing.assert_close(found, logits(small.model, checkpoint), atol=1e-5, rtol=0)


def test_a_model_with_heads_of_zeros_is_not_made_smaller_again(checkpoint_of, tmp_path):
    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    folder, _ = saved(tmp_path, checkpoint, IRREGULAR)
    with pytest.raises(ArgumentError, match="was pruned itself"):
        smaller_checkpoint(open_checkpoint(folder), kept(0))


def test_a_model_of_uneven_widths_is_made_smaller_again(checkpoint_of, tmp_path):
    """Its layers without a number of units keep what they have, and its folder opens."""
    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    all_heads = (0, 1, 2, 3)
    layers = [KeptLayer(layer=n, heads=all_heads, units=u) for n, u in enumerate((20, 40, None))]
    folder, _ = saved(tmp_path, checkpoint, layers, units={0: range(20), 1: range(40)})
    narrow = open_checkpoint(folder)
    again = (
        KeptLayer(layer=0, heads=all_heads),
        KeptLayer(layer=1, heads=(2,), units=50),
        KeptLayer(layer=2, heads=all_heads, units=64),
    )
    folder, small = saved(tmp_path / "again", narrow, again, units={1: range(50)})
    assert [one.units for one in small.kept.layers] == [20, 40, None]
    opened = open_checkpoint(folder, compact=True)
    assert abs(Scorer(opened).logits(TEXTS) - Scorer(small).logits(TEXTS)).max() <= 1e-5
    widths = [one.intermediate.dense.out_features for one in opened.model.bert.encoder.layer]
    assert widths == [20, 40, 64]


def rewritten(folder, **changes):
    (folder / "manifest.json").unlink()
    path = folder / "kept.json"
    value = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(value | changes), encoding="utf-8")


def test_damaged_folders_are_refused(checkpoint_of, tmp_path):
    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    folder, _ = saved(tmp_path, checkpoint, IRREGULAR)
    layers = json.loads((folder / "kept.json").read_text(encoding="utf-8"))["layers"]
    rewritten(folder, layers=layers[:2])
    with pytest.raises(CheckpointError, match="different models"):
        open_checkpoint(folder)
    (folder / "manifest.json").write_text('{"sha256": {}}', encoding="utf-8")
    rewritten(folder, layers=[layers[0] | {"heads": [1]}, *layers[1:]])
    with pytest.raises(CheckpointError, match=r"do not fit kept.json"):
        open_checkpoint(folder)
    for change, says in (({"heads": [9]}, "no head L0H9"), ({"units": 65}, "65 units of 64")):
        (folder / "manifest.json").write_text('{"sha256": {}}', encoding="utf-8")
        rewritten(folder, layers=[layers[0] | change, *layers[1:]])
        with pytest.raises(CheckpointError, match=f"kept.json: .*{says}"):
            open_checkpoint(folder)
    (folder / "kept.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot be read"):
        open_checkpoint(folder)


def test_a_lost_weight_is_refused(checkpoint_of, tmp_path):
    checkpoint = open_checkpoint(checkpoint_of("bert", **SHAPE))
    folder, _ = saved(tmp_path, checkpoint, IRREGULAR)
    (folder / "manifest.json").unlink()
    state = load_file(folder / "model.safetensors")
    del state["bert.encoder.layer.2.attention.self.key.weight"]
    save_file(state, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layer\.2\.attention\.self\.key\.weight"):
        open_checkpoint(folder)
