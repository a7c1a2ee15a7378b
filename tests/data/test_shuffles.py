from collections import Counter

import numpy as np
import pytest

from qt_bert.data import shuffles
from qt_bert.errors import ArgumentError


class FixedWords:
    name = "fixed"

    def __init__(self, *words: str) -> None:
        self._words = list(words)

    def words(self, text: str) -> list[str]:
        return self._words

    def spans(self, text: str) -> list[tuple[int, int]]:
        raise AssertionError("shuffles ask for words alone")


def test_all_other_arrangements_are_drawn_alike():
    rng = np.random.default_rng(0)
    drawn = Counter(shuffles.shuffle_characters("甲乙丙", rng) for _ in range(5000))
    assert set(drawn) == {"甲丙乙", "乙甲丙", "乙丙甲", "丙甲乙", "丙乙甲"}
    assert all(abs(count - 1000) < 120 for count in drawn.values())


def test_words_stay_whole():
    words = FixedWords("北京", "到", "上海")
    rng = np.random.default_rng(0)
    drawn = {shuffles.shuffle_words("北京到上海", words, rng) for _ in range(200)}
    assert drawn == {"北京上海到", "到北京上海", "到上海北京", "上海北京到", "上海到北京"}


@pytest.mark.parametrize("words", [(), ("北京",), ("哈", "哈"), ("哈", "哈哈", "哈哈哈")])
def test_words_whose_order_says_nothing_are_not_eligible(words):
    cut, rng = FixedWords(*words), np.random.default_rng(0)
    assert shuffles.shuffle_words("".join(words), cut, rng) is None


def test_overlapping_words_are_refused():
    words, rng = FixedWords("清华", "清华大学"), np.random.default_rng(0)
    with pytest.raises(ArgumentError, match="overlapping"):
        shuffles.shuffle_words("清华大学", words, rng)
