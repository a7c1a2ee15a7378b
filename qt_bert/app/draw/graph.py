"""Graphs on a grid, with weighted arrows."""

from __future__ import annotations

import pyarrow as pa

from qt_bert.app.draw.labels import SMALL, Spec
from qt_bert.app.draw.look import Chart, Look, axis, framed
from qt_bert.results.figures import Graph
from qt_bert.results.numbers import number, printable

_ROW, _COLUMN = 44, 110
_THINNEST, _THICKEST = 0.6, 5.0


def chart_of(figure: Graph, look: Look) -> Chart:
    """Nodes at their places; an arrow's width is its weight, its colour the weight's sign."""
    columns = max((node.column for node in figure.nodes), default=0) + 1
    rows = max((node.row for node in figure.nodes), default=0) + 1
    across = {"domain": [-0.6, columns - 0.4], "nice": False, "zero": False}
    down = {"domain": [rows - 0.4, -0.6], "nice": False, "zero": False}
    titles = look.say(figure.x_label), look.say(figure.y_label)
    plain = {"labels": False, "grid": False}
    spec = framed(
        {
            "height": _ROW * rows + 20,
            "encoding": {
                "x": {
                    "field": "x",
                    "type": "quantitative",
                    "scale": across,
                    "axis": axis(titles[0], **plain),
                },
                "y": {
                    "field": "y",
                    "type": "quantitative",
                    "scale": down,
                    "axis": axis(titles[1], **plain),
                },
            },
            "layer": [_lines(look), _heads(look, columns, rows), *_nodes(look)],
        }
    )
    return Chart(spec, _table(figure, look), _COLUMN * columns + 80)


_FIELDS = ("kind", "name", "x", "y", "x2", "y2", "width", "weight", "shown", "marked")


def _table(figure: Graph, look: Look) -> pa.Table:
    places = {node.name: (node.column, node.row) for node in figure.nodes}
    most = max((abs(edge.weight) for edge in figure.edges), default=0.0) or 1.0
    rows: list[dict[str, object]] = []
    for edge in figure.edges:
        (x, y), (x2, y2) = places[edge.source], places[edge.target]
        thick = _THINNEST + (_THICKEST - _THINNEST) * abs(edge.weight) / most
        shown = f"{number(edge.weight, figure.digits)} {look.say(figure.unit)}".rstrip()
        name = printable(f"{edge.source} → {edge.target}")
        ends = {"x": x, "y": y, "x2": x2, "y2": y2}
        rows.append(
            {"kind": "edge", "name": name, "width": thick, "weight": edge.weight, "shown": shown}
            | ends
        )
    rows += [
        {"kind": "node", "name": printable(n.name), "x": n.column, "y": n.row, "marked": n.marked}
        for n in figure.nodes
    ]
    kinds = dict.fromkeys(("kind", "name", "shown"), pa.string()) | {"marked": pa.bool_()}
    return pa.Table.from_pylist(
        rows, schema=pa.schema([(name, kinds.get(name, pa.float64())) for name in _FIELDS])
    )


def _sign(look: Look) -> Spec:
    negative = {"test": "datum.weight < 0", "value": look.palette.negative}
    return {"condition": negative, "value": look.palette.positive}


def _lines(look: Look) -> Spec:
    return {
        "transform": [{"filter": "datum.kind == 'edge'"}],
        "mark": {"type": "rule", "opacity": 0.7},
        "encoding": {
            "x2": {"field": "x2"},
            "y2": {"field": "y2"},
            "strokeWidth": {
                "field": "width",
                "type": "quantitative",
                "scale": None,
                "legend": None,
            },
            "color": _sign(look),
            "tooltip": [{"field": "name", "title": "·"}, {"field": "shown", "title": "="}],
        },
    }


def _heads(look: Look, columns: int, rows: int) -> Spec:
    """Arrow heads two thirds of the way, turned as the line runs on the screen."""
    run = f"(datum.x2 - datum.x) * width / {columns}"
    fall = f"(datum.y2 - datum.y) * height / {rows}"
    return {
        "transform": [
            {"filter": "datum.kind == 'edge'"},
            {"calculate": "datum.x + (datum.x2 - datum.x) * 0.66", "as": "hx"},
            {"calculate": "datum.y + (datum.y2 - datum.y) * 0.66", "as": "hy"},
            {"calculate": f"atan2({fall}, {run}) * 180 / PI + 90", "as": "turn"},
        ],
        "mark": {"type": "point", "shape": "triangle", "filled": True, "size": 70, "tooltip": None},
        "encoding": {
            "x": {"field": "hx", "type": "quantitative"},
            "y": {"field": "hy", "type": "quantitative"},
            "angle": {"field": "turn", "type": "quantitative", "scale": None},
            "color": _sign(look),
        },
    }


def _nodes(look: Look) -> list[Spec]:
    edge = {
        "condition": {"test": "datum.marked", "value": look.palette.ink},
        "value": look.palette.grid,
    }
    box = {"type": "point", "shape": "square", "size": 1500, "filled": True, "opacity": 1}
    nodes = [{"filter": "datum.kind == 'node'"}]
    return [
        {
            "transform": nodes,
            "mark": box | {"fill": look.palette.surface, "strokeWidth": 2, "tooltip": None},
            "encoding": {"stroke": edge},
        },
        {
            "transform": nodes,
            "mark": {"type": "text", "fontSize": SMALL, "color": look.palette.ink, "tooltip": None},
            "encoding": {"text": {"field": "name"}},
        },
    ]
