"""The model of a job, opened in this process: on one thread, and refused if it is another one."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path

import numpy as np
import torch

from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.kernel_caches import STREAM, bound_kernel_caches
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.evaluation.calibration import Calibration
from qt_bert.files import sha256_file
from qt_bert.progress import Progress, silent
from qt_bert.scale.ledger.lines import StatesRead
from qt_bert.scale.partition.halving import Answer, Tally
from qt_bert.scale.partition.job import ScoreJob
from qt_bert.scale.places.copying import cache_of
from qt_bert.scale.places.naming import place_of
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.outputs import Outputs, read_outputs
from qt_bert.scoring.title_states.manifest import tokenizer_sha256
from qt_bert.scoring.title_states.reading import open_states

_PLAIN = ("问题", "标题")
"""A pair that every model scores: one that does not is refused."""


class PairModel:
    """The model of a job, which gives the logits of pairs and says what they mean.

    `sha256` is the hash of its weights, `facts` are what else the scores depend on, by name. Torch
    and the tokenizer are put on one thread for the whole process. Raises CheckpointError, RunFolderError and
    ArgumentError as opening the model, its title states and its calibration does, and
    CheckpointError where a plain pair gets no finite logits.
    """

    def __init__(self, job: ScoreJob) -> None:
        torch.set_num_threads(1)
        bound_kernel_caches(STREAM)
        os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
        self._scorer = _made(job) if job.scorer is not None else _opened(job)
        self._calibration = _calibration(self._scorer) if job.calibrated else None
        self.sha256 = self._scorer.checkpoint.sha256
        self.facts = _facts(self._scorer, self._calibration)
        logits = self.answer([_PLAIN]).logits
        if not np.isfinite(logits).all():
            raise CheckpointError(
                f"{self.name}: the logits of a plain pair are no finite numbers; the weights are damaged"
            )
        self.outputs(logits)

    @property
    def name(self) -> str:
        """The model's name."""
        return self._scorer.checkpoint.name

    @property
    def trial(self) -> tuple[str, str]:
        """A pair that fills the model's length: no row takes more memory."""
        tokens = self._scorer.tokenizer.max_length
        return "问题" * tokens, "标题" * tokens

    def answer(self, texts: Sequence[tuple[str, str]], shown: Progress = silent) -> Answer:
        """Logits [n, K] of (query, title) pairs and what was counted; nothing is left of other calls."""
        scorer = self._scorer.fresh()
        logits = scorer.logits(texts, shown)
        counts, split = scorer.counts, scorer.split
        states = None if split is None else StatesRead(**asdict(split.counts))
        return Answer(logits, Tally(counts.truncated_titles, counts.truncated_queries, states))

    def outputs(self, logits: np.ndarray) -> Outputs:
        """What logits [n, K] say, calibrated where the job asks for it."""
        return read_outputs(logits, self._scorer.checkpoint.settings.labels, self._calibration)


def open_model(job: ScoreJob) -> PairModel:
    """The model of a prepared job.

    Raises as `PairModel`, and CheckpointError where it is not the one that the job was prepared with.
    """
    model = PairModel(job)
    there, asked = (
        {"weights": model.sha256, **model.facts},
        {"weights": job.model_sha256, **job.facts},
    )
    other = [name for name in asked | there if asked.get(name) != there.get(name)]
    if other:
        raise CheckpointError(
            f"{job.model}: this is another model than the run was begun with (it differs in "
            f"{', '.join(other)}); give every machine the same files, or start anew with --overwrite"
        )
    return model


def prepared(job: ScoreJob) -> ScoreJob:
    """`job` with the hash and the facts of its model, which is opened here to see that it can be.

    Raises as `PairModel`.
    """
    model = PairModel(job)
    return replace(job, model_sha256=model.sha256, facts=model.facts)


def _opened(job: ScoreJob) -> Scorer:
    checkpoint = open_checkpoint(
        _local(job.model, job), dtype=job.dtype, model_grades=job.model_grades, compact=True
    )
    scorer = Scorer(checkpoint, max_length=job.max_length)
    if job.title_states is None:
        return scorer
    return scorer.reading(open_states(_local(job.title_states, job), checkpoint))


def _local(address: str, job: ScoreJob) -> Path:
    """A folder of this node with what lies at `address`."""
    cache = cache_of(job.cache)
    try:
        return place_of(address).local_copy(cache)
    except OSError as error:
        raise CheckpointError(f"{address}: cannot be copied to {cache} ({error})") from error


def _made(job: ScoreJob) -> Scorer:
    """What the function makes that the job names."""
    module, _, name = (job.scorer or "").partition(":")
    try:
        make: Callable[[ScoreJob], Scorer] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ArgumentError(f"the scorer {job.scorer!r} cannot be found ({error})") from error
    return make(job)


def _calibration(scorer: Scorer) -> Calibration:
    stored = scorer.checkpoint.settings.calibration
    if stored is None:
        raise ArgumentError(
            f"--calibrated: {scorer.checkpoint.name} has no calibration; make one with "
            "`qt-bert calibrate`"
        )
    return Calibration.from_json(stored)


def _facts(scorer: Scorer, calibration: Calibration | None) -> dict[str, str]:
    checkpoint, split = scorer.checkpoint, scorer.split
    offline = checkpoint.offline
    return {
        "config": sha256_file(checkpoint.folder / "config.json"),
        "tokenizer": tokenizer_sha256(checkpoint.tokenizer),
        "labels": repr(checkpoint.settings.labels),
        "--max-length": str(scorer.tokenizer.max_length),
        "offline": "" if offline is None else json.dumps(offline.describe(), sort_keys=True),
        "calibration": "" if calibration is None else repr(calibration),
        "--title-states": "" if split is None else json.dumps(split.states.describe()),
    }
