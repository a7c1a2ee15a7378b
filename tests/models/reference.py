"""Logits as transformers computes them."""

from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer


@torch.inference_mode()
def folder_logits(folder: Path, texts, *, padded=False, types: bool | None = None) -> np.ndarray:
    """From raw text, as a user would write it: pair by pair, or `padded` on the right as one batch."""
    tokenizer = AutoTokenizer.from_pretrained(folder, padding_side="right")
    model = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32).eval()
    if padded and model.config.pad_token_id is None:
        model.config.pad_token_id = tokenizer.pad_token_id
    if model.config.model_type == "distilbert":  # whose tests' tokenizer is a BERT's
        types = False
    batches = (
        tokenizer(
            *map(list, zip(*part, strict=True)),
            padding=padded,
            return_tensors="pt",
            return_token_type_ids=types,
        )
        for part in ([texts] if padded else [[pair] for pair in texts])
    )
    return torch.cat([model(**batch).logits for batch in batches]).numpy()


@torch.inference_mode()
def logits_alone(checkpoint, texts, *, max_length: int | None = None, model=None) -> np.ndarray:
    """Of an opened checkpoint: transformers' forward of each pair alone, on our tokens."""
    model, logits = model or checkpoint.model, []
    types = checkpoint.family.segments and (
        "token_type_ids" in checkpoint.tokenizer.model_input_names
    )
    for row in checkpoint.pair_tokenizer(max_length).encode(texts):
        typed = {"token_type_ids": torch.tensor([row.token_type_ids])} if types else {}
        logits.append(model(torch.tensor([row.input_ids]), **typed).logits[0])
    return np.stack(logits)
