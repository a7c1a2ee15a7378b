"""`score` with title states: what it writes, records, and goes on with."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import RunFolderError
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.score import score_file
from qt_bert.scoring.title_states import StateCounts, states_of
from tests.conftest import PAIRS

TITLES = [title for _, title, _ in PAIRS]


@pytest.fixture
def scorer(offline_scorer) -> Scorer:
    return offline_scorer()


def columns(path: Path) -> np.ndarray:
    rows = [line.split("\t")[4:9] for line in path.read_text(encoding="utf-8").splitlines()[1:]]
    return np.array(rows, float)


def test_the_same_grades_and_a_record(scorer, pair_file, tmp_path):
    reading = scorer.reading(states_of(scorer, TITLES[:5]))
    for one, name in ((scorer, "whole.tsv"), (reading, "read.tsv")):
        report = score_file(pair_file, ReaderOptions(), one, tmp_path / name)
    np.testing.assert_allclose(
        *map(columns, (tmp_path / "whole.tsv", tmp_path / "read.tsv")), atol=1e-5
    )
    assert report.states == StateCounts(5, 0, 3)
    told = json.loads((tmp_path / "read.tsv.run.json").read_text(encoding="utf-8"))
    assert told["title_states"] == {"read": 5, "long_queries": 0, "unknown_titles": 3}
    assert told["model"]["title_states"]["dtype"] == "float32"
    assert not (tmp_path / "whole.tsv.run.json").exists()


def test_a_resumed_run_counts_all_and_wants_the_same_states(
    scorer, pair_file, tmp_path, monkeypatch
):
    out = tmp_path / "o.tsv"
    states = states_of(scorer, TITLES[:5])

    def run(one, **options):
        return score_file(pair_file, ReaderOptions(), one, out, window=3, **options).states

    run(scorer.reading(states))
    whole = out.read_bytes()
    out.unlink()
    logits, calls = Scorer.logits, []

    def interrupted_second(*given):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return logits(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Scorer, "logits", interrupted_second)
        with pytest.raises(KeyboardInterrupt):
            run(scorer.reading(states))
    for other in (scorer, scorer.reading(states_of(scorer, TITLES, "int8"))):
        with pytest.raises(RunFolderError, match="another model, file or option"):
            run(other, resume=True)
    assert run(scorer.reading(states), resume=True) == StateCounts(5, 0, 3)
    assert out.read_bytes() == whole
