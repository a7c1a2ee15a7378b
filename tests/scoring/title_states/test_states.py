"""Finding and reading states over several parts."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.models.card import Offline
from qt_bert.scoring.title_states import (
    FORMATS,
    KEY,
    UNKNOWN,
    StatesPart,
    TitleStates,
    check_format,
    pack,
)

KEYS = [bytes([n, 0, 32]) + bytes([0] * 13) for n in (7, 0, 255, 9)] + [
    b"a" * 15 + b"\0",
    b"a" * 16,
]
LENGTHS = [2, 1, 3, 1, 2, 4]


def part(rows: slice, first: int) -> StatesPart:
    lengths = np.array(LENGTHS[rows], np.int32)
    states = np.arange(first, first + lengths.sum(), dtype=np.float32)[:, None] * [1, 10]
    packed = pack(states.astype(np.float32), "float32")
    return StatesPart(np.array(KEYS[rows], KEY), lengths, lambda: packed)


def both() -> TitleStates:
    return TitleStates(
        Offline(1, 12, 20), "float32", 2, (part(slice(0, 4), 0), part(slice(4, 6), 7))
    )


def test_titles_are_found_by_their_keys_whatever_bytes_these_end_in():
    states = both()
    assert states.titles == 6
    assert states.find(KEYS).tolist() == [0, 1, 2, 3, 4, 5]
    near = [b"a" * 15 + b" ", b"a" * 15, KEYS[0][:3], KEYS[2][:-1] + b"\1"]
    assert states.find(near).tolist() == [UNKNOWN, 4, 0, UNKNOWN]  # zeros at the end are the key's


def test_states_are_read_in_the_order_asked_for_over_parts():
    read = both().read(np.array([5, 0, 4, 2, 0]))
    assert read[:, 0].tolist() == [9, 10, 11, 12, 0, 1, 7, 8, 3, 4, 5, 0, 1]
    assert (read[:, 1] == 10 * read[:, 0]).all() and read.dtype == np.float32


def test_bytes_count_all_that_is_stored():
    assert both().bytes_per_title == (13 * 2 * 4 + 6 * (16 + 4)) / 6


# States in fewer bytes: how far they move, and what cannot be stored.


STATES = np.random.default_rng(0).normal(size=(50, 24)).astype(np.float32) * 3
ALL = np.arange(50)


def test_float32_is_exact_and_float16_rounds():
    assert (pack(STATES, "float32").rows(ALL) == STATES).all()
    short = pack(STATES, "float16")
    assert short.values.nbytes * 2 == STATES.nbytes
    assert (short.rows(ALL) == STATES.astype(np.float16).astype(np.float32)).all()


def test_hand_computed_int8():
    packed = pack(np.array([[127, -63.6, 0.4], [0, 0, 0]], np.float32), "int8")
    assert packed.values.tolist() == [[127, -64, 0], [0, 0, 0]]
    assert packed.rows(np.array([1, 0])).tolist() == [[0, 0, 0], [127, -64, 0]]


@pytest.mark.parametrize("dtype", FORMATS)
def test_numbers_that_a_format_does_not_hold(dtype):
    with pytest.raises(ArgumentError, match="no finite numbers"):
        pack(np.array([[np.nan, 1]], np.float32), check_format(dtype))
    if dtype != "float32":
        with pytest.raises(ArgumentError, match="try --dtype float32"):
            pack(np.array([[1e30, 1]], np.float32), check_format(dtype))


def test_an_unknown_format():
    with pytest.raises(ArgumentError, match="stored as float32, float16, int8"):
        check_format("int4")
