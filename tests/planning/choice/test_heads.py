from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.engine import batch_tokens, masked_forward
from qt_bert.ablation.masks import BlocksOut
from qt_bert.errors import ArgumentError
from qt_bert.models.heads import Head
from qt_bert.planning.choice import choose_heads, single_losses
from tests.planning.choice.conftest import graded, loss_by_hand, zero


class Counted:
    def __init__(self) -> None:
        self.done = 0

    def advance(self, amount: int = 1, note: str = "") -> None:
        self.done += amount


def loss_without(scorer, pairs, heads, skipped=()) -> float:
    """The loss by one pass with all these heads left out."""
    parts = [zero(heads)] if heads else []
    forward = masked_forward(scorer.encoder, *parts, *([BlocksOut(skipped)] if skipped else []))
    logits = np.empty((len(pairs), 5))
    texts = [(one.query, one.title) for one in pairs]
    for batch in scorer.fresh().batches(texts, batch_tokens()):
        logits[batch.rows] = forward(batch).numpy()
    return loss_by_hand(logits, pairs)


def by_hand(scorer, pairs, sizes, pool, skipped=()) -> list[Head]:
    """The rounds, written out."""
    gone: list[Head] = []
    for size in sizes:
        left = [head for head in pool if head not in gone]
        loss = {head: loss_without(scorer, pairs, [*gone, head], skipped) for head in left}
        gone += sorted(left, key=loss.__getitem__)[:size]
    return gone


def test_three_rounds_by_hand(scorer_of) -> None:
    scorer, pairs, shown = scorer_of(), graded(), Counted()
    heads = scorer.checkpoint.shape.all_heads
    path = choose_heads(scorer, pairs, 4, mask=zero, shown=shown)
    assert list(path.order) == by_hand(scorer, pairs, [2, 1, 1], heads)
    assert path.rounds == (0, 0, 1, 2)
    assert path.cost == pytest.approx((6 + 4 + 3) / 6)
    assert shown.done == (7 + 5 + 4) * len(pairs)
    base = loss_without(scorer, pairs, [])
    for head in heads:
        added = loss_without(scorer, pairs, [head]) - base
        assert path.effects[head] == pytest.approx(added, abs=1e-5)


@pytest.mark.parametrize(
    ("out", "rounds", "want"),
    [(1, 3, (0,)), (2, 3, (0, 1)), (5, 2, (0, 0, 0, 1, 1)), (6, 1, (0,) * 6)],
)
def test_sizes_of_rounds(scorer_of, out, rounds, want) -> None:
    path = choose_heads(scorer_of(), graded(), out, mask=zero, rounds=rounds)
    assert path.rounds == want and len(set(path.order)) == out


def test_three_rounds_cost_less_than_four_sweeps(scorer_of) -> None:
    scorer = scorer_of(heads=4)
    for out in range(1, 13):
        assert choose_heads(scorer, graded(12), out, mask=zero).cost <= 3


def test_after_layers_are_gone_and_among_some_heads(scorer_of) -> None:
    scorer, pairs = scorer_of(), graded()
    path = choose_heads(scorer, pairs, 3, mask=zero, skipped=(1,))
    pool = [head for head in scorer.checkpoint.shape.all_heads if head.layer != 1]
    assert list(path.order) == by_hand(scorer, pairs, [1, 1, 1], pool, (1,))
    start = loss_without(scorer, pairs, [], (1,))
    for head in pool:
        added = loss_without(scorer, pairs, [head], (1,)) - start
        assert path.effects[head] == pytest.approx(added, abs=1e-5)
    few = [Head(2, 1), Head(0, 0)]
    assert set(choose_heads(scorer, pairs, 2, mask=zero, among=few).order) == set(few)


def test_the_first_round_may_be_known(scorer_of) -> None:
    """A half of the pairs chooses from rows of the whole sweep, as from a sweep of its own."""
    scorer, pairs = scorer_of(), graded()
    first = single_losses(scorer, pairs, mask=zero)
    alone = choose_heads(scorer, pairs[::2], 3, mask=zero)
    shown = Counted()
    shared = choose_heads(scorer, pairs[::2], 3, mask=zero, first=first, shown=shown)
    assert shared.order == alone.order and shared.cost == alone.cost
    assert shown.done == (6 + 5) * 12
    for head, effect in alone.effects.items():
        assert shared.effects[head] == pytest.approx(effect, abs=1e-5)


def test_rounds_are_kept_and_resumed(scorer_of, tmp_path: Path, monkeypatch) -> None:
    scorer, pairs = scorer_of(), graded()
    fresh = choose_heads(scorer, pairs, 4, mask=zero)
    kept = choose_heads(scorer, pairs, 4, mask=zero, work=tmp_path)
    assert (kept.order, kept.rounds) == (fresh.order, fresh.rounds)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["heads-0", "heads-1", "heads-2"]
    from qt_bert.ablation import sweep as run_sweep

    swept = []
    sweep = run_sweep.sweep
    monkeypatch.setattr(run_sweep, "sweep", lambda *a, **k: swept.append(1) or sweep(*a, **k))
    shown = Counted()
    again = choose_heads(scorer, pairs, 4, mask=zero, work=tmp_path, shown=shown)
    assert again == kept and not swept and shown.done == (7 + 5 + 4) * len(pairs)
    other = choose_heads(scorer, pairs[:12], 4, mask=zero, work=tmp_path)
    assert swept and other == choose_heads(scorer, pairs[:12], 4, mask=zero)


def test_haste_measures_the_likely_heads_alone(scorer_of) -> None:
    scorer, pairs, shown = scorer_of(heads=4), graded(), Counted()
    path = choose_heads(scorer, pairs, 3, mask=zero, wide=1.5, shown=shown)
    assert shown.done == (13 + 4 + 3) * len(pairs)  # of two to go 3, of one 2, and the plain model
    assert path.cost == (12 + 3 + 2) / 12 and len(set(path.order)) == 3
    every = choose_heads(scorer, pairs, 3, mask=zero, wide=100)
    assert every == choose_heads(scorer, pairs, 3, mask=zero)
    assert path.effects == every.effects and path.order[0] == every.order[0]


def test_one_logit_and_coarse_labels(scorer_of) -> None:
    one = choose_heads(scorer_of(labels=1), graded(), 2, mask=zero)
    assert min(one.effects.values()) > 0  # any change of the score counts against a head
    coarse = [
        type(one)(one.query, one.title, (1, 2) if n % 2 else (3, 4, 5), one.id, one.line, None, {})
        for n, one in enumerate(graded())
    ]
    scorer = scorer_of()
    assert list(choose_heads(scorer, coarse, 3, mask=zero).order) == by_hand(
        scorer, coarse, [1, 1, 1], scorer.checkpoint.shape.all_heads
    )


def test_faults_are_named(scorer_of) -> None:
    scorer, pairs = scorer_of(), graded()
    for out in (0, 7):
        with pytest.raises(ArgumentError, match="1 to 6 heads can go"):
            choose_heads(scorer, pairs, out, mask=zero)
    with pytest.raises(ArgumentError, match="there is no head L3H0"):
        choose_heads(scorer, pairs, 1, mask=zero, among=[Head(3, 0)])
    with pytest.raises(ArgumentError, match="head L1H0 is gone already"):
        choose_heads(scorer, pairs, 1, mask=zero, among=[Head(1, 0)], skipped=(1,))
    with pytest.raises(ArgumentError, match="0.5 times the heads to go"):
        choose_heads(scorer, pairs, 1, mask=zero, wide=0.5)
    with pytest.raises(ArgumentError, match="no pairs"):
        choose_heads(scorer, [], 1, mask=zero)
