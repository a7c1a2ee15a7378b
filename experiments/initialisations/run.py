"""The initialisation study: what pretraining and fine-tuning are each worth.

    python -m experiments.initialisations.run --out runs/initialisations

"How much difference does fine-tuning make?" (Kovaleva et al. 2019, `dark_secrets_of_bert`) compares
pretrained weights with a classifier on top, random weights fine-tuned, and pretrained weights
fine-tuned. The first is described as trained classifiers over frozen weights, but its figures look
like those of untrained ones; both are run here.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification

from experiments.command import one_line_faults
from experiments.initialisations.frozen import FrozenArms
from experiments.initialisations.job import LABELS, Outputs, RunFiles, StudyJob, read_splits
from experiments.initialisations.record import (
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
from qt_bert.data.pairs import GRADES, Pair
from qt_bert.errors import ArgumentError, CheckpointError, RunFolderError
from qt_bert.files import is_vacant, read_json, sha256_file, write_json
from qt_bert.models.card import MAX_LENGTH, ModelSettings
from qt_bert.models.checkpoint import open_checkpoint, open_tokenizer, save_checkpoint
from qt_bert.models.folder import verify_folder, weight_shapes, weights_sha256
from qt_bert.models.loading import load_config, positions_of, without_dropout
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import DEV, PRETRAINED, TEST, TRAIN, shipped
from qt_bert.stats.judgements import index_queries
from qt_bert.training.finetune import TrainJob, run_train
from qt_bert.training.recipes import PairSource
from qt_bert.training.selection import merit_of
from qt_bert.training.state import same_settings, workspace_of


def random_start(base: Path, out: Path, seed: int, max_length: int) -> Path:
    """A model in the shape of `base`, its tokenizer beside it, with weights as before pretraining.

    They come from `seed`, by the rule of the model's family. Returns `out`, made where it is not
    there yet.
    """
    if out.exists():
        return out
    config = without_dropout(load_config(base))
    config.num_labels = LABELS.logits
    with _seeded(seed):
        model = AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
    card = ModelSettings(LABELS, max_length)
    return save_checkpoint(
        out, model.float(), open_tokenizer(base), settings=card, dtype=torch.float32
    )


def tune(
    job: StudyJob, arm: Arm, start: Path, out: Path, *, seed: int, rate: float, max_length: int
) -> Try:
    """Fine-tune `start` into `out`, or go on with it where it was begun."""
    started = time.monotonic()
    facts = run_train(
        TrainJob(
            base=start,
            sources=job.sources,
            dev=job.discovery,
            max_length=max_length,
            stop_on=job.metric,
        ),
        out,
        replace(job.tuning, lr=rate, seed=seed),
        resume=True,
    )
    return Try(
        arm=arm,
        seed=seed,
        rate=rate,
        discovery=facts["best"],
        step=facts["best_step"],
        steps=facts["steps"],
        seconds=round(time.monotonic() - started, 1),
        folder=out.name,
        sha256=weights_sha256(out),
    )


def outputs_of(folder: Path, splits: dict[str, list[Pair]]) -> Outputs:
    """Logits of a tuned model on both splits, as every command computes them."""
    scorer = Scorer(open_checkpoint(folder))
    return {
        split: scorer.logits([(pair.query, pair.title) for pair in pairs])
        for split, pairs in splits.items()
    }


@contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Torch's random numbers from `seed`, and afterwards as they were."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        yield


_ASKED, _RUNS, _RANDOM = "asked.json", "runs", "random-weights"
Said = Callable[[Try], None]


def run_initialisations(
    job: StudyJob, out: Path, *, resume: bool = False, said: Said = lambda one: None
) -> Initialisations:
    """Run every arm that is not there yet, and write the record into `out`.

    Beside the record, `out` keeps the folders of the fine-tuned models. `said` is told of every
    run. Raises ArgumentError, PairFileError and CheckpointError for what cannot be read or meant;
    RunFolderError where `out` holds something and `resume` is not given, or a study that was asked
    for otherwise.
    """
    _check_base(job)
    splits = read_splits(job)
    _open_folder(out, json.loads(json.dumps(job.asked)), resume=resume)
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


def _open_folder(out: Path, asked: dict[str, Any], *, resume: bool) -> None:
    """Make `out` the folder of this study, new or gone on with."""
    path = out / _ASKED
    if not is_vacant(out) and not (resume and path.exists()):
        raise RunFolderError(f"{out} is not empty; choose another --out, or --resume its study")
    if path.exists():
        same_settings(out, read_json(path), asked)
    else:
        write_json(path, asked)


def main(arguments: list[str] | None = None) -> None:
    """Run the study; an input's fault is one line and exit status 2."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, required=True, help="folder of record and models")
    parser.add_argument("--base", type=Path, default=shipped(PRETRAINED), help="encoder, not tuned")
    parser.add_argument("--train", type=Path, default=shipped(TRAIN), help="graded file")
    parser.add_argument("--dev", type=Path, default=shipped(DEV), help="chooses rates and steps")
    parser.add_argument("--test", type=Path, default=shipped(TEST), help="gives the figures")
    parser.add_argument("--resume", action="store_true", help="go on with the study in --out")
    asked = parser.parse_args(arguments)
    job = StudyJob(
        base=asked.base,
        sources=(PairSource(asked.train),),
        discovery=PairSource(asked.dev),
        validation=PairSource(asked.test),
    )
    with one_line_faults():
        run_initialisations(job, asked.out, resume=asked.resume, said=_tell)


def _tell(one: Try) -> None:
    """One run in one line."""
    rate = "" if one.rate is None else f" at {one.rate:g}"
    reached = "not defined" if one.discovery is None else f"{one.discovery:.3f}"
    print(f"{one.arm}{rate}, seed {one.seed}: {reached} on dev, step {one.step} of {one.steps}")


if __name__ == "__main__":
    main()
