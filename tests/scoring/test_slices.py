import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.scoring.evaluate import automatic, by_column


def slices_of(query, title):
    """The slices that hold a pair, without those by quarters of the file."""
    result = automatic([Pair(query, title, (1,), "1", 1, "1", {})])
    return {name for name, rows in result.items() if rows[0]}


def test_what_texts_show():
    shown = {"number", "Latin letters", "question word"}
    assert slices_of("ｉＰｈｏｎｅ 15怎么关机", "苹果手机关机") == shown
    assert slices_of("孕妇不能吃什么", "孕妇能吃的水果") == {"negation", "question word"}
    assert slices_of("不锈钢别墅大门", "特别的无线路由3") == set()
    assert slices_of("几何特别不错", "喝茶") == set()


def test_lengths_part_at_the_quarters_of_the_file():
    pairs = [Pair("字" * n, "字", (1,), "1", 1, "1", {}) for n in range(1, 10)]
    result = automatic(pairs)
    assert result["query length ≤ 3"].tolist() == [True] * 3 + [False] * 6
    assert result["query length ≥ 7"].tolist() == [False] * 6 + [True] * 3
    assert not any(name.startswith("title length") for name in result)  # all alike
    result = automatic([Pair("字" * n, "字", (1,), "1", 1, "1", {}) for n in (2, 3, 4, 5)])
    assert result["query length ≤ 2"].tolist() == [True, False, False, False]
    assert result["query length ≥ 5"].tolist() == [False, False, False, True]


def test_values_of_a_column_stand_between_commas():
    cells = ["a, b", "b", "a,", "(none)", ""]
    result = by_column([Pair("q", "t", (1,), "1", 1, "1", {"x": cell}) for cell in cells], "x")
    rows = {value: np.flatnonzero(mask).tolist() for value, mask in result.items()}
    assert rows == {"a": [0, 2], "b": [0, 1], "(none)": [3, 4]}
