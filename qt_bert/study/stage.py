"""Stages of a run and their registry.

A new stage is one file of `stages/` that ends in `STAGES.add(Stage(...))`; it is found by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from qt_bert.errors import ArgumentError
from qt_bert.study.context import StudyContext
from qt_bert.study.record import RunInputs


def always(inputs: RunInputs) -> bool:
    """Every run has the stage."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One part of a run.

    `run` writes exactly the files in `outputs` (paths relative to the run folder), each
    atomically; it may keep unfinished work there under other names and go on from it. `folders`
    are folders of such work below `sweeps/`, which go when the stage's result is forgotten.
    `arguments` names the run's arguments that its figures depend on, `needs` the earlier stages
    whose files it reads; `reads` are files that ship and that it reads besides, by their names in
    `data/`. `quick_seconds` is its share of the profile `quick` on two cores.
    `applies` says whether a run of these inputs has the stage at all.
    """

    name: str
    order: int
    run: Callable[[StudyContext], None]
    outputs: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    reads: tuple[str, ...] = ()
    quick_seconds: float
    applies: Callable[[RunInputs], bool] = always


class StageRegistry:
    """Stages by name; iterating gives them in the order in which they run."""

    def __init__(self) -> None:
        self._stages: dict[str, Stage] = {}

    def add(self, stage: Stage) -> Stage:
        """Register `stage`. Raises ArgumentError when its name is taken."""
        if stage.name in self._stages:
            raise ArgumentError(f"two stages are named {stage.name!r}")
        self._stages[stage.name] = stage
        return stage

    def __iter__(self) -> Iterator[Stage]:
        return iter(sorted(self._stages.values(), key=lambda stage: (stage.order, stage.name)))


STAGES = StageRegistry()
"""The stages of `qt-bert report`."""
