"""A figure as an SVG file of its own, which any program shows: no style sheet, no variables."""

from __future__ import annotations

import re
from functools import cache
from importlib import resources
from xml.etree import ElementTree

from qt_bert.report.charts.canvas import Canvas

_ROOT = re.compile(r":root\s*\{([^}]*)\}")
_RULE = re.compile(r"^svg ?([^{@]*)\{([^}]*)\}", re.MULTILINE)
_VARIABLE = re.compile(r"var\((--[\w-]+)\)")
_LEFT_TO_THE_PAGE = {"display", "width", "height", "font-family", "pointer-events"}
_FONTS = "Helvetica, Arial, PingFang SC, Microsoft YaHei, Noto Sans CJK SC, sans-serif"

Declarations = dict[str, str]


def standalone(canvas: Canvas, language: str) -> bytes:
    """The drawn `canvas` in one language, in the light colours on white, as a file."""
    root = ElementTree.fromstring(canvas.svg())
    other = "en" if language == "zh" else "zh"
    for parent in root.iter():
        for child in list(parent):
            if other in child.get("class", "").split():
                parent.remove(child)
    for element in root.iter():
        _style(element)
    root.attrib.pop("style", None)
    root.set("xmlns", "http://www.w3.org/2000/svg")
    root.set("width", f"{canvas.width:g}")
    root.set("height", root.get("viewBox", "").split()[-1])
    root.set("font-family", _FONTS)
    page = ElementTree.Element("rect", {"width": "100%", "height": "100%", "fill": "#ffffff"})
    root.insert(1, page)
    return ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)


def _style(element: ElementTree.Element) -> None:
    """The style sheet's rules for the element as attributes, later rules over earlier ones."""
    classes = set(element.attrib.pop("class", "").split())
    variables, rules = _sheet()
    own = dict(variables)
    found: Declarations = {}
    for selectors, declarations in rules:
        if any(_fits(selector, element.tag, classes) for selector in selectors):
            own |= {k: v for k, v in declarations.items() if k.startswith("--")}
            found |= {k: v for k, v in declarations.items() if not k.startswith("--")}
    for name, value in found.items():
        if name not in _LEFT_TO_THE_PAGE:
            element.set(name, _resolved(value, own))


def _resolved(value: str, variables: Declarations) -> str:
    for _ in range(3):  # a variable may name another one
        value = _VARIABLE.sub(lambda match: variables.get(match[1], "none"), value)
    return value


def _fits(selector: str, tag: str, classes: set[str]) -> bool:
    name, *needed = selector.split(".")
    return (name == tag or (not name and bool(needed))) and set(needed) <= classes


@cache
def _sheet() -> tuple[Declarations, list[tuple[list[str], Declarations]]]:
    """The light variables, and the rules for what is in a picture: selectors, declarations."""
    sheet = resources.files("qt_bert.report").joinpath("templates/style.css").read_text("utf-8")
    root = _ROOT.search(sheet)
    rules = [
        (
            [part.strip().removeprefix("svg").strip() or "svg" for part in rule[1].split(",")],
            _read(rule[2]),
        )
        for rule in _RULE.finditer(sheet)
    ]
    return _read(root[1] if root else ""), rules


def _read(block: str) -> Declarations:
    pairs = (line.split(":", 1) for line in block.split(";") if ":" in line)
    return {name.strip(): value.strip() for name, value in pairs}
