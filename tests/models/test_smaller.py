"""Weights taken out: against the Hugging Face model with the same slices at zero."""

import json
from contextlib import contextmanager
from dataclasses import replace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.heads import Head, checked_heads
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.families import at
from qt_bert.models.folder import stored_bytes
from qt_bert.models.forward import Encoder
from qt_bert.models.loading import open_for_tuning
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.pruned import is_plain, smaller_model
from qt_bert.planning.prune import save_smaller
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer
from tests.conftest import FAMILIES, GROUPED

TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("京东小哥", "小"), ("狗", "猫追狗" * 12)]
SHAPE = {"layers": 3, "heads": 4, "hidden": 32}
IRREGULAR = (
    KeptLayer(layer=0, heads=(1, 3)),
    KeptLayer(layer=1, heads=()),
    KeptLayer(layer=2, heads=(0, 1, 2)),
)
OWN = {name: {"num_key_value_heads": 2} for name in GROUPED}
"""Two heads share one key and value: they go together."""
OWN["deberta-v2"] = {"share_att_key": False}


def irregular(family):
    """Heads of layers of 2, 0 and 2 or 3 heads; whole groups where heads are grouped."""
    whole = KeptLayer(layer=0, heads=(2, 3)), IRREGULAR[1], KeptLayer(layer=2, heads=(0, 1))
    return whole if family in GROUPED else IRREGULAR


def close(family):
    """transformers divides by a float32 in DeBERTa and turns by float32 angles in ModernBERT."""
    return {"atol": 1e-6 if family in ("deberta-v2", "modernbert") else 1e-9, "rtol": 0}


def kept(*layers: int, heads: int = 4) -> tuple[KeptLayer, ...]:
    return tuple(KeptLayer(layer=layer, heads=tuple(range(heads))) for layer in layers)


@pytest.fixture
def opened(checkpoint_of):
    """`opened("gte")`: a model of three layers of four heads, by default in float64: two ways to the
    same logits then agree far within 1e-9."""

    def build(family="bert", *, exact=True):
        folder = checkpoint_of(family, **SHAPE, **OWN.get(family, {}))
        return fast(folder, family, exact=exact)

    return build


@pytest.fixture
def bert(checkpoint_of):
    return open_checkpoint(checkpoint_of("bert", **SHAPE))


def fast(folder, family, *, exact=True, **options):
    # Whose softmax is float64 where the model is; in ModernBERT and Qwen the other is not.
    attention = "eager" if family == "deberta-v2" else "sdpa"
    checkpoint = open_checkpoint(folder, attention=attention, **options)
    assert checkpoint.family.fast
    if exact:
        checkpoint.model.double()
    return checkpoint


@contextmanager
def without(checkpoint, path, rows):
    """The numbers `rows` (layer → which) of what enters the matrix at `path` are overwritten."""
    handles = []
    for layer, (gone, filling) in rows.items():

        def hook(module, args, gone=gone, filling=filling):
            entering = args[0].clone()
            entering[..., gone] = filling
            return (entering,)

        matrix = at(checkpoint.family.layers_of(checkpoint.model)[layer], path)
        handles.append(matrix.register_forward_pre_hook(hook))
    yield
    for handle in handles:
        handle.remove()


def inputs(checkpoint):
    queries, titles = zip(*TEXTS, strict=True)
    batch = checkpoint.tokenizer(list(queries), list(titles), padding=True, return_tensors="pt")
    if not checkpoint.family.segments:
        batch.pop("token_type_ids", None)
    return batch


def hooked(checkpoint, layers):
    """Logits of the Hugging Face model with the slices of heads that go set to 0 before W_O."""
    rows = {}
    for kept in layers:
        heads = [head for head in range(4) if head not in kept.heads]
        slices = [number for head in heads for number in range(8 * head, 8 * head + 8)]
        rows[kept.layer] = slices, 0
    with without(checkpoint, checkpoint.family.parts.output, rows):
        return theirs(checkpoint)


@torch.inference_mode()
def theirs(checkpoint, model=None):
    """Logits by the Hugging Face forward, of a model padded to one length."""
    return (model or checkpoint.model)(**inputs(checkpoint)).logits


def distance(logits, others):
    return float((logits - others).abs().max())


@torch.inference_mode()
def logits(model, checkpoint):
    batch = inputs(checkpoint)
    ids, mask = batch["input_ids"], batch["attention_mask"]
    types = batch.get("token_type_ids", torch.zeros_like(ids))
    return Encoder(model, checkpoint.family).logits(ids, types, mask)


@pytest.mark.parametrize("family", FAMILIES)
def test_heads_of_irregular_layers_go_as_if_their_contexts_were_zero(opened, family):
    checkpoint = opened(family)
    expected = hooked(checkpoint, irregular(family))
    small = smaller_model(checkpoint.model, checkpoint.family, irregular(family))
    assert distance(expected, theirs(checkpoint)) > 1e-3
    torch.testing.assert_close(logits(small, checkpoint), expected, **close(family))
    torch.testing.assert_close(theirs(checkpoint, small), expected, **close(family))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("layers", [(1,), (0, 2), (2,)])
def test_whole_layers_go_as_if_deleted(opened, family, layers):
    checkpoint = opened(family)
    small = smaller_model(checkpoint.model, checkpoint.family, kept(*layers))
    assert small.config.num_hidden_layers == len(layers)
    assert checkpoint.model.config.num_hidden_layers == 3  # the teacher is not touched
    # In the Hugging Face model the other layers hand on what they get.
    handles = [
        module.register_forward_hook(handed_on)
        for number, module in enumerate(checkpoint.family.layers_of(checkpoint.model))
        if number not in layers
    ]
    expected = theirs(checkpoint)
    for handle in handles:
        handle.remove()
    assert distance(expected, theirs(checkpoint)) > 1e-3
    torch.testing.assert_close(logits(small, checkpoint), expected, **close(family))
    torch.testing.assert_close(theirs(checkpoint, small), expected, **close(family))


def handed_on(module, args, output):
    return (args[0], *output[1:]) if isinstance(output, tuple) else args[0]


@pytest.mark.parametrize("family", FAMILIES)
def test_units_go_as_if_their_activations_were_zero(opened, tmp_path, family):
    checkpoint = opened(family)
    narrow = (KeptLayer(layer=0, heads=(0, 1, 2, 3), units=3), *kept(1, 2))
    small = smaller_checkpoint(checkpoint, narrow, units={0: [5, 1, 60]})
    others = [unit for unit in range(64) if unit not in (1, 5, 60)]
    with without(checkpoint, checkpoint.family.parts.down, {0: (others, 0)}):
        expected = theirs(checkpoint)
    assert distance(expected, theirs(checkpoint)) > 1e-3
    torch.testing.assert_close(logits(small.model, checkpoint), expected, **close(family))
    torch.testing.assert_close(theirs(checkpoint, small.model), expected, **close(family))
    again = open_checkpoint(save_smaller(tmp_path / "small", small, dtype=torch.float32))
    torch.testing.assert_close(
        logits(again.model.double(), checkpoint), expected, atol=1e-6, rtol=0
    )


@pytest.mark.parametrize("family", GROUPED)
@pytest.mark.parametrize("heads", [(0,), (0, 1, 2), (1, 2), (0, 2)])
def test_some_heads_of_a_group_alone_do_not_go(opened, family, heads):
    checkpoint = opened(family)
    layers = (KeptLayer(layer=0, heads=heads), *kept(1, 2))
    with pytest.raises(ArgumentError, match="each 2 heads of this model share one key and value"):
        smaller_model(checkpoint.model, checkpoint.family, layers)


def test_a_smaller_model_trains_and_a_layer_without_heads_learns_its_bias(bert):
    small = smaller_model(bert.model, bert.family, IRREGULAR).train()
    small(**inputs(bert)).logits.square().sum().backward()
    layers = small.bert.encoder.layer
    assert layers[0].attention.self.query.weight.grad.abs().sum() > 0
    assert layers[1].attention.output.dense.bias.grad.abs().sum() > 0
    assert bert.model.bert.encoder.layer[0].attention.self.query.weight.grad is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ((), "cannot be kept"),
        (kept(1, 0), "lowest first"),
        (kept(3), "0 to 2"),
        (kept(0, heads=5), "no head L0H4"),
        ((KeptLayer(layer=0, heads=(0,), units=65),), "units of 64"),
        ((KeptLayer(layer=0, heads=(0,), units=2),), "but 0 are named"),
        ((KeptLayer(layer=1, heads=(0,), units=2),), "no feed-forward unit 64: .* 0 to 63"),
        ((KeptLayer(layer=2, heads=(0,), units=2),), "no feed-forward unit -1"),
    ],
)
def test_what_the_teacher_does_not_have_is_refused(bert, wrong, message):
    with pytest.raises(ArgumentError, match=message):
        smaller_model(bert.model, bert.family, wrong, units={1: [0, 64], 2: [-1, 3]})


def saved(tmp_path, checkpoint, layers, **options):
    small = smaller_checkpoint(checkpoint, layers, **options)
    return save_smaller(tmp_path / "small", small, dtype=torch.float32), small


@pytest.mark.parametrize("family", FAMILIES)
def test_a_pruned_folder_opens_small_and_with_heads_of_zeros(opened, tmp_path, family):
    checkpoint = opened(family, exact=False)
    folder, small = saved(tmp_path, checkpoint, irregular(family))
    size = stored_bytes(folder)
    save_file({"other": torch.zeros(9)}, folder / "other.safetensors")  # is not read
    assert stored_bytes(folder) == size
    expected = theirs(checkpoint, small.model.double())
    compact, spread = fast(folder, family, compact=True), fast(folder, family)
    for model in (compact.model, spread.model):
        torch.testing.assert_close(logits(model, checkpoint), expected, atol=1e-6, rtol=0)
        torch.testing.assert_close(theirs(checkpoint, model), expected, atol=1e-6, rtol=0)
    assert compact.parameters == spread.parameters == small.parameters < checkpoint.parameters
    heads = [layer.heads for layer in irregular(family)]
    layers = Encoder(compact.model, compact.family).layers
    assert [layer.heads for layer in layers] == list(map(len, heads))
    assert spread.shape.all_heads == [Head(n, h) for n, some in enumerate(heads) for h in some]
    with pytest.raises(ArgumentError, match="L1H2: it was pruned"):
        checked_heads([Head(1, 2)], spread.shape)
    with pytest.raises(ValueError, match=f"`qt_bert-pruned-{family}`"):
        AutoModelForSequenceClassification.from_pretrained(folder)


@pytest.mark.parametrize(
    ("family", "layers"),
    [*((family, (0, 2)) for family in FAMILIES), ("bert", (1, 2)), ("modernbert", (1, 2))],
)
def test_a_folder_of_whole_layers_opens(opened, tmp_path, family, layers):
    """A ModernBERT's lowest layer has no norm; where another one is the lowest, only we open it."""
    checkpoint = opened(family, exact=False)
    narrow = [KeptLayer(layer=n, heads=(0, 1, 2, 3), units=2) for n in layers]
    folder, small = saved(tmp_path, checkpoint, narrow, units={n: [n, 40] for n in layers})
    expected = theirs(checkpoint, small.model.double())
    again = fast(folder, family)
    torch.testing.assert_close(logits(again.model, checkpoint), expected, atol=1e-6, rtol=0)
    assert is_plain(small.model) == (family != "modernbert" or layers[0] == 0)
    if is_plain(small.model):
        plain = AutoModelForSequenceClassification.from_pretrained(folder).double().eval()
        torch.testing.assert_close(theirs(checkpoint, plain), expected, atol=1e-6, rtol=0)
        assert open_for_tuning(folder, 5)[0].config.num_hidden_layers == len(layers)
        return
    with pytest.raises(ValueError, match="`qt_bert-pruned-modernbert`"):
        AutoModelForSequenceClassification.from_pretrained(folder)
    with pytest.raises(CheckpointError, match=r"no place for .*layers\.0\.attn_norm\.weight"):
        open_for_tuning(folder, 5)
    # Made smaller again, its lowest layer has the norm still.
    folder, twice = saved(tmp_path / "again", again, kept(0))
    compact = logits(open_checkpoint(folder).model.double(), checkpoint)
    torch.testing.assert_close(compact, theirs(checkpoint, twice.model), atol=1e-6, rtol=0)


def test_heads_keep_their_numbers_and_layers_name_the_teacher(bert, tmp_path):
    layers = (KeptLayer(layer=1, heads=(2,)), KeptLayer(layer=2, heads=(0, 3)))
    folder, _ = saved(tmp_path, bert, layers)
    student = open_checkpoint(folder)
    assert student.kept.names == {"L0H2": "L1H2", "L1H0": "L2H0", "L1H3": "L2H3"}
    assert student.kept.teacher.sha256 == bert.sha256
    ours, theirs = (
        model.bert.encoder.layer[layer].attention.self.query.weight.unflatten(0, (4, 8))
        for model, layer in ((student.model, 1), (bert.model, 2))
    )
    torch.testing.assert_close(ours[3], theirs[3])
    assert ours[1].abs().sum() == 0


def test_a_model_with_heads_of_zeros_is_not_made_smaller_again(bert, tmp_path):
    folder, _ = saved(tmp_path, bert, IRREGULAR)
    with pytest.raises(ArgumentError, match="was pruned itself"):
        smaller_checkpoint(open_checkpoint(folder), kept(0))


def test_a_model_of_uneven_widths_is_made_smaller_again(bert, tmp_path):
    """Its layers without a number of units keep what they have, and its folder opens."""
    layers = [
        replace(layer, units=units) for layer, units in zip(kept(0, 1), (20, 40), strict=True)
    ]
    folder, _ = saved(tmp_path, bert, [*layers, *kept(2)], units={0: range(20), 1: range(40)})
    first, _, last = kept(0, 1, 2)
    again = (first, KeptLayer(layer=1, heads=(2,), units=50), replace(last, units=64))
    folder, small = saved(tmp_path / "again", open_checkpoint(folder), again, units={1: range(50)})
    assert [layer.units for layer in small.kept.layers] == [20, 40, None]
    opened = open_checkpoint(folder, compact=True)
    assert abs(Scorer(opened).logits(TEXTS) - Scorer(small).logits(TEXTS)).max() <= 1e-5
    widths = [layer.intermediate.dense.out_features for layer in opened.model.bert.encoder.layer]
    assert widths == [20, 40, 64]


def test_damaged_folders_are_refused(bert, tmp_path):
    folder, _ = saved(tmp_path, bert, IRREGULAR)
    (folder / "manifest.json").unlink()
    record = json.loads((folder / "kept.json").read_text(encoding="utf-8"))
    first, *others = record["layers"]
    for layers, message in (
        ([first, others[0]], "different models"),
        ([first | {"heads": [1]}, *others], "do not fit kept.json"),
        ([first | {"heads": [9]}, *others], "kept.json: .*no head L0H9"),
        ([first | {"units": 65}, *others], "kept.json: .*65 units of 64"),
    ):
        text = json.dumps(record | {"layers": layers})
        (folder / "kept.json").write_text(text, encoding="utf-8")
        with pytest.raises(CheckpointError, match=message):
            open_checkpoint(folder)
    (folder / "kept.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="cannot be read"):
        open_checkpoint(folder)


def test_a_lost_weight_is_refused(bert, tmp_path):
    folder, _ = saved(tmp_path, bert, IRREGULAR)
    (folder / "manifest.json").unlink()
    state = load_file(folder / "model.safetensors")
    del state["bert.encoder.layer.2.attention.self.key.weight"]
    save_file(state, folder / "model.safetensors")
    with pytest.raises(CheckpointError, match=r"layer\.2\.attention\.self\.key\.weight"):
        open_checkpoint(folder)
