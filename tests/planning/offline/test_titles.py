"""Bytes of titles, by hand and against states that are really made."""

from __future__ import annotations

import pytest

from qt_bert.planning.offline import stored_titles
from qt_bert.scoring.title_states import FORMATS, states_of
from tests.planning.offline.conftest import JobOf


def test_tokens_times_hidden_times_bytes(job_of: JobOf) -> None:
    found = stored_titles(job_of(hidden=16).moved, ["狗追猫", "狗追猫", "苹果多少钱"])
    assert found.titles == 2 and found.tokens == 5  # (3 + 5) / 2 and a separator each
    rest = 16 + 4  # a title's key and its length
    assert found.size == {
        "float32": 5 * 16 * 4 + rest,
        "float16": 5 * 16 * 2 + rest,
        "int8": 5 * (16 + 2) + rest,
    }


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_what_stored_states_take(job_of: JobOf, family: str) -> None:
    job = job_of(family)
    titles = [pair.title for pair in job.task.discovery.pairs]
    found = stored_titles(job.moved, titles)
    for kind in FORMATS:
        for layers in (1, 2):
            states = states_of(job.reading(layers), titles, kind)
            assert found.size[kind] == pytest.approx(states.bytes_per_title)
