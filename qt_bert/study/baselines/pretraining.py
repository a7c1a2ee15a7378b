"""The three models that are pretrained anew."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
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
    settings, growth = job.pretrain_settings(start), job.growth(start)
    words = job.words if start.of_words else None
    said(f"pretraining anew: {start.name}")
    run = partial(run_pretrain, shards=recipe.text, pairs=recipe.pairs, resume=True)
    if growth is None:
        parts = [out]
        facts = [run(job.base, out=out, settings=settings, shape=job.shape, words=words)]
    else:
        shallow = folder.pretraining(f"{start.name}-{growth.layers}-layers")
        parts = [shallow, out]
        # One schedule would have room for both; the deeper model warms up anew, on further batches.
        facts = [
            run(
                job.base,
                out=shallow,
                settings=replace(settings, steps=growth.steps + settings.steps),
                stop_at=growth.steps,
                shape=replace(job.shape, layers=growth.layers),
                words=words,
            ),
            run(
                shallow,
                out=out,
                settings=replace(settings, seed=settings.seed + 1),
                stack=job.shape.layers,
            ),
        ]
    figures = facts[-1]["figures"]
    seen = {name: sum(one["figures"][name] for one in facts) for name in ("tokens", "characters")}
    said(f"{start.name}: {seen['characters']:,} characters in {seen['tokens']:,} tokens seen")
    return Pretraining(
        name=start.name,
        sha256=weights_sha256(out),
        words=words,
        pair_objective=start.pair_objective,
        texts=facts[-1]["fragments"],
        first_layers=None if growth is None else growth.layers,
        first_steps=None if growth is None else growth.steps,
        steps=figures["step"],
        tokens=seen["tokens"],
        characters=seen["characters"],
        mlm_loss=figures.get("mlm_loss"),
        mlm_accuracy=figures.get("mlm_accuracy"),
        pair_accuracy=figures.get("pair_accuracy") if start.pair_objective else None,
        seconds=sum(_seconds(part / "training_log.jsonl") for part in parts),
    )


def _seconds(log: Path) -> float:
    """The time that all steps took, from the rates of a log; a kill's pause is no part of it."""
    total, before = 0.0, 0
    for line in log.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        total += (row["tokens"] - before) / max(row["tokens_per_second"], 1e-9)
        before = row["tokens"]
    return round(total, 1)
