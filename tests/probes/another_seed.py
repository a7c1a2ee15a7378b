"""A model with the encoder of another, as two tunings that came out alike."""

from __future__ import annotations

import shutil
from pathlib import Path


def tuned_again(folder: Path, out: Path) -> Path:
    """The model of `folder` with another classifier; the same heads do the same. Returns `out`."""
    import torch
    from transformers import AutoModelForSequenceClassification

    shutil.copytree(folder, out)
    model = AutoModelForSequenceClassification.from_pretrained(folder)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if name.startswith("classifier"):
                weight.add_(0.1)
    model.save_pretrained(out)
    return out
