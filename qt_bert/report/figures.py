"""Figures on the report's page: charts as SVG inside it, token rows as HTML, in both languages.

The SVG is made by vl-convert, without a browser. Its colours are the page's variables, its font is the
page's; tooltips become the shapes' titles. A text that differs between the languages is drawn twice, and
the style sheet shows one. Equal figures give equal bytes, whatever was drawn before.
"""

from __future__ import annotations

import json
import re
from copy import deepcopy
from os.path import commonprefix
from typing import Any
from xml.etree import ElementTree

from qt_bert.charts import chart
from qt_bert.figures import Figure, Tokens
from qt_bert.results.palette import VARIABLES
from qt_bert.text import printable, unpaired, width_of
from qt_bert.token_rows import token_rows

_WIDE = 540
"""Figures up to this many pixels are placed two in a row."""
_SCROLLS_FROM = 720
"""A wider picture scrolls in its box; a narrower one may shrink to fit a phone."""
_SVG = "http://www.w3.org/2000/svg"
_LEFT_OUT = {"class", "role", "font-family", "pointer-events", "version"}
_NOTHING = {"opacity": "1", "fill-opacity": "1", "transform": "translate(0,0)"}
_LONG = re.compile(r"\d+\.\d{3,}")
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_INVISIBLE = "\N{WORD JOINER}"

Pairs = dict[str, tuple[str, str]]


def drawn(figure: Figure) -> dict[str, Any]:
    """The figure's markup, and whether it takes the full width of the page (`wide`)."""
    from markupsafe import Markup

    if isinstance(figure, Tokens):
        rows = (
            Markup('<div class="{}">{}</div>').format(k, Markup(token_rows(figure, k, VARIABLES)))
            for k in ("zh", "en")
        )
        return {"markup": Markup("").join(rows), "wide": False}
    root = _picture(figure)
    width = float(root.get("viewBox", "0 0 0 0").split()[2])
    least = width if width > _SCROLLS_FROM else round(0.8 * width)
    root.set("role", "img")
    root.set("aria-label", printable(f"{figure.title.zh} / {figure.title.en}"))
    root.set("style", f"max-width:{width:g}px;min-width:{least:g}px")
    markup = Markup(ElementTree.tostring(root, encoding="unicode"))
    return {"markup": markup, "wide": width > _WIDE}


def _picture(figure: Any) -> ElementTree.Element:
    """The chart's SVG without the parts that the page does not need."""
    import vl_convert

    # Unchecked: the checks take as long as the drawing, and the tests run them.
    specification = chart(figure, "both", VARIABLES).to_dict(validate=False)
    pairs: Pairs = {}
    svg = vl_convert.vegalite_to_svg(json.dumps(_stand_in(specification, pairs)))
    root = ElementTree.fromstring(svg)
    names: dict[str, str] = {}
    prefix = re.sub(r"\W", "-", figure.name, flags=re.ASCII)
    for element in root.iter():
        element.tag = element.tag.removeprefix(f"{{{_SVG}}}")
        if (name := element.get("id")) is not None:  # vl-convert numbers them on and on
            names[name] = f"{prefix}-both-{len(names)}"
            element.set("id", names[name])
    for element in root.iter():
        _tidy(element, names, pairs)
    _prune(root, pairs)
    for name in ("width", "height"):
        root.attrib.pop(name, None)
    return root


def _stand_in(value: Any, pairs: Pairs) -> Any:
    """The specification with each pair's wider text, which the layout needs; fills `pairs`."""
    if isinstance(value, dict):
        return {key: _stand_in(item, pairs) for key, item in value.items()}
    if isinstance(value, list):
        return [_stand_in(item, pairs) for item in value]
    if not isinstance(value, str):
        return value
    both = unpaired(value)
    if both[0] == both[1]:
        return value
    name = max(both, key=width_of)
    while pairs.setdefault(name, both) != both:
        name += _INVISIBLE  # another pair whose wider text is the same
    return name


def _tidy(element: ElementTree.Element, names: dict[str, str], pairs: Pairs) -> None:
    """Shorter numbers, no roles or fonts, and each shape's description as its title."""
    tip = element.attrib.pop("aria-label", None)
    for name, value in list(element.attrib.items()):
        if name in _LEFT_OUT or name.startswith("aria-") or _NOTHING.get(name) == value:
            del element.attrib[name]
            continue
        value = _REFERENCE.sub(lambda match: f"url(#{names[match[1]]})", value)
        element.set(name, _LONG.sub(lambda match: f"{float(match[0]):.2f}", value))
    if tip and element.tag == "path":  # Vega names the heading too
        title = ElementTree.Element("title")
        title.text = _in_both(*pairs[tip]) if tip in pairs else tip
        element.insert(0, title)


def _in_both(zh: str, en: str) -> str:
    """Both languages in one line, their common prefix once: `L0 → H1: 2.5 倍 / times`."""
    begun = commonprefix([zh, en])
    shared = begun[: begun.rfind(" ") + 1]
    return f"{shared}{zh[len(shared) :]} / {en[len(shared) :]}"


def _prune(parent: ElementTree.Element, pairs: Pairs) -> None:
    """Remove invisible elements, and draw each paired text in both languages."""
    for child in list(parent):
        _prune(child, pairs)
        empty = child.tag == "g" and not len(child)
        if empty or child.get("display") == "none" or child.get("d") == "":
            parent.remove(child)
        elif child.tag == "text" and any(part.text in pairs for part in child.iter()):
            place = list(parent).index(child)
            parent.remove(child)
            for k, language in enumerate(("zh", "en")):
                copy = deepcopy(child)
                copy.set("class", language)
                for part in copy.iter():
                    part.text = pairs[part.text][k] if part.text in pairs else part.text
                parent.insert(place + k, copy)
