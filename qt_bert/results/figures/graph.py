"""Nodes and arrows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from qt_bert.results.figures.base import BaseFigure, fault
from qt_bert.results.text import Label, Text


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node at a place of the grid: `column` from the left, `row` from the top, both from 0."""

    name: str
    column: int
    row: int
    marked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """An arrow between two nodes; a negative weight has its own colour."""

    source: str
    target: str
    weight: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph(BaseFigure):
    """Nodes on a grid (for instance layer by head) and weighted arrows; `unit` is the weights'."""

    kind: ClassVar[str] = "graph"
    name: str
    title: Text
    x_label: Label
    y_label: Label
    unit: Label
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    digits: int = 2
    note: Text | None = None

    def __post_init__(self) -> None:
        names = {node.name for node in self.nodes}
        if len(names) != len(self.nodes):
            raise fault(self, "two nodes have one name")
        unknown = {end for edge in self.edges for end in (edge.source, edge.target)} - names
        if unknown:
            raise fault(self, f"an edge names the unknown node {min(unknown)!r}")
