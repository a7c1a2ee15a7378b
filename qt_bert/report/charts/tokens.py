"""Coloured tokens."""

from __future__ import annotations

from qt_bert.report.charts.canvas import Canvas, fit, text_width
from qt_bert.report.charts.legend import colour_legend
from qt_bert.report.charts.scales import Colours, ink
from qt_bert.results.figures import Token, TokenLine, Tokens
from qt_bert.results.numbers import number
from qt_bert.results.text import Label, Text, in_language

_WIDTH = 440
_HEIGHT = 30
_PADDING = 5

_Placed = tuple[Token, float, float]


def draw_tokens(figure: Tokens) -> Canvas:
    """Lines of tokens, wrapped, each on the colour of its value; word ends as short strokes."""
    placed: list[tuple[TokenLine, float, list[_Placed]]] = []
    y = 0.0
    for line in figure.lines:
        boxes, bottom = _wrap(line, y + 24)
        placed.append((line, y + 14, boxes))
        y = bottom + 12
    colours = Colours.over(
        [token.value for line in figure.lines for token in line.tokens],
        figure.scale,
        figure.low,
        figure.high,
    )
    canvas = Canvas(_WIDTH, y + 36, figure.title)
    for line, baseline, boxes in placed:
        canvas.text((0, baseline), line.name, "muted small")
        for token, left, top in boxes:
            _draw_token(canvas, token, left, top, colours, figure)
    colour_legend(canvas, (0, y + 4), colours, figure.unit, figure.digits)
    return canvas


def _wrap(line: TokenLine, top: float) -> tuple[list[_Placed], float]:
    boxes = []
    left = 0.0
    for token in line.tokens:
        width = _width(token)
        if left and left + width > _WIDTH:
            left, top = 0.0, top + _HEIGHT + 4
        boxes.append((token, left, top))
        left += width + 2
    return boxes, top + _HEIGHT


def _width(token: Token) -> float:
    return text_width(fit(token.text, _WIDTH - 2 * _PADDING)) + 2 * _PADDING


def _draw_token(
    canvas: Canvas, token: Token, left: float, top: float, colours: Colours, figure: Tokens
) -> None:
    width = _width(token)
    style, opacity = colours(token.value) if token.value is not None else ("heat", 0.0)
    canvas.rect(
        (left, top), (width, _HEIGHT - 4), "cell", tip=_tip(token, figure.unit, figure.digits)
    )
    canvas.rect((left, top), (width, _HEIGHT - 4), f"{style} through", opacity=opacity)
    if token.marked:
        canvas.rect((left + 1, top + 1), (width - 2, _HEIGHT - 6), "marked")
    canvas.text(
        (left + width / 2, top + 18),
        fit(token.text, width),
        f"{ink(opacity)} token",
        anchor="middle",
    )
    if token.ends_word:
        canvas.line((left + width + 1, top - 2), (left + width + 1, top + _HEIGHT - 2), "word-end")


def _tip(token: Token, unit: Label, digits: int) -> Text:
    def words(language: str) -> str:
        said = f"{token.text}: {number(token.value, digits)} {in_language(unit, language)}".rstrip()
        return said if token.note is None else f"{said} · {in_language(token.note, language)}"

    return Text(words("zh"), words("en"))
