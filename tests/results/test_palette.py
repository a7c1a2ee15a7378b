import re
from dataclasses import asdict
from importlib import resources

import pytest

from qt_bert.results.palette import DARK, LIGHT, Shades, contrast, ink_on, mixed


@pytest.mark.parametrize(("palette", "block"), [(LIGHT, 0), (DARK, 1)])
def test_the_reports_style_sheet_has_the_same_colours(palette, block):
    sheet = resources.files("qt_bert.report").joinpath("templates/style.css").read_text("utf-8")
    variables = dict(
        re.findall(r"--([\w-]+): (#\w{6})", re.findall(r":root \{([^}]*)\}", sheet)[block])
    )
    colours = asdict(palette)
    series = colours.pop("series")
    assert {name: variables[name.replace("_", "-")] for name in colours} == colours
    assert tuple(variables[f"series-{i + 1}"] for i in range(len(series))) == series


@pytest.mark.parametrize(
    ("values", "scale", "ends"),
    [
        ([1.0, 3.0, None], "sequential", (1.0, 3.0)),
        ([-1.0, 3.0], "diverging", (-3.0, 3.0)),
        ([None], "sequential", (0.0, 0.0)),
    ],
)
def test_colours_span_the_values(values, scale, ends):
    shades = Shades.over(values, scale)
    assert (shades.low, shades.high) == ends


def test_values_beyond_the_range_take_the_end_colour():
    assert Shades.over([], "sequential", 0.0, 1.0)(7.0) == ("heat", 1.0)
    assert Shades.over([-1.0], "diverging")(-9.0) == ("negative", 1.0)
    assert Shades.over([-1.0], "diverging")(0.25) == ("positive", 0.25)
    assert Shades.over([1.0], "sequential")(None) == ("missing", 1.0)
    assert Shades.over([0.3, 0.3], "sequential")(0.3) == ("heat", 1.0)


def test_values_that_all_lie_below_the_range_have_no_colour():
    """Heads that cut words no better than guessing: the worst must not look best."""
    shades = Shades.over([0.40, 0.45], "sequential", 0.5)
    assert (shades.low, shades.high) == (0.5, 0.5)
    assert [shades(value)[1] for value in (0.40, 0.45)] == [0.0, 0.0]


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("hue", ["heat", "negative", "positive"])
def test_numbers_read_on_every_fill(palette, hue):
    for share in (step / 50 for step in range(51)):
        fill = mixed(palette.surface, getattr(palette, hue), share)
        assert contrast(fill, getattr(palette, ink_on(hue, share))) > 3.9


@pytest.mark.parametrize("palette", [LIGHT, DARK], ids=["light", "dark"])
def test_words_and_series_read_on_the_page(palette):
    assert contrast(palette.ink, palette.surface) > 7
    assert contrast(palette.muted, palette.surface) > 4.5
    assert all(contrast(colour, palette.surface) > 3 for colour in palette.series)
