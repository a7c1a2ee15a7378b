"""The three models that are pretrained anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from qt_bert.results.baselines import Pretraining
from qt_bert.study.baselines.folder import BaselinesFolder
from qt_bert.study.baselines.job import STARTS, BaselinesJob, Start

Said = Callable[[str], None]


def pretrain_all(job: BaselinesJob, folder: BaselinesFolder, said: Said) -> list[Pretraining]:
    """Pretrain what is not there yet; each goes on where it was killed."""
    return [_pretrain(start, job, folder, said) for start in STARTS]


def _pretrain(start: Start, job: BaselinesJob, folder: BaselinesFolder, said: Said) -> Pretraining:
    from qt_bert.encoder.manifest import weights_sha256
    from qt_bert.training.run_pretrain import run_pretrain

    recipe, out = job.pretraining, folder.pretraining(start.name)
    words = job.words if start.of_words else None
    said(f"pretraining anew: {start.name}")
    facts = run_pretrain(
        job.base,
        recipe.text,
        recipe.pairs,
        out,
        job.pretrain_settings(start),
        shape=job.shape,
        words=words,
        resume=True,
    )
    figures = facts["figures"]
    said(f"{start.name}: {figures['characters']:,} characters in {figures['tokens']:,} tokens seen")
    return Pretraining(
        name=start.name,
        sha256=weights_sha256(out),
        words=words,
        pair_objective=start.pair_objective,
        texts=facts["fragments"],
        steps=figures["step"],
        tokens=figures["tokens"],
        characters=figures["characters"],
        mlm_loss=figures.get("mlm_loss"),
        mlm_accuracy=figures.get("mlm_accuracy"),
        pair_accuracy=figures.get("pair_accuracy") if start.pair_objective else None,
        seconds=_seconds(out / "training_log.jsonl"),
    )


def _seconds(log: Path) -> float:
    """The time that all steps took, from the rates of a log; a kill's pause is no part of it."""
    total, before = 0.0, 0
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        total += (row["tokens"] - before) / max(row["tokens_per_second"], 1e-9)
        before = row["tokens"]
    return round(total, 1)
