"""A sweep by actors of a cluster: the bytes of a plain one, and errors as they are there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qt_bert.encoder import open_checkpoint
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.pairs import Pair
from qt_bert.scale.cluster import engine
from qt_bert.scale.cluster.cluster import Cluster, EngineError
from qt_bert.scale.cluster.engine import Bounds
from qt_bert.scale.sweeping.shards import Shard, said_from_json
from qt_bert.scale.sweeping.worker import RaySweep, fault_text, sweeping
from qt_bert.scoring.bulk import Scorer
from tests.conftest import make_checkpoint
from tests.scale.rays import rows_of_a_day
from tests.scale.swept import MODEL, contents, run

pytestmark = pytest.mark.usefixtures("alone_with_ray")

SHARD = Shard(3, 5, ((0, 1),))
THERE = Cluster(None, 1)
"""Not connected: nothing is asked of it."""


@pytest.fixture(scope="module")
def scorer(tmp_path_factory: pytest.TempPathFactory) -> Scorer:
    folder = make_checkpoint(tmp_path_factory.mktemp("ray") / "model", **MODEL)
    return Scorer(open_checkpoint(folder))


@pytest.fixture(scope="module")
def pairs() -> list[Pair]:
    return [
        Pair(query, title, (1 + n % 5,), str(n), n, str(1 + n % 5), {})
        for n, (query, title) in enumerate(rows_of_a_day(24), start=1)
    ]


def test_actors_give_the_bytes_of_a_plain_sweep(scorer, pairs, tmp_path: Path) -> None:
    plain = run(scorer, pairs, tmp_path / "plain")
    with sweeping(actors=2) as filler:
        swept = run(scorer, pairs, tmp_path / "ray", filler)
    assert swept.record == plain.record
    assert contents(tmp_path / "ray") == contents(tmp_path / "plain")


def test_what_cannot_be_meant_starts_no_cluster() -> None:
    for asked, said in (({"actors": 0}, "--actors 0"), ({"address": "here"}, "--address here")):
        with pytest.raises(ArgumentError, match=said), sweeping(**asked):
            pytest.fail("a cluster was started")


def test_an_actor_that_cannot_work_is_a_fault_of_its_shard() -> None:
    said = json.loads(fault_text(json.dumps(SHARD.describe()), ValueError("no such thing")))
    error = said_from_json(said).raised()
    assert isinstance(error, RunFolderError) and "ValueError: no such thing (on " in str(error)
    assert said["number"] == 3


def test_where_ray_gives_up_what_was_said_before_counts(monkeypatch) -> None:
    def gives_up(there, items, task, bounds):
        yield fault_text(items[0], ValueError("x"))
        raise EngineError("gone")

    monkeypatch.setattr("qt_bert.scale.sweeping.worker.run", gives_up)
    answers = RaySweep(THERE, Bounds(actors=1)).dispatch(None, [SHARD, Shard(4, 6, ((2,),))])
    assert next(answers).number == 3
    with pytest.raises(EngineError, match="gone"):
        next(answers)


def test_shards_go_out_in_rounds(monkeypatch) -> None:
    handed: list[int] = []

    def counted(there, items, task, bounds):
        handed.append(len(items))
        yield from (fault_text(item, ValueError("x")) for item in items)

    monkeypatch.setattr("qt_bert.scale.sweeping.worker.run", counted)
    monkeypatch.setattr(engine, "_LEAST_ROUND", 2)
    monkeypatch.setattr(engine, "_ITEMS_AN_ACTOR", 1)
    shards = [Shard(n, n, ((n,),)) for n in range(5)]
    assert len(list(RaySweep(THERE, Bounds(actors=1)).dispatch(None, shards))) == 5
    assert handed == [2, 2, 1]
