"""Running the stages of a study, each only where its result is not there yet."""

from __future__ import annotations

import time
from collections.abc import Iterable

from qt_bert.errors import ArgumentError
from qt_bert.progress import Progress, silent
from qt_bert.study.context import StudyContext
from qt_bert.study.keys import stage_key
from qt_bert.study.run_folder import RunFolder
from qt_bert.study.stage import Stage


def run_study(
    stages: Iterable[Stage], context: StudyContext, progress: Progress = silent
) -> tuple[str, ...]:
    """Bring every stage's files up to date; return the names of the stages that had to run.

    Stages that do not apply to the run's inputs are left out.
    A stage is reused when model, pairs, segmenter, its arguments, the package's sources and the
    stages that it needs are unchanged and its files are there. An exception in a stage leaves the
    folder as one that resumes there. `progress` counts stages.

    Raises ArgumentError when a stage needs one that does not come before it.
    """
    folder = context.folder
    applying = [stage for stage in stages if stage.applies(folder.record.inputs)]
    ordered = sorted(applying, key=lambda stage: stage.order)
    keys = _keys(ordered, folder)
    folder.plan(keys)
    ran = []
    for stage in ordered:
        if folder.is_done(stage.name, keys[stage.name]):
            progress.advance(1, f"{stage.name} (reused)")
            continue
        _run_stage(stage, keys[stage.name], context)
        ran.append(stage.name)
        progress.advance(1, stage.name)
    folder.complete()
    return tuple(ran)


def _keys(stages: Iterable[Stage], folder: RunFolder) -> dict[str, str]:
    keys: dict[str, str] = {}
    for stage in stages:
        late = [name for name in stage.needs if name not in keys]
        if late:
            raise ArgumentError(f"stage {stage.name!r} needs {late[0]!r}, which comes no earlier")
        needed = {name: keys[name] for name in stage.needs}
        keys[stage.name] = stage_key(stage, folder.record, needed)
    return keys


def _run_stage(stage: Stage, key: str, context: StudyContext) -> None:
    context.guards = {}
    context.folder.begin(stage.name, key, stage.outputs, stage.folders)
    start = time.perf_counter()
    stage.run(context)
    context.folder.finish(stage.name, time.perf_counter() - start, context.guards)
