"""An opened classifier, made smaller or saved whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging as hf_logging

from qt_bert.data.tokenise import PairTokenizer
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_folder, is_vacant, read_json, write_json
from qt_bert.heads import Shape
from qt_bert.models.card import ModelSettings, Reading, mark
from qt_bert.models.devices import device_name
from qt_bert.models.families import Family, ReadOut
from qt_bert.models.folder import FolderHashes, folder_sha256, weights_sha256, write_manifest
from qt_bert.models.forward import Encoder
from qt_bert.models.loading import positions_of, stored_dtype
from qt_bert.models.plain import PlainEncoder
from qt_bert.models.pruned import (
    Units,
    head_parameters,
    parameter_count,
    reference_of,
    smaller_model,
    with_own_widths,
)
from qt_bert.models.tokenizer import TYPES
from qt_bert.results.kept import KeptFile, KeptLayer


@dataclass
class Checkpoint:
    """An opened classifier: the model in eval mode, its tokenizer and its labels.

    `model` is the Hugging Face model of a cross-encoder of `family`. `kept`: what a smaller model keeps
    of its teacher. Unless it is `compact`, pruned heads are zeros in `model`, so that every head has its
    number in the teacher. Where `padding_leaks` into the logits, batches hold pairs of one length.
    `hashes`: those of `folder` as it was opened.
    """

    name: str
    folder: Path
    model: Any
    tokenizer: Any
    family: Family
    settings: ModelSettings
    dtype: str
    hashes: FolderHashes
    kept: KeptFile | None = None
    compact: bool = False
    reading: Reading = Reading()
    model_grades: str | None = None
    padding_leaks: bool = False

    def encoder(self) -> Encoder:
        """The layer-by-layer forward, with a copy of the weights: later changes to them have no effect."""
        if not self.family.fast:
            types = TYPES in self.tokenizer.model_input_names
            return PlainEncoder(self.model, self.family, types=types)  # type: ignore[return-value]
        return Encoder(self.model, self.family)

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return self.model.device  # type: ignore[no-any-return]

    @property
    def reads(self) -> ReadOut:
        """Which token's last state the classifier reads."""
        return self.family.read_out(self.model.config)

    @property
    def windows(self) -> tuple[int | None, ...]:
        """How many tokens each layer sees to either side, None for all; empty where every layer sees all."""
        if self.family.parts.window is None:
            return ()
        windows = tuple(map(self.family.window, self.family.layers_of(self.model)))
        return () if windows.count(None) == len(windows) else windows

    @property
    def layers(self) -> int:
        return int(self.model.config.num_hidden_layers)

    @property
    def heads(self) -> int:
        return int(getattr(self.model.config, "num_attention_heads", 0))  # FNet has none

    @property
    def shape(self) -> Shape:
        """Layers and heads; `absent` are the heads that are zeros."""
        full = Shape(self.layers, self.heads)
        if self.kept is None or self.compact:
            return full
        kept_heads = {
            (number, head) for number, layer in enumerate(self.kept.layers) for head in layer.heads
        }
        return full._replace(absent=frozenset(full.all_heads) - kept_heads)

    @property
    def parameters(self) -> int:
        """Learned parameters, without heads of zeros."""
        learned = parameter_count(self.model)
        absent = len(self.shape.absent)
        if not absent:
            return learned
        lowest = self.family.layers_of(self.model)[0]
        return learned - round(absent * head_parameters(self.family, lowest))

    @property
    def pad(self) -> int:
        """The token id of padding."""
        return int(self.model.config.pad_token_id or 0)

    @property
    def longest(self) -> int:
        """Tokens the position embeddings have room for."""
        return positions_of(self.model.config)

    @property
    def sha256(self) -> str:
        """Hash of the stored weights. Raises CheckpointError where they are no longer those that were opened."""
        return self.hashes.of(weights_sha256, ".safetensors")

    @property
    def identity(self) -> dict[str, str]:
        """All that the outputs for a text depend on, for the keys of what is stored of them. Raises as `sha256`."""
        return {
            "model": self.hashes.of(folder_sha256),
            "model_grades": repr(self.settings.labels),
            "reading": repr(self.reading),
            "template": repr(self.settings.template),
            "dtype": self.dtype,
        }

    def pair_tokenizer(self, max_length: int | None = None) -> PairTokenizer:
        """A new tokenizer (one a thread) for pairs up to `max_length`."""
        limit = self.settings.max_length if max_length is None else max_length
        last = self.pad if self.reads == "last" else None
        template, rows = self.settings.template, self.model.config.vocab_size
        return PairTokenizer(self.tokenizer, limit, last=last, template=template, rows=rows)

    def describe(self) -> dict[str, Any]:
        """Plain facts for reports and run records."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "family": self.family.model_type,
            "parameters": self.parameters,
            "layers": self.layers,
            "heads": self.heads,
            "hidden": int(self.model.config.hidden_size),
            "max_length": self.settings.max_length,
            "dtype": self.dtype,
            "device": device_name(self.device),
            **{name: value for name, value in asdict(self.reading).items() if value},
            **({} if self.kept is None else {"teacher": self.kept.teacher.name}),
        }


def smaller_checkpoint(
    checkpoint: Checkpoint,
    kept: Sequence[KeptLayer],
    *,
    units: Units | None = None,
) -> Checkpoint:
    """`checkpoint` with the model that `smaller_model` makes of it; its folder is the teacher's.

    Raises ArgumentError as `smaller_model` does, and for a teacher whose own heads were pruned.
    """
    if checkpoint.kept is not None and not checkpoint.kept.whole_heads:
        raise ArgumentError(
            f"{checkpoint.name} was pruned itself: plan and prune from its teacher, "
            f"{checkpoint.kept.teacher.name}"
        )
    model, family = checkpoint.model, checkpoint.family
    teacher = reference_of(model, family, checkpoint.name, checkpoint.sha256)
    return replace(
        checkpoint,
        model=smaller_model(model, family, kept, units=units),
        kept=KeptFile.of(teacher, with_own_widths(model, family, kept)),
        compact=True,
    )


def check_place(folder: Path, overwrite: bool) -> None:
    """Raise RunFolderError where `folder` is a file or a mount point, or not empty and not to be overwritten."""
    if folder.exists() and not folder.is_dir():
        raise RunFolderError(f"{folder} is a file; --out names a folder")
    if folder.resolve().is_mount():  # known now, not at the end of a training
        raise RunFolderError(f"{folder} is a mount point, which stays; name a folder in it")
    if not is_vacant(folder) and not overwrite:
        raise RunFolderError(f"{folder} is not empty; choose another folder, or --overwrite")


def save_checkpoint(
    folder: str | Path,
    model: Any,
    tokenizer: Any,
    *,
    state: Mapping[str, torch.Tensor] | None = None,
    settings: ModelSettings | None = None,
    texts: Mapping[str, str] | None = None,
    kept: KeptFile | None = None,
    dtype: torch.dtype = torch.float16,
    like: Path | None = None,
    plain: bool = True,
    overwrite: bool = False,
) -> Path:
    """Write config, weights (`state` or the model's own, cast to `dtype`), tokenizer and manifest.

    A tensor with a number beyond the range of `dtype` stays as it is, float32. With a folder `like`, its number type
    is used for the tensors that it holds exactly.

    The config says float32, in which the Auto classes then open float16 files.
    `settings` becomes `qt_bert.json`, what a smaller model has `kept` becomes `kept.json`; `texts` are
    further files, name → content. The config of a pruned model that is not `plain` (`is_plain`) is marked
    as such.

    The folder is written whole or not at all (`atomic_folder`). Raises RunFolderError as
    `check_place` does.
    """
    final = Path(folder)
    check_place(final, overwrite)
    with atomic_folder(final) as temporary:
        source = model.state_dict() if state is None else state
        tied = getattr(model, "_tied_weights_keys", None) or {}
        narrow = dtype if like is None else stored_dtype(like)
        exactly = like is not None
        weights = {k: _stored(v, narrow, exactly) for k, v in source.items() if k not in tied}
        hf_logging.disable_progress_bar()
        # By the names of the modules; those in the files of GTE's authors differ.
        model.save_pretrained(temporary, state_dict=weights, save_original_format=False)
        tokenizer.save_pretrained(temporary)
        config = read_json(temporary / "config.json")
        write_json(temporary / "config.json", config | {"dtype": "float32"})
        if settings is not None:
            if (fitted := settings.calibration) and "weights" in fitted:  # the outputs are the same
                fitted = {**fitted, "weights": weights_sha256(temporary)}
            replace(settings, calibration=fitted).write(temporary)
        if not plain:
            mark(temporary)
        if kept is not None:
            kept.write(temporary)
        for name, text in (texts or {}).items():
            (temporary / name).write_text(text, encoding="utf-8")
        write_manifest(temporary)
    return final


def _stored(weight: torch.Tensor, dtype: torch.dtype, exactly: bool) -> torch.Tensor:
    """The weight in `dtype`; as it is where some of it would become infinite, or (`exactly`) be rounded."""
    short = weight.to(dtype)
    same = short.float().equal(weight.float())
    held = same if exactly else short.isfinite().equal(weight.isfinite())
    return short if held else weight
