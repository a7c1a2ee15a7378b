from __future__ import annotations

import math
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qt_bert.baselines import LexicalFeatures, word_segmenter
from qt_bert.baselines.lexical import (
    longest_common_subsequence,
    longest_common_substring,
    take_apart,
)
from qt_bert.pairs import segmenter, segmenters

TRAINING = [("狗追猫", "猫追狗"), ("狗追猫", "猫爱鱼"), ("鱼", "狗")]
"""Five distinct texts: 狗 stands in three of them, 追 in two, 猫 in three, 爱 in one, 鱼 in two."""


@pytest.fixture(scope="module")
def features() -> LexicalFeatures:
    return LexicalFeatures.fit(TRAINING, segmenter("rjieba"))


def described(features: LexicalFeatures, query: str, title: str) -> dict[str, float]:
    row = features.table([(query, title)])[0]
    return dict(zip(features.names, row.tolist(), strict=True))


def test_texts_are_folded_and_punctuation_dropped() -> None:
    apart = take_apart("ＩPhone 14.5，多少钱？", segmenter("rjieba"))
    assert apart.letters == "iphone145多少钱"
    assert apart.numbers == {"14.5"}
    assert apart.latin == {"iphone"}
    assert apart.units["word"] >= {"iphone", "多少"}
    assert not apart.units["word"] & {"，", "？", "?", " "}


def test_a_changed_order_shows_in_bigrams_and_runs_alone(features: LexicalFeatures) -> None:
    found = described(features, "狗追猫", "猫追狗")
    assert found["character_of_query"] == found["character_of_title_idf"] == 1
    assert found["bigram_of_query"] == found["bigram_of_title"] == 0
    assert found["substring_of_query"] == found["subsequence_of_title"] == pytest.approx(1 / 3)


def test_coverage_goes_both_ways(features: LexicalFeatures) -> None:
    found = described(features, "狗猫", "狗追猫爱鱼")
    assert found["character_of_query"] == 1
    assert found["character_of_title"] == pytest.approx(2 / 5)
    assert found["subsequence_of_query"] == 1
    assert found["substring_of_title"] == pytest.approx(1 / 5)


def test_coverage_weighs_by_idf_of_the_training_texts(features: LexicalFeatures) -> None:
    found = described(features, "狗爱车", "狗")
    dog, love, unseen = (math.log(6 / (1 + n)) + 1 for n in (3, 1, 0))
    assert found["character_of_query"] == pytest.approx(1 / 3)
    assert found["character_of_query_idf"] == pytest.approx(dog / (dog + love + unseen))


def test_words_are_those_of_the_segmenter(features: LexicalFeatures) -> None:
    found = described(features, "北京天气", "北京美食")
    assert found["word_of_query"] == found["word_of_title"] == 0.5


def test_numbers_and_latin_strings(features: LexicalFeatures) -> None:
    found = described(features, "iPhone13和iPhone14价格", "IPHONE 14多少钱")
    assert found["number_of_query"] == 0.5
    assert found["number_of_title"] == found["latin_of_query"] == 1
    assert found["query_without_number"] == found["title_without_latin"] == 0
    bare = described(features, "北京天气", "上海 2024")
    assert bare["query_without_number"] == bare["title_without_latin"] == 1
    assert bare["number_of_query"] == bare["number_of_title"] == bare["title_without_number"] == 0


def test_lengths_count_letters_and_digits(features: LexicalFeatures) -> None:
    found = described(features, "狗 追猫？", "猫")
    assert (found["query_length"], found["title_length"]) == (3, 1)
    assert found["query_log_length"] == pytest.approx(math.log(4))


@pytest.mark.parametrize(("query", "title"), [("？", "……"), ("？", "狗"), ("狗", " ")])
def test_texts_without_letters_share_nothing(
    features: LexicalFeatures, query: str, title: str
) -> None:
    row = described(features, query, title)
    assert all(value == 0 for name, value in row.items() if "_of_" in name)
    assert np.isfinite(list(row.values())).all()


def test_an_empty_list_of_pairs_keeps_the_columns(features: LexicalFeatures) -> None:
    assert features.table([]).shape == (0, 28)
    assert len(set(features.names)) == 28


@given(st.text("猫狗追a1", max_size=12), st.text("猫狗追a1", max_size=80))
def test_longest_common_lengths_are_those_of_the_textbook_tables(a: str, b: str) -> None:
    subsequence = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    run = subsequence.copy()
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            run[i + 1, j + 1] = run[i, j] + 1 if x == y else 0
            subsequence[i + 1, j + 1] = (
                subsequence[i, j] + 1
                if x == y
                else max(subsequence[i, j + 1], subsequence[i + 1, j])
            )
    assert longest_common_subsequence(a, b) == subsequence[-1, -1]
    assert longest_common_substring(a, b) == run.max()


def test_jieba_cuts_where_rjieba_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert word_segmenter().name == "rjieba"
    segmenters.tokenizer_of.cache_clear()
    monkeypatch.setitem(sys.modules, "rjieba", None)
    assert word_segmenter().name == "jieba"
