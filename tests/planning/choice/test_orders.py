"""Heads and layers that go, by rounds written out; budgets."""

from dataclasses import replace

import numpy as np
import pytest

from qt_bert.ablation import sweep as run_sweep
from qt_bert.ablation.engine import batch_tokens, masked_forward
from qt_bert.ablation.masks import BlocksOut, zeroed
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.planning.choice import (
    choose_heads,
    choose_layers,
)
from tests.planning.choice.conftest import graded, loss_by_hand


def loss_without(scorer, pairs, heads, skipped=()) -> float:
    """The loss by one pass with all these heads left out."""
    parts = [zeroed(heads)] if heads else []
    forward = masked_forward(scorer.encoder, *parts, *([BlocksOut(skipped)] if skipped else []))
    logits = np.empty((len(pairs), 5))
    texts = [(pair.query, pair.title) for pair in pairs]
    for batch in scorer.fresh().batches(texts, batch_tokens()):
        logits[batch.rows] = forward(batch).numpy()
    return loss_by_hand(logits, pairs)


def by_hand(task, pairs, sizes, skipped=()) -> list[Head]:
    """The rounds, written out."""
    gone: list[Head] = []
    pool = [h for h in task.scorer.checkpoint.shape.all_heads if h.layer not in skipped]
    for size in sizes:
        left = [head for head in pool if head not in gone]
        loss = {head: loss_without(task.scorer, pairs, [*gone, head], skipped) for head in left}
        gone += sorted(left, key=loss.__getitem__)[:size]
    return gone


def test_three_rounds_by_hand(task_of):
    task, pairs = task_of(), graded()
    path = choose_heads(task, pairs, 4)
    assert list(path.order) == by_hand(task, pairs, [2, 1, 1])
    assert path.cost == pytest.approx((6 + 4 + 3) / 6)
    base = loss_without(task.scorer, pairs, [])
    for head in task.scorer.checkpoint.shape.all_heads:
        added = loss_without(task.scorer, pairs, [head]) - base
        assert path.effects[head] == pytest.approx(added, abs=1e-5)


@pytest.mark.parametrize(
    ("out", "rounds", "sizes"),
    [(1, 3, [1]), (2, 3, [1, 1]), (5, 2, [3, 2]), (6, 1, [6])],
)
def test_sizes_of_rounds(task_of, out, rounds, sizes) -> None:
    task, pairs = task_of(), graded()
    path = choose_heads(task, pairs, out, rounds=rounds)
    assert list(path.order) == by_hand(task, pairs, sizes) and len(set(path.order)) == out


GROUPED = {"family": "qwen3", "layers": 2, "heads": 4, "num_key_value_heads": 2}
"""Two heads share one key and value."""


def test_heads_that_share_a_key_go_together(task_of):
    """By the sum of what each adds alone, two groups in the first round and one in the second."""
    task, pairs = task_of(**GROUPED), graded()
    groups = [(Head(layer, head), Head(layer, head + 1)) for layer in (0, 1) for head in (0, 2)]
    gone: list[Head] = []
    for size in (2, 1):
        left = [group for group in groups if group[0] not in gone]

        def loss(group, gone=gone):
            return sum(loss_without(task.scorer, pairs, [*gone, head]) for head in group)

        gone = [*gone, *(head for group in sorted(left, key=loss)[:size] for head in group)]
    path = choose_heads(task, pairs, 6, rounds=2)
    assert list(path.order) == gone
    singles = sorted(path.effects, key=path.effects.__getitem__)[:2]
    assert path.order[:2] != tuple(singles)  # who go alone, go otherwise
    with pytest.raises(ArgumentError, match="2 to 8 heads can go, 2 at a time"):
        choose_heads(task, pairs, 3)


def test_a_path_goes_on_behind_what_is_gone(task_of):
    task, pairs = task_of(), graded()
    first = choose_heads(task, pairs, 2, rounds=1)
    path = choose_heads(task, pairs, 3, rounds=2, before=first)
    assert list(path.order) == by_hand(task, pairs, [2, 2, 1])
    assert path.effects == first.effects
    assert path.cost == pytest.approx((6 + 4 + 2) / 6)


def test_a_half_of_the_pairs_chooses_from_rows_of_the_whole_sweep(task_of):
    whole, half = task_of(), task_of(graded()[::2])
    shared, alone = (choose_heads(task, graded()[::2], 3) for task in (whole, half))
    assert shared.order == alone.order and shared.cost == alone.cost
    for head, effect in alone.effects.items():
        assert shared.effects[head] == pytest.approx(effect, abs=1e-5)


def test_rounds_are_kept_and_resumed(task_of, tmp_path, monkeypatch):
    pairs = graded()
    fresh = choose_heads(task_of(), pairs, 4)
    kept = choose_heads(task_of(), pairs, 4, work=tmp_path / "path")
    assert kept == fresh
    assert sorted(path.name for path in (tmp_path / "path").iterdir()) == ["heads-1", "heads-2"]
    swept = []
    sweep = run_sweep.sweep
    monkeypatch.setattr(run_sweep, "sweep", lambda *a, **k: swept.append(1) or sweep(*a, **k))
    assert choose_heads(task_of(), pairs, 4, work=tmp_path / "path") == kept and not swept
    other = choose_heads(task_of(pairs[:12]), pairs[:12], 4, work=tmp_path / "path")
    assert swept and other.order == choose_heads(task_of(pairs[:12]), pairs[:12], 4).order


def test_one_logit_and_coarse_labels(task_of):
    path = choose_heads(task_of(labels=1), graded(), 2)
    assert min(path.effects.values()) > 0  # any change of the score counts against a head
    coarse = [
        replace(pair, grades=(1, 2) if n % 2 else (3, 4, 5)) for n, pair in enumerate(graded())
    ]
    task = task_of(coarse)
    assert list(choose_heads(task, coarse, 3).order) == by_hand(task, coarse, [1, 1, 1])


def test_layers_go_one_at_a_time_by_hand(task_of, tmp_path):
    task, pairs = task_of(layers=4), graded()
    path = choose_layers(task, pairs, 3, work=tmp_path / "path")
    gone: list[int] = []
    for layer in path:
        left = [n for n in range(4) if n not in gone]
        loss = {n: loss_without(task.scorer, pairs, [], (*gone, n)) for n in left}
        assert layer == min(loss, key=loss.__getitem__)
        gone.append(layer)
    names = sorted(path.name for path in (tmp_path / "path").iterdir())
    assert names == ["layers-0", "layers-1", "layers-2"]
    assert choose_layers(task, pairs, 3, work=tmp_path / "path") == path


def test_faults_are_named(task_of) -> None:
    task = task_of()
    for out in (0, 7):
        with pytest.raises(ArgumentError, match="1 to 6 heads can go"):
            choose_heads(task, graded(), out)
    for out in (0, 3):
        with pytest.raises(ArgumentError, match="1 to 2 of 3 can go"):
            choose_layers(task, graded(), out)
