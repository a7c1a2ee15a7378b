"""The bounded cache of results."""

from __future__ import annotations

import threading

import numpy as np

from qt_bert.inspection.cache import Kept, bytes_of


def test_it_is_made_once_while_it_is_kept() -> None:
    kept, made = Kept(most=2), []

    def value(key: str) -> str:
        return kept.get(key, lambda: made.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [value(key) for key in "abab"] == list("ABAB") and made == ["a", "b"]
    value("c")  # forgets a, the least recently used
    assert value("b") == "B" and made == ["a", "b", "c"]
    assert value("a") == "A" and made == ["a", "b", "c", "a"] and len(kept) == 2


def test_bytes_are_bounded() -> None:
    kept = Kept(most_bytes=80_000)
    for key in range(100):
        kept.get(key, lambda: np.zeros(1_000))
    assert kept.bytes <= 80_000 and 5 <= len(kept) <= 10
    before = len(kept)
    kept.get("large", lambda: np.zeros(10_000))
    assert len(kept) == before


def test_what_a_result_weighs() -> None:
    assert bytes_of(np.zeros(1_000)) >= 8_000
    assert bytes_of({"a": [np.zeros(10), "text"]}) > bytes_of(np.zeros(10))


def test_many_threads_share_it() -> None:
    kept, wrong = Kept(most=3), []

    def work() -> None:
        for turn in range(300):
            key = turn % 7
            if kept.get(key, lambda key=key: key) != key:  # type: ignore[misc]
                wrong.append(key)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong and len(kept) <= 3
