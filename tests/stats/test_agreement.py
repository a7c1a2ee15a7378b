"""Agreement of raters against Krippendorff's own example, scikit-learn, and figures by hand."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from qt_bert.errors import ArgumentError
from qt_bert.stats.agreement import MARGIN, Ratings, agreement

# Krippendorff (2011), the reliability data of section C: four observers, twelve units.
OBSERVERS = (
    (1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None),
    (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3),
    (None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None),
    (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None),
)


def rated(*columns, queries=None):
    """Ratings of raters A, B, …; a number is an exact grade, a tuple a set, None no rating."""
    rows = [
        [(one,) if isinstance(one, int) else one for one in row]
        for row in zip(*columns, strict=True)
    ]
    names = [chr(65 + number) for number in range(len(columns))]
    return Ratings.of(names, rows, queries or [str(row) for row in range(len(rows))])


def test_alpha_of_krippendorffs_example():
    assert agreement(rated(*OBSERVERS), resamples=0)["alpha"]["value"] == pytest.approx(
        0.815, abs=5e-4
    )


def test_two_raters_against_scikit_learn():
    generator = np.random.default_rng(0)
    a = generator.integers(1, 6, 200)
    b = np.clip(a + generator.integers(-1, 3, 200), 1, 5)
    found = agreement(rated(a.tolist(), b.tolist()), resamples=0)["between"][0]
    values = {name: one["value"] for name, one in found["metrics"].items()}
    assert values["kappa"] == pytest.approx(cohen_kappa_score(a, b))
    assert values["quadratic_kappa"] == pytest.approx(cohen_kappa_score(a, b, weights="quadratic"))
    assert values["agreement"] == pytest.approx((a == b).mean())
    assert values["within_one"] == pytest.approx((abs(a - b) <= 1).mean())
    assert values["bias"] == pytest.approx((b - a).mean())
    assert [one["value"] for one in found["bias_by_label"]] == pytest.approx(
        [(b - a)[a == grade].mean() for grade in range(1, 6)]
    )
    assert found["confusion"] == [
        [int(((a == i) & (b == j)).sum()) for j in range(1, 6)] for i in range(1, 6)
    ]


def test_grades_that_nobody_gives_keep_their_distance():
    found = agreement(rated([1, 1, 5, 5], [1, 3, 3, 5]), resamples=0)["between"][0]["metrics"]
    assert found["within_one"]["value"] == 0.5 and found["bias"]["value"] == 0


def test_sets_that_do_not_overlap_are_levels():
    low, middle, high = (1, 2), (3, 4), (5,)
    a, b = [low, low, middle, high, high, low], [low, middle, middle, high, middle, high]
    number = {low: 0, middle: 1, high: 2}
    found = agreement(rated(a, b), resamples=0)["between"][0]["metrics"]
    expected = cohen_kappa_score(
        [number[x] for x in a], [number[x] for x in b], weights="quadratic"
    )
    assert found["quadratic_kappa"]["value"] == pytest.approx(expected)
    as_grades = agreement(
        rated([number[x] + 1 for x in a], [number[x] + 1 for x in b]), resamples=0
    )
    assert found["alpha"]["value"] == pytest.approx(
        as_grades["between"][0]["metrics"]["alpha"]["value"]
    )


def test_overlapping_sets_lie_as_far_apart_as_their_nearest_grades():
    ratings = rated([(3, 4), (3, 4), 5, 1], [3, 5, (3, 4), 4])
    assert ratings.distance().tolist() == [0, 1, 1, 3]
    found = agreement(ratings, resamples=0)["between"][0]["metrics"]
    assert found["agreement"]["value"] == 0.25 and found["bias"]["value"] == pytest.approx(
        (1 - 1 + 3) / 4
    )


def test_titles_of_a_query_are_resampled_together():
    a, b = [1, 2, 3, 4, 5, 1] * 5, [1, 2, 3, 4, 4, 3] * 5
    apart = agreement(rated(a, b), seed=1)["between"][0]["metrics"]["agreement"]
    together = agreement(rated(a, b, queries=["q", "q", "q", "r", "r", "r"] * 5), seed=1)
    found = together["between"][0]["metrics"]["agreement"]
    assert apart["ci_low"] < found["value"] < apart["ci_high"]
    assert (found["ci_low"], found["ci_high"]) == pytest.approx((1 / 3, 1.0))


def test_a_rater_that_agrees_as_the_others_do_may_stand_for_them():
    generator = np.random.default_rng(3)
    truth = generator.integers(1, 6, 600)

    def noisy(share):
        other = generator.integers(1, 6, 600)
        return np.where(generator.random(600) < share, other, truth).tolist()

    people, stands = [noisy(0.1), noisy(0.1)], {}
    for share in (0.0, 0.6):
        found = agreement(rated(*people, noisy(share)), ["C"], resamples=500)
        kappa = [one["metrics"]["quadratic_kappa"]["value"] for one in found["between"]]
        (judge,) = found["judges"]
        assert (judge["own"], judge["rest"]) == pytest.approx((np.mean(kappa[1:]), kappa[0]))
        assert judge["difference"]["value"] == pytest.approx(judge["own"] - judge["rest"])
        stands[share] = judge["stands"]
    assert stands == {0.0: True, 0.6: False} and MARGIN == 0.05


def test_missing_ratings_count_for_nobody():
    found = agreement(rated([1, 2, None, 5], [1, None, 3, 5], [1, 2, 3, None]), resamples=0)
    assert [one["metrics"]["agreement"]["n"] for one in found["between"]] == [2, 2, 2]
    assert found["alpha"]["n"] == 4 and found["alpha"]["value"] == 1


def test_one_grade_alone_leaves_kappa_undefined():
    found = agreement(rated([3, 3], [3, 3]), resamples=10)
    assert found["alpha"]["value"] is None and found["alpha"]["reason"]
    assert found["between"][0]["metrics"]["agreement"]["value"] == 1


@pytest.mark.parametrize("columns", [([1, 2],), ([1, None], [None, 2])])
def test_one_rater_a_pair_is_no_agreement(columns):
    with pytest.raises(ArgumentError):
        rated(*columns)


def test_judges_that_agree_with_each_other_do_not_stand_for_people_so():
    generator = np.random.default_rng(4)
    people = [generator.integers(1, 6, 300).tolist() for _ in range(2)]
    machine = generator.integers(1, 6, 300).tolist()
    found = agreement(rated(*people, machine, machine), ["C", "D"], resamples=100)["judges"]
    kappas = agreement(rated(*people, machine), resamples=0)["between"]
    own = np.mean([one["metrics"]["quadratic_kappa"]["value"] for one in kappas[1:]])
    assert [one["own"] for one in found] == pytest.approx([own, own])
