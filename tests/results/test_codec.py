import json
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import pytest

from qt_bert.codec import decode, encode, read_result
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.text import Text


@dataclass(frozen=True, kw_only=True)
class Square:
    kind: ClassVar[str] = "square"
    side: float


@dataclass(frozen=True, kw_only=True)
class Disc:
    kind: ClassVar[str] = "disc"
    radius: float
    colour: Literal["red", "blue"] = "red"


@dataclass(frozen=True, kw_only=True)
class Drawing:
    shapes: tuple[Square | Disc, ...]
    title: str | Text
    place: tuple[int, int] | None = None


DRAWING = Drawing(shapes=(Square(side=2.0), Disc(radius=1.5)), title=Text("图", "picture"))


def test_round_trip_restores_nested_unions():
    stored = json.loads(json.dumps(encode(DRAWING)))
    assert decode(Drawing, stored) == DRAWING


def test_numpy_numbers_become_plain_ones():
    stored = encode([np.float32(0.5), np.int64(3)])
    assert [type(value) for value in stored] == [float, int]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), object(), {1, 2}])
def test_what_json_cannot_hold_is_refused(value):
    with pytest.raises(ArgumentError, match="cannot store"):
        encode(value)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shapes": [{"kind": "disc", "radius": "x"}]}, r"shapes\[0\]: radius: expected a number"),
        ({"shapes": [{"kind": "star"}]}, r"shapes\[0\]: expected Square or Disc"),
        ({"shapes": [{"kind": "disc"}]}, "the key 'radius' is missing"),
        ({"shapes": {}}, "shapes: expected a list"),
        ({"shapes": [{"kind": "disc", "radius": 1, "colour": "green"}]}, "'red' or 'blue'"),
        ({"shapes": [{"kind": "disc", "radius": float("nan")}]}, "expected a finite number"),
        ({"shapes": [{"kind": "disc", "radius": 10**400}]}, "expected a finite number"),
        ({"shapes": [{"kind": "disc", "radius": True}]}, "expected a number, found True"),
        ({"title": 3}, "expected a text or Text, found 3"),
        ({"title": "half \ud83d"}, "expected a text"),
        ({"place": [1]}, "expected a list of 2"),
        ({"place": [1, 2.5]}, r"place\[1\]: expected a whole number"),
    ],
)
def test_each_misfit_names_its_place(change, message):
    with pytest.raises(RunFolderError, match=message):
        decode(Drawing, encode(DRAWING) | change, "drawing.json")


def test_unknown_keys_are_ignored():
    assert decode(Square, {"kind": "square", "side": 1, "weight": 9}) == Square(side=1.0)


def test_a_long_wrong_value_is_shown_short():
    with pytest.raises(RunFolderError) as caught:
        decode(int, "x" * 10_000)
    assert len(str(caught.value)) < 150


@pytest.mark.parametrize("content", [None, "{", "\ufeff[", '{"kind": "disc"}'])
def test_an_unreadable_file_is_named(tmp_path, content):
    path = tmp_path / "square.json"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"square\.json"):
        read_result(Square, path)
