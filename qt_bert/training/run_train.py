"""`qt-bert train`: from graded files to a saved classifier folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qt_bert.data.pairs import GRADES, Pair
from qt_bert.data.tokenise import PairTokenizer
from qt_bert.errors import ArgumentError
from qt_bert.models.card import MAX_LENGTH, ModelLabels, ModelSettings, layers_apart
from qt_bert.models.checkpoint import Checkpoint, open_tokenizer, save_checkpoint
from qt_bert.models.folder import verify_folder, weights_sha256
from qt_bert.models.loading import positions_of
from qt_bert.training.batches import BatchLayout, TrainingSet, training_set
from qt_bert.training.devices import World, world
from qt_bert.training.finetune import Tuner, TuneSettings, check_settings
from qt_bert.training.model import (
    Block,
    BlockRequest,
    Measured,
    TuningModel,
    block_from,
    lift_layers,
    listed_layers,
)
from qt_bert.training.recipes import PairSource
from qt_bert.training.selection import check_metric, digest_of, judge_of, sources_and_dev
from qt_bert.training.state import (
    close_workspace,
    finished_facts,
    is_finished,
    open_workspace,
    training_texts,
    workspace_of,
)


@dataclass(frozen=True)
class TrainJob:
    """What to train on and how the run is judged.

    `dev` is the file early stopping reads (`stop_on` names the metric); without one, the pairs of a
    tenth of the training queries, by hash, are kept back for it. `levels` = K trains ordered levels
    0 … K − 1, one logit each, instead of the five grades. The last four are what was asked of an
    offline model: its block, see `BlockRequest`, and the layers of the base that those above it
    start as, such as `0,1,2,4,5,11`, see `lift_layers`.
    """

    base: Path
    sources: tuple[PairSource, ...]
    dev: PairSource | None = None
    levels: int | None = None
    max_length: int = MAX_LENGTH
    stop_on: str = "qwk"
    offline_layers: int | None = None
    title_start: int | None = None
    title_tokens: int | None = None
    layers_above: str | None = None

    @property
    def block(self) -> BlockRequest:
        """What was asked of the block between the texts."""
        return BlockRequest(self.offline_layers, self.title_start, self.title_tokens)


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
    check_job(job)
    check_settings(settings)
    with world() as group:
        if resume and is_finished(out):
            return finished_facts(out, _asked(job, settings))
        if group.leads:
            open_workspace(out, resume=resume, overwrite=overwrite)
        group.wait()
        return _train(job, out, settings, group)


def check_job(job: TrainJob) -> None:
    """Raise ArgumentError for what cannot be meant."""
    check_metric(job.stop_on)
    job.block.check()
    if job.layers_above is not None:
        listed_layers(job.layers_above)
        if not job.offline_layers:
            raise ArgumentError("--layers-above lifts layers over a block: give --offline-layers")
    for source in job.sources:
        if source.unlabelled:
            raise ArgumentError(
                f"{source.file}: unlabelled pairs teach with a teacher only; see qt-bert distill"
            )
    if job.levels is not None and job.levels < 2:
        raise ArgumentError(f"--levels {job.levels}: a classifier tells at least two levels apart")


def _train(job: TrainJob, out: Path, settings: TuneSettings, group: World) -> dict[str, Any]:
    work = workspace_of(out)
    verify_folder(job.base)
    tokenizer = open_tokenizer(job.base)
    sources, dev = sources_and_dev(job.sources, job.dev, job.levels)
    labels = _labels(job.levels)
    block = _block(job, tokenizer, dev)
    card = ModelSettings(labels, job.max_length, offline=None if block is None else block.offline)
    data = training_set(sources, _reading(tokenizer, card), labels, work)
    model = _model(job, card, data, settings)
    view = Checkpoint(
        out.name, job.base, model.model, tokenizer, model.family, card, settings.dtype
    )
    pad = int(tokenizer.pad_token_id)
    tuner = Tuner(
        model,
        data.examples,
        BatchLayout.of(model.family, pad, job.max_length, settings.slots, card.offline),
        settings,
        work,
        judge_of(view, dev, job.stop_on),
        group,
        figure=job.stop_on,
        identity=_identity(job, data, dev, card),
    )
    state = tuner.run()
    if not group.leads:
        return {}
    facts = _facts(job, data, len(dev), tuner, block) | {"asked": _asked(job, settings)}
    save_checkpoint(
        out,
        model.model.float(),
        tokenizer,
        state=state,
        settings=card,
        texts=training_texts(work, facts),
        overwrite=True,  # the workspace was opened for it
    )
    close_workspace(out)
    return facts


def _block(job: TrainJob, tokenizer: Any, dev: list[Pair]) -> Block | None:
    """The block that is trained; None for a plain model."""
    name = job.dev.file.name if job.dev else "a tenth of the training queries"
    measured = Measured(dev, name, PairTokenizer(tokenizer, job.max_length))
    return block_from(job.base, job.block, measured)


def _reading(tokenizer: Any, card: ModelSettings) -> PairTokenizer:
    """What reads the pairs as the finished model will."""
    titles = None if card.offline is None else card.offline.title_tokens
    return PairTokenizer(tokenizer, card.max_length, title_tokens=titles)


def _model(
    job: TrainJob, card: ModelSettings, data: TrainingSet, settings: TuneSettings
) -> TuningModel:
    """What is tuned. Raises ArgumentError where the base has too few positions."""
    apart = layers_apart(card.offline)
    model = TuningModel.open(job.base, card.labels.logits, data.auxiliaries, settings.seed, apart)
    if job.layers_above is not None:
        lift_layers(model.model, model.family, listed_layers(job.layers_above), apart)
    longest = positions_of(model.model.config)
    if job.max_length > longest:
        raise ArgumentError(f"--max-length {job.max_length}: the base has {longest} positions")
    return model


def _asked(job: TrainJob, settings: TuneSettings) -> dict[str, Any]:
    """What a finished folder is compared with when it is asked to go on."""
    return asdict(settings) | {
        "base": weights_sha256(job.base),
        "sources": [source.options_key for source in job.sources],
        "dev": job.dev.options_key if job.dev else None,
        "levels": job.levels,
        "max_length": job.max_length,
        "stop_on": job.stop_on,
        **_other_than_usual(job),
    }


def _other_than_usual(job: TrainJob) -> dict[str, Any]:
    """The block, where it is not what folders without a word of it have."""
    lifted = {} if job.layers_above is None else {"layers_above": job.layers_above}
    return job.block.describe() | lifted


def _identity(
    job: TrainJob, data: TrainingSet, dev: list[Pair], card: ModelSettings
) -> dict[str, Any]:
    return {
        "base": weights_sha256(job.base),
        "data": data.sha256,
        "dev": digest_of(dev),
        "stop_on": job.stop_on,
        "max_length": job.max_length,
        **_other_than_usual(job),
        **({} if card.offline is None else {"offline": card.offline.describe()}),
    }


def _labels(levels: int | None) -> ModelLabels:
    return ModelLabels(levels, None) if levels else ModelLabels(5, tuple((g,) for g in GRADES))


def _facts(
    job: TrainJob, data: TrainingSet, dev: int, tuner: Tuner, block: Block | None
) -> dict[str, Any]:
    at = tuner.standing
    return {
        "schema": 1,
        "base": job.base.name,
        **({} if block is None else {"offline": block.describe()}),
        "parameters": sum(p.numel() for p in tuner.model.model.parameters()),
        "rows": data.counts,
        "data_sha256": data.sha256,
        "texts_sha256": data.texts_sha256,
        "truncated": data.truncated,
        "auxiliary": data.auxiliaries,
        "dev_pairs": dev,
        "pairs_seen": sum(len(row) for plan in tuner.plans[: at.step] for row in plan.rows),
        "planned_steps": len(tuner.plans),
        "steps": at.step,
        "best": at.best,
        "best_step": at.best_step,
    }
