"""`qt-bert pretrain`: from shards and pair files to a saved `BertForPreTraining` folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import BertForPreTraining

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import sha256_file
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.models.checkpoint import open_tokenizer, save_checkpoint
from qt_bert.models.folder import verify_folder, weights_sha256
from qt_bert.models.loading import open_for_pretraining
from qt_bert.training.corpus import load_corpus
from qt_bert.training.pretrain import (
    PretrainSettings,
    Special,
    check_settings,
    new_model,
    plain_settings,
    pretrain,
)
from qt_bert.training.recipes import PairSource
from qt_bert.training.state import (
    close_workspace,
    finished_facts,
    is_finished,
    open_workspace,
    training_texts,
)


@dataclass(frozen=True)
class NewShape:
    """The size of a model that starts at random."""

    layers: int
    heads: int
    hidden: int
    positions: int = 128


def run_pretrain(
    init: Path,
    shards: list[Path],
    pairs: list[PairSource],
    out: Path,
    settings: PretrainSettings,
    *,
    shape: NewShape | None = None,
    stop_at: int | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> dict[str, Any]:
    """Pretrain from `init` (weights and tokenizer; with `shape` only its tokenizer) into `out`.

    Returns what the run was and the last figures of its log. Raises ArgumentError without text, CheckpointError for a folder that is no
    BERT, RunFolderError as `open_workspace` does.
    """
    if not shards:
        raise ArgumentError("pretraining needs text: give --text SHARD or a --recipe with `text`")
    check_settings(settings, stop_at)
    verify_folder(init)
    asked = {
        "init": weights_sha256(init) if shape is None else None,
        "tokenizer": sha256_file(init / "tokenizer.json"),
        "size": None if shape is None else asdict(shape),
        "settings": plain_settings(settings),
        "stop_at": stop_at,
        "text": [sha256_file(shard) for shard in shards],
        "pairs": [source.options_key for source in pairs],
    }
    if resume and is_finished(out):
        return finished_facts(out, asked)
    work = open_workspace(out, resume=resume, overwrite=overwrite)
    tokenizer = open_tokenizer(init)
    corpus = load_corpus(init, shards, pairs, work / "corpus.npz")
    special = _special(tokenizer, init)
    model = _model(init, shape, special, settings.seed)
    if settings.shape.long > model.config.max_position_embeddings:
        raise ArgumentError(
            f"rows of {settings.shape.long} tokens need as many positions; the model has "
            f"{model.config.max_position_embeddings}"
        )

    facts = {
        "schema": 1,
        "init": init.name if shape is None else None,
        "text": [shard.name for shard in shards],
        "fragments": len(corpus.fragments),
        "pairs": len(corpus.first),
        "asked": asked,
    }

    def save(state: dict[str, torch.Tensor], figures: dict[str, Any]) -> None:
        save_checkpoint(
            out,
            model.float(),
            tokenizer,
            state=state,
            settings=ModelSettings(ModelLabels(0, None), settings.shape.long),
            texts=training_texts(work, facts | {"figures": _untimed(figures)}),
            overwrite=True,  # the workspace was opened for it
        )

    identity = {k: v for k, v in asked.items() if k in ("init", "tokenizer", "size")}
    figures = pretrain(
        model,
        corpus,
        special,
        settings,
        work,
        save=save,
        stop_at=stop_at,
        identity=identity | {"corpus": corpus.sha256},
    )
    close_workspace(out)
    return facts | {"figures": figures}


def _untimed(figures: dict[str, Any]) -> dict[str, Any]:
    """The figures a rerun gives again: all but the rate."""
    return {name: value for name, value in figures.items() if name != "tokens_per_second"}


def _special(tokenizer: Any, init: Path) -> Special:
    ids = {name: getattr(tokenizer, f"{name}_token_id") for name in ("cls", "sep", "pad", "mask")}
    absent = [name for name, number in ids.items() if number is None]
    if absent:
        raise CheckpointError(f"{init}: the tokenizer has no [{absent[0].upper()}] token")
    spelled = tokenizer.convert_ids_to_tokens(list(range(len(tokenizer))))
    special = set(tokenizer.all_special_tokens)
    lengths = np.array([1 if t in special else len(t.removeprefix("##")) for t in spelled])
    return Special(**ids, vocabulary=len(tokenizer), lengths=lengths)


def _model(init: Path, shape: NewShape | None, special: Special, seed: int) -> BertForPreTraining:
    if shape is None:
        return open_for_pretraining(init)
    return new_model(
        vocabulary=special.vocabulary,
        layers=shape.layers,
        heads=shape.heads,
        hidden=shape.hidden,
        positions=shape.positions,
        seed=seed,
    )
