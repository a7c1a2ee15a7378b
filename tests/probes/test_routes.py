"""Routes to the grade: planted wiring, sums against one pair at a time, any model, what cannot be measured."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.engine import masked_forward
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patches import ENTRIES
from qt_bert.ablation.patches import Path as Route
from qt_bert.data.pairs import Pair
from qt_bert.heads import Head
from qt_bert.probes import routes
from qt_bert.probes.contests import layer_matched_sets
from qt_bert.probes.routes import run_routes, share
from qt_bert.results.probe import ProbeResult
from qt_bert.stats.estimate import over_queries
from tests.probes.probe_results import left, measured, result_of, values
from tests.wired import DIRECT, READER, RELAYED, wired_checkpoint, wired_pairs

READS = left("focus", reader=(str(READER),))
UNREAD = left("focus", read=False, reader=(str(READER),))
BOTH = f"{DIRECT} {RELAYED}"


@pytest.fixture(scope="module")
def wired(tmp_path_factory) -> Path:
    return wired_checkpoint(tmp_path_factory.mktemp("wired") / "model")


@pytest.fixture
def on_wired(context_of, wired) -> Callable[..., ProbeResult]:
    """The probe's result on `heads`, or on those of what other probes left."""

    def run(heads, *found, **changes):
        results = {one.probe: one for one in (READS, *found)}
        changes |= {"heads": heads, "result_of": results.__getitem__}
        return result_of("routes", context_of(wired, wired_pairs(16), **changes))

    return run


# The probe.


def test_the_head_that_is_read_directly(on_wired):
    result = on_wired(str(DIRECT))
    found = values(result)
    assert found["focus_share_qk"] >= 0.95
    assert found["focus_share_k"] == pytest.approx(found["focus_share_qk"], abs=0.02)
    assert abs(found["focus_share_q"]) < 1e-5
    assert found["direct_share"] == pytest.approx(
        found["focus_share_qk"] - found["control_share_qk"], abs=1e-9
    )
    assert found["direct_share"] >= 0.95
    assert found["grade_share_qk"] >= 0.95 and abs(found["grade_share_v"]) <= 0.01
    assert result.settings["layer_matched_sets"] == 3 and result.claims == ()


def test_the_head_that_is_relayed(on_wired):
    result = on_wired(str(RELAYED))
    found = values(result)
    assert abs(found["focus_share_qk"]) <= 0.05 and abs(found["grade_share_qk"]) <= 0.05
    assert found["direct_share"] < -0.2  # one of three controls is read directly
    # There are no others, so that the interval counts no draw of them.
    control = measured(result)["control_share_qk"]
    assert control.ci_high - control.ci_low < 0.5


def test_heads_that_matching_names_are_in_no_control(on_wired):
    matching = left("matching", matching=(str(DIRECT),), named=(str(DIRECT), str(RELAYED)))
    result = on_wired(None, matching)
    assert result.settings["layer_matched_sets"] == 2
    assert result.settings["senders"]["heads"] == [str(DIRECT)]
    assert values(result)["control_share_qk"] == pytest.approx(0, abs=0.02)


def test_an_unread_reader_is_measured_under_full_alone_and_not_drawn(on_wired):
    quick = on_wired(BOTH, UNREAD)
    assert (quick.measurements, quick.figures, quick.settings.get("guards")) == ((), (), None)
    full = on_wired(BOTH, UNREAD, full=True)
    assert full.figures == () and 0.1 < values(full)["focus_share_qk"] < 0.9


# Runs.


def test_changes_are_those_of_each_pair_and_shares_those_of_sums(
    checkpoint_of, context_of, monkeypatch
):
    """Against one pair and one variant at a time; groups of variants change nothing."""
    made = context_of(checkpoint_of(layers=4, heads=2, labels=3))
    texts = [("苹果多", "苹果少"), ("狗追猫", "猫追狗吃"), ("苹果多", "苹果手机")]
    pairs = [Pair(q, t, (1,), str(n), n, "1", {}) for n, (q, t) in enumerate(texts)]
    senders, reader = [Head(0, 1), Head(1, 0)], Head(2, 1)
    shape = made.model.checkpoint.shape
    sets, _ = layer_matched_sets(shape, senders, [], 9, 0)
    monkeypatch.setattr(routes, "AT_ONCE", 3)
    found = run_routes(made, pairs, senders, sets, reader)
    levels = torch.arange(3.0)

    def score(*parts):
        forward, batches = masked_forward(made.model.encoder, *parts), made.model.batches
        scored = [forward(batch).softmax(-1) @ levels for batch in batches(texts, 1)]
        rows = [batch.rows for batch in batches(texts, 1)]
        return torch.cat(scored).numpy()[np.argsort(np.concatenate(rows))]

    def of_queries(*parts):
        changes = score(*parts) - score()
        return float(((changes[0] + changes[2]) / 2 + changes[1]) / 2)

    mask = HeadMask(tuple(senders))
    assert found.whole("grade").value == pytest.approx(of_queries(mask), abs=1e-5)
    for entry in ENTRIES:
        want = of_queries(Route(mask, reader, entry))
        assert found.direct("grade", entry).value == pytest.approx(want, abs=1e-5)
    (control,) = sets
    want = of_queries(Route(HeadMask(control.heads), reader, "qk"))
    assert found.direct("grade", "qk", control.name).value == pytest.approx(want, abs=1e-5)
    assert found.direct("focus", "v").value == pytest.approx(0, abs=1e-6)


# Shares.


def test_a_share_is_a_ratio_of_sums_and_none_of_nothing(wired, context_of):
    """One pair that hardly moves does not own it, as it would own a mean of ratios."""
    made = context_of(wired)
    whole = over_queries([-1.0, -2.0, -3.0, -0.001], "abcd")
    part = over_queries([-0.5, -1.5, -1.0, -1.0], "abcd")
    found = share(made, part, whole - 9)
    assert found is not None and found.value == pytest.approx((-1.0) / (-6.001 / 4 - 9))
    even = over_queries([1.0, -1.0] * 10, tuple(range(20)))
    assert made.sign(even) == 0 and share(made, even, even) is None
    assert made.sign(over_queries([1.0], "a")) == 0  # one query has no interval
