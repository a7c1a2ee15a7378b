"""Cases judged by scores: by hand, and by a scorer that counts shared characters."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.probes.behaviour.cases import ALIKE, BETTER, Case
from qt_bert.probes.behaviour.reading import read_cases
from qt_bert.probes.behaviour.scores import Judged, judge_cases, outcomes, towards
from qt_bert.probes.behaviour.tallies import ranked_higher, scores_by_band, tallies
from qt_bert.shipped import BEHAVIOURS, shipped

BETTER_CASES = [Case(f"b{n}", "negation", BETTER, f"q{n}", "t", "o") for n in range(4)]
ALIKE_CASES = [Case(f"a{n}", "synonym", ALIKE, f"r{n}", "t", "o") for n in range(4)]
CASES = [*BETTER_CASES, *ALIKE_CASES]
DELTAS = [0.3, 0.25, -0.2, -0.75, 0.25, -0.5, 0.5, 0.0]


def judged(band: float = 0.25) -> Judged:
    return judge_cases(np.add(DELTAS, 2.0), np.full(8, 2.0), CASES, band)


def test_right_undecided_and_wrong_by_hand() -> None:
    found = judged()
    np.testing.assert_allclose(found.deltas, DELTAS)
    assert found.outcomes.tolist() == [1, 0, 0, -1, 1, -1, -1, 1]
    assert judged(0.0).outcomes.tolist() == [1, 1, -1, -1, -1, -1, -1, 1]
    assert judged(1.0).outcomes.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_tallies_by_hand() -> None:
    found = tallies(judged(), resamples=50)
    better, alike = found["negation"], found["synonym"]
    assert (better.right, better.undecided, better.wrong, better.n) == (1, 2, 1, 4)
    assert (better.score.value, better.higher.value) == (0.0, 0.5)
    assert better.delta.value == pytest.approx(-0.1)
    assert (alike.right, alike.undecided, alike.wrong) == (2, 0, 2)
    assert alike.delta.value == pytest.approx(0.0625)
    assert ranked_higher(judged(), resamples=50, seed=0).value == 0.5
    bands = scores_by_band(judged(), [0.0, 0.25, 1.0], resamples=50, seed=0)
    assert [one.value for one in bands[BETTER]] == [0.0, 0.0, 0.0]
    assert [one.value for one in bands[ALIKE]] == [-0.5, 0.0, 1.0]


def test_a_file_of_one_relation_has_no_other() -> None:
    found = judged().of_relation(ALIKE)
    assert list(scores_by_band(found, [0.1], resamples=9, seed=0)) == [ALIKE]
    none = ranked_higher(found, resamples=9, seed=0)
    assert none.n == 0 and np.isnan(none.value) and none.interval is None


def overlap(query: str, title: str) -> float:
    """The share of the query's characters that stand in the title."""
    return len(set(query) & set(title)) / len(set(query))


def test_word_overlap_and_its_negative_mirror_each_other() -> None:
    cases = read_cases(shipped(BEHAVIOURS)).listed
    titles = np.array([overlap(case.query, case.title) for case in cases])
    others = np.array([overlap(case.query, case.other) for case in cases])
    for band in (0.0, 0.1):
        one, negative = (
            tallies(judge_cases(sign * titles, sign * others, cases, band), resamples=9, swaps=99)
            for sign in (1, -1)
        )
        for name, tally in one.items():
            turned = negative[name]
            assert turned.delta.value == -tally.delta.value
            if tally.relation == BETTER:
                assert turned.score.value == -tally.score.value
                assert (turned.right, turned.wrong) == (tally.wrong, tally.right)
            else:
                assert turned.score.value == tally.score.value
            assert (turned.score.p, turned.delta.p) == (tally.score.p, tally.delta.p)
    assert one["direction"].delta.value == 0.0  # all characters are kept: overlap cannot tell
    assert one["entity"].score.value > 0 > negative["entity"].score.value


def test_towards_what_a_case_asks_for() -> None:
    before, after = np.array([[0.5, 0.5, -0.5]]), np.array([[0.2, 0.2, 0.2], [1.0, -1.0, -0.5]])
    moved = towards(before, after, np.array([True, False, False]))
    np.testing.assert_allclose(moved, [[-0.3, 0.3, 0.3], [0.5, -0.5, 0.0]])


def test_bad_scores_are_refused() -> None:
    with pytest.raises(ArgumentError, match="scores of the others have shape"):
        judge_cases(np.zeros(8), np.zeros(7), CASES, 0.25)
    with pytest.raises(ArgumentError, match="one finite number"):
        judge_cases(np.full(8, np.nan), np.zeros(8), CASES, 0.25)
    with pytest.raises(ArgumentError, match="0 or more"):
        judge_cases(np.zeros(8), np.zeros(8), CASES, -1.0)
    assert outcomes(np.empty(0), np.empty(0, np.bool_), 0.1).size == 0
