"""Offline rows as part of a plan's file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from qt_bert.errors import RunFolderError
from qt_bert.results.plan import OfflinePlan, OfflineRow, Plan
from tests.results.made_offline import changed, offline_rows
from tests.results.made_plan import plan


@pytest.mark.parametrize(
    "found",
    [
        offline_rows(),
        offline_rows(chosen=3),
        offline_rows(rows=(), timed=None, titles=None, metric=None),
        OfflinePlan(layers=1, reason="one layer"),
    ],
)
def test_they_come_back_as_they_were(tmp_path: Path, found: OfflinePlan) -> None:
    made = plan(2, 4, offline=found)
    made.write(tmp_path / "plan.json")
    assert Plan.read(tmp_path / "plan.json") == made


def test_a_plan_from_before_there_were_rows_opens(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan(2, 4, offline=offline_rows()).write(path)
    stored = json.loads(path.read_text(encoding="utf-8"))
    del stored["offline"]
    path.write_text(json.dumps(stored), encoding="utf-8")
    assert Plan.read(path) == plan(2, 4)


def test_an_unknown_reason_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "plan.json"
    plan(2, 4, offline=OfflinePlan(layers=1, reason="one layer")).write(path)
    path.write_text(path.read_text(encoding="utf-8").replace("one layer", "bad luck"))
    with pytest.raises(RunFolderError, match="reason"):
        Plan.read(path)


def test_what_may_be_lost_is_the_upper_end() -> None:
    row = OfflineRow(layers=1, block={}, both={}, discovery=changed(-0.03, 0.01))
    assert row.may_lose("accuracy") == pytest.approx(0.04)
    assert row.may_lose("ndcg_at_3") == float("inf")


def test_the_plan_speaks_for_the_chosen_row_else_for_the_one_to_retrain() -> None:
    assert [offline_rows(chosen=n).at for n in (None, 3)] == [
        offline_rows().rows[1],
        offline_rows().rows[0],
    ]
    assert OfflinePlan(layers=1, reason="one layer").at is None
