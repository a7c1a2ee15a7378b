from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from qt_bert.ablation.engine import masked_forward
from qt_bert.errors import ArgumentError
from qt_bert.models.heads import Head
from qt_bert.planning.runs import Removal, changes, check_removals, parts_of
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.comparison import compare
from tests.planning.choice.conftest import graded, zero

REMOVALS = [
    Removal((Head(0, 1), Head(2, 0))),
    Removal(),
    Removal((), (1,)),
    Removal((Head(0, 0), Head(1, 1)), (1,)),
]


def logits_without(scorer, pairs, removal: Removal) -> np.ndarray:
    parts = parts_of(removal.heads, removal.blocks, zero)
    forward, out = masked_forward(scorer.encoder, *parts), np.empty((len(pairs), 5))
    for batch in scorer.fresh().batches([(one.query, one.title) for one in pairs], 1024):
        out[batch.rows] = forward(batch).numpy()
    return out


def test_changes_by_another_way(scorer_of) -> None:
    """The same figures from single passes, `compare` and scipy."""
    scorer, pairs = scorer_of(), graded()
    labels = scorer.checkpoint.settings.labels
    found = changes(scorer, pairs, REMOVALS, mask=zero, resamples=200, seed=3)
    base = judge_logits(logits_without(scorer, pairs, Removal()), pairs, labels)
    for removal, got in zip(REMOVALS, found, strict=True):
        assert list(got) == ["spearman", "qwk", "accuracy", "macro_f1", "log_loss"]
        judged = judge_logits(logits_without(scorer, pairs, removal), pairs, labels)
        want = compare(base, judged, resamples=200, seed=3, draws=0).metrics
        for metric, registered in (("spearman", "spearman"), ("qwk", "qwk"), ("log_loss", "nll")):
            assert got[metric].absolute == pytest.approx(want[registered].difference, abs=1e-4)
            assert got[metric].ci_low == pytest.approx(want[registered].ci_low, abs=1e-3)
            assert got[metric].ci_high == pytest.approx(want[registered].ci_high, abs=1e-3)
            assert got[metric].value - got[metric].base == got[metric].absolute
            assert got[metric].samples.shape == (200,)
        rho = spearmanr(judged.ranking_score, judged.ranking_truth).statistic
        assert got["spearman"].value == pytest.approx(rho, abs=1e-4)


def test_nothing_removed_changes_nothing(scorer_of) -> None:
    (found,) = changes(scorer_of(), graded(), [Removal()], mask=zero, resamples=20)
    assert all(one.absolute == 0 and not one.samples.any() for one in found.values())


def test_heads_of_layers_that_are_gone_need_no_mask(scorer_of) -> None:
    both, alone = changes(
        scorer_of(),
        graded(),
        [Removal((Head(1, 0),), (1,)), Removal((), (1,))],
        mask=zero,
        resamples=0,
    )
    assert both["log_loss"].value == alone["log_loss"].value
    assert both["log_loss"].ci_low is None


def test_one_logit_is_judged_by_order(scorer_of) -> None:
    (found,) = changes(scorer_of(labels=1), graded(), REMOVALS[:1], mask=zero, resamples=50)
    assert list(found) == ["spearman", "pairwise_accuracy", "ndcg_at_3"]
    assert found["spearman"].base == pytest.approx(1) and found["spearman"].absolute < 0


def test_kept_in_a_folder(scorer_of, tmp_path: Path) -> None:
    scorer, pairs = scorer_of(), graded()
    for _ in range(2):
        kept = changes(scorer, pairs, REMOVALS, mask=zero, resamples=20, work=tmp_path, name="test")
        fresh = changes(scorer, pairs, REMOVALS, mask=zero, resamples=20)
        assert [one["qwk"].absolute for one in kept] == [one["qwk"].absolute for one in fresh]
    assert (tmp_path / "test" / "logits.npy").exists()


def test_faults_are_named(scorer_of) -> None:
    scorer, pairs = scorer_of(), graded()
    with pytest.raises(ArgumentError, match="no metric of effects is called 'taste'"):
        changes(scorer, pairs, REMOVALS, mask=zero, metrics=["taste"])
    with pytest.raises(ArgumentError, match="there is no head L9H0"):
        changes(scorer, pairs, [Removal((Head(9, 0),))], mask=zero)
    with pytest.raises(ArgumentError, match="leaves out every layer"):
        changes(scorer, pairs, [Removal((), (0, 1, 2))], mask=zero)
    with pytest.raises(ArgumentError, match="no pairs"):
        changes(scorer, [], REMOVALS, mask=zero)


def test_checks_of_a_plan(scorer_of) -> None:
    scorer = scorer_of()
    found = check_removals(scorer, graded(), zero)
    assert found["pairs"] == 8 and max(found["variants"].values()) <= found["bound"]
    assert any(name.startswith("B") for name in found["variants"])
    assert check_removals(scorer_of(layers=1), graded(), zero)["layers_off"].keys() == {"L0"}
