"""Opening a sequence-classification folder, or refusing it with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from qt_bert.encoder.card import ModelSettings, read_settings
from qt_bert.encoder.families import Family
from qt_bert.encoder.heads import Shape
from qt_bert.encoder.hub import resolve_folder
from qt_bert.encoder.kept import load_kept, open_kept
from qt_bert.encoder.loading import load_config, load_weights
from qt_bert.encoder.manifest import weights_sha256
from qt_bert.encoder.smaller import (
    Units,
    reference_of,
    smaller_model,
    with_absent_heads,
    with_own_widths,
)
from qt_bert.encoder.verify import verify_folder, weight_shapes
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.pairs import PairTokenizer
from qt_bert.results.kept import KeptFile, KeptLayer

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def has_bfloat16() -> bool:
    """Whether the processor multiplies bfloat16 itself (AVX-512 BF16 or AMX); True where unknown."""
    cpuinfo = Path("/proc/cpuinfo")
    if not cpuinfo.exists():
        return True
    flags = set(cpuinfo.read_text(encoding="utf-8", errors="replace").split())
    return not flags.isdisjoint({"avx512_bf16", "amx_bf16", "bf16"})


@dataclass
class Checkpoint:
    """An opened classifier: the Hugging Face model in eval mode, its tokenizer and its labels.

    `kept` says what a smaller model keeps of its teacher. Unless it is `compact`, heads that were
    pruned stand as zeros in `model`, so that every head has its number in the teacher.
    """

    name: str
    folder: Path
    model: Any
    tokenizer: Any
    family: Family
    settings: ModelSettings
    dtype: str
    kept: KeptFile | None = None
    compact: bool = False

    @property
    def layers(self) -> int:
        return int(self.model.config.num_hidden_layers)

    @property
    def heads(self) -> int:
        return int(self.model.config.num_attention_heads)

    @property
    def shape(self) -> Shape:
        """Layers and heads; `absent` are the heads that stand as zeros."""
        if self.kept is None or self.compact:
            return Shape(self.layers, self.heads)
        there = {(place, head) for place, one in enumerate(self.kept.layers) for head in one.heads}
        full = Shape(self.layers, self.heads)
        return full._replace(absent=frozenset(full.all_heads) - there)

    @property
    def parameters(self) -> int:
        """Numbers that the model learned; heads of zeros do not count."""
        config = self.model.config
        width = int(config.hidden_size) // self.heads
        zeros = len(self.shape.absent) * width * (4 * int(config.hidden_size) + 3)
        return sum(p.numel() for p in self.model.parameters()) - zeros

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
        """Hash of the stored weights."""
        return weights_sha256(self.folder)

    def pair_tokenizer(self, max_length: int | None = None) -> PairTokenizer:
        """A tokenizer of its own (safe beside others in threads) for pairs up to `max_length`."""
        wanted = self.settings.max_length if max_length is None else max_length
        return PairTokenizer(self.tokenizer, wanted)

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
            **({} if self.kept is None else {"teacher": self.kept.teacher.name}),
        }


def open_checkpoint(
    model: str | Path,
    *,
    dtype: str = "float32",
    attention: str = "eager",
    model_grades: str | None = None,
    compact: bool = False,
) -> Checkpoint:
    """Open a sequence-classification checkpoint for analysis.

    `attention` is the Hugging Face kernel of `.model`. A model whose heads were pruned gets heads of
    zeros in their place, so that probes and masks know each head by its number in the teacher;
    `compact` leaves them out, which is faster and gives the same logits.

    Raises CheckpointError for every fault of the folder (see `verify_folder`), for weights that do
    not fit the config, and for an encoder or classifier weight that is missing, which transformers
    would start at random.
    """
    if dtype not in DTYPES:
        raise CheckpointError(f"--dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    folder = resolve_folder(model)
    _, family = verify_folder(folder)
    shapes = weight_shapes(folder)
    config = load_config(folder)
    _classifier_fits(folder, family, shapes, config.num_labels)
    kept = open_kept(folder, config)
    if kept is None or kept.plain:
        loaded = _weights(folder, config, attention)
    else:
        loaded = load_kept(folder, config, family, kept, attention)
        if not compact:
            with_absent_heads(loaded, family, kept.layers, kept.teacher.heads)
    loaded = loaded.to(DTYPES[dtype]).eval()
    tokenizer = open_tokenizer(folder)
    if len(tokenizer) > config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer knows {len(tokenizer)} tokens, the model's embeddings only "
            f"{config.vocab_size}; the vocabulary belongs to another model"
        )
    settings = read_settings(folder, config.num_labels, positions_of(config), model_grades)
    return Checkpoint(
        folder.name, folder, loaded, tokenizer, family, settings, dtype, kept, compact
    )


def smaller_checkpoint(
    checkpoint: Checkpoint,
    kept: Sequence[KeptLayer],
    *,
    units: Units | None = None,
    fold: torch.Tensor | None = None,
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
        model=smaller_model(model, family, kept, units=units, fold=fold),
        kept=KeptFile.of(teacher, with_own_widths(model, family, kept)),
        compact=True,
    )


def open_tokenizer(folder: Path) -> Any:
    """The folder's fast tokenizer. Raises CheckpointError where it cannot be built."""
    try:
        return AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False)
    except Exception as error:  # tokenizers raises bare Exception for a broken file
        raise CheckpointError(f"{folder}: the tokenizer cannot be opened ({error})") from error


def positions_of(config: Any) -> int:
    """Positions a text may take: the RoBERTa kind keeps its first padding_idx + 1 for itself."""
    kept = config.pad_token_id + 1 if "roberta" in config.model_type else 0
    return int(config.max_position_embeddings) - kept


def _classifier_fits(
    folder: Path, family: Family, shapes: dict[str, list[int]], labels: int
) -> None:
    shape = shapes.get(family.classifier)
    if shape is None:
        raise CheckpointError(
            f"{folder}: no classifier ({family.classifier}); this is an encoder that was never "
            "fine-tuned for classification: tune it with `qt-bert train`"
        )
    if shape[0] != labels:
        raise CheckpointError(
            f"{folder}: config.json speaks of {labels} labels, the classifier has {shape[0]} rows"
        )


def _weights(folder: Path, config: Any, attention: str) -> Any:
    loaded, info = load_weights(
        AutoModelForSequenceClassification, folder, config, attention=attention
    )
    missing = sorted(info["missing_keys"])
    if missing:
        raise CheckpointError(
            f"{folder}: {len(missing)} weights are missing ({', '.join(missing[:3])}…); "
            "transformers would start them at random, so the folder is refused"
        )
    return loaded
