"""What a run reads, where nothing else is named."""

from __future__ import annotations

from qt_bert.data.reader import ReaderOptions
from qt_bert.run.inputs import ProbeOptions
from qt_bert.shipped import BASELINES, TEST, shipped


def test_the_table_that_ships_goes_with_all_of_the_test_split_alone() -> None:
    whole = ProbeOptions().files(shipped(TEST), ReaderOptions())
    assert whole["baseline_table"] == shipped(BASELINES)
    some = ProbeOptions().files(shipped(TEST), ReaderOptions(limit=80))
    assert some["baseline_table"] is None
    given = ProbeOptions(baseline_table=shipped(BASELINES))
    assert given.files(shipped(TEST), ReaderOptions(limit=80))["baseline_table"] is not None
