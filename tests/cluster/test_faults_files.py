"""A full disk, a file that cannot be read, one that was rewritten: a clear error, and resume."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qt_bert.cluster.score import RayOptions, score_on_ray
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import PairFileError, QtBertError, RunFolderError
from tests.cluster.rays import importable_tests, job_for, parts_in, reference, write_day

pytestmark = [pytest.mark.nightly, pytest.mark.usefixtures("alone_with_ray")]
READER = ReaderOptions(max_rejects=0.05)


@pytest.mark.parametrize(
    ("scorer", "error", "words"),
    [
        ("full", RunFolderError, "No space left on device"),
        ("forbidden", PairFileError, r"a\.tsv: .*Permission denied"),
        ("vanishing", PairFileError, r"a\.tsv: is a folder"),
        ("rewritten", PairFileError, r"a\.tsv: changed since it was scanned"),
    ],
)
def test_the_run_stops_and_goes_on_where_it_was(
    checkpoint_of: Any, tmp_path: Path, scorer: str, error: type[QtBertError], words: str
) -> None:
    day, out, fault = write_day(tmp_path / "day"), tmp_path / "out", tmp_path / "out.fault"
    file, model = day / "a.tsv", checkpoint_of()
    content = file.read_bytes()
    plain = tmp_path / "reference"
    wanted = reference(job_for(model, plain, reader=READER), [str(day)], 32, plain)
    fault.write_text(str(file))
    job = job_for(model, out, reader=READER, scorer=f"tests.cluster.planted_ray:{scorer}")
    options = RayOptions(actors=2, rows=32)
    with importable_tests():
        with pytest.raises(error, match=words) as raised:
            score_on_ray([str(day)], job, options)
        assert "rows are done" in str(raised.value) and "--resume" in str(raised.value)
        assert not list((out / "parts").glob(".*")) if (out / "parts").exists() else True
        fault.unlink(missing_ok=True)
        if file.is_dir():
            file.rmdir()
            Path(f"{file}.gone").unlink()
        file.touch()
        file.chmod(0o644)
        file.write_bytes(content)
        report = score_on_ray([str(day)], job, options, resume=True)
    assert report.record.complete and parts_in(out) == wanted
    assert report.record.totals is not None
    assert (report.record.totals.pairs, report.record.totals.rejected) == (297, 3)
