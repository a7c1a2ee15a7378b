"""Any classifier of transformers, as it is: heads left out by a hook, one line for the rest."""

import sys
from copy import deepcopy

import numpy as np
import pytest
import torch

from qt_bert.ablation.request import leave_heads_out
from qt_bert.cli import main
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError
from qt_bert.heads import Head
from qt_bert.models.batches import batches_of
from qt_bert.models.families import plain_family
from qt_bert.models.forward import Layer
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.plain import PlainEncoder
from qt_bert.scoring.bulk import Scorer
from tests.conftest import write_pairs
from tests.models.other_types import TYPES, other_checkpoint
from tests.models.reference import logits_alone

TEXTS = [("北京高铁", "上海高铁票价"), ("狗", "猫"), ("苹果多少钱一斤", "苹果手机")]


def theirs(checkpoint, ablated: tuple[int, ...] = ()) -> np.ndarray:
    """transformers' logits, the columns of W_O of these heads of layer 0 zeroed."""
    model = deepcopy(checkpoint.model)
    weight = PlainEncoder(model, checkpoint.family, types=True)._outputs()[0].weight.data
    width = weight.shape[1] // checkpoint.heads
    for head in ablated:
        weight[:, head * width : (head + 1) * width] = 0
    return logits_alone(checkpoint, TEXTS, model=model)


@pytest.mark.parametrize("model_type", sorted(TYPES))
def test_every_type_scores_and_leaves_heads_out(tmp_path, pair_file, model_type, capsys):
    checkpoint = open_checkpoint(other_checkpoint(tmp_path / "model", model_type))
    scorer, reference = Scorer(checkpoint), list(ReaderOptions().open(pair_file))
    np.testing.assert_allclose(scorer.logits(TEXTS), theirs(checkpoint), atol=2e-5)
    without = leave_heads_out(scorer, "L0H0 L0H1", "zero", reference).logits(TEXTS)
    if model_type != "albert":  # whose layers share their weights
        np.testing.assert_allclose(without, theirs(checkpoint, (0, 1)), atol=2e-5)
    assert np.abs(without - scorer.logits(TEXTS)).max() > 1e-3
    np.testing.assert_allclose(scorer.logits(TEXTS), theirs(checkpoint), atol=2e-5)
    if not checkpoint.family.fast:
        assert f"does not know {model_type}" in capsys.readouterr().err
        with pytest.raises(CheckpointError, match="need the fast engine, which runs bert, "):
            scorer.encoder.layers  # noqa: B018
        with pytest.raises(ArgumentError, match="has zero alone"):
            leave_heads_out(scorer, "L0H0", "mean", reference)


def test_layers_that_share_a_matrix_are_told_apart(tmp_path):
    checkpoint = open_checkpoint(other_checkpoint(tmp_path / "model", "albert"))
    encoder = checkpoint.encoder()
    (batch,) = batches_of(checkpoint.pair_tokenizer().encode(TEXTS), 1000, pad=checkpoint.pad)
    with torch.inference_mode():
        first, second, both = (
            encoder.without([Head(layer, head) for layer in layers for head in (0, 1)])(batch)
            for layers in ((0,), (1,), (0, 1))
        )
    assert (first - second).abs().max() > 1e-3 and (first - both).abs().max() > 1e-3


def test_a_deberta_with_a_convolution_runs_as_transformers_runs_it(fresh_checkpoint, capsys):
    folder = fresh_checkpoint("deberta-v2", conv_kernel_size=3, conv_act="gelu")
    checkpoint = open_checkpoint(folder)
    assert not checkpoint.family.fast
    assert "a convolution beside its first layer" in capsys.readouterr().err
    np.testing.assert_allclose(Scorer(checkpoint).logits(TEXTS), theirs(checkpoint), atol=2e-5)


def test_what_the_fast_engine_computes_otherwise_runs_as_transformers_runs_it(
    fresh_checkpoint, monkeypatch, capsys
):
    folder = fresh_checkpoint("gte")
    attend = Layer.attend
    monkeypatch.setattr(Layer, "attend", lambda self, q, *more: attend(self, q * 1.5, *more))
    checkpoint = open_checkpoint(folder)
    assert checkpoint.family == plain_family("gte") or not checkpoint.family.fast
    assert "its logits of pairs alone differ from transformers' by" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        ("sweep", "--masks", "sublayers"),
        ("probe", "matching"),
        ("report", "--only", "matching"),
        ("plan", "--budget", "layers=1"),
        ("export", "--onnx"),
        ("train", "--epochs", "1", "--max-length", "48"),
    ],
)
def test_what_needs_the_fast_engine_says_so_in_a_line(tmp_path, command, monkeypatch, capsys):
    rows = [(f"高铁{n}", f"{title}{n}", 1 + n % 2) for n in range(24) for title in ("上海", "高铁")]
    pairs = write_pairs(tmp_path / "pairs.tsv", rows)
    model = other_checkpoint(tmp_path / "model", "mpnet", labels=5)
    name = command[0]
    more = ["--base" if name == "train" else "--model", str(model), "--out", str(tmp_path / "out")]
    more += [] if name == "export" else ["--pairs", str(pairs)]
    monkeypatch.setattr(sys, "argv", ["qt-bert", *command, *more])
    with pytest.raises(SystemExit) as ended:
        main()
    err = capsys.readouterr().err
    assert ended.value.code == 2 and "need the fast engine" in err and "Traceback" not in err
    assert not (tmp_path / "out.training").exists()


def test_a_hook_that_is_ignored_is_caught(tmp_path, pair_file, monkeypatch):
    scorer = Scorer(open_checkpoint(other_checkpoint(tmp_path / "model", "albert")))
    monkeypatch.setattr(PlainEncoder, "without", lambda self, heads: self.logits_of)
    with pytest.raises(EquivalenceError, match="heads of L0 moves no logit"):
        leave_heads_out(scorer, "L0H0", "zero", list(ReaderOptions().open(pair_file)))
