"""Training a classifier on pairs: one resumable, early-stopped loop, and a run from files to a folder."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from qt_bert.codec import read_result
from qt_bert.data.pairs import GRADES, Pair
from qt_bert.errors import ArgumentError
from qt_bert.files import check_apart
from qt_bert.models.card import MAX_LENGTH, ModelLabels, Reading, tuned_settings
from qt_bert.models.checkpoint import Checkpoint, save_checkpoint
from qt_bert.models.devices import device_name
from qt_bert.models.families import Family
from qt_bert.models.folder import FolderHashes, folder_sha256
from qt_bert.models.loading import load_config, open_for_tuning, positions_of, stored_dtype, tunable
from qt_bert.models.pruned import open_kept
from qt_bert.models.tokenizer import choose_types, open_tokenizer, padding_of
from qt_bert.progress import note_once, progress
from qt_bert.request import SEED
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.training.batches import (
    BatchLayout,
    BatchPlan,
    LabelledExample,
    TrainingSet,
    buckets_for,
    levels_of,
    plan_epoch,
    to_tensors,
    training_set,
)
from qt_bert.training.losses import Losses, LossWeights
from qt_bert.training.masters import MasterWeights, linear_schedule
from qt_bert.training.packing import on_device, packed_hidden, read_states
from qt_bert.training.recipes import PairSource, TeacherSource, rejects_file
from qt_bert.training.selection import Judge, digest_of, judge_of, sources_and_dev
from qt_bert.training.state import (
    FACTS,
    RunLog,
    close_workspace,
    finished_facts,
    load_state,
    open_workspace,
    save_state,
    training_texts,
)
from qt_bert.training.steps import Gradients, training_device, weights_dtype
from qt_bert.training.teachers import TeacherTargets, check_teacher, key_of, loss_for

FETCHED = 20
"""Steps whose losses stay on a GPU before the CPU fetches them."""
STARTING = 0.1
"""The share of the starting weights in an average over steps from which a line says so."""


@dataclass(frozen=True)
class TuneSettings:
    """The settings of a run.

    `max_steps` ends it after so many steps, over any number of epochs (0: after `epochs`); `slots` are
    the tokens of a batch, padding included; `evaluations` the dev evaluations an epoch; `average` the
    decay a step of a moving average of the weights, which is evaluated and kept instead of the last
    weights (0: none); the run ends after `patience` evaluations without a better one (0: never).
    """

    epochs: int = 3
    max_steps: int = 0
    lr: float = 3e-4
    warmup: float = 0.06
    seed: int = 0
    slots: int = 3072
    dtype: str = "bfloat16"
    weight_decay: float = 0.01
    average: float = 0.0
    evaluations: int = 2
    patience: int = 4
    save_every: int = 100
    compile: bool = True


@dataclass
class RunState:
    """The values of a run's state, stored beside its tensors."""

    step: int = 0
    best: float | None = None
    merit: float | None = None
    best_step: int = 0
    stale: int = 0
    losses: int = 0
    loss_sum: float = 0.0
    part_sums: list[float] = field(default_factory=list)


class Tuner:
    """A run in the folder `out`. `judge` maps the model to the dev value of `metric` and its merit, the
    number to maximise; None where it is not defined.

    Resumes from a state in `out`, with the same result as an uninterrupted run. Raises RunFolderError where
    its settings or its `identity` (hashes of the base and of the data) differ.
    """

    def __init__(
        self,
        model: TuningModel,
        examples: Sequence[LabelledExample],
        layout: BatchLayout,
        settings: TuneSettings,
        out: Path,
        judge: Judge,
        *,
        metric: str,
        identity: dict[str, Any],
    ) -> None:
        self.metric = metric
        self.model = model.train()
        self.examples, self.layout = examples, layout
        if layout.by_query and len({example.query for example in examples}) == len(examples):
            raise ArgumentError(
                "margin, listwise and margin_mse compare the titles of a query, and no query of the "
                "training pairs has two"
            )
        self.settings, self.out, self.judge = settings, out, judge
        self.masters = MasterWeights(
            self.model,
            weights_dtype(settings.dtype),
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            average=settings.average,
        )
        epochs = epochs_of(examples, layout, settings)
        self.plans = [plan for epoch in epochs for plan in epoch]
        self.judged_at = steps_judged([len(epoch) for epoch in epochs], settings.evaluations)
        self.gradients = Gradients(
            model.loss, self.masters, settings.slots, compile=settings.compile
        )
        self.waiting: list[torch.Tensor] = []
        self.state = RunState()
        self.best: dict[str, torch.Tensor] = {}
        key = asdict(settings) | {"steps": len(self.plans)} | identity
        self.key = json.loads(json.dumps(key))
        if (stored := load_state(out, self.key)) is not None:
            tensors, values = stored
            self.masters.load(tensors)
            self.state = RunState(**values["standing"])
            self.best = {k.removeprefix("best/"): v for k, v in tensors.items() if k[:5] == "best/"}
        self.log = RunLog(out / "log.jsonl", self.state.step)

    def run(self) -> dict[str, torch.Tensor]:
        """Train to the end; returns the float32 state dict of the classifier of the best evaluation."""
        at, settings = self.state, self.settings
        fetched = 1 if self.masters.device.type == "cpu" else FETCHED
        note = ""
        with progress(len(self.plans), "training", "steps", done=at.step) as shown:
            while at.step < len(self.plans) and not 0 < settings.patience <= at.stale:
                self.waiting.append(self._step(self.plans[at.step]))
                at.step += 1
                saved = at.step % settings.save_every == 0 or at.step in self.judged_at
                if saved or len(self.waiting) == fetched:
                    note = self._fetch()
                if at.step in self.judged_at:
                    self._judge()
                if saved:
                    self._save()
                best = "" if at.best is None else f", best {at.best:.3f}"
                shown.advance(1, f"{note}{best}")
        kept = self.best or self.masters.float32_state(self.model)  # the metric was never defined
        return {n.removeprefix("model."): v for n, v in kept.items() if n.startswith("model.")}

    def _step(self, plan: BatchPlan) -> torch.Tensor:
        """Make one step; returns the parts of its loss [parts, or 1], on the device."""
        steps = len(self.plans)
        losses = self.gradients.of(to_tensors(plan, self.examples, self.layout))
        warmup = max(1, int(self.settings.warmup * steps))
        self.masters.step(linear_schedule(self.state.step, warmup=warmup, total=steps))
        return losses.reshape(-1)

    def _fetch(self) -> str:
        """Add up the waiting losses; returns a note of the last."""
        at, loss = self.state, 0.0
        for losses in torch.stack(self.waiting).tolist():
            loss = sum(losses)
            at.losses, at.loss_sum = at.losses + 1, at.loss_sum + loss
            if self.model.parts:
                sums = at.part_sums or [0.0] * len(losses)
                at.part_sums = [a + b for a, b in zip(sums, losses, strict=True)]
        self.waiting.clear()
        return f"loss {loss:.3f}"

    def _judge(self) -> None:
        at = self.state
        self.model.eval()
        with self.masters.averaged(), torch.inference_mode():
            value, merit = self.judge(self.model.model) or (None, None)
        self.model.train()
        at.stale += 1
        if merit is not None and (at.merit is None or merit > at.merit):
            at.best, at.merit, at.best_step, at.stale = value, merit, at.step, 0
            self.best = self.masters.float32_state(self.model)
        sums = {"loss": at.loss_sum} | dict(zip(self.model.parts, at.part_sums, strict=False))
        means = {f"train_{k}": round(v / max(1, at.losses), 5) for k, v in sums.items()}
        self.log.add({"step": at.step} | means | {f"dev_{self.metric}": value})
        at.losses, at.loss_sum, at.part_sums = 0, 0.0, []

    def _save(self) -> None:
        best = {f"best/{name}": value for name, value in self.best.items()}
        values = {"settings": self.key, "standing": asdict(self.state)}
        save_state(self.out, self.masters.tensors() | best, values)


def check_settings(settings: TuneSettings) -> None:
    """Raise ArgumentError for an invalid setting."""
    least = {
        "epochs": 1,
        "max_steps": 0,
        "slots": 16,
        "evaluations": 1,
        "save_every": 1,
        "patience": 0,
    }
    for name, low in least.items():
        if getattr(settings, name) < low:
            raise ArgumentError(f"{name} is {getattr(settings, name)}; it must be {low} or more")
    weights_dtype(settings.dtype)
    if not 0 < settings.lr < 1:
        raise ArgumentError(f"--lr {settings.lr}: give a rate between 0 and 1, such as 3e-4")
    if not 0 <= settings.average < 1:
        raise ArgumentError(f"average is {settings.average}; give a decay from 0 to below 1")
    if not 0 <= settings.warmup < 1:
        raise ArgumentError(f"warmup is {settings.warmup}; give a share of the steps, below 1")
    if not 0 <= settings.weight_decay < 1:
        raise ArgumentError(f"weight_decay is {settings.weight_decay}; give 0 to below 1")
    if not SEED["min"] <= settings.seed <= SEED["max"]:
        raise ArgumentError(f"--seed {settings.seed}: give 0 or more, and less than 2**32")


def epochs_of(
    examples: Sequence[Sized], layout: BatchLayout, settings: TuneSettings
) -> list[list[BatchPlan]]:
    """The batches of each epoch; the last epoch ends with `max_steps`."""
    if not settings.max_steps:
        return [plan_epoch(examples, layout, settings.seed, e) for e in range(settings.epochs)]
    epochs: list[list[BatchPlan]] = []
    left = settings.max_steps
    while left > 0:
        epochs.append(plan_epoch(examples, layout, settings.seed, len(epochs))[:left])
        left -= len(epochs[-1])
    return epochs


def steps_judged(epoch_steps: list[int], evaluations: int) -> set[int]:
    """Step counts after which the model is evaluated: evenly spaced over each epoch, its end included."""
    ends = np.cumsum([0, *epoch_steps])
    return {
        int(start + round(steps * part / evaluations))
        for start, steps in zip(ends[:-1], epoch_steps, strict=True)
        for part in range(1, evaluations + 1)
    }


class TuningModel(nn.Module):
    """A cross-encoder (Hugging Face sequence classification) plus a linear output for each auxiliary
    source, on the last hidden state of the first token. `losses` are those of the main output."""

    def __init__(
        self,
        model: Any,
        family: Family,
        auxiliaries: Mapping[str, list[str]],
        losses: Losses | None = None,
    ) -> None:
        super().__init__()
        self.losses = losses or Losses(LossWeights())
        several = self.losses.weights.parts != ("nll",)
        self.parts = (*self.losses.weights.parts, *auxiliaries) if several else ()
        self.model = model
        self.auxiliaries = nn.ModuleList(
            nn.Linear(model.config.hidden_size, len(labels)) for labels in auxiliaries.values()
        )
        self.family = family

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The losses and auxiliary cross-entropies, weighted by `share`: one number for each of the `parts`, which
        are logged and whose sum is minimised, else their sum. Additive over the rows of a batch."""
        hidden = packed_hidden(self.model, self.family, batch)
        first = read_states(self.model, self.family, hidden, batch)
        features, logits = first[:, 0], self.family.head(self.model, first).float()
        parts = list(self.losses.of(logits, batch, batch.get("taught")).values())
        for number, output in enumerate(self.auxiliaries):
            chosen = (batch["auxiliary"][:, 0] == number) & (batch["share"] > 0)
            guesses = output(features).float()
            classes = batch["auxiliary"][:, 1].clamp(max=guesses.shape[1] - 1)
            losses = F.cross_entropy(guesses, classes, reduction="none")
            parts.append((losses * batch["share"] * chosen).sum())
        return torch.stack(parts) if self.parts else sum(parts[1:], parts[0])


@dataclass(frozen=True, kw_only=True)
class TuneJob(ABC):
    """The model, pairs and losses of a run: `TrainJob`, or `DistillJob` in `planning.distill`.

    `sources` are labelled and unlabelled pairs. `dev` is the file for early stopping by the metric
    `stop_on` ("": QWK), or by Spearman's ρ where its labels do not define that; without one, it gets the pairs of a
    tenth of the training queries, by hash. `reading`: how the model to start from reads texts. `default_settings`
    come before a command's own. `loss` None is `default_loss`, with `soft` or `mse` for a teacher.
    """

    default_loss: ClassVar[LossWeights]
    default_settings: ClassVar[Mapping[str, Any]] = {}

    sources: tuple[PairSource, ...]
    dev: PairSource | None = None
    max_length: int
    stop_on: str
    loss: LossWeights | None = None
    teacher: TeacherSource | None = None
    reading: Reading = Reading()

    @property
    def outputs_of(self) -> TeacherSource | None:
        """The teacher whose outputs the model learns."""
        return self.teacher

    @abstractmethod
    def check(self, out: Path) -> None:
        """Raise ArgumentError for an invalid job, and where `out` is, or holds, the model to start from."""

    @abstractmethod
    def key(self) -> dict[str, Any]:
        """The inputs of the weights, beside settings, pairs and the fields of every job."""

    @abstractmethod
    def open(self, seed: int) -> Checkpoint:
        """The model to start from, with the run's labels and length.

        Raises ArgumentError and CheckpointError where it cannot be trained.
        """

    @abstractmethod
    def model(
        self, start: Checkpoint, data: TrainingSet, losses: Losses, dev: list[Pair]
    ) -> tuple[TuningModel, Checkpoint]:
        """The module to train, and the checkpoint of its classifier, to evaluate and save."""

    @abstractmethod
    def facts(self, start: Checkpoint, data: TrainingSet, tuner: Tuner) -> dict[str, Any]:
        """The entries of `training.json` for this kind of job alone."""

    @abstractmethod
    def save(self, out: Path, model: Checkpoint, **how: Any) -> None:
        """Save `model` in `out`; `how` as in `save_checkpoint`."""


def run_tuning(
    job: TuneJob,
    out: Path,
    settings: TuneSettings,
    *,
    device: str = "cpu",
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Train the model of `job` and save it in the folder `out`; returns the content of `training.json`.

    `device` as in `open_device`; a run may resume on another. The folder gets the weights of the best
    evaluation, `qt_bert.json`, `training.json` (sources, settings, counts), `training_log.jsonl` and,
    for a student, `kept.json`. Raises PairFileError, ArgumentError and CheckpointError for invalid
    inputs, ArgumentError where `out` is, or holds, an input, RunFolderError as `open_workspace` does.
    """
    # Refuse invalid settings before anything is written.
    check_settings(settings)
    if job.stop_on and job.stop_on not in METRICS:
        raise ArgumentError(f"--stop-on {job.stop_on!r}: choose from {', '.join(METRICS)}")
    if job.dev is None and (tenths := [source.file for source in job.sources if source.tenth]):
        raise ArgumentError(
            f"{tenths[0]}: `tenth` goes with a dev file, in whose place a tenth of the queries is kept back; "
            "give --dev"
        )
    job.check(out)
    check_teacher(job.loss, job.teacher, out)

    # Return the result of a finished run with the same inputs.
    key = job.key() | ({} if job.reading == Reading() else {"reading": asdict(job.reading)})
    inputs = asdict(settings) | key
    inputs |= {"sources": [source.options_key for source in job.sources]}
    inputs |= {"dev": job.dev.options_key if job.dev else None}
    inputs |= {"max_length": job.max_length, "stop_on": job.stop_on}
    if resume and (finished := finished_facts(out, inputs)) is not None:
        return finished

    # Open the device, and the folder of state and log.
    place = training_device(device, settings.dtype)
    work = open_workspace(out, resume=resume, overwrite=overwrite)

    # Open the model to start from; its outputs define the labels.
    start = job.open(settings.seed)
    labels = start.settings.labels

    # Read and tokenise the pairs, compute or read the teacher's outputs, choose the losses.
    listed = rejects_file(work, "dev")
    sources, dev = sources_and_dev(job.sources, job.dev, levels_of(labels), listed)
    metric = job.stop_on or ("qwk" if labels.logits > 1 else "spearman")
    judged = judge_logits(np.zeros((len(dev), labels.logits)), dev, labels)
    if reason := METRICS[metric].refusal(judged):  # no evaluation would be the best one
        note_once(f"dev is judged by spearman and not by {metric}: {reason}")
        metric = "spearman"
    if len({pair.grades or pair.label for pair in dev}) == 1:
        note_once(
            f"dev: all {len(dev):,} pairs have one label, which says little of the best evaluation; give --dev "
            "with several"
        )
    teaching = None
    if (taught_by := job.outputs_of) is not None:
        teaching = TeacherTargets(taught_by, labels, work, place, settings.dtype)
    data = training_set(sources, start.pair_tokenizer(), labels, work, teaching)
    losses = Losses(loss_for(data, labels, job.loss, job.default_loss), tuple(labels.values))

    # Build the module to train, on the device.
    model, trained = job.model(start, data, losses, dev)
    on_device(model, place, settings.dtype)

    # Train, from the state of a killed run where there is one.
    longest, pad = trained.settings.max_length, trained.pad
    first = trained.family.first_position(pad)
    tuner = Tuner(
        model,
        data.examples,
        BatchLayout(buckets_for(longest), settings.slots, pad, first, losses.by_query),
        settings,
        work,
        judge_of(replace(trained, dtype=settings.dtype), dev, metric),
        metric=metric,
        identity=key
        | {"data": data.sha256, "dev": digest_of(dev), "stop_on": job.stop_on}
        | {"max_length": longest},
    )
    steps = len(tuner.plans)
    if (left := settings.average**steps) > STARTING:
        note_once(
            f"warning: the weights are averaged over steps (decay {settings.average:g}): after {steps} steps "
            f"{left:.0%} of them is the start; take more, or average = 0 in a recipe's [settings]"
        )
    state = tuner.run()

    # Save the weights of the best evaluation, with the facts of the run.
    at = tuner.state
    facts = {
        "schema": 1,
        **job.facts(start, data, tuner),
        "rows": data.counts,
        "data_sha256": data.sha256,
        "truncated": data.truncated,
        "dev_pairs": len(dev),
        "figure": metric,
        "planned_steps": steps,
        "steps": at.step,
        "best": at.best,
        "best_step": at.best_step,
        **({"loss": losses.weights.describe()} if model.parts else {}),
        **({} if teaching is None else {"taught_by": teaching.facts}),
        "device": device_name(place),
        "dtype": settings.dtype,
        "asked": inputs,
    }
    # `open_workspace` has checked that `out` may be replaced.
    texts, dtype = training_texts(work, facts), stored_dtype(start.folder)
    job.save(out, trained, state=state, texts=texts, dtype=dtype, overwrite=True)
    close_workspace(out)
    return facts


@dataclass(frozen=True, kw_only=True)
class TrainJob(TuneJob):
    """A classifier on the encoder in the folder `base`: of five grades, or `levels` ordered levels."""

    default_loss = LossWeights()

    base: Path
    levels: int | None = None
    max_length: int = MAX_LENGTH
    stop_on: str = "qwk"

    def check(self, out: Path) -> None:
        if self.teacher is None and self.loss is not None and self.loss.of_outputs:
            raise ArgumentError(
                f"--loss {self.loss.of_outputs[0]} learns from a teacher: give --teacher or --teacher-scores"
            )
        if self.teacher is not None and all(source.auxiliary for source in self.sources):
            raise ArgumentError("all pairs are auxiliary, so that there is none for the teacher")
        for source in self.sources:
            if source.unlabelled and self.teacher is None:
                raise ArgumentError(
                    f"{source.file}: unlabelled pairs teach with a teacher only: --teacher, "
                    "--teacher-scores, or qt-bert distill"
                )
        if self.levels is not None and self.levels < 2:
            raise ArgumentError(f"--levels {self.levels}: give 2 or more")
        check_apart(out, self.base)
        tunable(self.base)

    def key(self) -> dict[str, Any]:
        return {
            "base": folder_sha256(self.base),
            "levels": self.levels,
            # Left out where None, as in folders of older versions.
            **({} if self.loss is None else {"loss": self.loss.describe()}),
            **({} if self.teacher is None else {"teacher": key_of(self.teacher)}),
        }

    def open(self, seed: int) -> Checkpoint:
        grades = None if self.levels else tuple((grade,) for grade in GRADES)
        labels = ModelLabels(self.levels or len(GRADES), grades)
        tokenizer = open_tokenizer(self.base, allow_unknown=self.reading.allow_unknown)
        torch.manual_seed(seed)
        had = load_config(self.base)
        if "Classification" in str(had.architectures) and had.num_labels != labels.logits:
            note_once(
                f"{self.base}: its classifier of {had.num_labels} outputs is replaced by one of {labels.logits}"
                f"{'' if self.levels else ', a grade each'}"
            )
        model, family = open_for_tuning(self.base, labels.logits)
        longest = positions_of(model.config)
        if self.max_length > longest:
            raise ArgumentError(f"--max-length {self.max_length}: the base has {longest} positions")
        card = tuned_settings(self.base, labels, self.max_length, self.reading)
        choose_types(tokenizer, model.config, family.segments, self.base, card.token_types)
        model.config.pad_token_id = padding_of(tokenizer, model.config)
        kept = open_kept(self.base, model.config)
        hashes = FolderHashes(self.base)
        return Checkpoint(
            self.base.name, self.base, model, tokenizer, family, card, "float32", hashes, kept
        )

    def model(
        self, start: Checkpoint, data: TrainingSet, losses: Losses, dev: list[Pair]
    ) -> tuple[TuningModel, Checkpoint]:
        return TuningModel(start.model, start.family, data.auxiliaries, losses), start

    def facts(self, start: Checkpoint, data: TrainingSet, tuner: Tuner) -> dict[str, Any]:
        seen = tuner.plans[: tuner.state.step]
        distilled = {}
        if start.kept is not None and (earlier := self.base / FACTS).exists():
            distilled = {"on_from": read_result(dict[str, Any], earlier)}
        return {
            "base": self.base.name,
            **distilled,
            "parameters": sum(p.numel() for p in start.model.parameters()),
            "texts_sha256": data.texts_sha256,
            "auxiliary": data.auxiliaries,
            "pairs_seen": sum(len(row) for plan in seen for row in plan.rows),
        }

    def save(self, out: Path, model: Checkpoint, **how: Any) -> None:
        save_checkpoint(
            out,
            model.model.float(),
            model.tokenizer,
            settings=model.settings,
            kept=model.kept,  # a smaller model that is tuned on keeps its heads' names
            **how,
        )
