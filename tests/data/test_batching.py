"""Which encoded pairs go together, and what fills the shorter ones."""

from __future__ import annotations

import numpy as np

from qt_bert.data.tokenise import EncodedPair, length_batches, padded


def test_shorter_rows_are_filled_with_the_padding_token_of_type_0():
    rows = [EncodedPair([5, 6], [0, 1], [0, 1], [], False, False)]
    rows.append(EncodedPair([7, 8, 9], [0, 1, 1], [0, 1, 1], [], False, False))
    ids, types, real = padded(rows, pad=3)
    assert ids.tolist() == [[5, 6, 3], [7, 8, 9]] and ids.dtype == np.int64
    assert types.tolist() == [[0, 1, 0], [0, 1, 1]] and types.dtype == np.int64
    assert real.tolist() == [[True, True, False], [True, True, True]]


def test_batches_hold_every_row_once_within_the_budget():
    lengths = [9, 3, 5, 5, 40, 5, 3, 9, 9, 2]
    batches = list(length_batches(lengths, 20))
    assert sorted(np.concatenate(batches)) == list(range(10))
    for rows in batches:
        assert len(rows) == 1 or len(rows) * max(lengths[i] for i in rows) <= 20


def test_a_full_enough_batch_ends_where_the_length_changes():
    assert [list(b) for b in length_batches([5, 5, 5, 4], 20)] == [[0, 1, 2], [3]]


def test_a_small_batch_goes_on_into_shorter_rows():
    assert [list(b) for b in length_batches([5, 4, 3], 40)] == [[0, 1, 2]]
