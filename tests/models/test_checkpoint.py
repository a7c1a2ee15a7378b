"""Every fault of a model folder has its own clear error."""

import json
import os
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModelForSequenceClassification

from qt_bert.errors import ArgumentError, CheckpointError, RunFolderError
from qt_bert.files import one_writer
from qt_bert.models.checkpoint import check_place, save_checkpoint
from qt_bert.models.families import FAMILIES
from qt_bert.models.folder import HEADS, folder_sha256, verify_manifest, write_manifest
from qt_bert.models.loading import open_for_tuning
from qt_bert.models.opening import open_checkpoint, reopened
from qt_bert.scoring.bulk import Scorer


def config(**values: object):
    def edit(folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | values), "utf-8")

    return edit


def weights(change):
    def edit(folder: Path) -> None:
        path = folder / "model.safetensors"
        stored = load_file(path)
        change(stored)
        save_file(stored, path, metadata={"format": "pt"})

    return edit


def written(name: str, text: str):
    return lambda folder: (folder / name).write_text(text)


def gone(*names: str):
    return lambda folder: [(folder / name).unlink(missing_ok=True) for name in names]


def no_words(folder):
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").write_text("")


def truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-200])


def flipped_bit(folder):
    write_manifest(folder)
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    data[-7] ^= 1
    path.write_bytes(bytes(data))


def listed_file_missing(folder):
    (folder / "extra.txt").write_text("x")
    write_manifest(folder)
    (folder / "extra.txt").unlink()


def vocabulary_of_another(folder):
    name = "bert.embeddings.word_embeddings.weight"
    weights(lambda stored: stored.update({name: stored[name][:40].clone()}))(folder)
    config(vocab_size=40)(folder)


def renamed(old: str, new: str):
    """`old` at the start of a name's part becomes `new`; an empty one stands before all."""

    def change(stored):
        for name in list(stored):
            stored[name.replace(old, new, 1)] = stored.pop(name)

    return weights(change)


def quantised(folder):
    weights(lambda stored: stored.update({KEY: stored[KEY].to(torch.int8)}))(folder)


def extra_tokens(count: int):
    def edit(folder: Path) -> None:
        path = folder / "tokenizer.json"
        stored = json.loads(path.read_text("utf-8"))
        first = len(stored["model"]["vocab"])
        last, new = stored["added_tokens"][-1], range(count)
        stored["added_tokens"] += [last | {"id": first + n, "content": f"[{n}号]"} for n in new]
        path.write_text(json.dumps(stored), "utf-8")

    return edit


def other_weights(name: str):
    def edit(folder: Path) -> None:
        (folder / "optimizer.pt").write_text("")  # a Trainer's
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / "model.safetensors").rename(folder / name)

    return edit


def sharded(folder: Path, *, lost: bool = False) -> None:
    whole = folder / "model.safetensors"
    stored = load_file(whole)
    whole.unlink()
    places = {name: f"model-0000{1 + n % 2}-of-00002.safetensors" for n, name in enumerate(stored)}
    for shard in set(places.values()):
        part = {name: stored[name] for name in stored if places[name] == shard}
        save_file(part, folder / shard, metadata={"format": "pt"})
    index = json.dumps({"metadata": {}, "weight_map": places})
    (folder / f"{whole.name}.index.json").write_text(index)
    if lost:
        (folder / "model-00002-of-00002.safetensors").unlink()


def card(value: object):
    return written("qt_bert.json", json.dumps(value))


def modules(*kinds: str):
    paths = ["", *(f"{n}_{kind}" for n, kind in enumerate(kinds[1:], 1))]
    listed = [{"path": p, "type": f"st.{kind}"} for p, kind in zip(paths, kinds, strict=True)]
    return written("modules.json", json.dumps(listed))


THREE = {"id2label": {str(i): str(i) for i in range(3)}, "label2id": {str(i): i for i in range(3)}}
KEY = "bert.encoder.layer.1.attention.self.key.weight"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (gone("config.json"), "no config.json"),
        (shutil.rmtree, "no such folder"),
        (written("config.json", "{"), "not valid JSON"),
        (written("config.json", "[" * 100_000), "not valid JSON"),
        (written("config.json", "[]"), "not a JSON object"),
        (config(model_type="clip"), "no sequence classifier of model_type 'clip'"),
        (config(model_type="gpt2"), "weights are missing"),
        (config(model_type="x", auto_map={"AutoModel": "modeling.Evil"}), "its own code"),
        (gone("model.safetensors"), "no weights"),
        (gone("vocab.txt", "tokenizer.json"), "no vocabulary"),
        (no_words, "the tokenizer cannot be opened"),
        (config(model_type=None), "no model_type"),
        (config(pruned_heads={"1": [0]}), "pruned_heads {'1': [0]}"),
        (config(quantization_config={"quant_method": "gptq"}), "quantization_config"),
        (written("adapter_config.json", "{}"), "adapter_config.json is of an adapter"),
        (written("adapter_model.bin", ""), "adapter_model.bin is of an adapter"),
        (modules("Transformer", "Dense"), "modules.json adds Dense"),
        (modules("Transformer", "Pooling", "Normalize"), "modules.json adds Pooling, Normalize"),
        (written("modules.json", '{"a": 1}'), "modules.json: not a list"),
        (other_weights("model.fp16.safetensors"), "model.fp16.safetensors is not read"),
        (other_weights("onnx/model.onnx"), "onnx/model.onnx is not read"),
        (other_weights("pytorch_model.bin"), "pytorch_model.bin is not read"),
        (partial(sharded, lost=True), "model-00002-of-00002.safetensors is missing"),
        (quantised, f"{KEY} is quantised"),
        (renamed("classifier", "linear"), "if it is linear.weight"),
        (renamed("classifier", "classifier.3"), "if it is classifier.3.weight"),
        (renamed("bert.", "encoder."), "encoder.embeddings.LayerNorm.bias"),
        (renamed("self.query", "mixer.Wqkv"), "mixer.Wqkv.bias"),
        (extra_tokens(40), "belongs to another model"),
        (written("tokenizer.json", "{"), "tokenizer cannot be opened"),
        (truncated, "truncated"),
        (written("model.safetensors", ""), "truncated"),
        (flipped_bit, "the bytes differ"),
        (listed_file_missing, "extra.txt is missing"),
        *(
            (written("manifest.json", json.dumps(value)), "not a manifest")
            for value in (
                *({}, 5, [1], {"sha256": []}, {"sha256": {"config.json": 1}}),
                *({"sha256": {"../x": ""}}, {"sha256": {"": ""}}),
            )
        ),
        (config(**THREE), "has 3 labels, the classifier has 5"),
        (weights(lambda stored: stored.pop("classifier.weight")), "no classifier"),
        (weights(lambda stored: stored.pop("classifier.bias")), "1 weights are missing"),
        (weights(lambda stored: stored.pop(KEY)), "attention.self.key.weight"),
        (config(intermediate_size=48), "do not fit the config"),
        (config(num_hidden_layers=1), "no place for 16 stored weights"),
        (vocabulary_of_another, "belongs to another model"),
        (written("qt_bert.json", "{"), "not valid JSON"),
        (card(5), "not a JSON object"),
        (card({"max_length": "abc"}), "`max_length` is 'abc'"),
        (card({"max_length": 0}), "`max_length` is 0"),
        (card({"max_length": None}), "`max_length` is None"),
        (card({"grades": 3}), "`grades` is 3"),
        (card({"grades": []}), "names 0 outputs, the model has 5"),
        (card({"grades": [[1], [2]]}), "names 2 outputs, the model has 5"),
        (card({"grades": [[], [1], [2], [3], [4]]}), "of output 0 is []"),
        (card({"grades": [1, 2, 3, 4, 5]}), "of output 0 is 1"),
        (card({"grades": [[1], [2], [3], [4], [9]]}), "output 4: 9 is not a grade from 1 to 5"),
        (card({"grades": [[1], [2], [3], [4], ["5"]]}), "of output 4: '5' is not a grade"),
        (card({"calibration": 5}), "`calibration` is 5"),
        (config(num_hidden_layers=0), "num_hidden_layers is"),
        (config(num_hidden_layers=10**6), "num_hidden_layers is"),
        (config(num_labels=0), "num_labels is"),
        (config(num_labels=10**8), "num_labels is"),
        (config(vocab_size="many"), "vocab_size is"),
        (config(hidden_size=True), "hidden_size is"),
        (config(model_type="qt_bert-offline-bert"), "layers=4"),
        (card({"offline": {"layers": 0, "title_start": 12}}), "layers=4"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_fault_is_named(fresh_checkpoint, damage, message):
    damage(folder := fresh_checkpoint())
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(folder)
    assert message in str(error.value)


def test_a_hub_name_without_network_is_an_error_of_one_line(monkeypatch):
    def refuse(*_args, **_options):
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(CheckpointError, match="could not be fetched from the hub"):
        open_checkpoint("someone/some-model")


TEXTS = [("北京到上海高铁票价", "上海到北京高铁票价"), ("狗", "猫追狗" * 5)]


@pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.module.", "ranker."])
@pytest.mark.parametrize("family", ["bert", "modernbert", "qwen2", "distilbert"])
def test_a_wrappers_prefix_is_taken_off(fresh_checkpoint, family, prefix, capsys):
    folder = fresh_checkpoint(family)
    before = Scorer(open_checkpoint(folder)).logits(TEXTS)
    renamed("", prefix)(folder)
    np.testing.assert_array_equal(Scorer(open_checkpoint(folder)).logits(TEXTS), before)
    if prefix != "model." or family in ("bert", "distilbert"):  # a second one goes by itself
        assert f"begin with {prefix}" in capsys.readouterr().err
    if family != "distilbert":
        open_for_tuning(folder, 3)


@pytest.mark.parametrize(
    "change",
    [
        sharded,
        weights(lambda stored: stored.update({"loss.weight": torch.ones(5)})),
        weights(lambda stored: stored.update({n: v.double() for n, v in stored.items()})),
        config(pruned_heads={}, problem_type="single_label_classification"),
        written("optimizer.pt", ""),
        written("pytorch_model.bin", ""),
        written("other.safetensors", ""),
        modules("Transformer"),
    ],
)
def test_what_changes_no_weight_changes_no_output(fresh_checkpoint, change):
    folder = fresh_checkpoint()
    before = Scorer(open_checkpoint(folder)).logits(TEXTS)
    change(folder)
    np.testing.assert_array_equal(Scorer(open_checkpoint(folder)).logits(TEXTS), before)


def test_weights_without_a_place_are_named(fresh_checkpoint, capsys):
    folder = fresh_checkpoint()
    weights(lambda stored: stored.update({"norm.weight": torch.ones(16)}))(folder)
    open_checkpoint(folder)
    assert "are not read: norm.weight" in capsys.readouterr().err


@pytest.mark.parametrize("extra", ["", "Dense"])
def test_the_transformer_of_a_folder_of_modules(fresh_checkpoint, extra):
    inner = fresh_checkpoint()
    inner = inner.rename(inner.with_name("0_Transformer"))
    listed = [{"path": inner.name, "type": "st.Transformer"}, {"path": "1", "type": f"st.{extra}"}]
    (inner.parent / "modules.json").write_text(json.dumps(listed[: 1 + bool(extra)]))
    for folder in (inner.parent, inner):
        if extra:
            with pytest.raises(CheckpointError, match=r"modules\.json adds Dense"):
                open_checkpoint(folder)
        else:
            assert open_checkpoint(folder).folder == inner


@pytest.mark.parametrize("family", ["bert", "distilbert"])
@pytest.mark.parametrize("count", [1, 4])
def test_spare_tokens_are_no_fault_until_a_text_holds_one(fresh_checkpoint, family, count, capsys):
    folder = fresh_checkpoint(family)
    before = Scorer(open_checkpoint(folder)).logits(TEXTS)
    extra_tokens(count)(folder)
    scorer = Scorer(open_checkpoint(folder))
    assert f"{count} of the tokenizer's" in capsys.readouterr().err
    np.testing.assert_array_equal(scorer.logits(TEXTS), before)
    with pytest.raises(ArgumentError, match="'\\[0号\\]', which has no embedding"):
        scorer.logits([("狗", "猫[0号]")])


def test_a_pickle_is_never_opened(fresh_checkpoint, tmp_path):
    folder = fresh_checkpoint()
    (folder / "model.safetensors").unlink()
    touched = tmp_path / "touched"

    class Evil:
        def __reduce__(self):
            return (Path.touch, (touched,))

    torch.save({"weight": Evil()}, folder / "pytorch_model.bin")
    with pytest.raises(CheckpointError, match="pickle"):
        open_checkpoint(folder)
    assert not touched.exists()


def test_model_grades_say_what_three_logits_mean(checkpoint_of):
    folder = checkpoint_of("bert", labels=3)
    labels = open_checkpoint(folder, model_grades="0=1-2,1=3-4,2=5").settings.labels
    assert labels.grades == ((1, 2), (3, 4), (5,))
    assert labels.values == [1.5, 3.5, 5.0]


@pytest.mark.parametrize("spec", ["0=1,1=2", "0=1,1=2,2=3,3=4"])
def test_model_grades_must_name_each_logit(checkpoint_of, spec):
    with pytest.raises(CheckpointError, match="--model-grades"):
        open_checkpoint(checkpoint_of("bert", labels=3), model_grades=spec)


def test_saving_is_whole_and_opens_again(checkpoint_of, tmp_path):
    first, folder = open_checkpoint(checkpoint_of()), tmp_path / "saved"
    save_checkpoint(folder, first.model, first.tokenizer, settings=first.settings)
    again = open_checkpoint(folder)
    assert torch.equal(again.model.classifier.weight, first.model.classifier.weight.half().float())
    assert (folder / "manifest.json").exists()
    assert list(tmp_path.iterdir()) == [folder]


def test_a_number_beyond_float16_is_no_infinity(checkpoint_of, tmp_path):
    opened = open_checkpoint(checkpoint_of())
    with torch.no_grad():
        opened.model.classifier.weight[0, 0] = 65_520.0  # the least that float16 makes infinite
    folder = save_checkpoint(tmp_path / "m", opened.model, opened.tokenizer)
    stored = load_file(folder / "model.safetensors")
    assert torch.equal(stored.pop("classifier.weight"), opened.model.classifier.weight)
    assert {weight.dtype for weight in stored.values()} == {torch.float16}


def test_saving_refuses_a_folder_that_holds_something(checkpoint_of, tmp_path):
    checkpoint = open_checkpoint(checkpoint_of())
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="not empty"):
        save_checkpoint(tmp_path, checkpoint.model, checkpoint.tokenizer)


def test_a_mount_point_is_no_place_for_a_model(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "is_mount", lambda path: path == tmp_path)
    with pytest.raises(RunFolderError, match="mount point"):
        check_place(tmp_path, overwrite=True)
    check_place(tmp_path / "model", overwrite=False)


def test_a_save_that_fails_leaves_the_old_folder(checkpoint_of, tmp_path, monkeypatch):
    checkpoint = open_checkpoint(checkpoint_of())
    folder = tmp_path / "model"
    shutil.copytree(checkpoint.folder, folder)
    before = (folder / "model.safetensors").read_bytes()
    monkeypatch.setattr(checkpoint.tokenizer, "save_pretrained", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        save_checkpoint(folder, checkpoint.model, checkpoint.tokenizer, overwrite=True)
    assert (folder / "model.safetensors").read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def test_tied_weights_are_stored_once(tmp_path, checkpoint_of):
    from transformers import BertForPreTraining

    from qt_bert.models.folder import weight_shapes
    from qt_bert.models.tokenizer import open_tokenizer
    from qt_bert.training.pretrain import new_model

    tokenizer = open_tokenizer(checkpoint_of())
    model = new_model(vocabulary=len(tokenizer), layers=1, heads=2, hidden=16, positions=32, seed=0)
    folder = save_checkpoint(tmp_path / "m", model, tokenizer)
    assert "cls.predictions.decoder.weight" not in weight_shapes(folder)
    again = BertForPreTraining.from_pretrained(folder)
    assert again.dtype == torch.float32
    embeddings = again.bert.embeddings.word_embeddings.weight
    assert again.cls.predictions.decoder.weight is embeddings
    assert torch.equal(embeddings, model.bert.embeddings.word_embeddings.weight.half().float())


def test_what_a_study_found_is_in_no_hash(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / HEADS).write_text("{}")
    before = folder_sha256(tmp_path)
    write_manifest(tmp_path)
    listed = json.loads((tmp_path / "manifest.json").read_text("utf-8"))["sha256"]
    assert list(listed) == ["config.json"]
    (tmp_path / HEADS).write_text('{"schema": 1}')
    verify_manifest(tmp_path)
    (tmp_path / "manifest.json").unlink()
    assert folder_sha256(tmp_path) == before
    (tmp_path / "config.json").write_text("{ }")
    assert folder_sha256(tmp_path) != before


def test_the_lock_of_what_is_written_into_a_folder_is_in_no_hash(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    before = folder_sha256(tmp_path)
    with one_writer(tmp_path / "tuned"):
        assert (tmp_path / ".tuned.lock").exists() and folder_sha256(tmp_path) == before
        write_manifest(tmp_path)
    verify_manifest(tmp_path)


def test_a_folder_that_changed_is_not_hashed_as_the_model_that_is_open(fresh_checkpoint):
    folder = fresh_checkpoint()
    opened, known = open_checkpoint(folder), open_checkpoint(folder)
    before = known.sha256
    file = folder / "config.json"
    file.write_text(file.read_text("utf-8") + "\n", "utf-8")
    with pytest.raises(CheckpointError, match="changed since it was opened"):
        _ = known.identity
    os.utime(folder / "model.safetensors", ns=(1, 1))
    assert known.sha256 == before
    for ask in (lambda: opened.sha256, lambda: opened.identity, lambda: reopened(opened)):
        with pytest.raises(CheckpointError, match="changed since it was opened"):
            ask()


def test_a_folder_saved_from_bfloat16_opens_in_float32(tmp_path, checkpoint_of):
    checkpoint = open_checkpoint(checkpoint_of())
    folder = save_checkpoint(tmp_path / "m", checkpoint.model.bfloat16(), checkpoint.tokenizer)
    assert AutoModelForSequenceClassification.from_pretrained(folder).dtype == torch.float32


@pytest.mark.parametrize(
    ("model_type", "first"),
    [("bert", 0), ("xlm-roberta", 2), ("camembert", 2), ("data2vec-text", 2), ("luke", 2)],
)
def test_positions_may_begin_behind_that_of_padding(model_type, first):
    family = replace(FAMILIES["bert"], model_type=model_type)
    assert family.first_position(1) == first
