from dataclasses import replace

from qt_bert.results.heads import HeadTable, atlas_figures, head_tables, marked, offered
from qt_bert.results.probe import HeadScores
from tests.results.made_heads import HEADS, matching, redundancy

TABLES: list[HeadTable] = head_tables([redundancy(), matching()])


def test_one_map_of_each_quantity_that_was_measured():
    figures = {figure.name: figure for figure in atlas_figures(TABLES)}
    assert list(figures) == ["atlas_effect", "atlas_kl", "atlas_matching"]
    effect = figures["atlas_effect"]
    assert (effect.rows, effect.columns) == (("L0", "L1"), ("H0", "H1"))
    assert effect.values == ((1.389, 0.0), (-5.556, None))
    assert effect.marked == ()  # two intervals exclude 0, but q is 0.2
    assert figures["atlas_matching"].marked == ((0, 1), (1, 0))
    assert (effect.scale, effect.unit) == ("diverging", offered(TABLES)[0][0].unit)


def test_effects_are_outlined_by_their_q():
    heads = tuple(
        HeadScores(head=head, scores={"change": 0.01, "q": q})
        for head, q in zip(HEADS, (0.049, 0.05, None, 0.5), strict=True)
    )
    ((quantity, table),) = offered(head_tables([replace(redundancy(), heads=heads)]))
    assert marked(quantity, table) == {(0, 0)}


def test_colours_of_a_skewed_quantity_end_before_its_largest_values():
    heads = tuple(
        HeadScores(head=f"L{n // 8}H{n % 8}", scores={"score": float(n), "q": 1.0})
        for n in range(40)
    )
    (figure,) = atlas_figures(head_tables([replace(matching(), probe="order", heads=heads)]))
    assert figure.high == 37.0  # of 0 … 39, one in twenty lies beyond
    assert "37" in (figure.note.en if figure.note else "")


def test_colours_of_effects_end_where_one_in_twenty_lies_beyond():
    heads = tuple(HeadScores(head=h, scores={"change": -0.2}) for h in HEADS)
    (figure,) = atlas_figures(head_tables([replace(redundancy(), heads=heads)]))
    assert (figure.low, figure.high) == (-20.0, 20.0)


def test_a_set_may_name_heads_without_scores():
    (figure,) = atlas_figures(head_tables([replace(matching(), sets={"matching": ("L2H3",)})]))
    assert (len(figure.rows), len(figure.columns)) == (3, 4)
    assert (figure.marked, figure.values[2][3]) == (((2, 3),), None)


def test_layers_with_a_window_are_named_with_it():
    result = replace(redundancy(), settings={"windows": [None, 64]})
    (effect, *_) = atlas_figures(head_tables([result]))
    assert effect.rows == ("L0", "L1 ±64")
    assert effect.note is not None and "64" not in effect.note.en
    assert "n tokens to either side" in effect.note.en
    assert all("±n" not in figure.note.en for figure in atlas_figures(TABLES) if figure.note)
