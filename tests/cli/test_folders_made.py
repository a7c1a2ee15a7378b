"""What a command makes of a model reads texts as that does, and has its number type."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoTokenizer

from qt_bert.models.card import Reading
from qt_bert.models.loading import stored_dtype
from qt_bert.models.opening import open_checkpoint
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer
from tests.conftest import PAIRS
from tests.models.reference import folder_logits
from tests.planning.conftest import plan_by_hand

TEXTS = [pair[:2] for pair in PAIRS]
SHORT = ("--epochs", "1", "--slots", "96", "--max-length", "48", "--no-compile")
STILL = ("--dtype", "float32", "--lr", "1e-12", *SHORT)
"""A training that leaves the weights as they are."""


@pytest.fixture
def untyped(fresh_checkpoint, tmp_path):
    """A classifier whose tokenizer leaves token types out under transformers 5, and the plan that keeps it whole."""
    folder = fresh_checkpoint("bert")
    path = folder / "tokenizer_config.json"
    stored = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(stored | {"tokenizer_class": "PreTrainedTokenizerFast"}))
    kept = [KeptLayer(layer=layer, heads=(0, 1)) for layer in range(2)]
    plan_by_hand(open_checkpoint(folder), kept).write(tmp_path / "plan.json")
    return folder


@pytest.fixture
def commands(tmp_path, pair_file):
    """Name → the command's arguments for a model, without the choice of types."""
    plan, pairs = ("--plan", tmp_path / "plan.json"), ("--pairs", pair_file)
    learned = (*pairs, "--dev", pair_file, *STILL)
    return {
        "prune": lambda model: ("prune", *plan, *pairs, "--model", model),
        "cut": lambda model: ("prune", "--vocabulary", pair_file, *pairs, "--model", model),
        "plain": lambda model: ("export", "--transformers", "--model", model),
        "distill": lambda model: ("distill", *plan, *learned, "--loss", "soft", "--model", model),
        "train": lambda model: ("train", *learned, "--base", model),
        "average": lambda model: ("average", model, model),
    }


@pytest.mark.parametrize(
    "name", ["prune", "cut", "plain", "distill", "train", "average", "by its card"]
)
def test_what_needs_token_types_is_made_and_scores_with_them(
    run, commands, untyped, tmp_path, name
):
    expected = folder_logits(untyped, TEXTS, types=True)
    assert np.abs(expected - folder_logits(untyped, TEXTS, types=False)).max() > 1e-2
    out, option = tmp_path / "out", ("--token-types", "yes")
    if name == "by its card":
        card, option, name = {"schema": 1, "token_types": True}, (), "train"
        (untyped / "qt_bert.json").write_text(json.dumps(card), encoding="utf-8")
    ended = run(*commands[name](untyped), *option, "--out", out)
    assert ended.status == 0, ended.err
    made = Scorer(open_checkpoint(out, compact=True)).logits(TEXTS)
    np.testing.assert_allclose(made, expected, atol=2e-5)
    assert json.loads((out / "qt_bert.json").read_text("utf-8"))["token_types"] is True
    assert "token_type_ids" in AutoTokenizer.from_pretrained(out).model_input_names
    if name == "distill":  # what it learned from
        (taught,) = out.with_name("out.training").glob("teacher-*.f32")
        np.testing.assert_allclose(np.fromfile(taught, "f4").reshape(8, 5), expected, atol=2e-5)


def test_models_that_read_in_different_ways_have_no_mean(refused, run, untyped, checkpoint_of):
    both = ("average", untyped, checkpoint_of(), "--out", untyped.with_name("mean"))
    refused("read texts in different ways", *both)
    assert run(*both, "--token-types", "no").status == 0


def test_a_card_that_says_neither_yes_nor_no_is_refused(refused, commands, untyped, tmp_path):
    (untyped / "qt_bert.json").write_text('{"token_types": "yes"}', encoding="utf-8")
    for name in ("plain", "train"):
        words = "`token_types` is 'yes', neither true nor false"
        refused(words, *commands[name](untyped), "--out", tmp_path / "out")
    refused("--token-types 'maybe'", "average", untyped, "--out", "m", "--token-types", "maybe")


@pytest.mark.parametrize("name", ["train", "distill", "average"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_a_folder_has_the_number_type_of_what_it_was_made_from(
    run, commands, fresh_checkpoint, tmp_path, name, dtype
):
    """A number of bfloat16 beyond those of float16 stays what it is."""
    number, folder = getattr(torch, dtype), fresh_checkpoint("bert", biases=0.1)
    opened = open_checkpoint(folder)
    with torch.no_grad():
        opened.model.bert.embeddings.word_embeddings.weight[0, 0] = min(
            70144.0, torch.finfo(number).max
        )
    opened.model.to(number).save_pretrained(folder)
    kept = [KeptLayer(layer=layer, heads=(0, 1)) for layer in range(2)]
    plan_by_hand(open_checkpoint(folder), kept).write(tmp_path / "plan.json")
    ended = run(*commands[name](folder), "--out", tmp_path / "out")
    assert ended.status == 0, ended.err
    before, after = (load_file(f / "model.safetensors") for f in (folder, tmp_path / "out"))
    assert {weight.dtype for weight in after.values()} == {number}
    for weight, value in after.items():
        torch.testing.assert_close(value, before[weight], rtol=0, atol=1e-6)


def test_a_mean_of_several_number_types_has_the_widest(run, fresh_checkpoint, checkpoint_of):
    folder, other = fresh_checkpoint("bert"), checkpoint_of("bert", seed=1)
    open_checkpoint(folder).model.bfloat16().save_pretrained(folder)
    assert run("average", folder, other, "--out", folder.with_name("mean")).status == 0
    assert stored_dtype(folder.with_name("mean")) == torch.float32


def test_a_model_trained_on_a_cut_vocabulary_allows_it(run, commands, fresh_checkpoint):
    folder = fresh_checkpoint("bert")
    (folder / "qt_bert.json").write_text('{"allow_unknown": true}', encoding="utf-8")
    assert run(*commands["train"](folder), "--out", folder.with_name("out")).status == 0
    assert open_checkpoint(folder.with_name("out")).settings.rest == {"allow_unknown": True}
    (folder / "qt_bert.json").unlink()
    opened = open_checkpoint(folder, reading=Reading(allow_unknown=True))
    assert opened.settings.rest == {"allow_unknown": True}  # by the option, too
