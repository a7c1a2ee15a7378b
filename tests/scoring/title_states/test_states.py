"""Finding and reading states over several parts."""

from __future__ import annotations

import numpy as np

from qt_bert.models.card import Offline
from qt_bert.scoring.title_states import (
    KEY,
    UNKNOWN,
    StatesPart,
    TitleStates,
    listed,
    pack,
    token_rows,
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


def test_titles_are_found_by_their_keys_whatever_bytes_these_end_in() -> None:
    states = both()
    assert states.titles == 6
    assert states.find(KEYS).tolist() == [0, 1, 2, 3, 4, 5]
    near = [b"a" * 15 + b" ", b"a" * 15, KEYS[0][:3], KEYS[2][:-1] + b"\1"]
    assert states.find(near).tolist() == [UNKNOWN, 4, 0, UNKNOWN]  # zeros at the end are the key's


def test_a_list_of_keys_is_whole() -> None:
    assert listed(np.array(KEYS, KEY)) == KEYS


def test_states_are_read_in_the_order_asked_for_over_parts() -> None:
    read = both().read(np.array([5, 0, 4, 2, 0]))
    assert read[:, 0].tolist() == [9, 10, 11, 12, 0, 1, 7, 8, 3, 4, 5, 0, 1]
    assert (read[:, 1] == 10 * read[:, 0]).all() and read.dtype == np.float32


def test_bytes_count_all_that_is_stored() -> None:
    assert both().bytes_per_title == (13 * 2 * 4 + 6 * (16 + 4)) / 6


def test_rows_of_titles() -> None:
    assert token_rows(np.array([5, 0]), np.array([2, 3])).tolist() == [5, 6, 0, 1, 2]
    assert token_rows(np.array([], np.int64), np.array([], np.int64)).tolist() == []
