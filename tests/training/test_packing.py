"""Packing: every example once, within the row, and blind to its neighbours."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from qt_bert.training.packing import Example, best_fit, block_diagonal, filled, lay_out, sides_apart


def example(*ids: int) -> Example:
    return Example(np.array(ids), np.array([0] * (len(ids) - 1) + [1]))


def test_best_fit_takes_the_tightest_gap():
    assert best_fit([5, 3, 4, 2, 1], 8) == [[0, 1], [2, 3, 4]]


def test_every_example_stands_in_one_row_that_holds_it():
    lengths = np.random.default_rng(0).integers(1, 33, 500).tolist()
    rows = best_fit(lengths, 32)
    assert sorted(i for row in rows for i in row) == list(range(500))
    assert max(sum(lengths[i] for i in row) for row in rows) <= 32
    assert len(rows) <= 1.1 * sum(lengths) / 32


def test_an_example_longer_than_the_row_is_an_error():
    with pytest.raises(ValueError, match="33 tokens does not fit a row of 32"):
        best_fit([33], 32)


def test_rows_are_laid_out_by_hand():
    rows = lay_out([[example(7, 8), example(9, 9, 9)], []], 6, pad=1, first_position=2)
    assert rows.input_ids.tolist() == [[7, 8, 9, 9, 9, 1], [1] * 6]
    assert rows.token_type_ids.tolist()[0] == [0, 1, 0, 0, 1, 0]
    assert rows.position_ids.tolist()[0] == [2, 3, 2, 3, 4, 2]
    assert rows.segment.tolist()[0] == [1, 1, 2, 2, 2, 0]
    assert rows.first_slot.tolist() == [0, 2]


def pair(*sides: int) -> Example:
    ids = np.arange(len(sides))
    return Example(ids, ids, groups=np.array(sides))


def test_titles_of_an_offline_model_begin_at_their_start_or_behind_a_longer_query():
    short, long = pair(0, 1, 2, 2), pair(0, 1, 1, 1, 2, 2)
    rows = lay_out([[short, long]], 11, pad=1, first_position=2, title_start=3)
    assert rows.position_ids.tolist() == [[2, 3, 5, 6, 2, 3, 4, 5, 6, 7, 2]]
    assert rows.groups.tolist() == [[0, 1, 2, 2, 0, 1, 1, 1, 2, 2, -1]]


def test_a_text_without_sides_has_no_place_in_an_offline_model():
    with pytest.raises(ValueError, match="not texts without sides"):
        lay_out([[example(7, 8)]], 6, pad=1, title_start=3)


def test_the_sides_of_a_pair_are_kept_apart_besides():
    whole = block_diagonal(torch.tensor([[1, 1, 1, 2, 2]]), torch.float32)
    mask = sides_apart(whole, torch.tensor([[0, 1, 2, 0, 1]]))[0, 0]
    seen = (mask == 0).int().tolist()
    assert seen == [
        [1, 1, 0, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0],
        [0, 0, 0, 1, 1],
        [0, 0, 0, 0, 1],
    ]


def test_a_token_sees_its_own_segment_only():
    mask = block_diagonal(torch.tensor([[1, 1, 2, 0]]), torch.float32)[0, 0]
    seen = (mask == 0).int().tolist()
    assert seen == [[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]


def test_filling_adds_zeros_behind():
    assert filled(3, np.array([5])).tolist() == [5, 0, 0]
    assert filled(2, np.ones((1, 2))).tolist() == [[1, 1], [0, 0]]
