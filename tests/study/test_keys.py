"""The hash of the sources, and the registry of stages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.study import StageRegistry, source_hash


def test_an_edited_or_renamed_source_changes_the_hash(tmp_path: Path) -> None:
    hashes = []
    for number, (name, text) in enumerate(
        [("a.py", "x = 1\n"), ("a.py", "x = 2\n"), ("b.py", "x = 1\n")]
    ):
        package = tmp_path / str(number)
        package.mkdir()
        (package / name).write_text(text)
        hashes.append(source_hash(package))
    assert len(set(hashes)) == 3


def test_other_files_do_not_change_the_hash(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / str(number)).mkdir()
        (tmp_path / str(number) / "a.py").write_text("x = 1\n")
    (tmp_path / "2" / "style.css").write_text("a {}")
    assert source_hash(tmp_path / "1") == source_hash(tmp_path / "2")


def test_the_registry_gives_stages_in_order(stages: Any) -> None:
    registry = StageRegistry()
    for stage in (stages.plan, stages.grades, stages.heads):
        registry.add(stage)
    assert [stage.name for stage in registry] == ["grades", "heads", "plan"]


def test_a_name_is_registered_once(stages: Any) -> None:
    registry = StageRegistry()
    registry.add(stages.grades)
    with pytest.raises(ArgumentError, match="two stages are named 'grades'"):
        registry.add(stages.grades)
