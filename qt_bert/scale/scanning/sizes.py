"""How many rows a partition has, where nobody says: work for about a minute, and enough for all."""

from __future__ import annotations

import json
import math

from qt_bert.scale.places.naming import place_of

MOST_ROWS = 8192
"""As many as plain `score` holds at a time."""

_LEAST_LARGE, _LEAST_SMALL = 256, 64
_OPERATIONS = 1.2e13
"""A minute, more or less, of one core in float32."""

_TOKENS = 32
_PARTITIONS_AN_ACTOR = 4


def rows_for_model(model: str) -> int:
    """A power of two, by what the model's `config.json` says of its layers; never by the clock, for
    rows that stand in one partition share batches, and the same run shall have the same bits."""
    try:
        config = json.loads(place_of(model).read_text("config.json"))
        hidden, inner = int(config["hidden_size"]), int(config["intermediate_size"])
        weights = int(config["num_hidden_layers"]) * (4 * hidden**2 + 2 * hidden * inner)
        rows = _OPERATIONS / (2 * weights * _TOKENS)
    except (OSError, ValueError, KeyError, TypeError, ZeroDivisionError):
        return MOST_ROWS  # opening the model says what is wrong, if something is
    return min(MOST_ROWS, max(_LEAST_LARGE, 2 ** int(math.log2(max(rows, 1)))))


def rows_for_few(rows: int, wanted: int, actors: int) -> int:
    """At most `wanted` a partition, and less where `rows` in all would leave `actors` without work."""
    return max(1, min(wanted, max(_LEAST_SMALL, math.ceil(rows / (_PARTITIONS_AN_ACTOR * actors)))))
