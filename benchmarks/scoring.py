"""Pairs a second of `qt_bert` against `sentence_transformers.CrossEncoder.predict`, in one run.

    python benchmarks/scoring.py PAIRS [--columns …] [--model DIR] [--limit 2000] [--rounds 3]

Both start from texts (tokenising included) with the model loaded, the same checkpoint, `max_length` and
threads. CrossEncoder runs its torch backend in float32 at its best batch size of 16 to 256. Rounds
alternate; medians, ratios and the largest difference of logits are printed.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.command import parser_of
from common.machine import median_seconds
from common.runs import texts_of
from sentence_transformers import CrossEncoder

from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import GRADED, shipped

BATCH_SIZES = (16, 32, 64, 128, 256)


def main() -> None:
    arguments = parse()
    texts = texts_of([arguments.pairs], arguments.columns)[: arguments.limit]
    folder = arguments.model or shipped(GRADED)
    exact = Scorer(open_checkpoint(folder))
    short = Scorer(open_checkpoint(folder, dtype="bfloat16"))
    theirs = CrossEncoder(
        str(folder), max_length=exact.tokenizer.max_length, device="cpu", local_files_only=True
    )
    runs: dict[str, Callable[[], Any]] = {
        f"CrossEncoder float32, batch {size}": predict(theirs, texts, size) for size in BATCH_SIZES
    }
    runs["qt_bert float32"] = lambda: exact.logits(texts)
    runs["qt_bert bfloat16"] = lambda: short.logits(texts)
    seconds = median_seconds(runs, arguments.rounds)
    rates = {name: len(texts) / one for name, one in seconds.items()}
    best = max(r for name, r in rates.items() if name.startswith("Cross"))
    for name, rate in rates.items():
        print(f"{name:34} {rate:9.1f} pairs/s   {rate / best:5.2f}× the best CrossEncoder")
    whole = [i for i, e in enumerate(exact.tokenizer.encode(texts)) if not e.title_truncated]
    gap = np.abs(exact.logits(texts) - predict(theirs, texts, 32)())[whole].max()
    flipped = np.mean(exact.logits(texts).argmax(1) != short.logits(texts).argmax(1))
    print(
        f"largest difference of logits, pairs that fit (it cuts the longer text first): {gap:.2e}"
    )
    print(f"grades that differ in bfloat16: {flipped:.2%} of {len(texts):,} pairs")
    print(f"{torch.get_num_threads()} threads, torch {torch.__version__}, {arguments.pairs.name}")


def predict(model: CrossEncoder, texts: list[tuple[str, str]], size: int) -> Callable[[], Any]:
    identity = torch.nn.Identity()
    return lambda: model.predict(
        texts, batch_size=size, activation_fn=identity, show_progress_bar=False
    )


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--columns")
    parser.add_argument("--model", type=Path)
    parser.add_argument("--limit", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    return parser.parse_args()


if __name__ == "__main__":
    main()
