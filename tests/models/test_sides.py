"""Which rows see which columns, and where a title's positions begin: by hand."""

from __future__ import annotations

import torch

from qt_bert.models.batches import CLS, DIRECTIONS, PADDING, QUERY, TITLE, gone, moved_positions


def test_what_each_direction_takes() -> None:
    groups = torch.tensor([[CLS, QUERY, TITLE, PADDING]])
    found = {one: gone(one, groups)[0].int().tolist() for one in DIRECTIONS}
    assert found["C<T"] == [[0, 0, 1, 0], [0] * 4, [0] * 4, [0] * 4]
    assert found["T<Q"] == [[0] * 4, [0] * 4, [1, 1, 0, 0], [0] * 4]
    assert found["Q<T"] == [[0] * 4, [1, 0, 1, 0], [0] * 4, [0] * 4]
    assert found["all"] == [[0, 0, 1, 0], [1, 0, 1, 0], [1, 1, 0, 0], [0] * 4]
    assert found["<C"] == [[0] * 4, [1, 0, 0, 0], [1, 0, 0, 0], [0] * 4]


def test_a_title_begins_at_its_start_or_behind_a_longer_query() -> None:
    groups = torch.tensor(
        [
            [CLS, QUERY, QUERY, TITLE, TITLE, TITLE],
            [CLS, QUERY, TITLE, TITLE, PADDING, PADDING],
            [CLS, QUERY, QUERY, QUERY, QUERY, TITLE],
        ]
    )
    found = moved_positions(groups, 4).tolist()
    assert found[0] == [0, 1, 2, 4, 5, 6]
    assert found[1][:4] == [0, 1, 4, 5]
    assert found[2] == [0, 1, 2, 3, 4, 5]
