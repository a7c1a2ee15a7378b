"""Eight bits: a smaller file, and what it costs on graded pairs."""

import numpy as np
import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.planning import export
from qt_bert.planning.export import export_onnx
from qt_bert.planning.export_session import INT8_MODEL, MODEL, GradedPairs, OnnxScorer
from qt_bert.results.plan import ExportFile
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import graded_pairs, judge_logits
from qt_bert.stats.comparison import compare


@pytest.fixture
def graded(pair_file):
    """The eight pairs with their grades."""

    def read(checkpoint):
        pairs, _ = graded_pairs(pair_file, ReaderOptions(), checkpoint.settings.labels)
        return GradedPairs(PairsRef(name=pair_file.name, sha256=sha256_file(pair_file)), pairs)

    return read


def test_the_cost_is_that_of_comparing_both_files(checkpoint_of, graded, tmp_path, monkeypatch):
    """With weights so large that they lie beside the file."""
    monkeypatch.setattr(export, "LARGEST_FILE", 0)
    checkpoint = open_checkpoint(checkpoint_of("bert", hidden=128, layers=1), compact=True)
    judged = graded(checkpoint)
    made = export_onnx(checkpoint, tmp_path / "out", int8_on=judged)
    assert made == ExportFile.read(tmp_path / "out") and made.int8 is not None
    assert {MODEL, f"{MODEL}.data", INT8_MODEL} <= set(made.sha256)
    texts = [(pair.query, pair.title) for pair in judged.pairs]
    exact, short = (
        OnnxScorer(tmp_path / "out" / name).logits(texts) for name in (MODEL, INT8_MODEL)
    )
    assert exact == pytest.approx(Scorer(checkpoint).logits(texts), abs=1e-4)
    labels = checkpoint.settings.labels
    found = compare(*(judge_logits(one, judged.pairs, labels) for one in (exact, short))).metrics
    for name in ("spearman", "qwk", "accuracy"):
        stored = made.int8.metrics[name]
        assert (stored.difference, stored.ci_low, stored.ci_high) == (
            found[name].difference,
            found[name].ci_low,
            found[name].ci_high,
        )
    assert made.int8.pairs.n_pairs == 8 and made.int8.pairs.n_queries == 5
    assert 0 < made.int8.largest == pytest.approx(np.abs(exact - short).max())
    assert made.int8.largest < 0.5 * np.abs(exact).max()
    size = {name: (tmp_path / "out" / name).stat().st_size for name in made.sha256}
    assert size[INT8_MODEL] < (size[MODEL] + size[f"{MODEL}.data"]) / 2


def test_no_pairs_to_measure_on_leave_nothing(traced_already, tmp_path):
    empty = GradedPairs(PairsRef(name="empty.tsv", sha256="0"), [])
    with pytest.raises(ArgumentError, match="empty.tsv holds no graded pair"):
        export_onnx(traced_already, tmp_path / "out", int8_on=empty)
    assert list(tmp_path.iterdir()) == []
