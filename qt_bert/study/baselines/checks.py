"""What is asked of a recipe before anything is trained by it: hours later would be too late."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from qt_bert.errors import ArgumentError
from qt_bert.study.baselines.job import ENTRIES, HALVES, STARTS, BaselinesJob


def check_job(job: BaselinesJob) -> None:
    """Raise ArgumentError for a recipe that cannot be meant, CheckpointError for a base that is no
    BERT to start from."""
    from qt_bert.encoder.verify import verify_folder

    if not job.recipe.pairs:
        raise ArgumentError(f"{job.recipe.where}: no [[pairs]] to tune on")
    if job.recipe.dev is None:
        raise ArgumentError(f"{job.recipe.where}: no [dev]; checkpoints are chosen on it")
    _known(job.recipe.models, [one.name for one in ENTRIES], f"{job.recipe.where} [models]")
    inner = job.pretraining
    _known(inner.models, [one.name for one in STARTS], f"{inner.where} [models]")
    verify_folder(job.base)
    _settings(job)
    _no_shared_query(job)


def _known(tables: Mapping[str, Any], names: list[str], where: str) -> None:
    unknown = [name for name in tables if name not in names]
    if unknown:
        raise ArgumentError(f"{where}: no model {unknown[0]!r}; there are {', '.join(names)}")


def _settings(job: BaselinesJob) -> None:
    """Every value that a training command would refuse."""
    from dataclasses import replace

    from qt_bert.encoder.loading import load_config, positions_of
    from qt_bert.training import finetune, pretrain, run_train

    for start in STARTS:
        settings = job.pretrain_settings(start)
        pretrain.check_settings(settings)
        if settings.shape.long > job.shape.positions:
            raise ArgumentError(
                f"{job.pretraining.where}: rows of {settings.shape.long} tokens are longer than "
                f"max_length = {job.shape.positions} of [job]"
            )
    for entry in ENTRIES:
        asked = job.train_job(entry, job.base)
        run_train.check_job(asked)
        tuning = job.tune_settings(entry)
        for rate in (tuning.lr, *job.trials.rates):
            finetune.check_settings(replace(tuning, lr=rate))
    longest = positions_of(load_config(job.base))
    if job.shape.positions > longest:
        raise ArgumentError(
            f"{job.recipe.where} [job]: max_length = {job.shape.positions}, and {job.base.name} has "
            f"{longest} positions"
        )


def _no_shared_query(job: BaselinesJob) -> None:
    """Queries a model was trained on enter neither half, nor do those it was chosen on validation."""
    halves = {name: {pair.query for pair in getattr(job.halves, name)} for name in HALVES}
    dev = {pair.query for pair in job.recipe.dev.read()} if job.recipe.dev else set()
    if shared := sorted(dev & halves["validation"]):
        raise ArgumentError(
            f"{job.recipe.where} [dev]: {len(shared)} of its queries are judged too, such as "
            f"{shared[0]!r}; checkpoints are chosen on it, so give a file without them"
        )
    held = set().union(dev, *halves.values())
    for source in (*job.recipe.pairs, *job.pretraining.pairs):
        shared = sorted(held & {pair.query for pair in source.read()})
        if shared:
            raise ArgumentError(
                f"{source.file}: {len(shared)} of its queries are judged too, such as "
                f"{shared[0]!r}; name the files that are judged in its `exclude`"
            )
