"""The two arms that are fine-tuned whole: from random weights, and from the pretrained ones."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from transformers import AutoModelForSequenceClassification

from qt_bert.encoder import ModelSettings, open_checkpoint, open_tokenizer, save_checkpoint
from qt_bert.encoder.loading import load_config, without_dropout
from qt_bert.encoder.manifest import weights_sha256
from qt_bert.pairs import Pair
from qt_bert.results.initialisations import Arm, Try
from qt_bert.scoring.bulk import Scorer
from qt_bert.training.initialisations.job import LABELS, StudyJob
from qt_bert.training.initialisations.outputs import Outputs
from qt_bert.training.run_train import TrainJob, run_train


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
