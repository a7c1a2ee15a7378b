"""The registry of stages."""

from __future__ import annotations

from typing import Any

import pytest

from qt_bert.errors import ArgumentError
from qt_bert.study import StageRegistry


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
