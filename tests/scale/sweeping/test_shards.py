"""Shards and what is said of them, as plain data."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qt_bert.errors import GuardError, QtBertError, RunFolderError
from qt_bert.scale.sweeping.shards import Shard, ShardFault, ShardLine, cut_shards, said_from_json

BATCHES = [[4, 1], [0, 2, 3], [9], [5, 6, 7, 8], [10]]
LINE = ShardLine(number=3, job="ab", rows=(4, 1), sha256="cd", seconds=1.5, node="one")
FAULT = ShardFault(number=3, error="GuardError", message="no effect", node="one")


@pytest.mark.parametrize(
    ("runs", "batches"),
    [
        (15, [BATCHES[:2], BATCHES[2:4], BATCHES[4:]]),
        (16, [BATCHES[:3], BATCHES[3:]]),
        (1, [[batch] for batch in BATCHES]),
        (10**6, [BATCHES]),
    ],
)
def test_a_shard_ends_with_the_batch_that_fills_it(runs, batches):
    shards = cut_shards(BATCHES, 3, runs)
    assert [[list(batch) for batch in shard.batches] for shard in shards] == batches
    assert [shard.number for shard in shards] == list(range(len(batches)))
    assert [shard.first for shard in shards] == [0, *(shard.end for shard in shards[:-1])]
    assert shards[-1].end == len(BATCHES)


def test_no_batches_make_no_shards():
    assert cut_shards([], 3, 15) == []


def test_rows_are_those_of_the_batches_in_a_row():
    assert Shard(0, 2, ((4, 1), (0, 2, 3))).rows == (4, 1, 0, 2, 3)
    assert Shard(0, 2, ((4, 1), (0, 2, 3))).end == 4


def test_plain_data_and_back():
    shard = Shard(7, 2, ((4, 1), (0,)))
    assert Shard.from_json(json.loads(json.dumps(shard.describe()))) == shard
    for said in (LINE, FAULT):
        assert said_from_json(json.loads(json.dumps(said.describe()))) == said


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        LINE.describe() | {"rows": "4, 1"},
        LINE.describe() | {"kind": "shard-fault"},
        {name: value for name, value in LINE.describe().items() if name != "sha256"},
    ],
)
def test_anything_else_is_refused(value):
    with pytest.raises(RunFolderError, match="000003"):
        said_from_json(value, "000003.json")


def test_a_fault_is_raised_as_it_was_and_says_where():
    error = FAULT.raised()
    assert type(error) is GuardError and str(error) == "no effect (on one)"


@pytest.mark.parametrize("name", ["Elsewhere", "annotations", "SystemExit"])
def test_a_fault_of_an_unknown_name_is_an_error_all_the_same(name):
    assert type(replace(FAULT, error=name).raised()) is QtBertError
