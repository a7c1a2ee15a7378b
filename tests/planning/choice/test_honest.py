from __future__ import annotations

from pathlib import Path

import pytest

from qt_bert.data.splits import balanced_halves
from qt_bert.errors import ArgumentError
from qt_bert.models.heads import Head
from qt_bert.planning.honest import expected
from qt_bert.planning.runs import Removal, changes
from tests.planning.choice.conftest import graded, zero


def test_each_half_is_read_under_the_other_halfs_choice(scorer_of) -> None:
    scorer, pairs = scorer_of(), graded()
    halves = balanced_halves(pairs)
    plans = {
        len(half[0].query) + half[0].line: [Removal((Head(0, place),)), Removal((), (place,))]
        for place, half in enumerate(halves)
    }
    asked = []

    def choose(half):
        asked.append(list(half))
        return plans[len(half[0].query) + half[0].line]

    found = expected(scorer, pairs, [5, 4], choose, mask=zero, n_new=9, resamples=100, seed=0)
    assert asked == [halves[0], halves[1]] and len(found) == 2
    read = [
        changes(scorer, half, chosen, mask=zero, resamples=0)
        for half, chosen in zip(halves[::-1], plans.values(), strict=True)
    ]
    for budget in range(2):
        assert list(found[budget]) == ["spearman", "qwk", "accuracy", "macro_f1", "log_loss"]
        for metric, prediction in found[budget].items():
            want = (read[0][budget][metric].absolute + read[1][budget][metric].absolute) / 2
            assert prediction.value == pytest.approx(want)
            assert prediction.pi_low <= prediction.value <= prediction.pi_high
            assert prediction.pi_low < prediction.pi_high


def test_a_larger_new_sample_is_predicted_more_closely(scorer_of) -> None:
    scorer, pairs = scorer_of(), graded()
    one, other = (
        expected(
            scorer,
            pairs,
            [1],
            lambda half: [Removal((Head(1, 1),))],
            mask=zero,
            n_new=n,
            resamples=100,
        )[0]["log_loss"]
        for n in (5, 500)
    )
    assert one.value == other.value and one.ci_low == other.ci_low
    assert one.pi_high - one.pi_low > other.pi_high - other.pi_low > 0


def test_kept_in_folders(scorer_of, tmp_path: Path) -> None:
    def run(**work):
        return expected(
            scorer_of(),
            graded(),
            [1],
            lambda half: [Removal((Head(1, 1),))],
            mask=zero,
            n_new=5,
            resamples=50,
            **work,
        )

    assert run(work=tmp_path) == run() == run(work=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["half-0", "half-1"]


def test_faults_are_named(scorer_of) -> None:
    scorer, pairs = scorer_of(), graded()
    with pytest.raises(ArgumentError, match=r"2 budgets on \[5, 5\] new queries"):
        expected(scorer, pairs, [1, 2], lambda half: [Removal()], mask=zero, n_new=5)
    with pytest.raises(ArgumentError, match=r"1 budgets on \[5, 6\] new queries"):
        expected(scorer, pairs, [1], lambda half: [Removal()], mask=zero, n_new=[5, 6])
    with pytest.raises(ArgumentError, match="1 queries cannot be halved"):
        expected(scorer, pairs[::6], [1], lambda half: [Removal()], mask=zero, n_new=5)
