"""Which rungs are climbed, in models of any depth."""

from __future__ import annotations

import pytest

from qt_bert.ablation.masks import CONVENTIONS
from qt_bert.models.batches import DIRECTIONS
from qt_bert.probes.ladder.rungs import ALL, IN_PARTS, ladders, variants_of


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (1, [1]),
        (2, [1, 2]),
        (6, [1, 2, 3, 4, 5, 6]),
        (12, [3, 6, 9, 12]),
        (14, [3, 6, 9, 12, 14]),
        (24, [6, 12, 18, 24]),
    ],
)
def test_a_quick_run_climbs_the_directions_by_quarters(layers: int, expected: list[int]) -> None:
    found = ladders(layers, full=False)
    assert {convention for _, convention in found} == {"before"}
    assert list(found[ALL, "before"].rungs) == list(range(1, layers + 1))
    for direction in IN_PARTS:
        assert list(found[direction, "before"].rungs) == expected
    assert list(found["<C", "before"].rungs) == [layers]


def test_a_full_run_climbs_all_under_both_conventions() -> None:
    found = ladders(3, full=True)
    assert set(found) == {(one, how) for one in DIRECTIONS for how in CONVENTIONS}
    assert all(list(ladder.rungs) == [1, 2, 3] for ladder in found.values())
    names = [variant.name for variant in variants_of(found.values())]
    assert len(set(names)) == len(names) == 30


def test_a_rung_cuts_the_layers_below_it() -> None:
    found = ladders(4, full=True)
    assert found["T<Q", "before"].rungs[3].name == "cut:T<Q@0-2"
    assert found["T<Q", "before"].rungs[3].family == "T<Q"
    assert found["C<T", "after"].whole.name == "cut:C<T@0-3/after"
    assert found["C<T", "after"].whole.family == "C<T/after"
