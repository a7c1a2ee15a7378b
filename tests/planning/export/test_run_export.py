"""Folders of `export_onnx`: what lies in them, and that nothing is left where it fails."""

import onnx
import pytest
import torch

from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError
from qt_bert.files import sha256_file
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.planning import export
from qt_bert.planning.export import export_onnx
from qt_bert.planning.export_session import MODEL, OnnxScorer
from qt_bert.results.kept import KEPT, KeptFile
from qt_bert.results.plan import EXPORT, ExportFile
from qt_bert.scoring.bulk import Scorer

TYPED = ("input_ids", "token_type_ids", "attention_mask")
UNTYPED = ("input_ids", "attention_mask")


@pytest.mark.parametrize(("family", "inputs"), [("bert", TYPED), ("xlm-roberta", UNTYPED)])
def test_a_folder_says_what_it_holds_and_how_it_was_checked(exported, family, inputs):
    checkpoint, folder = exported(family)
    made = ExportFile.read(folder)
    assert (made.family, made.inputs, made.opset) == (family, inputs, export.OPSET)
    assert (made.pad, made.positions) == (checkpoint.pad, 64)
    assert made.model.sha256 == checkpoint.sha256 and made.int8 is None
    assert set(made.versions) >= {"torch", "onnx", "onnxscript", "onnxruntime", "qt-bert"}
    beside = {file.name for file in folder.iterdir()} - {EXPORT}
    assert set(made.sha256) == beside >= {MODEL, "tokenizer.json", "qt_bert.json"}
    assert all(sha256_file(folder / name) == sha for name, sha in made.sha256.items())
    assert 0 < made.check.largest <= made.check.bound == 1e-4
    sizes = {(case.rows, case.length) for case in made.check.cases}
    assert sizes >= {(1, 5), (7, 5), (1, 64), (7, 64)}


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_the_graph_has_free_axes_and_no_trace_of_the_machine(exported, family):
    _, folder = exported(family)
    graph = onnx.load(folder / MODEL)
    onnx.checker.check_model(graph, full_check=True)
    for one in graph.graph.input:
        assert [d.dim_param for d in one.type.tensor_type.shape.dim] == ["batch", "length"]
    (logits,) = graph.graph.output
    assert [d.dim_param or d.dim_value for d in logits.type.tensor_type.shape.dim] == ["batch", 5]
    assert {one.domain for one in graph.opset_import} == {""}
    content = (folder / MODEL).read_bytes()
    assert b".py" not in content and b"qt_bert/" not in content


def test_a_shape_that_transformers_cannot_hold_is_exported(mixed, texts, tmp_path):
    out = tmp_path / "out"
    made = export_onnx(mixed, out)
    assert made.check.largest <= 1e-4
    assert KeptFile.read(out) == mixed.kept and KEPT in made.sha256
    expected = Scorer(mixed).logits(texts)
    assert OnnxScorer(out).logits(texts) == pytest.approx(expected, abs=1e-4)


def test_a_failed_check_leaves_nothing(traced_already, tmp_path, monkeypatch):
    monkeypatch.setattr(export, "BOUND", 1e-12)
    with pytest.raises(EquivalenceError, match="at most 1e-12 is allowed, so nothing was exported"):
        export_onnx(traced_already, tmp_path / "exports" / "out")
    assert list((tmp_path / "exports").iterdir()) == []


def test_an_old_folder_is_replaced_whole(traced_already, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "note").write_text("old")
    export_onnx(traced_already, out, overwrite=True)
    assert [file.name for file in tmp_path.iterdir()] == ["out"]
    assert (out / MODEL).exists() and not (out / "note").exists()


def test_a_model_that_torch_cannot_trace_is_refused(checkpoint_of, tmp_path, monkeypatch):
    class Untraceable(torch.nn.Module):
        def forward(self, input_ids, attention_mask, token_type_ids):
            if input_ids.sum() > 0:
                return input_ids.float()
            return attention_mask.float()

    monkeypatch.setattr(export, "Graph", lambda checkpoint: Untraceable())
    with pytest.raises(CheckpointError, match="cannot be written as ONNX .*data-dependent"):
        export_onnx(open_checkpoint(checkpoint_of("bert")), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_models_own_folder_is_never_replaced(fresh_checkpoint):
    folder = fresh_checkpoint()
    with pytest.raises(ArgumentError, match="which is read"):
        export_onnx(open_checkpoint(folder), folder, overwrite=True)
    assert (folder / "model.safetensors").exists()
