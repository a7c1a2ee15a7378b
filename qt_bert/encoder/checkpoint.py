"""Opening a sequence-classification folder, or refusing it with a reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import torch
from transformers import AutoTokenizer

from qt_bert.encoder.architectures.registry import Architecture
from qt_bert.encoder.architectures.runner import PairRunner
from qt_bert.encoder.batches import Batch
from qt_bert.encoder.card import CARD, ModelSettings, read_settings
from qt_bert.encoder.classifier import stored_classifier
from qt_bert.encoder.families import Family
from qt_bert.encoder.forward import Encoder
from qt_bert.encoder.heads import Shape
from qt_bert.encoder.hub import resolve_folder
from qt_bert.encoder.kernel_caches import bound_kernel_caches
from qt_bert.encoder.loading import positions_of, quietly
from qt_bert.encoder.manifest import weights_sha256
from qt_bert.encoder.offline import Offline
from qt_bert.encoder.smaller import (
    Units,
    reference_of,
    smaller_model,
    with_own_widths,
)
from qt_bert.encoder.verify import verify_model
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


class Runner(Protocol):
    """What gives the logits of a batch: an `Encoder`, or the runner of another architecture."""

    def logits_of(self, batch: Batch) -> torch.Tensor:
        """Logits [B, labels]."""
        ...


@dataclass
class Checkpoint:
    """An opened classifier: the model in eval mode, its tokenizer and its labels.

    `kind` says how it reads a pair: as the cross-encoder of a family, whose Hugging Face model
    `model` is, or as an architecture without heads; what is asked of heads, layers or the family
    of the latter is a CheckpointError.
    `kept` says what a smaller model keeps of its teacher. Unless it is `compact`, heads that were
    pruned stand as zeros in `model`, so that every head has its number in the teacher.
    """

    name: str
    folder: Path
    model: Any
    tokenizer: Any
    kind: Family | Architecture
    settings: ModelSettings
    dtype: str
    kept: KeptFile | None = None
    compact: bool = False

    @property
    def has_heads(self) -> bool:
        """Whether there are attention heads to name, mask and probe."""
        return isinstance(self.kind, Family)

    @property
    def family(self) -> Family:
        """The encoder family. Raises CheckpointError for an architecture without heads."""
        if isinstance(self.kind, Architecture):
            raise self.kind.no_heads(self.name)
        return self.kind

    def check_heads(self) -> None:
        """Raise CheckpointError for an architecture without heads."""
        _ = self.family

    def runner(self) -> Runner:
        """What gives its logits, built anew: a change of the model's weights is not seen."""
        return self.encoder() if self.has_heads else PairRunner(self.model)

    def encoder(self) -> Encoder:
        """The layer-by-layer forward, built anew as `runner` is.

        Raises CheckpointError for an architecture without heads.
        """
        return Encoder(self.model, self.family, self.offline)

    @property
    def offline(self) -> Offline | None:
        """The layers that read the texts apart, of an offline model."""
        return self.settings.offline

    @property
    def layers(self) -> int:
        self.check_heads()
        return int(self.model.config.num_hidden_layers)

    @property
    def heads(self) -> int:
        self.check_heads()
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
        learned = sum(p.numel() for p in self.model.parameters())
        if not self.has_heads:
            return learned
        hidden = int(self.model.config.hidden_size)
        return learned - len(self.shape.absent) * (hidden // self.heads) * (4 * hidden + 3)

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
        if self.offline is None:
            return PairTokenizer(self.tokenizer, wanted)
        made = PairTokenizer(self.tokenizer, wanted, title_tokens=self.offline.title_tokens)
        self.offline.check_room(wanted, made.title_separators, self.name)
        return made

    def describe(self) -> dict[str, Any]:
        """Plain facts for reports and run records; `layers`, `heads` and `hidden` where it has heads."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "family": self.kind.model_type,
            "parameters": self.parameters,
            **(self._sizes() if self.has_heads else {}),
            "max_length": self.settings.max_length,
            "dtype": self.dtype,
            **({} if self.offline is None else {"offline": self.offline.describe()}),
            **({} if self.kept is None else {"teacher": self.kept.teacher.name}),
        }

    def _sizes(self) -> dict[str, int]:
        hidden = int(self.model.config.hidden_size)
        return {"layers": self.layers, "heads": self.heads, "hidden": hidden}


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

    Raises CheckpointError for every fault of the folder (see `verify_model`), for weights that do
    not fit the config, and for an encoder or classifier weight that is missing, which transformers
    would start at random.
    """
    if dtype not in DTYPES:
        raise CheckpointError(f"--dtype {dtype!r}: choose from {', '.join(DTYPES)}")
    bound_kernel_caches()
    folder = resolve_folder(model)
    _, kind = verify_model(folder)
    loaded, kept = stored_classifier(folder, kind, attention=attention, compact=compact)
    loaded, config = loaded.to(DTYPES[dtype]).eval(), loaded.config
    tokenizer = open_tokenizer(folder)
    if len(tokenizer) > config.vocab_size:
        raise CheckpointError(
            f"{folder}: the tokenizer knows {len(tokenizer)} tokens, the model's embeddings only "
            f"{config.vocab_size}; the vocabulary belongs to another model"
        )
    settings = read_settings(folder, config.num_labels, positions_of(config), model_grades)
    _check_block(settings, kind, config, folder)
    return Checkpoint(folder.name, folder, loaded, tokenizer, kind, settings, dtype, kept, compact)


def _check_block(
    settings: ModelSettings, kind: Family | Architecture, config: Any, folder: Path
) -> None:
    """Raise CheckpointError for an offline block that the model cannot have."""
    if settings.offline is None:
        return
    where = f"{folder / CARD}: `offline`"
    if isinstance(kind, Architecture):
        raise CheckpointError(f"{where} is of cross-encoders; this is a {kind.model_type}")
    try:
        settings.offline.checked(config.num_hidden_layers, where)
    except ArgumentError as error:
        raise CheckpointError(str(error)) from error


def smaller_checkpoint(
    checkpoint: Checkpoint,
    kept: Sequence[KeptLayer],
    *,
    units: Units | None = None,
    fold: torch.Tensor | None = None,
) -> Checkpoint:
    """`checkpoint` with the model that `smaller_model` makes of it; its folder is the teacher's.

    Of an offline model's block the kept layers stay offline. Raises ArgumentError as `smaller_model`
    does, for a teacher whose own heads were pruned, and where no layer is left in which the texts meet.
    """
    if checkpoint.kept is not None and not checkpoint.kept.whole_heads:
        raise ArgumentError(
            f"{checkpoint.name} was pruned itself: plan and prune from its teacher, "
            f"{checkpoint.kept.teacher.name}"
        )
    model, family = checkpoint.model, checkpoint.family
    teacher = reference_of(model, family, checkpoint.name, checkpoint.sha256)
    settings = checkpoint.settings
    if settings.offline is not None:
        numbers = [layer.layer for layer in kept]
        block = settings.offline.of_kept(numbers, f"a smaller {checkpoint.name}")
        settings = replace(settings, offline=block)
    return replace(
        checkpoint,
        settings=settings,
        model=smaller_model(model, family, kept, units=units, fold=fold),
        kept=KeptFile.of(teacher, with_own_widths(model, family, kept)),
        compact=True,
    )


def open_tokenizer(folder: Path) -> Any:
    """The folder's fast tokenizer. Raises CheckpointError where it cannot be built."""
    try:
        with quietly():
            return AutoTokenizer.from_pretrained(folder, use_fast=True, trust_remote_code=False)
    except Exception as error:  # tokenizers raises bare Exception for a broken file
        raise CheckpointError(f"{folder}: the tokenizer cannot be opened ({error})") from error
