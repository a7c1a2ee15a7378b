"""Any classifier of transformers, as it is: sixteen types, heads left out by a hook, one line for the rest."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qt_bert.ablation.request import leave_heads_out
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError
from qt_bert.models.families import plain_family
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.plain import PlainEncoder
from qt_bert.scoring.bulk import Scorer
from tests.models.other_types import TYPES, other_checkpoint

TEXTS = [("北京高铁", "上海高铁票价"), ("狗", "猫"), ("苹果多少钱一斤", "苹果手机")]


def theirs(checkpoint, gone: dict[int, list[int]] | None = None) -> np.ndarray:
    """The model's logits pair by pair, without padding, columns of W_O zeroed where heads are `gone`."""
    batch = [checkpoint.pair_tokenizer().encode([pair])[0] for pair in TEXTS]
    types = "token_type_ids" in checkpoint.tokenizer.model_input_names
    encoder = PlainEncoder(checkpoint.model, checkpoint.family, types=types)
    kept = []
    for layer, heads in (gone or {}).items():
        weight = encoder._outputs()[layer].weight
        kept.append((weight, weight.detach().clone()))
        width = weight.shape[1] // checkpoint.heads
        with torch.no_grad():
            for head in heads:
                weight[:, head * width : (head + 1) * width] = 0
    found = []
    with torch.inference_mode():
        for one in batch:
            ids = torch.tensor([one.input_ids])
            types = {"token_type_ids": torch.tensor([one.token_type_ids])}
            found.append(checkpoint.model(ids, **(types if encoder._types else {})).logits[0])
    with torch.no_grad():
        for weight, values in kept:
            weight.copy_(values)
    return np.stack(found)


@pytest.mark.parametrize("model_type", sorted(TYPES))
def test_sixteen_types_score_and_leave_heads_out(tmp_path, pair_file, model_type, capsys):
    checkpoint = open_checkpoint(other_checkpoint(tmp_path / "model", model_type))
    scorer, reference = Scorer(checkpoint), list(ReaderOptions().open(pair_file))
    np.testing.assert_allclose(scorer.logits(TEXTS), theirs(checkpoint), atol=2e-5)
    without = leave_heads_out(scorer, "L0H0 L0H1", "zero", reference).logits(TEXTS)
    if model_type != "albert":  # whose layers share their weights
        np.testing.assert_allclose(without, theirs(checkpoint, {0: [0, 1]}), atol=2e-5)
    assert np.abs(without - scorer.logits(TEXTS)).max() > 1e-3
    np.testing.assert_allclose(scorer.logits(TEXTS), theirs(checkpoint), atol=2e-5)
    if not checkpoint.family.fast:
        assert f"does not know {model_type}" in capsys.readouterr().err
        with pytest.raises(CheckpointError, match="need the fast engine, which runs bert, deberta"):
            scorer.encoder.layers  # noqa: B018
        with pytest.raises(ArgumentError, match="has zero alone"):
            leave_heads_out(scorer, "L0H0", "mean", reference)


def test_layers_that_share_a_matrix_are_told_apart(tmp_path):
    checkpoint = open_checkpoint(other_checkpoint(tmp_path / "model", "albert"))
    encoder = checkpoint.encoder()
    from qt_bert.heads import Head
    from qt_bert.models.batches import batches_of

    (batch,) = batches_of(checkpoint.pair_tokenizer().encode(TEXTS), 1000, pad=checkpoint.pad)
    with torch.inference_mode():
        first, second, both = (
            encoder.without([Head(layer, head) for layer in layers for head in (0, 1)])(batch)
            for layers in ((0,), (1,), (0, 1))
        )
    assert (first - second).abs().max() > 1e-3 and (first - both).abs().max() > 1e-3


def test_a_deberta_with_a_convolution_runs_as_transformers_runs_it(fresh_checkpoint, capsys):
    checkpoint = open_checkpoint(
        fresh_checkpoint("deberta-v2", conv_kernel_size=3, conv_act="gelu")
    )
    assert not checkpoint.family.fast
    assert "a convolution beside its first layer" in capsys.readouterr().err
    np.testing.assert_allclose(Scorer(checkpoint).logits(TEXTS), theirs(checkpoint), atol=2e-5)


def test_what_the_fast_engine_computes_otherwise_runs_as_transformers_runs_it(
    fresh_checkpoint, monkeypatch, capsys
):
    from qt_bert.models.forward import Layer

    folder = fresh_checkpoint("gte")
    attend = Layer.attend
    monkeypatch.setattr(Layer, "attend", lambda self, q, *more: attend(self, q * 1.5, *more))
    checkpoint = open_checkpoint(folder)
    assert checkpoint.family == plain_family("gte") or not checkpoint.family.fast
    assert "its logits of pairs alone differ from transformers' by" in capsys.readouterr().err


def test_a_type_without_a_classifier_in_transformers(fresh_checkpoint):
    import json

    folder = fresh_checkpoint()
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"model_type": "clip"}))
    with pytest.raises(CheckpointError, match="no sequence classifier of model_type 'clip'"):
        open_checkpoint(folder)


@pytest.mark.parametrize(
    "command",
    [
        ("sweep", "--masks", "single"),
        ("probe", "matching"),
        ("report", "--only", "matching"),
        ("plan", "--budget", "layers=1"),
        ("export", "--onnx"),
        ("train", "--epochs", "1", "--max-length", "48"),
    ],
)
def test_what_needs_the_fast_engine_says_so_in_a_line(tmp_path, command, monkeypatch, capsys):
    import sys

    from qt_bert.cli import main

    pairs = tmp_path / "pairs.tsv"
    rows = "".join(
        f"高铁{n}\t上海{n}\t{1 + n % 2}\n高铁{n}\t高铁{n}\t{1 + n % 2}\n" for n in range(24)
    )
    pairs.write_text("query\ttitle\tgrade\n" + rows, encoding="utf-8")
    model = other_checkpoint(tmp_path / "model", "mpnet", labels=5)
    name, *more = command
    given = ["--base" if name == "train" else "--model", str(model), "--out", str(tmp_path / "out")]
    given += [] if name == "export" else ["--pairs", str(pairs)]
    monkeypatch.setattr(sys, "argv", ["qt-bert", name, *more, *given])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert ended.value.code == 2 and "need the fast engine" in said and "Traceback" not in said
    assert not (tmp_path / "out.training").exists()


def test_a_hook_that_is_ignored_is_caught(tmp_path, pair_file, monkeypatch):
    scorer = Scorer(open_checkpoint(other_checkpoint(tmp_path / "model", "albert")))
    monkeypatch.setattr(PlainEncoder, "without", lambda self, heads: self.logits_of)
    with pytest.raises(EquivalenceError, match="heads of L0 moves no logit"):
        leave_heads_out(scorer, "L0H0", "zero", list(ReaderOptions().open(pair_file)))
