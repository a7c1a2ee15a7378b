"""The record of the initialisation study: two files that belong together."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from experiments.initialisations.record import ARMS, OUTPUTS, RECORD, SPLITS, read_initialisations
from qt_bert.errors import RunFolderError
from tests.experiments.made_initialisations import made, written


def test_what_is_written_is_read(tmp_path: Path) -> None:
    expected = made("c" * 64)
    found = read_initialisations(written(tmp_path, "c" * 64))
    assert found.record.tries == expected.record.tries
    assert found.record.base == expected.record.base
    for split in SPLITS:
        for name in ("logits", "queries", "labels"):
            stored = getattr(found.outputs[split], name)
            np.testing.assert_array_equal(stored, getattr(expected.outputs[split], name))
    assert [found.record.runs(arm) for arm in ARMS] == [[0, 1], [2, 3], [4, 5], [6, 7]]


def test_the_same_record_is_written_in_the_same_bytes(tmp_path: Path) -> None:
    one, other = (written(tmp_path / name, "c" * 64) for name in ("one", "other"))
    for name in (RECORD, OUTPUTS):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_damage_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunFolderError, match="no such result file"):
        read_initialisations(tmp_path)
    folder = written(tmp_path, "c" * 64)
    stored = (folder / OUTPUTS).read_bytes()
    (folder / OUTPUTS).write_bytes(stored[:-1])
    with pytest.raises(RunFolderError, match="not the file"):
        read_initialisations(folder)
    (folder / OUTPUTS).unlink()
    with pytest.raises(RunFolderError, match="missing"):
        read_initialisations(folder)


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("final", [0, 1], "not every arm"),
        ("final", list(range(7)), "not every arm"),
        ("final", [0, 2, 4, 6], "do not fit"),
        ("final", [99], "not there"),
        ("grades", [[1], [2]], "do not fit"),
        ("tries", "none", "a list"),
    ],
)
def test_a_record_that_its_outputs_do_not_fit_is_refused(
    tmp_path: Path, key: str, value: object, says: str
) -> None:
    folder = written(tmp_path, "c" * 64)
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    record[key] = value
    (folder / RECORD).write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RunFolderError, match=says):
        read_initialisations(folder)
