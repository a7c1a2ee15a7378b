"""Does the plan pay? All arms trained, judged, and held against the plan; taken up after a kill."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from qt_bert.encoder import open_checkpoint
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.evaluation import Judgements
from qt_bert.files import is_vacant, read_json
from qt_bert.planning.distilling.arms import GRADES, PLAN, SEEDS, WORDS, ArmJob, arms_of
from qt_bert.planning.distilling.arms_text import summary_of
from qt_bert.planning.distilling.judging import JudgedOn, metrics_of
from qt_bert.planning.distilling.paired import paired_differences
from qt_bert.planning.distilling.run_distill import DistillJob, levels_of, run_distill
from qt_bert.results.arms import Arm, ArmRun, ArmsFile
from qt_bert.training.finetune import TuneSettings
from qt_bert.training.sources import PairSource
from qt_bert.training.state import STATE_FILE
from qt_bert.training.workspace import workspace_of

ARMS_FILE, RUNS, LOGITS = "arms.json", "runs", "logits"


@dataclass(frozen=True)
class ArmsJob:
    """What all arms learn, how often each is run, and the pairs for the end."""

    job: DistillJob
    settings: TuneSettings
    seeds: Mapping[str, int]
    validation: PairSource | None = None

    def runs(self, arm: ArmJob) -> range:
        """The seeds of an arm, from 0."""
        return range(self.seeds[arm.name])

    def order(self, arms: Sequence[ArmJob]) -> Iterator[tuple[ArmJob, int]]:
        """Seed by seed: a work that is stopped has arms to compare."""
        for seed in range(max(self.seeds.values())):
            yield from ((arm, seed) for arm in arms if seed in self.runs(arm))

    def files(self, levels: int | None) -> list[JudgedOn]:
        """The pairs that all are judged on."""
        named = {"dev": self.job.dev, "validation": self.validation}
        return [JudgedOn.read(name, source, levels) for name, source in named.items() if source]


def run_arms(
    job: DistillJob,
    out: Path,
    settings: TuneSettings,
    *,
    validation: PairSource | None = None,
    seeds: Mapping[str, int] = SEEDS,
    resume: bool = False,
    overwrite: bool = False,
) -> ArmsFile:
    """Train every arm with its seeds under `out/runs`, judge them, and write `out/arms.json`.

    Seed s trains with `settings.seed` + s, which fixes the order of the data, and for all steps,
    whatever `settings.patience`. A teacher of one output has no arm on grades alone. The logits of
    each run are kept in `out/logits/ARM-SEED.dev.npy` (float32 [pair, output], pairs in file order).
    The pairs of `validation` are for the end: given with `resume` to finished runs, they train
    nothing anew.

    Raises ArgumentError where `job` has no `dev` or nothing to learn from the teacher,
    RunFolderError where `out` holds anything and neither flag says what to do, and as `run_distill`.
    """
    if job.dev is None:
        raise ArgumentError("--arms needs --dev FILE: all arms are judged on the same pairs")
    asked = ArmsJob(job, replace(settings, patience=0), seeds, validation)
    labels = open_checkpoint(job.student.model).settings.labels
    files = asked.files(levels_of(labels))  # a fault of these is found before hours of training
    arms = [arm for arm in arms_of(job) if arm.name != GRADES or labels.logits > 1]
    _open(out, resume=resume, overwrite=overwrite)
    for arm, seed in asked.order(arms):
        _train(asked, arm, seed, _folder(out, arm, seed))
    result = _judge(asked, arms, files, out)
    result.write(out / ARMS_FILE)
    return result


def _train(asked: ArmsJob, arm: ArmJob, seed: int, folder: Path) -> None:
    """Train one arm into `folder`, or leave it where it is finished."""
    settings = replace(asked.settings, seed=asked.settings.seed + seed)
    run_distill(arm.job, folder, settings, resume=True)
    # What a run resumes from is some eight times its student, and there are many runs.
    (workspace_of(folder) / STATE_FILE).unlink(missing_ok=True)


def _open(out: Path, *, resume: bool, overwrite: bool) -> None:
    if is_vacant(out) or (resume and (out / RUNS).is_dir()):
        return
    if not overwrite:
        raise RunFolderError(
            f"{out} is not empty; --resume goes on with arms begun there, --overwrite starts anew"
        )
    for name in (RUNS, LOGITS):
        shutil.rmtree(out / name, ignore_errors=True)
    (out / ARMS_FILE).unlink(missing_ok=True)


def _folder(out: Path, arm: ArmJob, seed: int) -> Path:
    return out / RUNS / f"{arm.name}-{seed}"


def _judge(
    asked: ArmsJob, arms: Sequence[ArmJob], files: Sequence[JudgedOn], out: Path
) -> ArmsFile:
    """Every run on every file, and the plan against each rival."""
    model = asked.job.student.model
    judged = {(arm.name, file.name): _runs(asked, arm, file, out) for arm in arms for file in files}
    facts = {(arm.name, seed): _facts(out, arm, seed) for arm, seed in asked.order(arms)}
    differences = [
        found
        for file in files
        for arm in arms
        if arm.name != PLAN
        for found in paired_differences(
            judged[PLAN, file.name], judged[arm.name, file.name], name=arm.name, on=file.name
        )
    ]
    runs = [
        ArmRun(
            arm=arm.name,
            seed=seed,
            best_step=int(facts[arm.name, seed]["best_step"]),
            metrics={f.name: metrics_of(judged[arm.name, f.name][seed]) for f in files},
        )
        for arm, seed in asked.order(arms)
    ]
    return ArmsFile(
        teacher=asked.job.student.plan.teacher,
        steps=max(int(one["planned_steps"]) for one in facts.values()),
        pairs={file.name: file.ref for file in files},
        teacher_metrics={f.name: metrics_of(f.judge(model)) for f in files},
        arms=tuple(_arm(arm, _folder(out, arm, 0)) for arm in arms),
        runs=tuple(runs),
        differences=tuple(differences),
        summary=summary_of(differences),
    )


def _runs(asked: ArmsJob, arm: ArmJob, file: JudgedOn, out: Path) -> dict[int, Judgements]:
    """Seed → what the arm's student gives on `file`."""
    folders = {seed: _folder(out, arm, seed) for seed in asked.runs(arm)}
    return {
        seed: file.judge(folder, out / LOGITS / f"{folder.name}.{file.name}.npy")
        for seed, folder in folders.items()
    }


def _facts(out: Path, arm: ArmJob, seed: int) -> dict[str, int]:
    facts: dict[str, int] = read_json(_folder(out, arm, seed) / "training.json")
    return facts


def _arm(arm: ArmJob, folder: Path) -> Arm:
    student = arm.job.student
    return Arm(
        name=arm.name,
        what=WORDS[arm.name],
        kept=student.kept,
        layer_map=student.layer_map,
        parameters=open_checkpoint(folder, compact=True).parameters,
    )
