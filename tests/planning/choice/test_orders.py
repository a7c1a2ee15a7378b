"""Heads and layers that go, by rounds written out; budgets."""

from dataclasses import replace

import numpy as np
import pytest

from qt_bert.ablation import sweep as run_sweep
from qt_bert.ablation.engine import batch_tokens, masked_forward
from qt_bert.ablation.masks import BlocksOut, zeroed
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.planning.choice import choose_heads, choose_layers
from tests.planning.choice.conftest import graded


def loss_without(task, heads, skipped=()) -> float:
    """The mean of 1 − Σ p over each pair's label, by one pass with all these heads left out."""
    scorer, losses = task.scorer, []
    parts = [zeroed(heads)] if heads else []
    forward = masked_forward(scorer.encoder, *parts, *([BlocksOut(skipped)] if skipped else []))
    for batch in scorer.fresh().batches(task.discovery.texts, batch_tokens()):
        for row, logits in zip(batch.rows, forward(batch).numpy().astype(float), strict=True):
            p = np.exp(logits) / np.exp(logits).sum()
            losses.append(1 - sum(p[grade - 1] for grade in task.discovery.pairs[row].grades))
    return float(np.mean(losses))


def by_hand(task, sizes) -> list[Head]:
    """The rounds, written out."""
    gone: list[Head] = []
    for size in sizes:
        left = [head for head in task.scorer.checkpoint.shape.all_heads if head not in gone]
        loss = {head: loss_without(task, [*gone, head]) for head in left}
        gone += sorted(left, key=loss.__getitem__)[:size]
    return gone


def test_three_rounds_by_hand(task_of):
    task = task_of()
    path = choose_heads(task, 4)
    assert list(path.order) == by_hand(task, [2, 1, 1])
    assert path.cost == pytest.approx((6 + 4 + 3) / 6)
    base = loss_without(task, [])
    for head in task.scorer.checkpoint.shape.all_heads:
        added = loss_without(task, [head]) - base
        assert path.effects[head] == pytest.approx(added, abs=1e-5)


@pytest.mark.parametrize(
    ("out", "rounds", "sizes"), [(1, 3, [1]), (2, 3, [1, 1]), (5, 2, [3, 2]), (6, 1, [6])]
)
def test_sizes_of_rounds(task_of, out, rounds, sizes) -> None:
    task = task_of()
    path = choose_heads(task, out, rounds=rounds)
    assert list(path.order) == by_hand(task, sizes) and len(set(path.order)) == out


GROUPED = {"family": "qwen3", "layers": 2, "heads": 4, "num_key_value_heads": 2}
"""Two heads share one key and value."""


def test_heads_that_share_a_key_go_together(task_of):
    """By the sum of what each adds alone, two groups in the first round and one in the second."""
    task = task_of(**GROUPED)
    groups = [(Head(layer, head), Head(layer, head + 1)) for layer in (0, 1) for head in (0, 2)]
    gone: list[Head] = []
    for size in (2, 1):
        left = [group for group in groups if group[0] not in gone]

        def loss(group, gone=gone):
            return sum(loss_without(task, [*gone, head]) for head in group)

        gone = [*gone, *(head for group in sorted(left, key=loss)[:size] for head in group)]
    path = choose_heads(task, 6, rounds=2)
    assert list(path.order) == gone
    singles = sorted(path.effects, key=path.effects.__getitem__)[:2]
    assert path.order[:2] != tuple(singles)  # who go alone, go otherwise
    with pytest.raises(ArgumentError, match="2 to 8 heads can go, 2 at a time"):
        choose_heads(task, 3)


def test_a_path_goes_on_behind_what_is_gone(task_of):
    task = task_of()
    first = choose_heads(task, 2, rounds=1)
    path = choose_heads(task, 3, rounds=2, before=first)
    assert list(path.order) == by_hand(task, [2, 2, 1])
    assert path.effects == first.effects
    assert path.cost == pytest.approx((6 + 4 + 2) / 6)


def test_rounds_are_kept_and_resumed(task_of, monkeypatch):
    task = task_of()
    first = choose_heads(task, 4)
    names = sorted(path.name for path in (task.work / "heads-4").iterdir())
    assert names == ["heads-1", "heads-2"]
    swept, sweep = [], run_sweep.sweep
    monkeypatch.setattr(run_sweep, "sweep", lambda *a, **k: swept.append(1) or sweep(*a, **k))
    assert choose_heads(task_of(), 4) == first and not swept
    fewer = task_of(graded()[:12])
    assert list(choose_heads(fewer, 4).order) == by_hand(fewer, [2, 1, 1]) and swept


def test_one_logit_and_coarse_labels(task_of):
    path = choose_heads(task_of(labels=1), 2)
    assert min(path.effects.values()) > 0  # any change of the score counts against a head
    coarse = [
        replace(pair, grades=(1, 2) if n % 2 else (3, 4, 5)) for n, pair in enumerate(graded())
    ]
    task = task_of(coarse)
    assert list(choose_heads(task, 3).order) == by_hand(task, [1, 1, 1])


def test_layers_go_one_at_a_time_by_hand(task_of):
    task = task_of(layers=4)
    path = choose_layers(task, 3)
    gone: list[int] = []
    for layer in path:
        left = [n for n in range(4) if n not in gone]
        loss = {n: loss_without(task, [], (*gone, n)) for n in left}
        assert layer == min(loss, key=loss.__getitem__)
        gone.append(layer)
    names = sorted(path.name for path in (task.work / "layers").iterdir())
    assert names == ["layers-0", "layers-1", "layers-2"]
    assert choose_layers(task, 3) == path


def test_faults_are_named(task_of) -> None:
    task = task_of()
    for out in (0, 7):
        with pytest.raises(ArgumentError, match="1 to 6 heads can go"):
            choose_heads(task, out)
    for out in (0, 3):
        with pytest.raises(ArgumentError, match="1 to 2 of 3 can go"):
            choose_layers(task, out)
