"""Early stopping by a dev metric, and the mean of several models' weights."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.models.checkpoint import Checkpoint, save_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.stats.metrics import METRICS
from qt_bert.training.recipes import PairSource

Judge = Callable[[Any], tuple[float, float] | None]
"""A classifier → its dev figure and the merit, the number to maximise; None where not defined."""


def check_metric(name: str) -> None:
    """Raise ArgumentError where no metric is called `name`."""
    if name not in METRICS:
        raise ArgumentError(f"--stop-on {name!r}: choose from {', '.join(METRICS)}")


def sources_and_dev(
    sources: Sequence[PairSource], dev: PairSource | None, levels: int | None
) -> tuple[list[PairSource], list[Pair]]:
    """The sources to train on, and the dev pairs: those of `dev`, else the labelled pairs of a tenth of the
    queries, by hash, removed from all sources. Raises PairFileError where there are none."""
    if dev is not None:
        return list(sources), dev.read(levels=levels, labelled=True)
    left = [replace(source, tenth="left out") for source in sources]
    kept = [
        pair
        for source in sources
        if not (source.auxiliary or source.unlabelled)
        for pair in replace(source, tenth="alone").read(levels=levels, labelled=True)
    ]
    if not kept:
        raise PairFileError(
            "no query falls into the tenth kept back for early stopping; give --dev"
        )
    return left, kept


def judge_of(view: Checkpoint, dev: list[Pair], metric: str) -> Judge:
    """A judge of models by `metric` on `dev`; tokenizer and settings are those of `view`."""
    texts = [(p.query, p.title) for p in dev]

    def judge(model: Any) -> tuple[float, float] | None:
        logits = Scorer(replace(view, model=model)).logits(texts)
        return reading(logits, dev, view.settings.labels, metric)

    return judge


def reading(
    logits: np.ndarray, pairs: list[Pair], labels: ModelLabels, metric: str
) -> tuple[float, float] | None:
    """The metric of logits [n, outputs] and its merit; None where it is not defined."""
    value = METRICS[metric].value(judge_logits(logits, pairs, labels))
    return None if value is None else (value, merit_of(value, metric))


def merit_of(value: float, metric: str) -> float:
    """The number to maximise: the value, its negative, or its negative distance to 0."""
    direction = METRICS[metric].direction
    return value if direction == "higher" else -value if direction == "lower" else -abs(value)


def digest_of(dev: Sequence[Pair]) -> str:
    """One hash for pairs and labels."""
    judged = "\n".join(f"{p.query}\t{p.title}\t{p.grades}" for p in dev)
    return hashlib.sha256(judged.encode()).hexdigest()


# The mean of several models' weights (Wortsman et al. 2022, "Model soups").


def average_models(folders: Sequence[Path], out: Path, *, overwrite: bool = False) -> Path:
    """Save the mean of the classifiers in `folders` as a new folder, computed in float32.

    For models tuned from the same start or from one another. Tokenizer, settings (without calibration)
    and learning curve are those of the last. Raises ArgumentError for fewer than two and for models
    that differ in shape, labels or vocabulary; RunFolderError where `out` holds anything.
    """
    if len(folders) < 2:
        raise ArgumentError("an average needs two models or more")
    opened = [open_checkpoint(folder) for folder in folders]
    states = [checkpoint.model.state_dict() for checkpoint in opened]
    last = opened[-1]
    for checkpoint, state in zip(opened, states, strict=True):
        _same_shape(last, states[-1], checkpoint, state)
    mean = {
        name: torch.stack([state[name].float() for state in states]).mean(0) for name in states[-1]
    }
    facts = {"schema": 1, "average_of": {c.name: c.sha256 for c in opened}}
    texts = {"training.json": json.dumps(facts, ensure_ascii=False, indent=1) + "\n"}
    log = last.folder / "training_log.jsonl"
    if log.exists():
        texts[log.name] = log.read_text(encoding="utf-8")
    settings = ModelSettings(last.settings.labels, last.settings.max_length)
    return save_checkpoint(
        out,
        last.model,
        last.tokenizer,
        state=mean,
        settings=settings,
        texts=texts,
        overwrite=overwrite,
    )


def _same_shape(
    last: Checkpoint,
    expected: dict[str, torch.Tensor],
    other: Checkpoint,
    state: dict[str, torch.Tensor],
) -> None:
    both = f"{other.name} and {last.name}"
    shapes = {name: tensor.shape for name, tensor in state.items()}
    if shapes != {name: tensor.shape for name, tensor in expected.items()}:
        raise ArgumentError(f"{both} differ in shape: no mean is defined")
    if other.settings.labels != last.settings.labels:
        raise ArgumentError(f"the outputs of {both} mean different things")
    if other.tokenizer.get_vocab() != last.tokenizer.get_vocab():
        raise ArgumentError(f"{both} have different vocabularies")
