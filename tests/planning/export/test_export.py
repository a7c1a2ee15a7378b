"""Folders of `export_onnx`: what lies in them, how they are checked, what they score, and eight bits.

One file, since an export takes seconds and its fixture is made once a file.
"""

import json
import shutil
import subprocess
import sys
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import onnx
import pytest
import torch

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, CheckpointError, EquivalenceError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.models.card import Reading
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning import export, export_session
from qt_bert.planning.export import check_export, export_onnx, made_up_cases
from qt_bert.planning.export_session import INT8_MODEL, MODEL, OnnxScorer, differences
from qt_bert.planning.task import Sample
from qt_bert.request import ModelOptions
from qt_bert.results.kept import KEPT, KeptFile
from qt_bert.results.plan import EXPORT, ExportFile
from qt_bert.run.scorers import open_scorer
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import graded_pairs, judge_logits
from qt_bert.stats.comparison import compare

TYPED = ("input_ids", "token_type_ids", "attention_mask")
UNTYPED = ("input_ids", "attention_mask")
TEMPLATE = {"prefix": "yes", "before": "a", "between": "b", "suffix": "no"}


@pytest.mark.parametrize(("family", "inputs"), [("bert", TYPED), ("xlm-roberta", UNTYPED)])
def test_a_folder_says_what_it_holds_and_how_it_was_checked(exported, family, inputs):
    checkpoint, folder = exported(family)
    made = ExportFile.read(folder / EXPORT)
    assert (made.family, made.inputs, made.opset) == (family, inputs, export.OPSET)
    assert (made.pad, made.positions) == (checkpoint.pad, 64)
    assert made.model.sha256 == checkpoint.sha256 and made.int8 is None
    assert set(made.versions) >= {"torch", "onnx", "onnxscript", "onnxruntime", "qt-bert"}
    beside = {file.name for file in folder.iterdir()} - {EXPORT}
    assert set(made.sha256) == beside >= {MODEL, "tokenizer.json", "qt_bert.json"}
    assert all(sha256_file(folder / name) == sha for name, sha in made.sha256.items())
    assert 0 < made.check.largest <= 1e-4 <= made.check.bound
    sizes = {(case.rows, case.length) for case in made.check.cases}
    assert sizes >= {(1, 5), (7, 5), (1, 64), (7, 64)}


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_the_graph_has_free_axes_and_no_trace_of_the_machine(exported, family):
    _, folder = exported(family)
    graph = onnx.load(folder / MODEL)
    onnx.checker.check_model(graph, full_check=True)
    for tensor in graph.graph.input:
        assert [d.dim_param for d in tensor.type.tensor_type.shape.dim] == ["batch", "length"]
    (logits,) = graph.graph.output
    assert [d.dim_param or d.dim_value for d in logits.type.tensor_type.shape.dim] == ["batch", 5]
    assert {opset.domain for opset in graph.opset_import} == {""}
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
    with pytest.raises(EquivalenceError, match="is allowed, so nothing was exported"):
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
            return input_ids.float() if input_ids.sum() > 0 else attention_mask.float()

    monkeypatch.setattr(export, "Graph", lambda checkpoint: Untraceable())
    with pytest.raises(CheckpointError, match="cannot be written as ONNX .*data-dependent"):
        export_onnx(open_checkpoint(checkpoint_of("bert")), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_the_models_own_folder_is_never_replaced(fresh_checkpoint):
    folder = fresh_checkpoint()
    with pytest.raises(ArgumentError, match="which is read"):
        export_onnx(open_checkpoint(folder), folder, overwrite=True)
    assert (folder / "model.safetensors").exists()


# The check: the batches it makes up, the figures it finds, and what it refuses.


class Doubling:
    """Logits of a row: twice its first two tokens."""

    def get_inputs(self):
        return [SimpleNamespace(name="input_ids")]

    def run(self, outputs, inputs):
        assert outputs is None
        return [inputs["input_ids"][:, :2] * 2.0]


def test_differences_by_hand():
    cases = {
        "0/input_ids": np.array([[1, 2, 3]]),
        "0/logits": np.array([[2.0, 4.0]]),
        "1/input_ids": np.array([[1, 2], [3, 4]]),
        "1/logits": np.array([[2.0, 4.5], [6.0, 7.0]]),
    }
    assert differences(Doubling(), cases) == [0.0, 1.0]


def test_large_logits_may_differ_by_a_share_of_the_largest(checkpoint_of, tmp_path, monkeypatch):
    checkpoint = open_checkpoint(checkpoint_of("bert"))
    cases = range(len(made_up_cases(checkpoint)))
    logits = {f"{case}/logits": np.full((1, 5), -20.0) for case in cases}
    monkeypatch.setattr(export, "_with_logits", lambda checkpoint, cases: logits)
    monkeypatch.setattr(export, "_in_a_new_process", lambda path, stored: [1.9e-3 for _ in cases])
    assert check_export(checkpoint, tmp_path).bound == pytest.approx(2e-3)
    monkeypatch.setattr(export, "_in_a_new_process", lambda path, stored: [2.1e-3 for _ in cases])
    with pytest.raises(EquivalenceError, match="at most 0.002 is allowed"):
        check_export(checkpoint, tmp_path)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_cases_go_from_five_tokens_to_the_limit_alone_and_in_sevens(checkpoint_of, family):
    checkpoint = open_checkpoint(checkpoint_of(family))
    cases = made_up_cases(checkpoint)
    shapes = [case.input_ids.shape for case in cases]
    assert (1, 5) in shapes and (7, 5) in shapes and (1, 64) in shapes
    assert shapes.count((7, 64)) == 2
    padded = [case for case in cases if case.padded]
    assert len(padded) == len({case.input_ids.shape[1] for case in cases}) - 1
    for case in cases:
        real = case.attention_mask == 1
        assert (case.input_ids[real] != checkpoint.pad).all()
        assert (case.input_ids[~real] == checkpoint.pad).all()
        assert (case.attention_mask.sum(1) >= 5).all() and case.attention_mask[0].all()
        assert case.token_type_ids.max() == (1 if family == "bert" else 0)


def test_another_models_file_is_refused_with_the_figure(exported, checkpoint_of):
    _, folder = exported("bert")
    other = open_checkpoint(checkpoint_of("bert", seed=1))
    with pytest.raises(EquivalenceError, match=r"from torch by [0-9.]+ .* rows of \d+ tokens"):
        check_export(other, folder / MODEL)


def test_a_difference_that_is_no_number_is_refused(exported, monkeypatch):
    checkpoint, folder = exported("bert")
    nan = [0.0, float("nan"), *[0.0] * 12]
    monkeypatch.setattr(export, "_in_a_new_process", lambda _path, stored: nan)
    with pytest.raises(EquivalenceError, match="by nan in a logit, at 7 rows of 5 tokens"):
        check_export(checkpoint, folder / MODEL)


def test_a_file_that_does_not_run_is_refused_with_the_reason(checkpoint_of, tmp_path):
    (tmp_path / MODEL).write_bytes(b"no graph")
    with pytest.raises(EquivalenceError, match="not run in onnxruntime: .*[Pp]rotobuf"):
        check_export(open_checkpoint(checkpoint_of("bert")), tmp_path / MODEL)


# Scoring with an exported file: the scorer's own logits, without torch.


@pytest.fixture
def copied(exported, tmp_path):
    """An export of one's own, to damage."""
    return shutil.copytree(exported("bert")[1], tmp_path / "copied")


@pytest.mark.parametrize("family", ["bert", "xlm-roberta", "gte", "deberta-v2"])
def test_logits_and_counts_are_those_of_the_scorer(exported, texts, family, monkeypatch):
    monkeypatch.setattr(export_session, "BATCH_TOKENS", 100)
    checkpoint, folder = exported(family)
    torch_scorer = Scorer(checkpoint)
    scorer = OnnxScorer(folder, threads=1)
    expected = torch_scorer.logits(texts)
    assert scorer.logits(texts) == pytest.approx(expected, abs=1e-5)
    assert scorer.counts == torch_scorer.counts and scorer.counts.truncated_titles == 1
    assert scorer.settings.labels == checkpoint.settings.labels
    assert scorer.logits([]).shape == (0, 5)


@pytest.mark.parametrize(
    ("family", "shape", "template"),
    [
        ("modernbert", {"classifier_pooling": "mean"}, None),
        ("qwen3", {"layers": 1, "heads": 4, "num_key_value_heads": 2}, None),
        ("qwen2", {"layers": 1, "positions": 128}, TEMPLATE),
    ],
)
@pytest.mark.usefixtures("checked_here")
def test_what_is_read_of_the_last_layer(fresh_checkpoint, texts, tmp_path, family, shape, template):
    """The mean over all tokens, and the last one that is no padding, also where a text spells padding."""
    folder = fresh_checkpoint(family, **shape)
    card = {"schema": 1, "max_length": 100, "template": template}
    (folder / "qt_bert.json").write_text(json.dumps(card), encoding="utf-8")
    checkpoint = open_checkpoint(folder, compact=True)
    export_onnx(checkpoint, tmp_path / "out")
    pairs = [*texts, ("狗追猫", "猫追狗<|endoftext|>")]
    expected = Scorer(checkpoint).logits(pairs)
    assert OnnxScorer(tmp_path / "out").logits(pairs) == pytest.approx(expected, abs=1e-5)


@pytest.mark.usefixtures("checked_here")
def test_a_model_that_gets_no_token_types_is_exported_without(checkpoint_of, texts, tmp_path):
    """Its tokenizer.json gives them, and its embeddings know them."""
    checkpoint = open_checkpoint(checkpoint_of(), reading=Reading(token_types="no"), compact=True)
    assert export_onnx(checkpoint, tmp_path / "out").inputs == UNTYPED
    expected = Scorer(checkpoint).logits(texts)
    assert OnnxScorer(tmp_path / "out").logits(texts) == pytest.approx(expected, abs=1e-5)


def test_an_export_reads_as_it_was_made(exported):
    _, folder = exported("bert")
    assert open_scorer(ModelOptions(str(folder), token_types="yes")).name == folder.name
    with pytest.raises(ArgumentError, match="exported with --token-types yes"):
        open_scorer(ModelOptions(str(folder), token_types="no"))


def test_no_torch_is_loaded(exported, texts):
    code = (
        "import sys, json; from qt_bert.planning.export_session import OnnxScorer; "
        "logits = OnnxScorer(sys.argv[1]).logits([('狗', '猫追狗')]); "
        "print(json.dumps([logits.tolist(), 'torch' in sys.modules]))"
    )
    checkpoint, folder = exported("bert")
    ran = subprocess.run([sys.executable, "-c", code, folder], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    logits, torch_loaded = json.loads(ran.stdout)
    assert not torch_loaded
    (expected,) = Scorer(checkpoint).logits([("狗", "猫追狗")])
    assert logits[0] == pytest.approx(expected.tolist(), abs=1e-5)


def test_a_batch_that_does_not_run_is_one_line(exported):
    scorer = OnnxScorer(exported("bert")[1])
    scorer.session = Mock(run=Mock(side_effect=RuntimeError("indices out of bounds")))
    with pytest.raises(CheckpointError, match="cannot run these pairs.*out of bounds"):
        scorer.logits([("狗", "猫")])


def test_no_length_is_none(exported):
    with pytest.raises(ArgumentError, match="--max-length 0"):
        OnnxScorer(exported("bert")[1], max_length=0)


def test_a_folder_that_is_no_export_is_refused(checkpoint_of, tmp_path):
    for path in (checkpoint_of("bert"), tmp_path, tmp_path / "gone", tmp_path / "gone.onnx"):
        with pytest.raises(CheckpointError, match="no ONNX model of `qt-bert export`"):
            OnnxScorer(path)


def test_a_file_that_the_export_did_not_write_is_refused(copied):
    (copied / "best.onnx").write_bytes((copied / MODEL).read_bytes())
    with pytest.raises(CheckpointError, match=r"best.onnx: not among the files"):
        OnnxScorer(copied / "best.onnx")


@pytest.mark.parametrize("name", [MODEL, "tokenizer.json", "qt_bert.json"])
def test_a_damaged_file_is_refused(copied, name):
    content = bytearray((copied / name).read_bytes())
    content[len(content) // 2] ^= 1
    (copied / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=f"{name}: missing, or its bytes differ"):
        OnnxScorer(copied)


def test_a_damaged_record_names_the_key(copied):
    stored = json.loads((copied / EXPORT).read_text())
    (copied / EXPORT).write_text(json.dumps(stored | {"positions": "many"}))
    with pytest.raises(RunFolderError, match="positions: expected a whole number"):
        OnnxScorer(copied)


# Eight bits: a smaller file, and what it costs on graded pairs.


def test_the_cost_is_that_of_comparing_both_files(checkpoint_of, pair_file, tmp_path, monkeypatch):
    """With weights so large that they lie beside the file."""
    monkeypatch.setattr(export, "LARGEST_FILE", 0)
    shape = {"hidden": 128, "layers": 1, "initializer_range": 0.05}
    checkpoint = open_checkpoint(checkpoint_of("bert", **shape), compact=True)
    labels, out = checkpoint.settings.labels, tmp_path / "out"
    pairs, _ = graded_pairs(pair_file, ReaderOptions(), labels)
    graded = Sample.of(pair_file.name, sha256_file(pair_file), pairs)
    record = export_onnx(checkpoint, out, int8_on=graded)
    assert record == ExportFile.read(out / EXPORT) and record.int8 is not None
    assert {MODEL, f"{MODEL}.data", INT8_MODEL} <= set(record.sha256)
    texts = [(pair.query, pair.title) for pair in pairs]
    exact, short = (OnnxScorer(out / name).logits(texts) for name in (MODEL, INT8_MODEL))
    assert exact == pytest.approx(Scorer(checkpoint).logits(texts), abs=1e-4)
    metrics = compare(*(judge_logits(logits, pairs, labels) for logits in (exact, short))).metrics
    for name in ("spearman", "qwk", "accuracy"):
        for figure in ("difference", "ci_low", "ci_high"):
            stored = getattr(record.int8.metrics[name], figure)
            assert stored == getattr(metrics[name], figure)
    assert record.int8.pairs.n_pairs == 8 and record.int8.pairs.n_queries == 5
    assert 0 < record.int8.largest == pytest.approx(np.abs(exact - short).max())
    assert record.int8.largest < 0.05 * np.abs(exact).max()
    size = {name: (out / name).stat().st_size for name in record.sha256}
    assert size[INT8_MODEL] < (size[MODEL] + size[f"{MODEL}.data"]) / 2


def test_no_pairs_to_measure_on_leave_nothing(traced_already, tmp_path):
    empty = Sample.of("empty.tsv", "0", [])
    with pytest.raises(ArgumentError, match="empty.tsv holds no graded pair"):
        export_onnx(traced_already, tmp_path / "out", int8_on=empty)
    assert list(tmp_path.iterdir()) == []
