"""A folder of an architecture: saved, opened, refused; and what has no heads says so."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from qt_bert.encoder import open_checkpoint, save_checkpoint
from qt_bert.encoder.architectures import ARCHITECTURES, TITLES, architecture_named
from qt_bert.encoder.tuning import open_for_tuning
from qt_bert.encoder.verify import verify_folder
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.scoring.bulk import Scorer

PAIRS = [("狗追猫", "京东小哥最近在干嘛"), ("苹果", "苹果手机多少钱")]


def edit_config(folder, **values):
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))
    (folder / "manifest.json").unlink(missing_ok=True)


def edit_weights(folder, change):
    weights = load_file(folder / "model.safetensors")
    change(weights)
    save_file(weights, folder / "model.safetensors")
    (folder / "manifest.json").unlink(missing_ok=True)


@pytest.mark.parametrize("name", sorted(ARCHITECTURES))
@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_saved_and_opened_it_gives_the_same_logits(stored, tmp_path, name, family):
    opened = open_checkpoint(stored(name, family))
    again = save_checkpoint(
        tmp_path / "again",
        opened.model,
        opened.tokenizer,
        settings=opened.settings,
        dtype=torch.float32,
    )
    reopened = open_checkpoint(again)
    np.testing.assert_array_equal(Scorer(opened).logits(PAIRS), Scorer(reopened).logits(PAIRS))
    assert reopened.settings.labels.exact and reopened.settings.max_length == 48
    assert (reopened.longest, reopened.pad) == (64, opened.tokenizer.pad_token_id)
    described = reopened.describe()
    assert described["family"] == f"qt_bert-{name}" and "heads" not in described
    assert described["parameters"] == sum(p.numel() for p in reopened.model.parameters())


def test_half_precision_is_near(stored):
    folder = stored("bert+lstm")
    exact, half = (open_checkpoint(folder, dtype=dtype) for dtype in ("float32", "bfloat16"))
    np.testing.assert_allclose(
        Scorer(half).logits(PAIRS), Scorer(exact).logits(PAIRS), rtol=0, atol=0.05
    )


def test_any_number_of_labels(stored):
    assert Scorer(open_checkpoint(stored("two-tower", labels=1))).logits(PAIRS).shape == (2, 1)


def test_what_needs_heads_says_so_in_one_error(stored):
    folder = stored("two-tower")
    checkpoint = open_checkpoint(folder)
    assert not checkpoint.has_heads
    said = r"two-tower-bert: this architecture \(two-tower\) has no attention heads .*evaluate"
    asked = (
        lambda: checkpoint.family,
        lambda: checkpoint.shape,
        lambda: checkpoint.layers,
        lambda: checkpoint.heads,
        lambda: Scorer(checkpoint).encoder,
        lambda: verify_folder(folder),
        lambda: open_for_tuning(folder, 5),
    )
    for one in asked:
        with pytest.raises(CheckpointError, match=said):
            one()


def test_a_cross_encoder_has_heads(checkpoint_of):
    assert open_checkpoint(checkpoint_of()).has_heads


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"vocab_size": "many"}, "`vocab_size` is 'many'"),
        ({"num_labels": 0}, "`num_labels` is 0"),
        ({"num_labels": 3}, "speaks of 3 labels, the classifier has 5 rows"),
        ({"pad_token_id": None}, "`pad_token_id` is None"),
        ({"encoder": ["bert"]}, "not the config of an encoder"),
        ({"encoder": None}, "`encoder` is missing"),
        ({"encoder": {"model_type": "gpt2"}}, "not an encoder this toolkit knows"),
        ({"matcher_size": 8}, "do not fit"),
        ({"vocab_size": 50}, "do not fit"),
    ],
)
def test_a_config_that_cannot_be_is_refused(stored, values, said):
    folder = stored("bert+lstm")
    edit_config(folder, **values)
    with pytest.raises(CheckpointError, match=said):
        open_checkpoint(folder)


@pytest.mark.parametrize("name", ["matcher.joined.bias", "bert.embeddings.word_embeddings.weight"])
def test_a_missing_weight_is_refused(stored, name):
    folder = stored("bert+lstm")
    edit_weights(folder, lambda weights: weights.pop(name))
    with pytest.raises(CheckpointError, match=f"(?s)do not fit.*Missing.*{name}"):
        open_checkpoint(folder)


def test_a_base_without_weights_is_enough_for_the_lstm_alone(checkpoint_of, stored):
    weights = load_file(stored("lstm-attention") / "model.safetensors")
    assert {name.split(".")[0] for name in weights} == {"matcher", "classifier"}


def test_names():
    assert list(TITLES) == ["cross-encoder", *ARCHITECTURES]
    assert architecture_named("cross-encoder") is None
    with pytest.raises(ArgumentError, match="choose from cross-encoder, lstm-attention, two-tower"):
        architecture_named("siamese")
