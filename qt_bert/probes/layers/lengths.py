"""How well models without pretraining tell the length: random weights, and those tuned from random ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from qt_bert.errors import CheckpointError
from qt_bert.models.checkpoint import Checkpoint, open_checkpoint
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import random_like
from qt_bert.probes.layers.decode import HELD_BACK, sums_of
from qt_bert.probes.layers.estimates import at_layers
from qt_bert.probes.layers.examples import Task
from qt_bert.probes.layers.ridge import Moments, Ridge, fit, refit
from qt_bert.probes.layers.scores import Sums
from qt_bert.probes.layers.targets import Targets, columns_of
from qt_bert.probes.layers.vectors import Reader, held
from qt_bert.probes.naming import Estimate, mean_over
from qt_bert.results.initialisations import read_initialisations

FOLDS = HELD_BACK
UNTRAINED = 5
"""How many models with random weights are compared with the pretrained one."""
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, eq=False)
class Length:
    """How well one model tells the length, by layer: the probes fitted on all pairs, and FOLDS more,
    each fitted without the queries of one fold."""

    own: Sums
    without: tuple[Sums, ...]


@dataclass(frozen=True, eq=False)
class Lengths:
    """The same pairs read by every model.

    `base` is the pretrained model; `tuned` are models that were fine-tuned from random weights,
    where a study left their weights.
    """

    task: Task
    base: Length
    untrained: tuple[Length, ...]
    tuned: tuple[Length, ...]

    def ahead(self, others: Sequence[Length], name: str, resamples: int, seed: int) -> Estimate:
        """The mean R² over the layers' outputs of some models, less that of the base.

        With few pairs to fit, what is read depends on which they are. So to the chance of the
        queries scored, and of the models, comes that of the pairs fitted, by a jackknife over folds.
        """
        base, *found = (_above(one.own, resamples, seed) for one in (self.base, *others))
        drawn = mean_over(np.stack([one.samples for one in found]), seed, name)
        mean = Estimate(float(np.mean([one.value for one in found])), drawn).less(base)
        folds = [
            np.mean([_above(one.without[fold]).value for one in others])
            - _above(self.base.without[fold]).value
            for fold in range(FOLDS)
        ]
        error = np.sqrt((FOLDS - 1) * np.var(folds))
        noise = np.random.default_rng([seed, 11]).standard_normal(len(mean.samples))
        return Estimate(mean.value, mean.samples + error * noise)


def _above(sums: Sums, resamples: int = 0, seed: int = 0) -> Estimate:
    return at_layers(sums, range(1, len(sums.score())), resamples, seed)


def lengths(
    base: Checkpoint, task: Task, context: Context, read: Callable[[Checkpoint], Reader]
) -> Lengths:
    """The length of the base, and of models without pretraining."""
    untrained = [random_like(base, context.seed + draw) for draw in range(UNTRAINED)]
    tuned = tuned_from_random(context.initialisations, context.model.checkpoint)
    with context.progress(1 + len(untrained) + len(tuned), "models") as shown:

        def told(checkpoint: Checkpoint) -> Length:
            found = length(read(checkpoint), task)
            shown.advance()
            return found

        return Lengths(task, told(base), tuple(map(told, untrained)), tuple(map(told, tuned)))


def length(read: Reader, task: Task) -> Length:
    """Probes of the length, their penalties chosen as in `decode` and the same without a fold."""
    targets = Targets.of(columns_of(task, ()))
    fit_on, check_on = (held(read, one.places) for one in (task.fit, task.check))
    fold = torch.from_numpy(task.fit.places.group % FOLDS)
    shift = fit_on.mean(1)

    def summed(chosen: torch.Tensor) -> Moments:
        sums = Moments.empty(shift, targets.fit.shape[1])
        sums.add(fit_on[:, chosen], targets.fit[chosen])
        return sums

    def scored(probe: Ridge) -> Sums:
        (column,) = targets.columns
        return sums_of(column, targets.restored(column, probe.predict(check_on)))

    whole = fit(summed(fold != FOLDS - 1), summed(fold == FOLDS - 1), targets.blocks)
    (penalty,) = whole.penalties.values()
    without = (refit(summed(fold != one), penalty) for one in range(FOLDS))
    return Length(scored(whole.ridge), tuple(map(scored, without)))


def tuned_from_random(folder: Path | None, like: Checkpoint) -> list[Checkpoint]:
    """Those of the study in `folder` whose weights are there; none without a study.

    A record that ships has none of them. Raises RunFolderError for a damaged study, CheckpointError
    for models of other tokens than `like`.
    """
    if folder is None:
        return []
    record = read_initialisations(folder).record
    names = [
        record.tries[place].folder for place in record.final if record.tries[place].arm == "random"
    ]
    found = [folder / name for name in names if name and (folder / name / WEIGHTS).is_file()]
    return [_opened(one, like) for one in found]


def _opened(folder: Path, like: Checkpoint) -> Checkpoint:
    checkpoint = open_checkpoint(folder)
    if checkpoint.tokenizer.get_vocab() != like.tokenizer.get_vocab():
        raise CheckpointError(
            f"{folder}: its vocabulary is not that of {like.folder}, so their vectors are not of the "
            "same texts; give the study made from the same base with --initialisations"
        )
    return checkpoint
