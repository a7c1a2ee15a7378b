from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation import sweep as run_sweep
from qt_bert.ablation.masks import blocks
from qt_bert.ablation.sweep import SweepWork
from qt_bert.errors import ArgumentError
from qt_bert.planning.runs import logits
from qt_bert.scoring.bulk import LeftOut
from tests.planning.choice.conftest import graded
from tests.planning.choice.test_heads import Counted


def test_in_memory_as_in_a_folder(scorer_of, tmp_path: Path) -> None:
    scorer, pairs = scorer_of(), graded()
    variants = blocks(scorer.checkpoint.shape)
    memory = logits(scorer, pairs, variants, work=None, name="x")
    stored = logits(scorer, pairs, variants, work=tmp_path, name="x")
    np.testing.assert_array_equal(memory, stored)
    assert memory.shape == (4, 24, 5) and memory.dtype == np.float32
    record = json.loads((tmp_path / "x" / "run.json").read_text(encoding="utf-8"))
    assert record["complete"] and record["guards"] == {} and record["key"]["resamples"] == "None"
    assert (tmp_path / "x" / "effects.csv").read_text().count("\n") == 1


def test_a_killed_sweep_goes_on_behind_its_last_batch(
    scorer_of, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer, pairs = scorer_of(), graded(60)
    variants = blocks(scorer.checkpoint.shape)
    store = SweepWork.store

    def once(work, swept):
        store(work, swept)
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepWork, "store", once)
    with pytest.raises(KeyboardInterrupt):
        logits(scorer, pairs, variants, work=tmp_path, name="x")
    monkeypatch.setattr(SweepWork, "store", store)
    sizes, sweep = [], run_sweep.sweep

    def counted(*arguments, **options):
        for swept in sweep(*arguments, **options):
            sizes.append(len(swept.rows))
            yield swept

    monkeypatch.setattr(run_sweep, "sweep", counted)
    shown = Counted()
    found = logits(scorer, pairs, variants, work=tmp_path, name="x", shown=shown)
    assert 0 < sum(sizes) < 60 and shown.done == 4 * 60
    np.testing.assert_array_equal(found, logits(scorer, pairs, variants, work=None, name="x"))


def test_a_damaged_folder_is_made_anew(scorer_of, tmp_path: Path) -> None:
    scorer, pairs = scorer_of(), graded(6)
    variants = blocks(scorer.checkpoint.shape)
    first = np.array(logits(scorer, pairs, variants, work=tmp_path, name="x"))
    (tmp_path / "x" / "logits.npy").write_bytes(b"no array")
    np.testing.assert_array_equal(logits(scorer, pairs, variants, work=tmp_path, name="x"), first)


def test_a_scorer_that_leaves_heads_out_is_refused(scorer_of) -> None:
    left_out = scorer_of().without(LeftOut("L0H0", "zero", lambda batch: batch.input_ids))
    with pytest.raises(ArgumentError, match="takes the whole model"):
        logits(left_out, graded(6), [], work=None, name="x")


def test_the_plain_model_alone_needs_no_folder(scorer_of, tmp_path: Path) -> None:
    found = logits(scorer_of(), graded(6), [], work=tmp_path, name="x")
    assert found.shape == (1, 6, 5) and not list(tmp_path.iterdir())
