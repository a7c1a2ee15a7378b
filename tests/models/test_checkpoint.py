"""Every fault of a model folder has its own clear error."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from qt_bert.errors import CheckpointError, RunFolderError
from qt_bert.models.checkpoint import open_checkpoint, save_checkpoint
from qt_bert.models.families import FAMILIES
from qt_bert.models.folder import HEADS, folder_sha256, verify_manifest, write_manifest


def edit_config(folder: Path, **values: object) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def edit_weights(folder: Path, change) -> None:
    path = folder / "model.safetensors"
    weights = load_file(path)
    change(weights)
    save_file(weights, path, metadata={"format": "pt"})


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_every_family_opens(checkpoint_of, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    assert (checkpoint.layers, checkpoint.heads) == (2, 2)
    assert checkpoint.settings.labels.exact
    assert checkpoint.longest == 64


@pytest.mark.parametrize("labels", [1, 3, 5, 7])
def test_any_number_of_labels_opens(checkpoint_of, labels):
    checkpoint = open_checkpoint(checkpoint_of("bert", labels=labels))
    assert checkpoint.settings.labels.logits == labels
    assert checkpoint.settings.labels.exact == (labels == 5)


def no_config(folder):
    (folder / "config.json").unlink()


def broken_config(folder):
    (folder / "config.json").write_text("{")


def endless_config(folder):
    (folder / "config.json").write_text("[" * 100_000)


def no_folder(folder):
    shutil.rmtree(folder)


def config_is_a_list(folder):
    (folder / "config.json").write_text("[]")


def unknown_family(folder):
    edit_config(folder, model_type="gpt2")


def remote_code(folder):
    edit_config(folder, auto_map={"AutoModel": "modeling.Evil"})


def code_beside(folder):
    (folder / "modeling_evil.py").write_text("raise SystemExit")


def pickled(folder):
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def no_weights(folder):
    (folder / "model.safetensors").unlink()


def no_vocabulary(folder):
    for name in ("vocab.txt", "tokenizer.json"):
        (folder / name).unlink(missing_ok=True)


def broken_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{}")


def truncated(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-200])


def empty_weights(folder):
    (folder / "model.safetensors").write_bytes(b"")


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


def broken_manifest(folder):
    (folder / "manifest.json").write_text("{}")


def wrong_label_count(folder):
    edit_config(
        folder,
        id2label={str(i): str(i) for i in range(3)},
        label2id={str(i): i for i in range(3)},
    )


def no_classifier(folder):
    edit_weights(folder, lambda w: w.pop("classifier.weight"))


def no_classifier_bias(folder):
    edit_weights(folder, lambda w: w.pop("classifier.bias"))


def missing_encoder_weight(folder):
    edit_weights(folder, lambda w: w.pop("bert.encoder.layer.1.attention.self.key.weight"))


def other_shape(folder):
    edit_config(folder, intermediate_size=48)


def vocabulary_of_another(folder):
    def cut(weights):
        weights["bert.embeddings.word_embeddings.weight"] = weights[
            "bert.embeddings.word_embeddings.weight"
        ][:40].clone()

    edit_weights(folder, cut)
    edit_config(folder, vocab_size=40)


def card_is_no_json(folder):
    (folder / "qt_bert.json").write_text("{")


def card_of_another(folder):
    (folder / "qt_bert.json").write_text(json.dumps({"grades": [[1], [2]]}))


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (no_config, "no config.json"),
        (no_folder, "no such folder"),
        (broken_config, "not valid JSON"),
        (endless_config, "not valid JSON"),
        (config_is_a_list, "not a JSON object"),
        (unknown_family, "'gpt2' is not an encoder this toolkit knows"),
        (remote_code, "code of its own"),
        (code_beside, "code of its own"),
        (pickled, "is a pickle"),
        (no_weights, "no weights"),
        (no_vocabulary, "no vocabulary"),
        (broken_tokenizer, "tokenizer cannot be opened"),
        (truncated, "truncated"),
        (empty_weights, "truncated"),
        (flipped_bit, "the bytes differ"),
        (listed_file_missing, "extra.txt is missing"),
        (broken_manifest, "not a manifest"),
        (wrong_label_count, "speaks of 3 labels, the classifier has 5"),
        (no_classifier, "no classifier"),
        (no_classifier_bias, "1 weights are missing"),
        (missing_encoder_weight, "attention.self.key.weight"),
        (other_shape, "do not fit the config"),
        (vocabulary_of_another, "belongs to another model"),
        (card_is_no_json, "not valid JSON"),
        (card_of_another, "names 2 outputs, the model has 5"),
    ],
)
def test_a_fault_is_named(fresh_checkpoint, damage, said):
    folder = fresh_checkpoint()
    damage(folder)
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(folder)
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("card", "said"),
    [
        (5, "not a JSON object"),
        ([1], "not a JSON object"),
        ({"max_length": "abc"}, "`max_length` is 'abc'"),
        ({"max_length": 0}, "`max_length` is 0"),
        ({"max_length": None}, "`max_length` is None"),
        ({"grades": 3}, "`grades` is 3"),
        ({"grades": []}, "names 0 outputs, the model has 5"),
        ({"grades": [[], [1], [2], [3], [4]]}, "of output 0 is []"),
        ({"grades": [1, 2, 3, 4, 5]}, "of output 0 is 1"),
        ({"grades": [[1], [2], [3], [4], [9]]}, "of output 4: 9 is not a grade from 1 to 5"),
        ({"grades": [[1], [2], [3], [4], ["5"]]}, "of output 4: '5' is not a grade"),
        ({"calibration": 5}, "`calibration` is 5"),
    ],
)
def test_a_card_of_another_shape_is_refused(fresh_checkpoint, card, said):
    folder = fresh_checkpoint()
    (folder / "qt_bert.json").write_text(json.dumps(card))
    with pytest.raises(CheckpointError) as error:
        open_checkpoint(folder)
    assert said in str(error.value)


@pytest.mark.parametrize(
    "manifest",
    [
        5,
        [1],
        {"sha256": []},
        {"sha256": {"config.json": 1}},
        {"sha256": {"../x": ""}},
        {"sha256": {"": ""}},
    ],
)
def test_a_manifest_of_another_shape_is_refused(tmp_path, manifest):
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    with pytest.raises(CheckpointError, match="not a manifest"):
        verify_manifest(tmp_path)


def test_a_hub_name_without_network_is_an_error_of_one_line(monkeypatch):
    def refuse(*_args, **_options):
        raise ConnectionError("no network")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(CheckpointError, match="could not be fetched from the hub"):
        open_checkpoint("someone/some-model")


def test_an_unknown_dtype_is_refused(checkpoint_of):
    with pytest.raises(CheckpointError, match="choose from float32, bfloat16"):
        open_checkpoint(checkpoint_of(), dtype="int4")


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
    first = open_checkpoint(checkpoint_of())
    folder = save_checkpoint(
        tmp_path / "saved", first.model, first.tokenizer, settings=first.settings
    )
    again = open_checkpoint(folder)
    name = "classifier.weight"
    expected = first.model.state_dict()[name].half().float()
    assert torch.equal(again.model.state_dict()[name], expected)
    assert (folder / "manifest.json").exists()
    assert not [p for p in tmp_path.iterdir() if p != folder]


def test_saving_refuses_a_folder_that_holds_something(checkpoint_of, tmp_path):
    checkpoint = open_checkpoint(checkpoint_of())
    (tmp_path / "mine.txt").write_text("mine")
    with pytest.raises(RunFolderError, match="not empty"):
        save_checkpoint(tmp_path, checkpoint.model, checkpoint.tokenizer)


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

    from qt_bert.models.checkpoint import open_tokenizer
    from qt_bert.models.folder import weight_shapes
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_hidden_layers", 0),
        ("num_hidden_layers", -1),
        ("num_hidden_layers", 10**6),
        ("num_labels", 0),
        ("num_labels", 10**8),
        ("vocab_size", "many"),
        ("hidden_size", True),
    ],
)
def test_a_config_asks_for_no_impossible_size(fresh_checkpoint, name, value):
    folder = fresh_checkpoint()
    (folder / "manifest.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {name: value}), "utf-8")
    with pytest.raises(CheckpointError, match=f"{name} is"):
        open_checkpoint(folder)


def test_stored_layers_that_the_config_has_no_place_for_are_refused(fresh_checkpoint):
    folder = fresh_checkpoint()
    (folder / "manifest.json").unlink(missing_ok=True)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    config["num_hidden_layers"] -= 1
    (folder / "config.json").write_text(json.dumps(config), "utf-8")
    with pytest.raises(CheckpointError, match="no place for 16 stored weights"):
        open_checkpoint(folder)


def test_what_a_study_found_is_in_no_hash(tmp_path: Path) -> None:
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
