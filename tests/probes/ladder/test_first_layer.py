"""The first layer that must see both texts, of ladders made by hand."""

from __future__ import annotations

import pytest

from qt_bert.probes.ladder.first_layer import first_layer, free_rungs
from tests.probes.ladder.made import climbed, made_losses


@pytest.mark.parametrize(
    ("wrong", "free"),
    [
        ([0, 0, 50, 50], 2),
        ([50, 0, 0, 0], 0),
        ([0, 50, 0, 0], 1),  # what is free above a rung that loses does not count
        ([0, 0, 0, 0], 4),
        ([1, 0, 0, 0], 0),  # one pair of a hundred: the interval reaches above two points
    ],
)
def test_rungs_are_free_while_their_interval_ends_below_two_points(
    wrong: list[int], free: int
) -> None:
    assert free_rungs(made_losses(wrong), climbed(4), "accuracy") == free


def test_a_correlation_has_a_bar_of_its_own() -> None:
    assert free_rungs(made_losses([0, 60]), climbed(2), "spearman") == 1


def test_without_an_interval_nothing_is_free() -> None:
    assert free_rungs(made_losses([0, 0], queries=1), climbed(2), "accuracy") == 0
    assert free_rungs(made_losses([0, 0], resamples=0), climbed(2), "accuracy") == 0


def test_what_discovery_finds_validation_confirms_or_not() -> None:
    def found(discovery: list[int], validation: list[int]) -> tuple[int, int, bool, bool]:
        one = first_layer(
            climbed(3),
            "accuracy",
            discovery=made_losses(discovery),
            validation=made_losses(validation),
        )
        return one.found, one.again, one.confirmed, one.none

    assert found([0, 0, 50], [0, 0, 50]) == (2, 2, True, False)
    assert found([0, 0, 50], [0, 0, 0]) == (2, 3, True, False)
    assert found([0, 0, 50], [0, 50, 0]) == (2, 1, False, False)
    assert found([0, 0, 0], [0, 0, 0]) == (3, 3, True, True)
