"""Where titles begin, by hand, and queries that leave no room."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from qt_bert.models.card import Offline
from qt_bert.planning.offline import before_titles, layout_of
from qt_bert.planning.task import Sample
from tests.planning.made_pairs import sample
from tests.planning.offline.conftest import TaskOf


def queries_of(lengths: list[int]) -> Sample:
    """Pairs with queries of so many characters, one token each."""
    made = sample("dev.tsv", 2 * len(lengths), 0).pairs
    pairs = [replace(made[i], query="狗" * length) for i, length in enumerate(lengths)]
    return Sample.of("dev.tsv", "", pairs)


@pytest.mark.parametrize(("family", "separators"), [("bert", 1), ("xlm-roberta", 2)])
def test_titles_begin_behind_nineteen_queries_of_twenty(
    task_of: TaskOf, family: str, separators: int
) -> None:
    tokenizer = task_of(family).scorer.tokenizer
    found = layout_of(tokenizer, queries_of(list(range(1, 22))))
    before = int(before_titles(tokenizer, ["狗" * 20])[0])
    assert found is not None
    assert found.offline == Offline(0, before, tokenizer.max_length - before - separators)
    assert found.long == pytest.approx(1 / 21)


def test_before_a_title_stand_the_first_token_the_query_and_a_separator(task_of: TaskOf) -> None:
    found = before_titles(task_of().scorer.tokenizer, ["狗", "狗追猫"])
    np.testing.assert_array_equal(found, [3, 5])


def test_long_queries_leave_no_room(task_of: TaskOf) -> None:
    tokenizer = task_of(max_length=12).scorer.tokenizer
    assert layout_of(tokenizer, queries_of([30] * 10)) is None
    assert layout_of(tokenizer, queries_of([8] * 10)) is not None
