"""What a run on Ray is asked to be, before there is a cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qt_bert.cluster import score
from qt_bert.cluster.ledger import Ledger
from qt_bert.cluster.score import RayOptions, score_on_ray
from qt_bert.cluster.storage import storage_of
from qt_bert.errors import RunFolderError
from tests.cluster.planted import write_pairs
from tests.cluster.rays import job_for


@pytest.mark.parametrize("name", ["torch", "tokenizers", "python"])
def test_a_resume_takes_the_versions_that_the_run_was_begun_with(
    checkpoint_of: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    day, options = str(write_pairs(tmp_path / "day.tsv", ["猫", "狗"])), RayOptions(actors=1)
    job = job_for(checkpoint_of(), tmp_path / "out")
    begun = score._Plan([day], job, options, 1)
    Ledger.open(storage_of(job.out), begun.scan, begun.asked)
    other = score.versions() | {name: "0.0"}
    monkeypatch.setattr(score, "versions", lambda: other)
    with pytest.raises(RunFolderError, match=f"begun with another version of {name}; resume with"):
        score_on_ray([day], job, options, resume=True)
