"""Rows that raise, kill, hang or want too much, on a cluster: they alone are lost, and it is said why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from qt_bert.cluster.record import RunRecord
from qt_bert.cluster.score import RayOptions, score_on_ray
from qt_bert.cluster.storage import LocalStorage
from qt_bert.data.reader import ReaderOptions
from tests.cluster.planted import write_pairs
from tests.cluster.rays import importable_tests, job_for, parts_in, reference, rows_of_a_day

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("alone_with_ray")]
READER = ReaderOptions(max_rejects=0.5)


def run(model: Path, tmp_path: Path, scorer: str, titles: list[str], **options: Any) -> RunRecord:
    """A whole run over `titles`, twenty a partition, by two actors."""
    day = write_pairs(tmp_path / "day.tsv", titles)
    job = job_for(model, tmp_path / "out", reader=READER, scorer=f"tests.cluster.{scorer}")
    with importable_tests():
        report = score_on_ray([str(day)], job, RayOptions(actors=2, rows=20, **options))
    assert RunRecord.read(LocalStorage(tmp_path / "out")).complete
    return report.record


def planted(titles: dict[int, str], rows: int = 100) -> list[str]:
    """Titles of a day, with others at some places."""
    found = [title for _, title in rows_of_a_day(rows)]
    for place, title in titles.items():
        found[place] = title
    return found


@pytest.mark.parametrize(
    ("scorer", "title", "reason", "stall"),
    [
        ("planted:raising", "坏", "raises ValueError: this title is bad", 600.0),
        ("planted:killing", "杀", "kills the worker (signal 9)", 600.0),
        ("planted:hanging", "停", "kills the worker (no sign of life for 20 seconds)", 20.0),
        ("planted_ray:bounded", "大", "raises", 600.0),
    ],
)
def test_a_row_that_cannot_be_scored_costs_itself_alone(
    checkpoint_of: Any, tmp_path: Path, scorer: str, title: str, reason: str, stall: float
) -> None:
    model = checkpoint_of()
    places = {7: title, 61: title}
    record = run(model, tmp_path, scorer, planted(places), stall=stall)
    assert record.totals is not None
    assert (record.rows, record.totals.pairs, record.totals.rejected) == (100, 98, 2)
    lines = (tmp_path / "out" / "rejects.tsv").read_text(encoding="utf-8").splitlines()[1:]
    assert [line.split("\t")[1] for line in lines] == ["9", "63"]
    assert all(line.split("\t")[2].startswith(reason) for line in lines), lines
    _same_but_for(places, model, tmp_path)


def _same_but_for(places: dict[int, str], model: Path, tmp_path: Path) -> None:
    """Partitions without a planted row have the same bits; in the others the rest is as near."""
    inputs, out = [str(tmp_path / "day.tsv")], tmp_path / "reference"
    wanted = reference(job_for(model, out, reader=READER), inputs, 20, out)
    found = parts_in(tmp_path / "out")
    assert list(found) == list(wanted)
    hit = {place // 20 for place in places}
    for number, name in enumerate(wanted):
        if number not in hit:
            assert found[name] == wanted[name]
            continue
        mine = pq.read_table(tmp_path / "out" / "parts" / name).to_pandas().set_index("line")
        whole = pq.read_table(out / "parts" / name).to_pandas().set_index("line").loc[mine.index]
        assert len(mine) == 19
        numbers = mine.select_dtypes("number").columns
        assert np.abs(mine[numbers] - whole[numbers]).to_numpy().max() < 1e-5


def test_every_partition_has_a_row_that_kills(checkpoint_of: Any, tmp_path: Path) -> None:
    places = {place: "杀" for place in range(3, 100, 20)}
    record = run(checkpoint_of(), tmp_path, "planted:killing", planted(places))
    assert record.totals is not None
    assert (record.totals.pairs, record.totals.rejected) == (95, 5)
    assert record.totals.how == {"alone": 5}
