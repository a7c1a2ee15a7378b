"""The initialisation study: what pretraining and fine-tuning are each worth.

"How much difference does fine-tuning make?" (Kovaleva et al. 2019, `dark_secrets_of_bert`) compares
pretrained weights with a classifier on top, random weights fine-tuned, and pretrained weights
fine-tuned. The first is described as trained classifiers over frozen weights, but its figures look
like those of untrained ones; both are run here.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.encoder import positions_of
from qt_bert.encoder.card import MAX_LENGTH
from qt_bert.encoder.loading import load_config
from qt_bert.encoder.manifest import weights_sha256
from qt_bert.encoder.verify import verify_folder, weight_shapes
from qt_bert.errors import ArgumentError, CheckpointError, RunFolderError
from qt_bert.evaluation.judgements import index_queries
from qt_bert.files import is_vacant, read_json, sha256_file, write_json
from qt_bert.pairs import GRADES, Pair
from qt_bert.results.initialisations import (
    ARMS,
    SPLITS,
    Arm,
    FileRef,
    Initialisations,
    Record,
    SplitOutputs,
    Try,
    read_initialisations,
)
from qt_bert.training.initialisations.heads import FrozenArms
from qt_bert.training.initialisations.job import LABELS, StudyJob, check_job, read_splits
from qt_bert.training.initialisations.outputs import Outputs, RunFiles
from qt_bert.training.initialisations.tuned import outputs_of, random_start, tune
from qt_bert.training.judged_on import merit_of
from qt_bert.training.sources import PairSource
from qt_bert.training.state import same_settings
from qt_bert.training.workspace import workspace_of

_ASKED, _RUNS, _RANDOM = "asked.json", "runs", "random-weights"
Said = Callable[[Try], None]


def run_initialisations(
    job: StudyJob,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    said: Said = lambda one: None,
) -> Initialisations:
    """Run every arm that is not there yet, and write the record into `out`.

    Beside the record, `out` keeps the folders of the fine-tuned models. `said` is told of every
    run. Raises ArgumentError, PairFileError and CheckpointError for what cannot be read or meant;
    RunFolderError where `out` holds something and neither flag says what to do with it, or a study
    that was asked for otherwise.
    """
    check_job(job)
    _check_base(job)
    splits = read_splits(job)
    _open_folder(out, json.loads(json.dumps(job.asked)), resume=resume, overwrite=overwrite)
    Study(job, out, splits, said).run()
    return read_initialisations(out)


class Study:
    """One study in its folder: a run that was finished is taken as it is."""

    def __init__(self, job: StudyJob, out: Path, splits: dict[str, list[Pair]], said: Said) -> None:
        self.job, self.out, self.splits, self.said = job, out, splits, said
        self.files = RunFiles(out / _RUNS)
        longest = positions_of(load_config(job.base))
        self.max_length = job.max_length or min(MAX_LENGTH, longest)
        self.frozen = FrozenArms(job, splits, self.max_length, out / _RUNS)
        self.tries: list[Try] = []

    def run(self) -> None:
        """All four arms, then the outputs of the final runs, then the record."""
        final = [self._once("untrained", seed, None) for seed in self.job.seeds]
        for arm in ARMS[1:]:
            final += self._at_best_rate(arm)
        outputs = [self._outputs(one) for one in final]
        self._record(final, outputs).write(self.out)

    def _at_best_rate(self, arm: Arm) -> list[Try]:
        """Every rate with the first seed; then, with the others, the one best on discovery."""
        first, *others = self.job.seeds
        rates = self.job.head.rates if arm == "frozen" else self.job.rates
        best = max((self._once(arm, first, rate) for rate in rates), key=self._merit)
        return [best, *(self._once(arm, seed, best.rate) for seed in others)]

    def _merit(self, one: Try) -> float:
        return -np.inf if one.discovery is None else merit_of(one.discovery, self.job.metric)

    def _once(self, arm: Arm, seed: int, rate: float | None) -> Try:
        """The run of an arm, made where it is not there yet."""
        name = _name(arm, seed, rate)
        found = self.files.done(name) or self.files.store(name, self._run(arm, seed, rate))
        self.tries.append(found)
        self.said(found)
        return found

    def _run(self, arm: Arm, seed: int, rate: float | None) -> Try:
        if arm in ("untrained", "frozen"):
            return self.frozen.run(seed, rate)
        assert rate is not None
        random = self.out / f"{_RANDOM}-seed{seed}"
        start = (
            self.job.base
            if arm == "tuned"
            else random_start(self.job.base, random, seed, self.max_length)
        )
        out = self.out / _name(arm, seed, rate)
        found = tune(self.job, arm, start, out, seed=seed, rate=rate, max_length=self.max_length)
        shutil.rmtree(workspace_of(out), ignore_errors=True)
        return found

    def _outputs(self, one: Try) -> Outputs:
        name = _name(one.arm, one.seed, one.rate)
        stored = self.files.outputs(name)
        if stored is not None:
            return stored
        made = (
            self.frozen.outputs(one)
            if one.folder is None
            else outputs_of(self.out / one.folder, self.splits)
        )
        return self.files.store_outputs(name, made)

    def _record(self, final: list[Try], outputs: list[Outputs]) -> Initialisations:
        job = self.job
        record = Record(
            base=FileRef(name=job.base.name, sha256=weights_sha256(job.base)),
            train=tuple(_file(source, source.read(labelled=True)) for source in job.sources),
            splits={split: _file(getattr(job, split), self.splits[split]) for split in SPLITS},
            metric=job.metric,
            grades=LABELS.grades or (),
            tries=tuple(self.tries),
            final=tuple(self.tries.index(one) for one in final),
            settings={
                "tuning": asdict(job.tuning),
                "head": asdict(job.head),
                "rates": job.rates,
                "max_length": self.max_length,
            },
        )
        held = {
            split: _split(self.splits[split], [one[split] for one in outputs]) for split in SPLITS
        }
        return Initialisations(record, held)


def _check_base(job: StudyJob) -> None:
    """Raise CheckpointError for a folder that is no encoder, or one that was fine-tuned.

    ArgumentError where it has too few positions.
    """
    base = job.base
    _, family = verify_folder(base)
    if family.classifier in weight_shapes(base):
        raise CheckpointError(
            f"{base}: it holds a classifier ({family.classifier}), so it was fine-tuned; the study "
            "starts from the model before that"
        )
    longest = positions_of(load_config(base))
    if (job.max_length or 0) > longest:
        raise ArgumentError(f"--max-length {job.max_length}: the base has {longest} positions")


def _split(pairs: list[Pair], logits: list[np.ndarray]) -> SplitOutputs:
    labels = np.array([[grade in (pair.grades or ()) for grade in GRADES] for pair in pairs])
    queries, _ = index_queries([pair.query for pair in pairs])
    return SplitOutputs(np.stack(logits), queries.astype(np.int32), labels)


def _file(source: PairSource, pairs: list[Pair]) -> FileRef:
    return FileRef(name=source.file.name, sha256=sha256_file(source.file), rows=len(pairs))


def _name(arm: Arm, seed: int, rate: float | None) -> str:
    return f"{arm}-seed{seed}" if rate is None else f"{arm}-{rate:g}-seed{seed}"


def _open_folder(out: Path, asked: dict[str, Any], *, resume: bool, overwrite: bool) -> None:
    """Make `out` the folder of this study, new or gone on with."""
    path = out / _ASKED
    if overwrite and path.exists():
        shutil.rmtree(out)
    elif not is_vacant(out) and not (resume and path.exists()):
        raise RunFolderError(
            f"{out} is not empty; choose another --out"
            + (", --resume its study, or --overwrite it" if path.exists() else "")
        )
    if path.exists():
        same_settings(out, read_json(path), asked)
    else:
        write_json(path, asked)
