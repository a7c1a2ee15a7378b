"""The registry of stages, and their keys."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert import shipped
from qt_bert.errors import ArgumentError
from qt_bert.run.folder import RunRecord
from qt_bert.run.stage import StageRegistry, stage_key
from tests.run.conftest import make_inputs


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


def test_a_file_that_ships_and_is_read_is_in_the_key(
    stages: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shipped, "_ROOTS", (tmp_path,))
    record = RunRecord(versions={}, source="s", inputs=make_inputs())
    reading = replace(stages.grades, reads=("spans.tsv",))
    keys = [stage_key(reading, record, {})]
    for text in ("a", "b"):
        (tmp_path / "spans.tsv").write_text(text)
        keys.append(stage_key(reading, record, {}))
    assert len(set(keys)) == 3
    assert stage_key(stages.grades, record, {}) == keys[0]
