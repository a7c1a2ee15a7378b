from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.intervals import bootstrap_weights, percentile_interval, resample
from qt_bert.stats.judgements import Judgements
from qt_bert.stats.metrics import METRICS


def test_every_resample_draws_as_many_queries_as_there_are() -> None:
    weights = np.concatenate(list(bootstrap_weights(7, 50, 0, width=20)))
    assert weights.shape == (50, 7)
    assert (weights.sum(axis=1) == 7).all()


def test_one_seed_gives_one_series_of_weights() -> None:
    one, two, other = (
        np.concatenate(list(bootstrap_weights(9, 5, seed, width=9))) for seed in (1, 1, 2)
    )
    assert (one == two).all()
    assert (one != other).any()


def test_a_negative_number_of_resamples_is_refused() -> None:
    with pytest.raises(ArgumentError, match="resamples is -1"):
        list(bootstrap_weights(3, -1, 0, width=3))


def test_chunks_bound_the_memory_of_one_step() -> None:
    first = next(bootstrap_weights(1_000, 5_000, 0, width=10_000))
    assert first.shape == (100, 1_000)


def test_the_interval_of_a_share_is_near_the_normal_one(
    random_judgements: Callable[..., Judgements],
) -> None:
    judged = random_judgements(0, n=2_000, n_queries=10**9)
    samples = resample(
        [METRICS["accuracy"].estimator(judged)],
        bootstrap_weights(judged.n_queries, 1_000, 0, width=len(judged)),
    )[0]
    interval = percentile_interval(samples)
    share = METRICS["accuracy"].value(judged)
    assert interval is not None and share is not None
    half = 1.96 * np.sqrt(share * (1 - share) / 2_000)
    assert interval == pytest.approx((share - half, share + half), abs=half / 5)


def test_copies_of_a_title_do_not_narrow_the_interval(
    random_judgements: Callable[..., Judgements],
) -> None:
    judged = random_judgements(0, n=40, n_queries=10**9)
    copies = judged.subset(np.repeat(np.arange(40), 10))
    one, ten = (percentile_interval(_accuracies(some)) for some in (judged, copies))
    assert one is not None and ten is not None
    assert one == pytest.approx(ten)


def _accuracies(judged: Judgements) -> FloatArray:
    weights = bootstrap_weights(judged.n_queries, 500, 0, width=1)
    return np.asarray(resample([METRICS["accuracy"].estimator(judged)], weights)[0])


def test_few_undefined_resamples_are_dropped() -> None:
    samples = np.append(np.linspace(0, 1, 96), [np.nan] * 4)
    assert percentile_interval(samples) == pytest.approx((0.025, 0.975))


@pytest.mark.parametrize("samples", [np.empty(0), np.append(np.ones(94), [np.nan] * 6)])
def test_too_few_resamples_give_no_interval(samples: FloatArray) -> None:
    assert percentile_interval(samples) is None
