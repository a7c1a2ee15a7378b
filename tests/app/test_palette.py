"""Report and page share their colours."""

from __future__ import annotations

import re
from dataclasses import asdict
from importlib import resources

import pytest

from qt_bert.results.palette import DARK, LIGHT, contrasts_with_ink, span


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
    assert span(values, scale) == ends


@pytest.mark.parametrize("palette", [LIGHT, DARK])
def test_text_on_weak_fills_is_in_ink_and_on_strong_ones_not(palette):
    assert contrasts_with_ink(palette, palette.heat, 0.0)
    assert not contrasts_with_ink(palette, palette.heat, 1.0)


def test_a_page_uses_the_same_light_and_dark_grounds():
    import tomllib
    from pathlib import Path

    path = Path(__file__).parents[2] / "apps" / ".streamlit" / "config.toml"
    theme = tomllib.loads(path.read_text(encoding="utf-8"))["theme"]
    assert theme["light"]["backgroundColor"] == LIGHT.surface
    assert theme["dark"]["backgroundColor"] == DARK.surface
