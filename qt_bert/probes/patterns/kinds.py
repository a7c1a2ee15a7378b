"""The five kinds of maps, and the kinds of tokens that a map's rows and columns stand for."""

from __future__ import annotations

from collections.abc import Mapping

from qt_bert.text import Text

KINDS = ("vertical", "diagonal", "both", "block", "heterogeneous")
"""Labels of a map, in the order of every array over kinds. `both`: vertical and diagonal."""

KIND_NAMES: Mapping[str, Text] = {
    "vertical": Text("竖线", "vertical"),
    "diagonal": Text("对角线", "diagonal"),
    "both": Text("竖线加对角线", "vertical + diagonal"),
    "block": Text("块", "block"),
    "heterogeneous": Text("混杂", "heterogeneous"),
}

WHOLE = "whole"
"""The note of a block map that is spread over everything, not over the row's own segment."""

CLS, SEP, QUERY, TITLE = 0, 1, 2, 3
"""Kinds of tokens, as maps are stored with them."""
