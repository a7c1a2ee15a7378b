"""Speeds of smaller models by a clock made by hand."""

import numpy as np
import pytest

from qt_bert.planning import speeds


class Timed:
    """Takes a fixed time for each text."""

    def __init__(self, clock, seconds, log=None):
        self.clock, self.seconds, self.log = clock, seconds, [] if log is None else log

    def logits(self, texts):
        self.clock[0] += self.seconds * len(texts)
        self.log.append(self.seconds)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(speeds.time, "perf_counter", lambda: now[0])
    return now


TEXTS = [("q" * length, "t") for length in range(1, 21)]
REQUESTS = speeds.requests_of(TEXTS, 3, 6)


def test_each_request_is_timed_by_each_model(clock):
    seconds = speeds.seconds_of((Timed(clock, 0.004), Timed(clock, 0.001)), REQUESTS)
    assert seconds == pytest.approx(np.tile([0.012, 0.003], (6, 1)))
    slow = speeds.seconds_of((Timed(clock, 4.0), Timed(clock, 1.0)), REQUESTS)
    assert len(slow) == speeds.LEAST_REQUESTS  # time is up


def test_the_two_take_turns_and_turns_at_being_first(clock):
    log = []
    speeds.in_turns((Timed(clock, 2, log), Timed(clock, 1, log)), TEXTS[:1], 3)
    assert log == [2, 1, 1, 2, 2, 1]


def test_few_runs_have_a_median_and_no_interval():
    few = speeds.ratio(np.array([0.4, 0.5, 0.5, 0.6]), 0)
    assert (few.value, few.low, few.high) == (0.5, None, None)
    known = speeds.ratio(np.array([0.3, 0.4, 0.5, 0.6, 0.7]), 0)
    assert (known.value, known.low, known.high) == (0.5, 0.3, 0.7)


def test_a_request_is_a_query_with_its_own_titles_first():
    texts = [("a", "1"), ("b", "2"), ("a", "3"), ("b", "4")]
    requests = speeds.requests_of(texts, 3, 5)
    assert len(requests) == 5 and {len(request) for request in requests} == {3}
    for request in requests:
        (query,) = {query for query, _ in request}
        own = [title for of, title in texts if of == query]
        assert [title for _, title in request][:2] == own
