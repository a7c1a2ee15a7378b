"""The dry run: what there is, a sample, and sums that can be checked by hand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from qt_bert.cluster import score
from qt_bert.cluster.scanning import MOST_ROWS, rows_for_few, rows_for_model
from qt_bert.cluster.score import Estimate, RayOptions, estimate
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, PairFileError
from tests.cluster.planted import write_pairs
from tests.cluster.rays import job_for, write_day


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_sums_by_hand() -> None:
    found = Estimate(
        files=3,
        skipped=0,
        partitions=10,
        rows_per_partition=8192,
        rows=80_000,
        sample_rows=512,
        sample_seconds=2.0,
        actors=4,
        machines=2,
    )
    assert found.rate == 256
    # Three turns of 8,000 rows at 256 a second.
    assert found.seconds == 93.75
    assert math.isclose(found.machine_hours, 2 * 93.75 / 3600)
    assert math.isclose(found.cost(1.2), 2 * 93.75 / 3600 * 1.2)


def test_what_a_day_takes_is_counted_and_nothing_is_written(
    checkpoint_of: Any, tmp_path: Path
) -> None:
    day = write_day(tmp_path / "day")
    (day / "notes.md").write_text("not of pairs")
    job = job_for(checkpoint_of(), tmp_path / "out", reader=ReaderOptions(max_rejects=0.05))
    found = estimate([str(day)], job, RayOptions(actors=3, rows=32))
    assert (found.files, found.skipped, found.partitions, found.rows) == (4, 1, 11, 300)
    assert 200 < found.sample_rows <= 8 * 32 and found.sample_seconds > 0
    assert (found.actors, found.machines) == (3, 1)
    assert not (tmp_path / "out").exists()


def test_a_slow_model_is_measured_on_fewer_rows(
    checkpoint_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pairs(tmp_path / "day.tsv", ["高铁票价"] * 600)
    job = job_for(checkpoint_of(), tmp_path / "out")
    assert estimate([str(path)], job, RayOptions(actors=1)).sample_rows == 512
    monkeypatch.setattr(score, "SAMPLE_SECONDS", 1e-9)
    assert estimate([str(path)], job, RayOptions(actors=1)).sample_rows == 64


def test_a_sample_without_a_pair_is_an_error(
    checkpoint_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_pairs(tmp_path / "day.tsv", [" "] * 9)
    with pytest.raises(PairFileError, match="the sample holds no pair"):
        estimate([str(path)], job_for(checkpoint_of(), tmp_path), RayOptions(actors=1))


def test_rows_go_by_the_model_and_never_by_the_clock(checkpoint_of: Any, tmp_path: Path) -> None:
    assert rows_for_model(str(checkpoint_of())) == MOST_ROWS
    large = tmp_path / "large"
    large.mkdir()
    (large / "config.json").write_text(
        '{"hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12}'
    )
    # 85 million weights × 2 × 32 tokens = 5.4e9 a row; 1.2e13 of these are 2,209 rows.
    assert rows_for_model(str(large)) == 2048
    assert rows_for_model(str(tmp_path / "none")) == MOST_ROWS


@pytest.mark.parametrize(
    ("rows", "actors", "wanted"),
    [(1_000_000, 2, 8192), (8000, 2, 1000), (8001, 2, 1001), (300, 2, 64), (300, 100, 64)],
)
def test_few_rows_are_cut_into_more_partitions_than_actors(
    rows: int, actors: int, wanted: int
) -> None:
    assert rows_for_few(rows, 8192, actors) == wanted
    assert rows_for_few(rows, 50, actors) == 50


@pytest.mark.parametrize("given", [{"actors": 0}, {"rows": 0}, {"stall": 0.0}, {"stall": -1.0}])
def test_options_that_cannot_be_meant(given: dict[str, Any]) -> None:
    with pytest.raises(ArgumentError, match="give"):
        RayOptions(**given)
