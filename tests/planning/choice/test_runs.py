"""Runs of the masked loop for a plan: losses, changes, and folders that resume."""

import json
from unittest.mock import Mock

import numpy as np
import pytest
from scipy.stats import spearmanr

from qt_bert.ablation import sweep as run_sweep
from qt_bert.ablation.engine import batch_tokens, masked_forward, sweep
from qt_bert.ablation.interventions import with_plain
from qt_bert.ablation.masks import blocks
from qt_bert.ablation.sweep import SweepWork
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.planning.runs import (
    Removal,
    changes,
    check_removals,
    logits,
    losses_of,
    parts_of,
)
from qt_bert.scoring.bulk import LeftOut
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.estimate import percentile_interval
from qt_bert.stats.metrics import METRICS as DEFINED
from qt_bert.stats.metrics import bootstrap
from tests.conftest import FIVE, ONE
from tests.planning.choice.conftest import graded


def pair(line: int, query: str, title: str, grades: tuple[int, ...] | None) -> Pair:
    return Pair(query, title, grades, str(line), line, None, {})


def test_losses_of_labels_and_of_one_logit_by_hand():
    pairs = [pair(2, "a", "b", (5,)), pair(3, "a", "c", (1, 2))]
    p = np.array([[0.1, 0.1, 0.2, 0.2, 0.4], [0.2, 0.3, 0.1, 0.1, 0.3]])
    losses = losses_of(np.log([p, p[::-1]]), ["none", "v"], pairs, FIVE)
    assert losses == pytest.approx({"none": (0.6 + 0.5) / 2, "v": (0.7 + 0.8) / 2})
    pairs = [pair(2, "a", "b", (5,)), pair(3, "a", "c", (1,))]
    outputs = np.array([[[1.0], [2.0]], [[1.5], [0.0]]])
    losses = losses_of(outputs, ["none", "v"], pairs, ONE)
    assert losses == pytest.approx({"none": 0, "v": (0.25 + 4) / 2})


def test_pairs_without_labels_are_refused():
    pairs = [pair(2, "a", "b", None)]
    with pytest.raises(ArgumentError, match="chosen by the labels, and the pairs have none"):
        losses_of(np.zeros((1, 1, 5)), ["none"], pairs, FIVE)
    assert losses_of(np.zeros((1, 1, 1)), ["none"], pairs, ONE) == {"none": 0}


# What removals change.


METRICS = ("spearman", "qwk", "accuracy", "macro_f1", "log_loss")
REMOVALS = [
    Removal((Head(0, 1), Head(2, 0))),
    Removal((), (1,)),
    Removal((Head(0, 0), Head(1, 1)), (1,)),
]


@pytest.fixture
def measured(tmp_path):
    def call(scorer, pairs, removals, *, metrics=METRICS, **options):
        return changes(scorer, pairs, removals, tmp_path / "x", metrics=metrics, **options)

    return call


def logits_without(scorer, pairs, removal: Removal) -> np.ndarray:
    parts = parts_of(removal.heads, removal.blocks)
    forward, out = masked_forward(scorer.encoder, *parts), np.empty((len(pairs), 5))
    for batch in scorer.fresh().batches([(row.query, row.title) for row in pairs], 1024):
        out[batch.rows] = forward(batch).numpy()
    return out


def test_changes_by_another_way(scorer_of, measured):
    """The same figures from single passes, the metrics' bootstrap and scipy."""
    scorer, pairs = scorer_of(), graded()
    labels = scorer.checkpoint.settings.labels
    measurements = measured(scorer, pairs, REMOVALS, resamples=200, seed=3)
    base = judge_logits(logits_without(scorer, pairs, Removal()), pairs, labels)
    for removal, measurement in zip(REMOVALS, measurements, strict=True):
        assert tuple(measurement) == METRICS
        judged = judge_logits(logits_without(scorer, pairs, removal), pairs, labels)
        for metric, registered in (("spearman", "spearman"), ("qwk", "qwk"), ("log_loss", "nll")):
            change, of = measurement[metric], [DEFINED[registered]]
            before, after = (np.append(*bootstrap(j, of, 200, 3)) for j in (base, judged))
            difference, *drawn = after - before
            assert change.change == pytest.approx(difference, abs=1e-4)
            assert (change.ci_low, change.ci_high) == pytest.approx(
                percentile_interval(np.array(drawn)), abs=1e-3
            )
            assert change.value - change.base == change.change
        rho = spearmanr(judged.ranking_score, judged.ranking_truth).statistic
        assert measurement["spearman"].value == pytest.approx(rho, abs=1e-4)


def test_what_one_logit_does_not_define_is_left_out(scorer_of, measured):
    metrics = ("spearman", "qwk", "pairwise_accuracy")
    scorer, options = scorer_of(labels=1), {"metrics": metrics, "resamples": 50}
    (changed,) = measured(scorer, graded(), REMOVALS[:1], **options)
    assert list(changed) == ["spearman", "pairwise_accuracy"]
    scores = scorer.logits([(pair.query, pair.title) for pair in graded()])[:, 0]
    grades = [np.mean(pair.grades) for pair in graded()]
    assert changed["spearman"].base == pytest.approx(spearmanr(scores, grades).statistic)


def test_faults_are_named(scorer_of, measured):
    scorer, pairs = scorer_of(), graded()
    with pytest.raises(ArgumentError, match="there is no head L9H0"):
        measured(scorer, pairs, [Removal((Head(9, 0),))])
    with pytest.raises(ArgumentError, match="leaves out every layer"):
        measured(scorer, pairs, [Removal((), (0, 1, 2))])
    with pytest.raises(ArgumentError, match="no pairs"):
        measured(scorer, [], REMOVALS)


def test_checks_of_a_plan(scorer_of):
    scorer = scorer_of()
    checks = check_removals(scorer, graded())
    assert checks["pairs"] == 8 and max(checks["variants"].values()) <= checks["bound"]
    assert any(name.startswith("B") for name in checks["variants"])
    assert check_removals(scorer_of(layers=1), graded())["layers_off"].keys() == {"L0"}


# Folders that resume.


def in_memory(scorer, pairs, variants) -> np.ndarray:
    listed, texts = with_plain(variants), [(pair.query, pair.title) for pair in pairs]
    out = np.empty((len(listed), len(pairs), 5), np.float32)
    batches = scorer.fresh().batches(texts, batch_tokens(len(listed)))
    for swept in sweep(scorer.encoder, batches, listed):
        out[:, swept.rows] = swept.logits
    return out


def test_in_memory_as_in_a_folder(scorer_of, tmp_path):
    scorer, pairs = scorer_of(), graded()
    variants = blocks(scorer.checkpoint.shape)
    memory = in_memory(scorer, pairs, variants)
    stored = logits(scorer, pairs, variants, tmp_path / "x")
    np.testing.assert_array_equal(memory, stored)
    assert memory.shape == (4, 24, 5) and memory.dtype == np.float32
    record = json.loads((tmp_path / "x" / "run.json").read_text(encoding="utf-8"))
    assert record["complete"] and record["guards"] == {} and record["key"]["resamples"] == "None"
    assert (tmp_path / "x" / "effects.csv").read_text().count("\n") == 1


def test_a_killed_sweep_goes_on_behind_its_last_batch(scorer_of, tmp_path, monkeypatch):
    scorer, pairs = scorer_of(), graded(60)
    variants = blocks(scorer.checkpoint.shape)
    store = SweepWork.store

    def once(work, swept):
        store(work, swept)
        raise KeyboardInterrupt

    monkeypatch.setattr(SweepWork, "store", once)
    with pytest.raises(KeyboardInterrupt):
        logits(scorer, pairs, variants, tmp_path / "x")
    monkeypatch.setattr(SweepWork, "store", store)
    sizes, sweep = [], run_sweep.sweep

    def counted(*arguments, **options):
        for swept in sweep(*arguments, **options):
            sizes.append(len(swept.rows))
            yield swept

    monkeypatch.setattr(run_sweep, "sweep", counted)
    shown = Mock()
    resumed = logits(scorer, pairs, variants, tmp_path / "x", shown)
    counted = [call.args[0] for call in shown.advance.call_args_list]
    assert 0 < sum(sizes) < 60 and sum(counted) == 4 * 60
    np.testing.assert_array_equal(resumed, in_memory(scorer, pairs, variants))


def test_a_damaged_folder_is_made_anew(scorer_of, tmp_path):
    scorer, pairs = scorer_of(), graded(6)
    variants = blocks(scorer.checkpoint.shape)
    first = np.array(logits(scorer, pairs, variants, tmp_path / "x"))
    (tmp_path / "x" / "logits.npy").write_bytes(b"no array")
    np.testing.assert_array_equal(logits(scorer, pairs, variants, tmp_path / "x"), first)


def test_a_scorer_that_leaves_heads_out_is_refused(scorer_of, tmp_path):
    left_out = scorer_of().without(LeftOut("L0H0", "zero", lambda batch: batch.input_ids))
    with pytest.raises(ArgumentError, match="takes the whole model"):
        logits(left_out, graded(6), [], tmp_path / "x")
