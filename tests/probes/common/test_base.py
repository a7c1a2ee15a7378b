"""What figures rest on, in words."""

from __future__ import annotations

from qt_bert.data.pairs import Pair
from qt_bert.figures import Bars
from qt_bert.probes.display import resting_on, sample, sample_of
from qt_bert.text import Text, counted


def pair(query: str) -> Pair:
    return Pair(query, "t", (1,), "1", 1, "1", {})


def bars(note: Text | None) -> Bars:
    return Bars(
        name="b",
        title=Text("", ""),
        x_label="",
        y_label="",
        unit="",
        categories=(),
        series=(),
        note=note,
    )


def test_one_thing_has_no_plural_s() -> None:
    assert [counted(n, "pair") for n in (0, 1, 1200)] == ["0 pairs", "1 pair", "1,200 pairs"]
    assert [counted(n, "query", "queries") for n in (1, 2)] == ["1 query", "2 queries"]


def test_a_sample_counts_pairs_and_queries() -> None:
    assert sample(2, 1) == Text("2 对、1 个查询", "2 pairs of 1 query")
    assert sample_of([pair("a"), pair("a"), pair("b")]).en == "3 pairs of 2 queries"


def test_the_base_stands_at_the_end_of_a_note() -> None:
    noted = Text("粗框：选出的头。", "Outlined: named heads")
    alone, after = resting_on(sample(2, 1), [bars(None), bars(noted)])
    assert alone.note == Text("依据：2 对、1 个查询。", "Base: 2 pairs of 1 query.")
    assert after.note is not None
    assert after.note.en == "Outlined: named heads. Base: 2 pairs of 1 query."
    assert after.note.zh == "粗框：选出的头。依据：2 对、1 个查询。"
