"""Random shares, halves, layers and single heads ablated: a wired model, values by hand, odd models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import spearmanr

from qt_bert.ablation.families import random_parts
from qt_bert.data.pairs import Pair
from qt_bert.planning.runs import single_losses
from qt_bert.probes.contests import ablate, zeroed
from qt_bert.probes.redundancy import CLAIMS, ORDERS, PARTS, SINGLES
from tests.conftest import PAIRS, pair_of
from tests.probes.probe_results import result_of, values
from tests.probes.verdicts_again import of_result
from tests.wired import READER, wired_checkpoint, wired_pairs


def numbered(count: int) -> list[Pair]:
    """Pairs of as many queries, of all grades."""
    query, title, _ = PAIRS[0]
    return [pair_of(f"{query}{n}", f"{title}{n}", n % 5 + 1, n + 1) for n in range(count)]


def test_heads_that_carry_the_grade_are_critical(context_of, tmp_path):
    model = wired_checkpoint(tmp_path / "wired")
    result = result_of("redundancy", context_of(model, wired_pairs(60)))
    assert result.sets["critical"][0] == str(READER)
    by_head = {one.head: one for one in result.heads}
    assert by_head[str(READER)].scores["change"] < -0.02
    idle = [one for head, one in by_head.items() if head.startswith("L1") and head != "L1H3"]
    assert all(abs(one.scores["change"] or 0) < 0.02 for one in idle)
    assert [one.id for one in result.claims] == [f"redundancy.{name}" for name in CLAIMS]
    assert [row[1] == row[2] for row in of_result(result.to_json())] == [True] * 4
    assert by_head[str(READER)].shown


def test_values_are_those_of_the_logits(context_of, checkpoint_of):
    """What is lost, and the change of ρ, from the swept logits by sklearn's and scipy's means."""
    pairs = numbered(100)
    context = context_of(checkpoint_of(layers=2, heads=5, hidden=20), pairs)
    result = result_of("redundancy", context)
    shape = context.model.checkpoint.shape
    fifth = random_parts(shape, zeroed, PARTS, ORDERS, context.seed)
    low = [one for one in result.measurements if one.id == "low_half"][0]
    run = ablate(context, "again", fifth, pairs)
    grades = np.array([pair.grades[0] for pair in pairs])
    expected = {
        name: softmax(run.logits(name), -1) @ np.arange(1, 6) for name in ("none", fifth[0].name)
    }
    changes = [
        spearmanr(softmax(run.logits(one.name), -1) @ np.arange(1, 6), grades).statistic
        - spearmanr(expected["none"], grades).statistic
        for one in fifth
    ]
    measured = values(result)
    assert measured["rho_without_fifth"] == pytest.approx(np.mean(changes), abs=1e-6)
    assert measured["fifth_median"] == pytest.approx(np.median(changes), abs=1e-6)
    assert measured["fifth_safe"] == np.mean(np.array(changes) > -0.02)
    of_orders = np.reshape(changes, (ORDERS, PARTS)).mean(axis=1)
    stored = result.values["redundancy.random"] if result.values else None
    if stored is not None:
        assert stored.reach == pytest.approx(2.3646 * of_orders.std(ddof=1) / 8**0.5, rel=1e-3)
    assert low.n_queries == 100


def test_a_plan_reads_on_the_sweep_over_single_heads(context_of, checkpoint_of):
    pairs = numbered(24)
    context = context_of(checkpoint_of(layers=2, heads=2), pairs)
    result_of("redundancy", context)
    swept = context.work / SINGLES / "logits.npy"
    before = swept.stat().st_mtime_ns
    found = single_losses(context.model, pairs, mask=zeroed, work=context.work)
    assert swept.stat().st_mtime_ns == before
    np.testing.assert_array_equal(found.logits, np.load(swept))
    assert [path.name for path in context.work.iterdir() if path.name.startswith("heads")] == []
