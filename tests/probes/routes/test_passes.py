"""Routes of a model whose wiring is known, and sums by query against one pair at a time."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.engine import masked_forward, sweep
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.patches import ENTRIES, Detour, Inflow
from qt_bert.ablation.patches import Path as Route
from qt_bert.data.pairs import Pair
from qt_bert.errors import EquivalenceError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Head
from qt_bert.probes.base import Context
from qt_bert.probes.routes import guard as guard_module
from qt_bert.probes.routes import passes
from qt_bert.probes.routes.guard import guard
from qt_bert.probes.routes.passes import WAYS, Sender, changes
from qt_bert.probes.routes.shares import Shares
from qt_bert.probes.split import PairFiles
from qt_bert.scoring.bulk import Scorer
from tests.wired import DIRECT, MIDDLE, READER, RELAYED, wired_checkpoint, wired_pairs


@pytest.fixture(scope="module")
def wired(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wired_checkpoint(tmp_path_factory.mktemp("wired") / "model")


def context_of(model: Path, tmp_path: Path) -> Context:
    return Context(
        label="routes",
        files=PairFiles(pairs=tmp_path / "pairs.tsv"),
        work=tmp_path / "sweeps",
        open_model=lambda: Scorer(open_checkpoint(model)),
        resamples=200,
    )


def sender(*heads: Head) -> Sender:
    return Sender("+".join(map(str, heads)), HeadMask(heads))


def test_the_wiring_comes_back(wired: Path, tmp_path: Path) -> None:
    """What is read directly enters the key; what is relayed does not; nothing enters the query."""
    asked = [sender(DIRECT), sender(RELAYED), sender(DIRECT, RELAYED)]
    found = changes(context_of(wired, tmp_path), wired_pairs(12), asked, [READER])
    shares = Shares(found, 200, seed=0)
    for outcome in ("focus", "grade"):
        assert all(abs(shares.change(outcome, one).value) > 0.02 for one in range(3))
        for way in ("k", "qk"):
            assert shares.share(outcome, way, 0).value >= 0.95
            assert abs(shares.share(outcome, way, 1).value) <= 0.05
            assert 0.1 < shares.share(outcome, way, 2).value < 0.9
        for one in range(3):
            assert abs(shares.share(outcome, "q", one).value) < 1e-5
            assert abs(shares.share(outcome, "v", one).value) < 0.01


def test_a_middle_head_is_read_directly_too(wired: Path, tmp_path: Path) -> None:
    found = changes(context_of(wired, tmp_path), wired_pairs(12), [sender(MIDDLE)], [READER])
    assert Shares(found, 200, seed=0).share("focus", "k").value >= 0.95


def test_every_reader_with_nothing_held_is_leaving_out(wired: Path, tmp_path: Path) -> None:
    scorer, out = context_of(wired, tmp_path).model, HeadMask((DIRECT, RELAYED))
    texts = [(pair.query, pair.title) for pair in wired_pairs(12)]
    variants = [
        NONE,
        Variant("out", (out,)),
        Variant("every reader", (Inflow(Detour(out, READER.layer, "nothing")),)),
        Variant("held", (Inflow(Detour(out, READER.layer)),)),
    ]
    batches = scorer.batches(texts, 256)
    found = np.concatenate([one.logits for one in sweep(scorer.encoder, batches, variants)], 1)
    np.testing.assert_allclose(found[2], found[1], atol=1e-5)
    assert np.abs(found[1] - found[0]).max() > 0.5
    assert np.abs(found[3] - found[1]).max() > 0.1  # the relayed mark is held where it is copied


def test_sums_are_those_of_the_pairs_of_each_query(
    checkpoint_of: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against one pair and one variant at a time; groups of senders change nothing."""
    context = context_of(checkpoint_of(layers=4, heads=2, labels=3), tmp_path)
    texts = [("苹果多", "苹果少"), ("狗追猫", "猫追狗吃"), ("苹果多", "苹果手机")]
    pairs = [Pair(q, t, (1,), str(n), n, "1", {}) for n, (q, t) in enumerate(texts)]
    asked, into = [sender(Head(0, 0)), sender(Head(0, 1), Head(1, 0))], [Head(2, 1), Head(2, 0)]
    monkeypatch.setattr(passes, "AT_ONCE", 1)
    found = changes(context, pairs, asked, into)
    assert found.sums.shape == (2, 2, 2, 2, 1 + len(ENTRIES))
    levels = torch.arange(3.0)

    def score(*parts: object) -> np.ndarray:
        forward, batches = masked_forward(context.model.encoder, *parts), context.model.batches
        values = [forward(batch).softmax(-1) @ levels for batch in batches(texts, 1)]
        rows = [batch.rows for batch in batches(texts, 1)]
        return torch.cat(values).numpy()[np.argsort(np.concatenate(rows))]

    for n, one in enumerate(asked):
        for m, head in enumerate(into):
            variants = [(one.mask,), *((Route(one.mask, head, entry),) for entry in ENTRIES)]
            moved = np.array([score(*parts) - score() for parts in variants])
            want = [moved[:, 0] + moved[:, 2], moved[:, 1]]
            np.testing.assert_allclose(found.sums[1, :, n, m], want, atol=1e-5)
    assert found.pairs[1].tolist() == [3, 3]
    assert np.abs(found.sums[0, ..., WAYS.index("v")]).max() < 1e-6


def test_ways_that_are_not_asked_for_are_not_run(wired: Path, tmp_path: Path) -> None:
    """Other figures stay as they are, and what was not run is not 0."""
    context, pairs = context_of(wired, tmp_path), wired_pairs(12)
    whole = [sender(DIRECT), sender(RELAYED)]
    some = [whole[0], Sender("some", HeadMask((RELAYED,)), ("qk",))]
    every, found = (changes(context, pairs, asked, [READER]) for asked in (whole, some))
    run = [WAYS.index("qk")]
    idle = [place for place in range(len(WAYS)) if place not in run]
    np.testing.assert_allclose(found.sums[:, :, 0], every.sums[:, :, 0], atol=1e-5)
    np.testing.assert_allclose(
        found.sums[:, :, 1][..., run], every.sums[:, :, 1][..., run], atol=1e-5
    )
    assert np.isnan(found.sums[:, :, 1][..., idle]).all()
    assert found.pairs.tolist() == every.pairs.tolist()
    shares, all_of_it = (Shares(one, 200, seed=0) for one in (found, every))
    assert shares.beyond("focus", "qk")[0].value == pytest.approx(
        all_of_it.beyond("focus", "qk")[0].value, abs=1e-4
    )
    assert np.isnan(shares.pooled("focus", "qk").value)
    assert np.isnan(shares.controls("focus", "k").value)


def test_the_guard_keeps_its_figures_and_stops(
    wired: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, out = context_of(wired, tmp_path), HeadMask((DIRECT, RELAYED))
    guard(context, out, READER, wired_pairs(8))
    figures = context.guards["paths"]
    assert figures["every_reader"] <= figures["bound"]
    assert {f"path:set>L2H0.{entry}" for entry in ENTRIES} <= set(figures["variants"])
    monkeypatch.setattr(guard_module, "distance", lambda one, other: 0.5)
    with pytest.raises(EquivalenceError, match="all of layer 2 reads differs .* by 0.5"):
        guard(context, out, READER, wired_pairs(8))
