"""Training a classifier on pairs, from labels or from a teacher: one loop, resumable, early-stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import torch

from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import DTYPES
from qt_bert.progress import progress
from qt_bert.training.batches import BatchLayout, BatchPlan, LabelledExample, plan_epoch, to_tensors
from qt_bert.training.devices import MasterWeights, World, compiled, linear_schedule
from qt_bert.training.state import RunLog, load_state, same_settings, save_state


class Trained(Protocol):
    """What the loop trains: a torch module around a classifier.

    `loss` gives one number, or one for each of the `parts`, whose sum is made small; the log keeps
    the parts apart.
    """

    model: Any
    parts: tuple[str, ...]

    def loss(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor: ...


@dataclass(frozen=True)
class TuneSettings:
    """What fixes a run.

    `max_steps` ends it after so many steps, however many epochs that takes (0: after `epochs`);
    `slots` is the tokens of a batch, empty ones included; `evaluations` how often an epoch is
    judged; `average` is the decay a step of the moving average of the weights that is judged and kept
    instead of the last weights (0: none); the run ends after `patience` judgements without a better one (0: never).
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
    """Where a run stands: what is stored beside its tensors."""

    step: int = 0
    best: float | None = None
    merit: float | None = None
    best_step: int = 0
    stale: int = 0
    losses: int = 0
    loss_sum: float = 0.0
    part_sums: list[float] = field(default_factory=list)


class Tuner:
    """One run in a folder. `judge` maps the model to the dev figure (named `figure` in the log) and its
    merit, the number to maximise; None where it is not defined.

    A state in `out` is taken up, with the same result as a run that was never stopped
    (RunFolderError where it belongs to other settings, or another `identity`: hashes of the base
    and of the data).
    """

    def __init__(
        self,
        model: Trained,
        examples: Sequence[LabelledExample],
        layout: BatchLayout,
        settings: TuneSettings,
        out: Path,
        judge: Callable[[Any], tuple[float, float] | None],
        world: World,
        *,
        figure: str = "qwk",
        identity: dict[str, Any] | None = None,
    ) -> None:
        check_settings(settings)
        self.figure = figure
        self.model = cast(Any, model).train()
        self.examples, self.layout = examples, layout
        self.settings, self.out, self.judge, self.world = settings, out, judge, world
        self.masters = MasterWeights(
            self.model,
            getattr(torch, settings.dtype),
            lr=settings.lr,
            weight_decay=settings.weight_decay,
            average=settings.average,
        )
        epochs = epochs_of(examples, layout, settings)
        self.plans = [plan for epoch in epochs for plan in epoch]
        self.judged_at = steps_judged([len(epoch) for epoch in epochs], settings.evaluations)
        self.loss = compiled(model.loss, settings.compile)
        self.standing = RunState()
        self.best: dict[str, torch.Tensor] = {}
        self.asked = json.loads(
            json.dumps(
                asdict(settings)
                | {"steps": len(self.plans), "processes": world.size}
                | (identity or {})
            )
        )
        self._take_up()
        self.log = RunLog(out / "log.jsonl", self.standing.step) if world.leads else None

    def run(self) -> dict[str, torch.Tensor]:
        """Train to the end; returns the float32 state dict of the best-judged classifier."""
        at, settings = self.standing, self.settings
        with progress(
            len(self.plans), "training", "steps", done=at.step, quiet=not self.world.leads
        ) as shown:
            while at.step < len(self.plans) and not 0 < settings.patience <= at.stale:
                losses = self._step(self.plans[at.step])
                loss = sum(losses)
                at.step += 1
                at.losses, at.loss_sum = at.losses + 1, at.loss_sum + loss
                if self.model.parts:
                    sums = at.part_sums or [0.0] * len(losses)
                    at.part_sums = [a + b for a, b in zip(sums, losses, strict=True)]
                if at.step in self.judged_at:
                    self._judge()
                if at.step % settings.save_every == 0 or at.step in self.judged_at:
                    self._save()
                best = "" if at.best is None else f", best {at.best:.3f}"
                shown.advance(1, f"loss {loss:.3f}{best}")
        kept = self.best or self.masters.float32_state(self.model)  # no judgement was defined
        return {n.removeprefix("model."): v for n, v in kept.items() if n.startswith("model.")}

    def _step(self, plan: BatchPlan) -> list[float]:
        """Make one step; returns the parts of its loss."""
        world, steps = self.world, len(self.plans)
        batch = to_tensors(plan, self.examples, self.layout, rank=world.rank, size=world.size)
        losses = self.loss(batch)
        losses.sum().backward()
        warmup = max(1, int(self.settings.warmup * steps))
        self.masters.step(linear_schedule(self.standing.step, warmup=warmup, total=steps), world)
        return [world.total(value) for value in losses.detach().reshape(-1).tolist()]

    def _judge(self) -> None:
        at = self.standing
        judged: tuple[float, float] | None = None
        if self.world.leads:
            self.model.eval()
            with self.masters.averaged(), torch.inference_mode():
                judged = self.judge(self.model.model)
            self.model.train()
        value, merit = self.world.agree(judged)
        at.stale += 1
        if merit is not None and (at.merit is None or merit > at.merit):
            at.best, at.merit, at.best_step, at.stale = value, merit, at.step, 0
            self.best = self.masters.float32_state(self.model)
        if self.log is not None:
            sums = {"loss": at.loss_sum} | dict(zip(self.model.parts, at.part_sums, strict=False))
            means = {f"train_{k}": round(v / max(1, at.losses), 5) for k, v in sums.items()}
            self.log.add({"step": at.step} | means | {f"dev_{self.figure}": value})
        at.losses, at.loss_sum, at.part_sums = 0, 0.0, []

    def _save(self) -> None:
        if self.world.leads:
            best = {f"best/{name}": value for name, value in self.best.items()}
            values = {"settings": self.asked, "standing": asdict(self.standing)}
            save_state(self.out, self.masters.tensors() | best, values)

    def _take_up(self) -> None:
        stored = load_state(self.out)
        if stored is None:
            return
        tensors, values = stored
        same_settings(self.out, values["settings"], self.asked)
        self.masters.load(tensors)
        self.standing = RunState(**values["standing"])
        self.best = {k.removeprefix("best/"): v for k, v in tensors.items() if k[:5] == "best/"}


def check_settings(settings: TuneSettings) -> None:
    """Raise ArgumentError for a setting that cannot be meant."""
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
    if settings.dtype not in DTYPES:
        raise ArgumentError(f"--dtype {settings.dtype!r}: choose from {', '.join(DTYPES)}")
    if not 0 < settings.lr < 1:
        raise ArgumentError(f"--lr {settings.lr}: give a rate between 0 and 1, such as 3e-4")
    if not 0 <= settings.average < 1:
        raise ArgumentError(f"average is {settings.average}; give a decay from 0 to below 1")
    if settings.seed < 0:
        raise ArgumentError(f"--seed {settings.seed}: give 0 or more")


def epochs_of(
    examples: Sequence[Sized], layout: BatchLayout, settings: TuneSettings
) -> list[list[BatchPlan]]:
    """The batches of each epoch; the last is cut short where the steps end."""
    if not settings.max_steps:
        return [plan_epoch(examples, layout, settings.seed, e) for e in range(settings.epochs)]
    epochs: list[list[BatchPlan]] = []
    left = settings.max_steps
    while left > 0:
        epochs.append(plan_epoch(examples, layout, settings.seed, len(epochs))[:left])
        left -= len(epochs[-1])
    return epochs


def steps_judged(epoch_steps: list[int], evaluations: int) -> set[int]:
    """Step counts after which the model is judged: evenly spread over each epoch, its end included."""
    ends = np.cumsum([0, *epoch_steps])
    return {
        int(start + round(steps * part / evaluations))
        for start, steps in zip(ends[:-1], epoch_steps, strict=True)
        for part in range(1, evaluations + 1)
    }
