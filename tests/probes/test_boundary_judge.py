"""How good decisions are, against counting by hand; the test of balanced accuracy at its level."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from qt_bert.probes.common.naming import one_sided_p
from qt_bert.probes.word_ends.judge import Judged, auc, counts_of
from tests.probes.planted_boundary import made

RNG = np.random.default_rng(7)


def segments(cuts: np.ndarray) -> set[tuple[int, int]]:
    """The words of one run by its cuts."""
    edges = [0, *(np.flatnonzero(cuts) + 1).tolist(), len(cuts) + 1]
    return set(pairwise(edges))


def test_measures_against_counting_by_hand():
    decisions = made([5, 3, 1, 7], queries=[0, 0, 1, 2])
    said, labels = RNG.random((2, len(decisions))) < 0.5
    judged = Judged(counts_of(said, labels, decisions), 50, 0)
    assert judged.value("accuracy") == pytest.approx((said == labels).mean())
    balanced = (said[labels].mean() + (~said[~labels]).mean()) / 2
    assert judged.value("balanced") == pytest.approx(balanced)
    right = said_words = known = 0
    for start, size in zip(decisions.text_starts, decisions.text_sizes, strict=True):
        one, other = (segments(cuts[start : start + size]) for cuts in (said, labels))
        right, said_words, known = (
            right + len(one & other),
            said_words + len(one),
            known + len(other),
        )
    assert judged.value("word_f1") == pytest.approx(2 * right / (said_words + known))
    assert judged.accuracy_shares().mean() == pytest.approx(judged.value("accuracy"))
    assert judged.excess(0.6).mean() == pytest.approx(balanced - 0.6)
    assert judged.samples("f1").shape == (50,)


def judged_of(sizes: np.ndarray, ends: np.ndarray, hits: np.ndarray, true_no: np.ndarray) -> Judged:
    """Queries of these sizes, with so many word ends, found ends and found non-ends."""
    zero = np.zeros(len(sizes))
    counts = np.stack([hits, true_no, ends, sizes - ends, zero, zero, zero, zero], axis=1)
    return Judged(counts.astype(float), 0, 0)


def test_queries_of_very_different_size_that_are_all_alike_do_not_spread():
    sizes = np.array([10, 20, 400, 10, 40])
    judged = judged_of(sizes, sizes // 2, sizes * 2 // 5, sizes * 3 // 10)
    assert judged.value("balanced") == pytest.approx(0.7)
    assert judged.excess(0.7) == pytest.approx(np.zeros(5))
    assert judged.excess(0.6) == pytest.approx(0.1 * sizes / sizes.mean())


@pytest.mark.parametrize(("of_ends", "of_others"), [(0.6, 0.6), (0.8, 0.4)])
def test_the_test_of_balanced_accuracy_keeps_its_level_for_queries_of_any_size(of_ends, of_others):
    rng, p = np.random.default_rng(11), []
    for _ in range(1000):
        sizes = rng.integers(2, 80, 48)
        ends = rng.binomial(sizes, rng.beta(3, 3, 48))
        hits, true_no = rng.binomial(ends, of_ends), rng.binomial(sizes - ends, of_others)
        p.append(one_sided_p(judged_of(sizes, ends, hits, true_no).excess(0.6)))
    assert 0.03 < np.mean(np.array(p) < 0.05) < 0.08


def test_auc_is_that_of_scikit_learn():
    from sklearn.metrics import roc_auc_score

    values, labels = RNG.integers(0, 9, (2, 60)) / 9, RNG.random(60) < 0.4
    assert auc(values, labels) == pytest.approx([roc_auc_score(labels, one) for one in values])
    assert np.isnan(auc(values, np.ones(60, bool))).all()
