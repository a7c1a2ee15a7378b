import re
from dataclasses import asdict, replace
from xml.etree import ElementTree

import pytest

from qt_bert.figures import Bars, BarSeries, Figure, Mark, head_map
from qt_bert.report.figures import drawn
from qt_bert.results.palette import VARIABLES
from qt_bert.text import Text
from tests.figures.examples import ALL, BARS, CURVE, EMPTY, HEAT_MAP, SCATTER, TOKENS

BAD = "</text><script>&\"'\x00\ud800"
NAMES = {"title": Text(f"标题{BAD}", f"title{BAD}"), "x_label": BAD, "y_label": BAD}
LABELS = NAMES | {"unit": BAD}
FIGURES: tuple[Figure, ...] = (
    *EMPTY,
    head_map("one", ((0.0,),)),
    replace(HEAT_MAP, **LABELS, rows=(BAD, Text("x" * 300, BAD))),
    replace(BARS, **LABELS, categories=(BAD, "b"), series=(replace(BARS.series[1], name=BAD),)),
    replace(CURVE, **LABELS, series=(replace(CURVE.series[0], name=BAD),)),
    replace(SCATTER, **NAMES, points=(Mark(x=1, y=2, series=BAD, label=BAD),)),
    TOKENS,
)


def picture(figure: Figure) -> ElementTree.Element:
    return ElementTree.fromstring(f"<div>{drawn(figure)['markup']}</div>")


@pytest.mark.parametrize("figure", FIGURES)
def test_every_figure_is_well_formed_and_escaped(figure):
    root = picture(figure)
    shapes = {"svg", "g", "path", "line", "rect", "text", "tspan", "title", "defs", "clipPath"}
    assert {element.tag for element in root.iter()} <= shapes | {"div", "span", "i"}
    markup = str(drawn(figure)["markup"])
    assert "<script" not in markup and not re.search(r"\bNaN|[Ii]nfinity|undefined", markup)
    assert not re.search(r'(href|src|on\w+|font-family)="|url\(http', markup)


@pytest.mark.parametrize("figure", ALL, ids=lambda figure: figure.kind)
def test_equal_figures_give_equal_bytes_whatever_was_drawn_before(figure):
    first = drawn(figure)
    for other in reversed(ALL):
        drawn(other)
    assert drawn(figure) == first


@pytest.mark.parametrize("figure", [f for f in ALL if f is not TOKENS], ids=lambda f: f.kind)
def test_colours_are_the_pages_own(figure):
    """No colour is fixed, so that light and dark pages both read well."""
    single = asdict(VARIABLES)
    known = {"none", "transparent", *single.pop("series"), *single.values()}
    for element in picture(figure).iter():
        assert {element.get(name, "none") for name in ("fill", "stroke")} <= known


def test_what_differs_is_drawn_in_both_languages():
    styles = {text.text: text.get("class") for text in picture(HEAT_MAP).iter("text")}
    assert (styles["分"], styles["points"]) == ("zh", "en")
    assert (styles["行：层 · 列：头"], styles["rows: layer · columns: head"]) == ("zh", "en")
    assert styles["L0"] is None


def test_two_texts_of_one_width_keep_their_translations():
    first, last = Text("甲", "the same"), Text("乙", "the same")
    root = picture(replace(BARS, categories=(first, last)))
    words = [(text.text, text.get("class")) for text in root.iter("text")]
    assert words.count(("the same", "en")) == 2
    assert ("甲", "zh") in words and ("乙", "zh") in words


def test_each_bar_stands_beside_its_value():
    series = tuple(BarSeries(name=f"s{k}", values=(1.25 + k,)) for k in range(5))
    figure = Bars(name="many", categories=("c",), series=series)
    root = picture(figure)
    explained = [path.get("d", "") for path in root.iter("path") if len(path)]
    bars = [re.findall(r",([\d.]+)h[\d.]+v([\d.]+)", path)[0] for path in explained]
    texts = [text for text in root.iter("text") if (text.text or "").endswith(".25")]
    assert len(texts) == len(bars) == 5
    for (top, height), text in zip(bars, texts, strict=True):
        baseline = float(re.findall(r",([\d.]+)\)", text.get("transform", ""))[0])
        # What is centred has its baseline 0.3 of 12 pixels lower.
        assert float(top) + float(height) / 2 == pytest.approx(baseline - 3.6, abs=0.5)
