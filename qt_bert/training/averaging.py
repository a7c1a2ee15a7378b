"""One model from several of one shape: the mean of their weights (Wortsman et al. 2022, "Model soups")."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch

from qt_bert.encoder import Checkpoint, ModelSettings, open_checkpoint, save_checkpoint
from qt_bert.errors import ArgumentError


def average_models(folders: Sequence[Path], out: Path, *, overwrite: bool = False) -> Path:
    """Save the mean of the classifiers in `folders` as a new folder, computed in float32.

    It makes sense for models tuned from one another or from one start. Tokenizer, settings (without
    calibration) and learning curve are the last one's. Raises ArgumentError where fewer than two are
    given or they differ in shape, labels, vocabulary or in the block of an offline model;
    RunFolderError where `out` holds anything.
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
    said = last.settings
    settings = ModelSettings(said.labels, said.max_length, offline=said.offline)
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
    shapes = {name: tensor.shape for name, tensor in state.items()}
    if shapes != {name: tensor.shape for name, tensor in expected.items()}:
        raise ArgumentError(f"{other.name} and {last.name} differ in shape: no mean is defined")
    if other.settings.labels != last.settings.labels:
        raise ArgumentError(f"the outputs of {other.name} and {last.name} mean different things")
    if other.tokenizer.get_vocab() != last.tokenizer.get_vocab():
        raise ArgumentError(f"{other.name} and {last.name} have different vocabularies")
    if other.offline != last.offline:
        raise ArgumentError(
            f"{other.name} and {last.name} read pairs in different ways (`offline` in qt_bert.json: "
            f"{_block_of(other)}, {_block_of(last)}): no mean is defined"
        )


def _block_of(checkpoint: Checkpoint) -> str:
    return "none" if checkpoint.offline is None else str(checkpoint.offline.describe())
