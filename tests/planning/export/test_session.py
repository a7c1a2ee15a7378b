"""Scoring with an exported file: the scorer's own logits, without torch."""

import json
import shutil
import subprocess
import sys

import pytest

from qt_bert.errors import CheckpointError, RunFolderError
from qt_bert.planning import export_session
from qt_bert.planning.export_session import MODEL, OnnxScorer
from qt_bert.results.plan import EXPORT
from qt_bert.scoring.bulk import Scorer


@pytest.fixture
def copied(exported, tmp_path):
    """An export of one's own, to damage."""
    return shutil.copytree(exported("bert")[1], tmp_path / "copied")


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
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


def test_a_folder_that_is_no_export_is_refused(checkpoint_of, tmp_path):
    for path in (checkpoint_of("bert"), tmp_path, tmp_path / "gone", tmp_path / "gone.onnx"):
        with pytest.raises(CheckpointError, match="no ONNX model of `qt-bert export`"):
            OnnxScorer(path)


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
