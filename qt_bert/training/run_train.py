"""`qt-bert train`: from graded files to a saved classifier folder."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.encoder import Checkpoint, ModelLabels, ModelSettings, open_tokenizer, save_checkpoint
from qt_bert.encoder.card import MAX_LENGTH
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.evaluation import METRICS
from qt_bert.pairs import GRADES, Pair, PairTokenizer
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.training.distributed import world
from qt_bert.training.finetune import Tuner, TuneSettings
from qt_bert.training.finetune_batches import BatchLayout, buckets_for
from qt_bert.training.labelled import TrainingSet, training_set
from qt_bert.training.sources import PairSource
from qt_bert.training.tuning_model import TuningModel
from qt_bert.training.workspace import open_workspace, training_texts


@dataclass(frozen=True)
class TrainJob:
    """What to train on and how the run is judged.

    `dev` is the file early stopping reads (`stop_on` names the metric); without one, the pairs of
    a tenth of the training queries, by hash, are kept back for it. `levels` = K trains ordered
    levels 0 … K − 1, one logit each, instead of the five grades.
    """

    base: Path
    sources: tuple[PairSource, ...]
    dev: PairSource | None = None
    levels: int | None = None
    max_length: int = MAX_LENGTH
    stop_on: str = "qwk"


def run_train(
    job: TrainJob,
    out: Path,
    settings: TuneSettings,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Fine-tune `job.base` into `out`; returns what the run was and reached.

    The folder gets the weights judged best, `qt_bert.json`, `training.json` (sources, settings,
    counts) and `training_log.jsonl`. Raises PairFileError, ArgumentError, CheckpointError for what
    cannot be read, RunFolderError as `open_workspace` does.
    """
    if job.stop_on not in METRICS:
        raise ArgumentError(f"--stop-on {job.stop_on!r}: choose from {', '.join(METRICS)}")
    work = open_workspace(out, resume=resume or _in_group(), overwrite=overwrite)
    tokenizer = open_tokenizer(job.base)
    kept, dev = _sources_and_dev(job)
    data = training_set(kept, PairTokenizer(tokenizer, job.max_length), job.levels)
    labels = _labels(job.levels)
    model = TuningModel.open(job.base, labels.logits, data.auxiliaries, settings.seed)
    longest = model.model.config.max_position_embeddings
    if job.max_length > longest:
        raise ArgumentError(f"--max-length {job.max_length}: the base has {longest} positions")
    card = ModelSettings(labels, job.max_length)
    view = Checkpoint(out.name, job.base, model.model, tokenizer, model.family, card, "bfloat16")
    with world() as group:
        tuner = Tuner(
            model,
            data.examples,
            _layout(model, tokenizer, job.max_length, settings.slots),
            settings,
            work,
            _judge(view, dev, job.stop_on),
            group,
        )
        state = tuner.run()
        if not group.leads:
            return {}
    facts = _facts(job, settings, data, len(dev), tuner)
    save_checkpoint(
        out,
        model.model.float(),
        tokenizer,
        state=state,
        settings=card,
        texts=training_texts(work, facts),
        overwrite=overwrite,
    )
    return facts


def _in_group() -> bool:
    """Processes of one torchrun group open the workspace together; the first one made it."""
    return int(os.environ.get("RANK", "0")) > 0


def _labels(levels: int | None) -> ModelLabels:
    return ModelLabels(levels, None) if levels else ModelLabels(5, tuple((g,) for g in GRADES))


def _sources_and_dev(job: TrainJob) -> tuple[list[PairSource], list[Pair]]:
    """The sources to train on, and the pairs early stopping is judged on."""
    if job.dev is not None:
        dev = [p for p in job.dev.read() if p.grades is not None]
        if not dev:
            raise PairFileError(f"{job.dev.file}: no graded pair to judge the training by")
        return list(job.sources), dev
    sources = [replace(source, tenth="left out") for source in job.sources]
    dev = [
        _as_level(pair, job.levels)
        for source in job.sources
        if not source.auxiliary
        for pair in replace(source, tenth="alone").read()
    ]
    if not dev:
        raise PairFileError(
            "no query falls into the tenth kept back for early stopping; give --dev"
        )
    return sources, dev


def _as_level(pair: Pair, levels: int | None) -> Pair:
    if not levels:
        return pair
    return replace(pair, grades=(int(pair.label or 0) + 1,))


def _layout(model: TuningModel, tokenizer: Any, max_length: int, slots: int) -> BatchLayout:
    pad = int(tokenizer.pad_token_id)
    first = pad + 1 if "roberta" in model.family.model_type else 0
    return BatchLayout(buckets_for(max_length), slots, pad, first)


def _judge(view: Checkpoint, dev: list[Pair], metric: str) -> Callable[[Any], float]:
    texts = [(p.query, p.title) for p in dev]

    def judge(model: Any) -> float:
        logits = Scorer(replace(view, model=model)).logits(texts)
        value = METRICS[metric].value(judge_logits(logits, dev, view.settings.labels))
        if value is None:
            return 0.0
        return -value if METRICS[metric].direction == "lower" else float(np.float64(value))

    return judge


def _facts(
    job: TrainJob, settings: TuneSettings, data: TrainingSet, dev: int, tuner: Tuner
) -> dict[str, Any]:
    return {
        "schema": 1,
        "base": job.base.name,
        "rows": data.counts,
        "queries_sha256": _digest(job.sources),
        "truncated": data.truncated,
        "auxiliary": data.auxiliaries,
        "dev_pairs": dev,
        "stop_on": job.stop_on,
        "best": round(tuner.standing.best, 6),
        "best_step": tuner.standing.best_step,
        "steps": tuner.standing.step,
        "max_length": job.max_length,
        "settings": asdict(settings),
    }


def _digest(sources: Sequence[PairSource]) -> str:
    """One hash over the queries seen, so that a card can be checked against files."""
    digest = hashlib.sha256()
    for query in sorted({p.query for source in sources for p in source.read()}):
        digest.update(query.encode() + b"\n")
    return digest.hexdigest()
