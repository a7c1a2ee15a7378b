"""The band: fixed for grades, measured for one logit."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.data.pairs import Pair
from qt_bert.models.card import ModelLabels
from qt_bert.probes.behaviour.bands import (
    GRADE,
    LEVEL,
    SCORE,
    Band,
    fixed_band,
    measured_band,
    neighbour_gaps,
    ranked,
)


def pair(query: str, title: str) -> Pair:
    return Pair(query, title, None, "", 1, None, {})


def test_gaps_lie_between_neighbours_of_one_query() -> None:
    scores = np.array([3.0, 10.0, 1.0, 1.5, 10.5, 7.0])
    gaps = neighbour_gaps(scores, ["a", "b", "a", "a", "b", "c"])
    assert gaps.tolist() == [0.5, 1.5, 0.5]
    assert float(np.median(gaps)) == 0.5
    assert neighbour_gaps(np.array([1.0, 2.0]), ["a", "b"]).size == 0


def test_queries_of_one_title_rank_nothing() -> None:
    pairs = [pair("a", "1"), pair("b", "1"), pair("a", "2")]
    assert [one.query for one in ranked(pairs)] == ["a", "a"]


def test_a_pair_that_comes_twice_ranks_once() -> None:
    pairs = [pair("a", "1"), pair("b", "1"), pair("a", "2"), pair("a", "1"), pair("b", "1")]
    assert [(one.query, one.title) for one in ranked(pairs)] == [("a", "1"), ("a", "2")]


def test_a_band_is_a_share_of_the_scale_or_measured() -> None:
    assert fixed_band(ModelLabels(3, ((1, 2), (3,), (4, 5)))) == Band(0.25, GRADE)
    assert fixed_band(ModelLabels(3, None)) == Band(0.125, LEVEL)
    assert fixed_band(ModelLabels(1, None)) is None
    found = measured_band(np.array([1.0, 4.0, 2.0]), ["a", "a", "a"], "dev.tsv")
    assert found == Band(1.5, SCORE, "dev.tsv", 2)


def test_the_curve_goes_from_0_to_four_bands() -> None:
    curve = Band(0.25, GRADE).curve()
    assert (len(curve), curve[0], curve[-1]) == (21, 0.0, 1.0)
    assert np.diff(curve) == pytest.approx(0.05)
    assert Band(0.0, SCORE, "dev.tsv", 3).curve() == []


def test_the_words_say_where_it_comes_from() -> None:
    assert Band(0.25, GRADE).said.en == "0.25 grade"
    said = Band(0.1234, SCORE, "dev.tsv", 3).said
    assert said.en.startswith("0.123 score (the median gap") and "dev.tsv" in said.zh
