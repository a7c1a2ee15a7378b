"""A folder's tokenizer: which types of tokens it gives, and what it is held against."""

import json

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.card import Reading
from qt_bert.models.checkpoint import save_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from tests.models.other_types import TYPES, other_checkpoint
from tests.models.reference import folder_logits

TEXTS = [("北京到上海", "上海高铁票价"), ("狗", "猫")]


def change(folder, name="tokenizer_config.json", **changes):
    """Change keys of a JSON file; None takes one out."""
    path = folder / name
    kept = json.loads(path.read_text(encoding="utf-8")) | changes
    path.write_text(json.dumps({k: v for k, v in kept.items() if v is not None}), encoding="utf-8")
    return folder


def theirs(folder, *, types: bool) -> np.ndarray:
    return folder_logits(folder, TEXTS, types=types)


def logits(folder, **reading) -> np.ndarray:
    return Scorer(open_checkpoint(folder, reading=Reading(**reading))).logits(TEXTS)


@pytest.mark.parametrize(
    "left_out",
    [
        {"tokenizer_class": "PreTrainedTokenizerFast"},
        {"model_input_names": ["input_ids", "attention_mask"]},
    ],
)
def test_types_that_transformers_leaves_out_are_named_and_can_be_had(
    fresh_checkpoint, capsys, left_out
):
    folder = change(fresh_checkpoint("bert"), **left_out)
    np.testing.assert_allclose(logits(folder), theirs(folder, types=False), atol=2e-5)
    assert "leaves token_type_ids out" in capsys.readouterr().err
    with_types = logits(folder, token_types="yes")
    np.testing.assert_allclose(with_types, theirs(folder, types=True), atol=2e-5)
    without = logits(folder, token_types="no")
    np.testing.assert_allclose(without, theirs(folder, types=False), atol=2e-5)
    assert np.abs(with_types - theirs(folder, types=False)).max() > 1e-3
    assert capsys.readouterr().err == ""


def test_types_can_be_left_out_of_a_model_that_transformers_gives_them(fresh_checkpoint):
    folder = fresh_checkpoint("electra")
    np.testing.assert_allclose(logits(folder), theirs(folder, types=True), atol=2e-5)
    without = logits(folder, token_types="no")
    np.testing.assert_allclose(without, theirs(folder, types=False), atol=2e-5)


def test_the_choice_of_types_is_saved_with_the_tokenizer(fresh_checkpoint, tmp_path):
    folder = change(fresh_checkpoint("bert"), tokenizer_class="PreTrainedTokenizerFast")
    opened = open_checkpoint(folder, reading=Reading(token_types="yes"))
    saved = save_checkpoint(tmp_path / "saved", opened.model, opened.tokenizer, dtype=torch.float32)
    np.testing.assert_allclose(logits(saved), theirs(folder, types=True), atol=2e-5)


@pytest.mark.parametrize("family", ["bert", "roberta", "electra"])
def test_types_without_room_are_type_0_and_a_line(fresh_checkpoint, family, capsys):
    folder = fresh_checkpoint(family, type_vocab_size=1)
    np.testing.assert_allclose(logits(folder), theirs(folder, types=False), atol=2e-5)
    assert "the model has 1 (type_vocab_size)" in capsys.readouterr().err
    with pytest.raises(ArgumentError, match="leave --token-types yes out"):
        logits(folder, token_types="yes")


def test_a_model_without_types_takes_none(fresh_checkpoint):
    with pytest.raises(ArgumentError, match="takes none"):
        logits(fresh_checkpoint("modernbert"), token_types="yes")


# What is opened is held against the folder's files.


def test_a_tokenizer_that_the_config_builds_otherwise_is_named(fresh_checkpoint, capsys):
    folder = change(fresh_checkpoint("bert"), do_lower_case=False)
    open_checkpoint(folder)
    line = capsys.readouterr().err
    built = AutoTokenizer.from_pretrained(folder).encode("iPhone", add_special_tokens=False)
    stored = Tokenizer.from_file(str(folder / "tokenizer.json"))
    assert built != stored.encode("iPhone", add_special_tokens=False).ids
    assert "builds another tokenizer than tokenizer.json" in line


def test_padding_and_truncation_that_a_tokenizer_was_saved_with_change_nothing(
    fresh_checkpoint, capsys
):
    folder = fresh_checkpoint("bert")
    stored = Tokenizer.from_file(str(folder / "tokenizer.json"))
    stored.enable_padding(length=48)
    stored.enable_truncation(8)
    stored.save(str(folder / "tokenizer.json"))
    np.testing.assert_allclose(logits(folder), theirs(folder, types=True), atol=2e-5)
    assert capsys.readouterr().err == ""


def test_a_setting_of_the_wrong_type_is_refused(fresh_checkpoint):
    folder = change(fresh_checkpoint("bert"), model_max_length="512")
    with pytest.raises(CheckpointError, match="the tokenizer cannot be opened .TypeError"):
        open_checkpoint(folder)


@pytest.mark.parametrize("twice", [False, True])
def test_vocabularies_of_a_folder_that_differ_are_named(fresh_checkpoint, twice, capsys):
    """Two numbers swapped; a word that stands twice has its last number, which is no difference."""
    folder = fresh_checkpoint("bert")
    words = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    words[10], words[20] = words[20], words[20 if twice else 10]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    open_checkpoint(folder)
    err = capsys.readouterr().err
    assert not err if twice else f"numbers {words[10]!r} 20, vocab.txt 10" in err


def test_a_type_without_attention_heads_scores(tmp_path):
    TYPES.setdefault("fnet", {})
    folder = other_checkpoint(tmp_path / "model", "fnet")
    opened = open_checkpoint(change(folder, "config.json", num_attention_heads=None))
    assert opened.describe()["heads"] == 0
    np.testing.assert_allclose(Scorer(opened).logits(TEXTS), theirs(folder, types=True), atol=2e-5)
    with pytest.raises(CheckpointError, match="heads of a fnet cannot be left out"):
        opened.encoder().without([])


def other_vocabulary(folder, words):
    """Give a model another vocabulary of the same size."""
    rows = json.loads((folder / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    special = {
        f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")
    }
    known = [*special.values(), *words, *(f"unused{n}" for n in range(rows))][:rows]
    tokenizer = Tokenizer(models.WordLevel({w: n for n, w in enumerate(known)}, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
        (folder / name).unlink(missing_ok=True)
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    return folder


@pytest.mark.parametrize("words", [["iphone", "the", "a"], ["北京", "上海", "票价"]])
def test_a_vocabulary_that_does_not_know_the_texts_is_refused(fresh_checkpoint, words):
    """One of another language, and one of words, which reads texts that are cut already."""
    folder = other_vocabulary(fresh_checkpoint("bert"), words)
    with pytest.raises(CheckpointError, match="does not know .* --allow-unknown"):
        open_checkpoint(folder)
    assert open_checkpoint(folder, reading=Reading(allow_unknown=True)).family.fast
    (folder / "qt_bert.json").write_text('{"schema": 1, "allow_unknown": true}', encoding="utf-8")
    assert open_checkpoint(folder).settings.rest == {"allow_unknown": True}


def test_a_pre_tokenizer_in_python_is_used_as_it_is(tmp_path):
    """RoFormer's cuts words by jieba; it cannot be copied."""
    folder = other_checkpoint(tmp_path / "model", "roformer")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (folder / name).unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "RoFormerTokenizer"}')
    np.testing.assert_allclose(logits(folder), theirs(folder, types=False), atol=2e-5)
