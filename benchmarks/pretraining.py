"""Real tokens a second of `qt-bert pretrain` against a plain training loop, in one run.

    python benchmarks/pretraining.py TEXT [TEXT …] [--seconds 40] [--device cpu]

The plain loop: Hugging Face `BertForPreTraining` in float32, one example a row, rows padded to 64,
the model's own loss over all positions, AdamW, clip 1.0, the same tokens a batch. Both start from
the same random model and run in turn, after a warm-up, in one process.
"""

from __future__ import annotations

import argparse
import copy
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.command import parser_of

from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.shipped import PRETRAINED, shipped
from qt_bert.training.corpus import Corpus, load_corpus
from qt_bert.training.masters import MasterWeights
from qt_bert.training.packing import on_device
from qt_bert.training.pretrain import (
    BatchShape,
    PretrainBatch,
    SpecialTokens,
    batches,
    losses,
    new_model,
    special_of,
)
from qt_bert.training.steps import Gradients

WARM_UP = 4


def main() -> None:
    arguments = parse()
    ours, plain = against_plain(arguments.text, arguments.device, arguments.seconds)
    print(f"qt-bert pretrain {ours:9,.0f} real tokens/s")
    print(f"plain loop       {plain:9,.0f} real tokens/s")
    print(f"ratio            {ours / plain:9.2f}×  ({torch.get_num_threads()} threads)")


def against_plain(shards: Sequence[Path], device: str, seconds: float) -> tuple[float, float]:
    """Real tokens a second of `qt-bert pretrain` and of the plain loop, from the same random model of the
    shipped one's shape."""
    folder = shipped(PRETRAINED)
    tokenizer = open_tokenizer(folder)
    with tempfile.TemporaryDirectory() as work:
        corpus = load_corpus(folder, list(shards), [], Path(work) / "corpus.npz")
    special = special_of(tokenizer, folder)
    model = new_model(
        vocabulary=len(tokenizer), layers=12, heads=12, hidden=384, positions=128, seed=0
    )
    packed = copy.deepcopy(model)
    on_device(packed, torch.device(device), "bfloat16")
    plain = model.to(device)
    if device != "cpu":
        plain.set_attn_implementation("sdpa")
    return (
        rate(packed_steps(packed, corpus, special), seconds),
        rate(plain_steps(plain, corpus, special, device), seconds),
    )


def rate(steps: Iterator[int], seconds: float) -> float:
    """Real tokens a second after the warm-up."""
    for _ in range(WARM_UP):
        next(steps)
    start, tokens = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        tokens += next(steps)
    return tokens / (time.perf_counter() - start)


def packed_steps(model: Any, corpus: Corpus, special: SpecialTokens) -> Iterator[int]:
    """The steps of `qt-bert pretrain`; each yields its real tokens."""
    masters = MasterWeights(model.train(), torch.bfloat16, lr=1e-4)
    gradients = Gradients(lambda batch: losses(model, batch), masters, 0, aim=_both)
    short = BatchShape(long=64)  # one row length, as the plain loop has
    for batch in batches(corpus, special, short, seed=0):
        gradients.of(batch.tensors)
        masters.step(1.0)
        yield batch.tokens


def _both(measured: torch.Tensor) -> torch.Tensor:
    return measured[0] + measured[1]


def plain_steps(model: Any, corpus: Corpus, special: SpecialTokens, device: str) -> Iterator[int]:
    """The plain loop, on a GPU under autocast; the same examples, one a row of 64."""
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for batch in batches(corpus, special, BatchShape(long=64), seed=0):
        inputs, tokens = unpacked(batch)
        with torch.autocast(device, torch.bfloat16, enabled=device != "cpu"):
            loss = model(**{name: tensor.to(device) for name, tensor in inputs.items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield tokens


def unpacked(batch: PretrainBatch) -> tuple[dict[str, torch.Tensor], int]:
    """The examples of a batch as padded rows with labels at the masked positions."""
    rows = {name: tensor.numpy() for name, tensor in batch.tensors.items()}
    width = rows["segment"].shape[1]
    labels = np.full(rows["input_ids"].size, -100)
    n = int(rows["masked_weight"].sum())
    labels[rows["masked_slot"][:n]] = rows["masked_label"][:n]
    flat = {name: rows[name].ravel() for name in ("input_ids", "token_type_ids", "segment")}
    count = int(rows["cls_weight"].sum())
    ids, types, mask = (np.zeros((count, 64), np.int64) for _ in range(3))
    targets = np.full((count, 64), -100)
    for i, start in enumerate(rows["cls_slot"][:count]):
        row = flat["segment"][start : (start // width + 1) * width]
        length = int((row == row[0]).sum())
        place = slice(start, start + length)
        ids[i, :length], types[i, :length] = flat["input_ids"][place], flat["token_type_ids"][place]
        mask[i, :length], targets[i, :length] = 1, labels[place]
    inputs = {
        "input_ids": ids,
        "token_type_ids": types,
        "attention_mask": mask,
        "labels": targets,
        "next_sentence_label": 1 - rows["belongs"][:count],
    }
    return {name: torch.from_numpy(array) for name, array in inputs.items()}, int(mask.sum())


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("text", type=Path, nargs="+")
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--device", default="cpu")
    return parser.parse_args()


if __name__ == "__main__":
    main()
