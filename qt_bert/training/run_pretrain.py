"""`qt-bert pretrain`: from shards and pair files to a saved `BertForPreTraining` folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import torch
from transformers import BertForPreTraining
from transformers.utils import logging as hf_logging

from qt_bert.encoder import ModelLabels, ModelSettings, open_tokenizer, save_checkpoint
from qt_bert.encoder.manifest import weights_sha256
from qt_bert.encoder.verify import verify_folder
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import sha256_file
from qt_bert.training.corpus import load_corpus
from qt_bert.training.pretrain import PretrainSettings, check_settings, new_model, pretrain
from qt_bert.training.pretrain_batches import Special
from qt_bert.training.sources import PairSource
from qt_bert.training.workspace import (
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

    Returns the last figures of the log, which is copied into `out`. Raises ArgumentError without
    text, CheckpointError for a folder that is no BERT, RunFolderError as `open_workspace` does.
    """
    if not shards:
        raise ArgumentError("pretraining needs text: give --text SHARD or a --recipe with `text`")
    check_settings(settings, stop_at)
    if resume and is_finished(out):
        return finished_facts(out)
    work = open_workspace(out, resume=resume, overwrite=overwrite)
    tokenizer = open_tokenizer(init)
    corpus = load_corpus(init, shards, pairs, work / "corpus.npz")
    special = Special(
        cls=tokenizer.cls_token_id,
        sep=tokenizer.sep_token_id,
        pad=tokenizer.pad_token_id,
        mask=tokenizer.mask_token_id,
        vocabulary=len(tokenizer),
    )
    model = _model(init, shape, special, settings.seed)
    if settings.shape.long > model.config.max_position_embeddings:
        raise ArgumentError(
            f"rows of {settings.shape.long} tokens need as many positions; the model has "
            f"{model.config.max_position_embeddings}"
        )

    def save(state: dict[str, torch.Tensor]) -> None:
        facts = {
            "schema": 1,
            "init": init.name if shape is None else None,
            "text": [shard.name for shard in shards],
            "fragments": len(corpus.fragments),
            "pairs": len(corpus.first),
            "settings": asdict(settings),
            "stop_at": stop_at,
        }
        texts = training_texts(work, facts)
        card = ModelSettings(ModelLabels(0, None), settings.shape.long)
        save_checkpoint(
            out,
            model.float(),
            tokenizer,
            state=state,
            settings=card,
            texts=texts,
            overwrite=overwrite,
        )

    identity = {"init": sha256_file(init / "tokenizer.json"), "corpus": corpus.sha256}
    if shape is None:
        identity["init"] = weights_sha256(init)
    return pretrain(
        model, corpus, special, settings, work, save=save, stop_at=stop_at, identity=identity
    )


def _model(init: Path, shape: NewShape | None, special: Special, seed: int) -> BertForPreTraining:
    if shape is not None:
        return new_model(
            vocabulary=special.vocabulary,
            layers=shape.layers,
            heads=shape.heads,
            hidden=shape.hidden,
            positions=shape.positions,
            seed=seed,
        )
    config, family = verify_folder(init)
    if family.model_type != "bert":
        raise CheckpointError(
            f"{init}: pretraining goes on from a BERT, not {config['model_type']}"
        )
    hf_logging.disable_progress_bar()
    loaded: Any = BertForPreTraining.from_pretrained(
        init, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    model, info = loaded
    if info["missing_keys"]:
        raise CheckpointError(
            f"{init}: weights are missing ({sorted(info['missing_keys'])[0]}); pretraining goes on "
            "from a BertForPreTraining folder"
        )
    return cast(BertForPreTraining, model)
