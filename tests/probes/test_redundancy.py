"""Random shares, halves, layers and single heads ablated: a wired model, values by hand, odd models."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import spearmanr

from qt_bert.ablation.families import random_parts, single
from qt_bert.ablation.masks import zeroed
from qt_bert.data.pairs import Pair
from qt_bert.figures import HeatMap
from qt_bert.planning.runs import losses, losses_of
from qt_bert.probes.contests import ablate
from qt_bert.probes.redundancy import CLAIMS, ORDERS, PARTS, SINGLES
from tests.conftest import PAIRS, pair_of
from tests.probes.probe_results import measured, result_of, values
from tests.probes.verdicts_again import of_result
from tests.wired import READER, SPOILER, wired_checkpoint, wired_pairs


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
    assert result.sets["harmful"] == () and not result.tables


def figures(result) -> dict[str, np.ndarray]:
    """The heat maps of a result, by name."""
    maps = {one.name: one for one in result.figures if isinstance(one, HeatMap)}
    return {name: np.array(one.values, float) for name, one in maps.items()}


def test_a_head_that_harms_is_named_with_what_it_spoils(context_of, tmp_path):
    pairs = wired_pairs(60)
    model = wired_checkpoint(tmp_path / "wired", spoiler=-0.25)
    result = result_of("redundancy", context_of(model, pairs, full=True))
    assert result.sets["harmful"] == (str(SPOILER),)
    maps = figures(result)
    assert list(maps) == ["heads", "heads_uniform", "heads_resampled", "blocks"]
    spoiler = next(head.scores for head in result.heads if head.head == str(SPOILER))
    assert spoiler["resampled"] == pytest.approx(-maps["heads_resampled"][SPOILER] / 100)
    # It gives the same whatever it looks at, so that only its absence helps.
    assert maps["heads"][SPOILER] < -1
    assert abs(maps["heads_uniform"][SPOILER]) < 0.01 > abs(maps["heads_resampled"][SPOILER])
    heads, _, _, feed_forward, both = maps["blocks"].T
    assert abs(feed_forward).max() < 0.01 and both == pytest.approx(heads, abs=0.01)
    _, spoiled, looks = result.tables
    rises = [row.values[1].value - row.values[0].value for row in spoiled.rows]
    assert len(rises) == 5 and rises == sorted(rises, reverse=True) and rises[-1] > 0
    known = {(pair.query, pair.title, pair.label) for pair in pairs}
    assert {row.labels for row in spoiled.rows} <= known
    shares = np.array([[value.value or 0 for value in row.values] for row in looks.rows])
    assert shares.shape == (5, 2) and (shares >= 0).all() and (shares.sum(0) <= 1 + 1e-6).all()


def test_a_layer_whose_feed_forward_block_makes_the_grade(context_of, tmp_path):
    model = wired_checkpoint(tmp_path / "wired", by_block=True)
    result = result_of("redundancy", context_of(model, wired_pairs(60), full=True))
    blocks = figures(result)["blocks"]
    feed_forward = blocks[:, 3]
    assert abs(feed_forward[:2]).max() < 0.01 < 2 < feed_forward[2]
    (table,) = result.tables
    assert [row.values[3].value for row in table.rows] == pytest.approx(list(feed_forward))
    assert result.sets["harmful"] == ()


def test_values_are_those_of_the_logits(context_of, checkpoint_of, monkeypatch):
    """What is lost, and the change of ρ, from the swept logits by sklearn's and scipy's means."""
    monkeypatch.setattr("qt_bert.probes.redundancy.grades_nothing", lambda _: False)
    pairs = numbered(100)
    context = context_of(checkpoint_of(layers=2, heads=5, hidden=20), pairs)
    result = result_of("redundancy", context)
    shape = context.model.checkpoint.shape
    fifth = random_parts(shape, zeroed, PARTS, ORDERS, context.seed)
    run = ablate(context, "again", fifth, pairs)
    grades = np.array([pair.grades[0] for pair in pairs])
    rho = {
        name: spearmanr(softmax(run.logits(name), -1) @ np.arange(1, 6), grades).statistic
        for name in ("none", *(one.name for one in fifth))
    }
    changes = [rho[one.name] - rho["none"] for one in fifth]
    found = values(result)
    assert found["rho_without_fifth"] == pytest.approx(np.mean(changes), abs=1e-6)
    assert found["fifth_median"] == pytest.approx(np.median(changes), abs=1e-6)
    assert found["fifth_safe"] == np.mean(np.array(changes) > -0.02)
    of_orders = np.reshape(changes, (ORDERS, PARTS)).mean(axis=1)
    reach = result.values["redundancy.random"].reach
    assert reach == pytest.approx(2.3646 * of_orders.std(ddof=1) / 8**0.5, rel=1e-3)
    assert measured(result)["low_half"].n_queries == 100


def test_without_a_rho_no_set_is_safe_or_not(context_of, checkpoint_of):
    pairs = [replace(pair, grades=(3,)) for pair in numbered(12)]
    found = values(result_of("redundancy", context_of(checkpoint_of(layers=2, heads=2), pairs)))
    assert found["rho_without_fifth"] is found["fifth_median"] is found["fifth_safe"] is None


def test_a_plan_reads_on_the_sweep_over_single_heads(context_of, checkpoint_of):
    pairs = numbered(24)
    context = context_of(checkpoint_of(layers=2, heads=2), pairs)
    result_of("redundancy", context)
    swept = context.work / SINGLES / "logits.npy"
    before = swept.stat().st_mtime_ns
    singles = single(context.model.checkpoint.shape, zeroed)
    found = losses(context.model, pairs, singles, context.work / SINGLES)
    assert swept.stat().st_mtime_ns == before
    again = losses_of(np.load(swept), list(found), pairs, context.model.settings.labels)
    assert found == again
