from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.planning.choice import choose_layers, even_layers, lowest_layers
from qt_bert.scoring.bulk import Scorer
from tests.planning.choice.conftest import graded, zero
from tests.planning.choice.test_heads import Counted, loss_without


def test_one_at_a_time_by_hand(scorer_of) -> None:
    scorer, pairs, shown = scorer_of(layers=4), graded(), Counted()
    path = choose_layers(scorer, pairs, 3, mask=zero, shown=shown)
    gone: list[int] = []
    for layer, loss in zip(path.order, path.losses, strict=True):
        left = [n for n in range(4) if n not in gone]
        found = {n: loss_without(scorer, pairs, [], (*gone, n)) for n in left}
        assert layer == min(found, key=found.__getitem__)
        assert loss == pytest.approx(found[layer], abs=1e-5)
        gone.append(layer)
    assert path.cost == 4 + 3 + 2 + 4  # blocks, and the four layers' heads
    assert shown.done == (1 + 8 + 1 + 3 + 1 + 2) * len(pairs)


def test_effects_of_single_layers_both_ways(scorer_of) -> None:
    scorer, pairs = scorer_of(), graded()
    path = choose_layers(scorer, pairs, 1, mask=zero)
    base = loss_without(scorer, pairs, [])
    assert path.base == pytest.approx(base, abs=1e-5)
    for layer in range(3):
        heads = [head for head in scorer.checkpoint.shape.all_heads if head.layer == layer]
        alone = loss_without(scorer, pairs, heads) - base
        assert path.heads[layer] == pytest.approx(alone, abs=1e-5)
        block = loss_without(scorer, pairs, [], (layer,)) - base
        assert path.blocks[layer] == pytest.approx(block, abs=1e-5)


def test_sweeps_are_kept(scorer_of, tmp_path: Path) -> None:
    scorer, pairs = scorer_of(), graded()
    kept = choose_layers(scorer, pairs, 2, mask=zero, work=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["layers-0", "layers-1"]
    assert choose_layers(scorer, pairs, 2, mask=zero, work=tmp_path) == kept
    assert choose_layers(scorer, pairs, 2, mask=zero).order == kept.order


@pytest.mark.parametrize("below", [1, 2, 3])
def test_a_layer_in_which_the_texts_meet_stays(
    offline_checkpoint_of: Callable[..., Path], below: int
) -> None:
    folder = offline_checkpoint_of(below=below, layers=4, heads=2, hidden=16)
    path = choose_layers(Scorer(open_checkpoint(folder)), graded(), 3, mask=zero)
    [left] = set(range(4)) - set(path.order)
    assert left >= below


def test_rivals() -> None:
    assert even_layers(12, 6) == (0, 2, 4, 6, 8, 10)
    assert even_layers(12, 4) == (0, 3, 6, 9)
    assert even_layers(5, 2) == (0, 2)
    assert even_layers(3, 3) == (0, 1, 2)
    assert even_layers(7, 1) == (0,)
    assert lowest_layers(12, 3) == (0, 1, 2)
    for kept in range(1, 13):
        assert len(set(even_layers(12, kept))) == kept


def test_faults_are_named(scorer_of) -> None:
    for out in (0, 3):
        with pytest.raises(ArgumentError, match="1 to 2 of 3 can go"):
            choose_layers(scorer_of(), graded(), out, mask=zero)
    with pytest.raises(ArgumentError, match="1 to 0 of 1 can go"):
        choose_layers(scorer_of(layers=1), graded(), 1, mask=zero)
    for rule in (even_layers, lowest_layers):
        with pytest.raises(ArgumentError, match="13 layers kept: 1 to 12 can stay"):
            rule(12, 13)
