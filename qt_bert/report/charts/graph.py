"""Graphs on a grid."""

from __future__ import annotations

import math
from collections.abc import Iterable

from qt_bert.report.charts.canvas import Canvas, Place, text_width
from qt_bert.results.figures import Edge, Graph, Node
from qt_bert.results.numbers import number
from qt_bert.results.text import Text, in_language

_ROW = 46
_NODE_HEIGHT = 24
_TOP = 40
_BETWEEN = 40


def draw_graph(figure: Graph) -> Canvas:
    """Nodes at their places, arrows as wide as their weight; negative ones in another colour.

    Columns and rows of the grid in which no node stands take no room.
    """
    columns = _places(node.column for node in figure.nodes)
    rows = _places(node.row for node in figure.nodes)
    node_width = max([text_width(node.name) for node in figure.nodes], default=20) + 16
    step = node_width + _BETWEEN
    width = max(len(columns) * step - _BETWEEN, 320)
    canvas = Canvas(width, _TOP + len(rows) * _ROW + 8, figure.title)
    canvas.text((0, 14), _axes(figure), "muted small")
    centres = {
        node.name: (
            columns[node.column] * step + node_width / 2,
            _TOP + (rows[node.row] + 0.5) * _ROW,
        )
        for node in figure.nodes
    }
    strongest = max([abs(edge.weight) for edge in figure.edges], default=1.0) or 1.0
    edges = sorted(figure.edges, key=lambda edge: abs(edge.weight))
    for edge in edges:
        ends = centres[edge.source], centres[edge.target]
        _draw_edge(canvas, figure, edge, ends, node_width, abs(edge.weight) / strongest)
    for node in figure.nodes:
        _draw_node(canvas, node, centres[node.name], node_width)
    for order, edge in enumerate(edges):
        (x1, y1), (x2, y2) = centres[edge.source], centres[edge.target]
        # Now nearer to the source, now to the target, so that numbers of crossing arrows part.
        way = 0.55 if order % 2 else 0.35
        place = x1 + way * (x2 - x1), y1 + way * (y2 - y1) + 4
        canvas.text(place, number(edge.weight, figure.digits), "small halo", anchor="middle")
    return canvas


def _places(used: Iterable[int]) -> dict[int, int]:
    """The places of the rows or columns in use, one after the other."""
    return {line: place for place, line in enumerate(sorted(set(used)))}


def _axes(figure: Graph) -> Text:
    def words(language: str, across: str, down: str, weight: str) -> str:
        x, y, unit = (
            in_language(k, language) for k in (figure.x_label, figure.y_label, figure.unit)
        )
        return f"{across}{x} · {down}{y} · {weight}{unit}"

    return Text(words("zh", "横：", "纵：", "线宽："), words("en", "across: ", "down: ", "width: "))


def _draw_edge(
    canvas: Canvas,
    figure: Graph,
    edge: Edge,
    centres: tuple[Place, Place],
    node_width: float,
    share: float,
) -> None:
    style = "negative" if edge.weight < 0 else "positive"
    start, end = (_border(a, b, node_width) for a, b in (centres, centres[::-1]))
    canvas.line(start, end, f"{style} edge", width=0.8 + 5.2 * share)
    # The arrow head carries the number, for it is what one points at.
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    size = 6 + 6 * share
    corners = [
        (end[0] - size * math.cos(angle + turn), end[1] - size * math.sin(angle + turn))
        for turn in (0.45, -0.45)
    ]
    shown = number(edge.weight, figure.digits)
    tip = Text(
        *(
            f"{edge.source} → {edge.target}: {shown} {in_language(figure.unit, k)}"
            for k in ("zh", "en")
        )
    )
    canvas.path([end, *corners], f"{style} arrow", closed=True, tip=tip)


def _border(centre: Place, towards: Place, node_width: float) -> Place:
    """Where the line from `centre` to `towards` leaves the node's box."""
    across, down = towards[0] - centre[0], towards[1] - centre[1]
    reach = max(abs(across) / (node_width / 2), abs(down) / (_NODE_HEIGHT / 2))
    return (centre[0] + across / reach, centre[1] + down / reach) if reach else centre


def _draw_node(canvas: Canvas, node: Node, centre: Place, width: float) -> None:
    corner = (centre[0] - width / 2, centre[1] - _NODE_HEIGHT / 2)
    canvas.rect(corner, (width, _NODE_HEIGHT), "node marked" if node.marked else "node")
    canvas.text((centre[0], centre[1] + 4), node.name, "value", anchor="middle")
