"""One figure of each kind, with texts that a page must not run."""

from dataclasses import replace

from qt_bert.figures import (
    Bars,
    BarSeries,
    Curve,
    HeatMap,
    Links,
    Mark,
    Point,
    Scatter,
    Series,
    Token,
    TokenLine,
    Tokens,
)
from qt_bert.text import Text

HOSTILE = "<img src=x onerror=alert(1)>"

HEAT_MAP = HeatMap(
    name="heads",
    title=Text("每个头", "every head"),
    x_label=Text("头", "head"),
    y_label=Text("层", "layer"),
    unit=Text("分", "points"),
    columns=("H0", HOSTILE, "京"),
    rows=("L0", "L1"),
    values=((0.5, None, -1.0), (0.25, 0.0, 2.0)),
    annotations=(("3", "0", "1"), ("2", "2", "9")),
    marked=((1, 2),),
    scale="diverging",
)
BARS = Bars(
    name="grades",
    title=Text("档位", "grades"),
    x_label=Text("档", "grade"),
    y_label=Text("概率", "probability"),
    unit="%",
    categories=("1", "2"),
    series=(
        BarSeries(name=Text("之前", "before"), values=(10.0, None)),
        BarSeries(name=Text("之后", "after"), values=(-5.0, 7.0), intervals=(None, (6.0, 8.0))),
    ),
)
CURVE = Curve(
    name="curve",
    title=Text("曲线", "a curve"),
    x_label=Text("个数", "heads"),
    y_label="QWK",
    unit="",
    series=(
        Series(name="=1+1", points=(Point(x=0, y=1, low=0.5, high=1.5, n=9), Point(x=2, y=3))),
        Series(name=Text("随机", "random"), points=(Point(x=0, y=1),), dashed=True),
    ),
    note=Text("注 <b>", "note <b>"),
)
TOKENS = Tokens(
    name="pair",
    title=Text("词元", "tokens"),
    unit=Text("份额", "share"),
    lines=(
        TokenLine(
            name=Text("查询", "query"),
            tokens=(Token(text="京", value=0.5, marked=True), Token(text="[SEP]", ends_word=True)),
        ),
        TokenLine(name=HOSTILE, tokens=(Token(text="a" * 90, value=0.1, note=Text("注", "n")),)),
    ),
)
SCATTER = Scatter(
    name="scatter",
    title=Text("散点", "a scatter"),
    x_label=Text("可读出", "decodable"),
    y_label=Text("用上", "used"),
    x_unit="%",
    points=(
        Mark(x=1, y=2, series=Text("句法", "syntax"), label=HOSTILE),
        Mark(x=3, y=-1, series=HOSTILE),
        Mark(x=0, y=0, series=Text("句法", "syntax")),
    ),
)
LINKS = Links(
    name="links",
    title=Text("连线", "lines"),
    x_label=Text("谁在看", "looking"),
    unit=Text("注意力", "attention"),
    left=("京", HOSTILE),
    right=("东", "京", "[SEP]"),
    links=((0, 1, 0.5), (1, 2, 0.25)),
    high=1.0,
)
ALL = (HEAT_MAP, BARS, CURVE, TOKENS, SCATTER, LINKS)
EMPTY = (
    replace(HEAT_MAP, rows=(), values=(), annotations=None, marked=()),
    replace(BARS, categories=(), series=()),
    replace(CURVE, series=()),
    replace(SCATTER, points=()),
    replace(LINKS, left=(), right=(), links=()),
)
