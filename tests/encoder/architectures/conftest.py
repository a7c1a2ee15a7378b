"""Tiny models of every architecture, on a tiny encoder of any family."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from qt_bert.encoder import ModelLabels, ModelSettings, open_tokenizer, save_checkpoint
from qt_bert.encoder.architectures import ARCHITECTURES
from qt_bert.encoder.architectures.opening import new_model
from qt_bert.pairs import GRADES


@pytest.fixture
def stored(tmp_path: Path, checkpoint_of: Callable[..., Path]) -> Callable[..., Path]:
    """`stored("two-tower", "electra")`: a folder of the architecture, untrained, float32."""

    def build(name: str, family: str = "bert", *, labels: int = 5) -> Path:
        base = checkpoint_of(family)
        torch.manual_seed(1)
        model = new_model(ARCHITECTURES[name], base, labels)
        grades = tuple((grade,) for grade in GRADES) if labels == 5 else None
        return save_checkpoint(
            tmp_path / f"{name}-{family}",
            model,
            open_tokenizer(base),
            settings=ModelSettings(ModelLabels(labels, grades), 48),
            dtype=torch.float32,
        )

    return build
