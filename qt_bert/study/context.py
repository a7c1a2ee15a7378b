"""What a stage of a study gets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

from qt_bert.study.probe_files import ProbeFiles
from qt_bert.study.run_folder import RunFolder

T = TypeVar("T")


@dataclass(kw_only=True)
class StudyContext:
    """What a stage gets: the run folder with its inputs, where model and pairs lie, and notes.

    `files` are what probes read besides. `replaced` are arguments that are others here than in the
    run: those of a model that is compared. A stage puts the figures of its guards into `guards`;
    they end in `run.json`.
    """

    folder: RunFolder
    model: Path
    pairs: Path
    files: ProbeFiles = ProbeFiles()
    replaced: Mapping[str, Any] = field(default_factory=dict)
    guards: dict[str, Any] = field(default_factory=dict)
    _shared: dict[str, Any] = field(default_factory=dict, init=False, repr=False)

    def argument(self, name: str) -> Any:
        """The run's argument `name`; a stage asks only for those that it declares."""
        return {**self.folder.record.inputs.arguments, **self.replaced}[name]

    def shared(self, name: str, build: Callable[[], T]) -> T:
        """What several stages use (the model, the pairs), built when it is first asked for."""
        if name not in self._shared:
            self._shared[name] = build()
        return cast(T, self._shared[name])
