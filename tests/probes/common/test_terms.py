"""Terms that both texts share."""

from __future__ import annotations

import pytest

from qt_bert.data.segmenters import segmenter
from qt_bert.probes.streams import Shared, is_content_word, is_punctuation, shared_terms

JIEBA = segmenter("jieba")


@pytest.mark.parametrize(
    ("query", "title", "shared"),
    [
        # 北京 is part of another word there, and 的 says nothing.
        ("北京的票", "北京大学的票", {"票": Shared([(3, 4)], [(5, 6)])}),
        ("EXCEL去重", "excel表格", {"excel": Shared([(0, 5)], [(0, 5)])}),
        ("Excel 的 狗", "EXCEL的", {"excel": Shared([(0, 5)], [(0, 5)])}),
        ("好吗？", "行吗？", {}),
        ("苹果手机", "苹果 苹果", {"苹果": Shared([(0, 2)], [(0, 2), (3, 5)])}),
    ],
)
def test_terms_stand_whole_in_both_texts_and_say_something(
    query: str, title: str, shared: dict[str, Shared]
) -> None:
    assert shared_terms(query, title, JIEBA) == shared


def test_terms_stand_in_the_order_of_the_query() -> None:
    found = shared_terms("我在伊朗长大", "假期电影《我在伊朗长大》", JIEBA)
    assert list(found) == ["我", "伊朗", "长大"]
    assert found["长大"] == Shared([(4, 6)], [(9, 11)])


def test_what_says_something() -> None:
    assert is_content_word("的票") and not is_content_word("的了") and not is_content_word("，。")
    assert is_punctuation("，") and not any(map(is_punctuation, "票a1 "))
