"""What the architectures share: a config.json of their own, features of a pair, one linear output."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import nn
from transformers import AutoConfig, AutoModel

from qt_bert.encoder.architectures.texts import Texts
from qt_bert.encoder.families import Family, family_of
from qt_bert.errors import CheckpointError
from qt_bert.files import read_json, write_json

MATCHER_SIZE = 192


@dataclass
class PairConfig:
    """The content of config.json, under the names that transformers gives them.

    `max_position_embeddings` is the number of tokens a pair may take; `matcher_size` the width of
    the LSTM matcher, where there is one; `encoder` the config of the BERT that reads the texts apart,
    where there is one.
    """

    model_type: str
    num_labels: int
    vocab_size: int
    pad_token_id: int
    max_position_embeddings: int
    matcher_size: int = MATCHER_SIZE
    encoder: dict[str, Any] | None = None

    @classmethod
    def read(cls, folder: Path) -> PairConfig:
        """The config of a folder. Raises CheckpointError for a value that is missing or none."""
        path = folder / "config.json"
        stored = read_json(path)
        numbers = [one.name for one in fields(cls) if one.name not in ("model_type", "encoder")]
        for name in numbers:
            least = 0 if name == "pad_token_id" else 1
            if type(stored.get(name)) is not int or stored[name] < least:
                raise CheckpointError(
                    f"{path}: `{name}` is {stored.get(name)!r}, not a number from {least} on"
                )
        encoder = stored.get("encoder")
        if not isinstance(encoder, dict | None):
            raise CheckpointError(f"{path}: `encoder` is {encoder!r}, not the config of an encoder")
        values = {name: stored[name] for name in ("model_type", *numbers)}
        return cls(**values, encoder=encoder)


class PairModel(nn.Module, ABC):
    """A pair's `features` [B, width] and the linear layer on them that gives the logits.

    A model with an encoder keeps it under the name its family gives it (`bert`, `roberta` …), so
    that its weights are named as in the checkpoint they come from. The encoder has no pooler.
    """

    def __init__(self, config: PairConfig) -> None:
        super().__init__()
        self.config = config

    @property
    def family(self) -> Family | None:
        """The family of the encoder; None where there is none."""
        if self.config.encoder is None:
            return None
        return family_of(str(self.config.encoder.get("model_type")), "config.json, `encoder`")

    @abstractmethod
    def features(self, texts: Texts) -> torch.Tensor:
        """What the output reads of each pair [B, width]."""

    def forward(self, texts: Texts) -> torch.Tensor:
        """Logits [B, labels]."""
        logits: torch.Tensor = self.classifier(self.features(texts))
        return logits

    def save_pretrained(
        self, folder: str | Path, state_dict: Mapping[str, torch.Tensor] | None = None
    ) -> None:
        """Write config.json and model.safetensors (`state_dict`, or the model's own weights)."""
        at = Path(folder)
        at.mkdir(parents=True, exist_ok=True)
        write_json(at / "config.json", asdict(self.config))
        state = self.state_dict() if state_dict is None else state_dict
        weights = {name: value.contiguous() for name, value in state.items()}
        save_file(weights, at / "model.safetensors", metadata={"format": "pt"})

    def _add_encoder(self) -> int:
        """Put the encoder of the config in place, at random; returns its width."""
        described, family = self.config.encoder, self.family
        if described is None or family is None:
            raise CheckpointError(f"{self.config.model_type}: `encoder` is missing in config.json")
        config = AutoConfig.for_model(**described)
        backbone = AutoModel.from_config(config, attn_implementation="eager")
        self.add_module(family.backbone, without_pooler(backbone))
        return int(backbone.config.hidden_size)

    def _add_classifier(self, width: int) -> None:
        self.classifier = nn.Linear(width, self.config.num_labels)


def without_pooler(backbone: Any) -> Any:
    """`backbone` without the layer that only a cross-encoder's output reads."""
    if getattr(backbone, "pooler", None) is not None:
        backbone.pooler = None
    return backbone


def encoder_config(config: Any) -> dict[str, Any]:
    """A transformers config as plain JSON: what differs from its family's defaults."""
    stored: dict[str, Any] = json.loads(config.to_json_string(use_diff=True))
    for name in ("architectures", "transformers_version", "dtype"):
        stored.pop(name, None)
    return stored | {"model_type": config.model_type}
