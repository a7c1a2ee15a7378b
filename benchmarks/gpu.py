"""A GPU against the CPU's logits and against plain code, in one run.

    python benchmarks/gpu.py PAIRS [--columns …] [--text TEXT …] [--device cuda]

Needs a CUDA device (`--device cpu --small` tests the command). It compares the shipped model's logits with
the CPU's, in every dtype, and measures, in one process: the sweep over all single heads of random models of
BERT-base's size and of 24 × 16 × 1024, against a hook on the Hugging Face model (same dtype, SDPA, its best
batch size, sorted by length and in file order; timed on one head a layer, scaled to all); scoring against
`CrossEncoder.predict`, tokenising included; with `--text`, pretraining against a plain loop. Medians of
alternating rounds; the table goes to standard output and into benchmarks/README.md. Exit status 1 where
logits differ too much.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.command import parser_of
from common.flops import matrix_flops
from common.machine import matrix_peak, median_seconds
from common.readme import markdown_table, rewrite_section
from common.runs import texts_of
from make_models import BERT_BASE_VOCABULARY, save, shipped_characters, wordpiece
from sentence_transformers import CrossEncoder
from sweeping.ours import OurSweep, Texts
from sweeping.plain import PlainLoop, forward

from qt_bert.cli.terminal import table
from qt_bert.models.batches import Batch
from qt_bert.models.devices import device_name, open_device
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import GRADED, shipped

README = Path(__file__).with_name("README.md")
SIZES = {"BERT-base": (12, 12, 768), "24 × 16 × 1024": (24, 16, 1024)}
BATCHES = (32, 128, 512)
TOLERANCES = {"float32": 1e-4, "tf32": 2e-2, "bfloat16": 0.2, "float16": 2e-2}
"""The largest difference of a logit from the CPU's float32."""


def main() -> None:
    options = parse()
    device = str(open_device(options.device))
    types = ("float32", "bfloat16") if device == "cpu" else tuple(TOLERANCES)
    texts = texts_of([options.pairs], options.columns)[: 16 if options.small else 2000]
    rows = [["what", "model", "number type", "measured", "aim"]]
    checks, failed = equality(texts[:256], device, types)
    rows += checks
    with tempfile.TemporaryDirectory() as work:
        for name, shape in ({"2 × 2 × 64": (2, 2, 64)} if options.small else SIZES).items():
            folder = Path(work) / name.replace(" ", "")
            wordpiece(folder, shipped_characters(), BERT_BASE_VOCABULARY)
            layers, heads, hidden = shape
            save(folder, "bert", labels=5, hidden=hidden, layers=layers, heads=heads)
            for dtype in ("float32", "bfloat16"):
                rows += sweeps(name, folder, texts, dtype, device, options.rounds)
            rows += scoring(name, folder, texts, device, options.rounds)
    if options.text:
        rows += pretraining(options.text, device, 2.0 if options.small else 30.0)
    note = (
        f"{device_name(torch.device(device))}, torch {torch.__version__}; {options.pairs.name}, "
        f"{len(texts):,} pairs, at most 128 tokens."
    )
    print("\n\n".join([table(rows, left=3), note]))
    if not options.small:
        rewrite_section(options.readme, "gpu", "\n\n".join([markdown_table(rows), note]))
    sys.exit(int(failed))


def equality(texts: Texts, device: str, types: Sequence[str]) -> tuple[list[list[str]], bool]:
    """The largest difference of logits, plain and with every single head out, from the CPU's float32."""

    def logits(dtype: str, where: str) -> tuple[np.ndarray, np.ndarray]:
        scorer = Scorer(open_checkpoint(shipped(GRADED), dtype=dtype, device=where))
        ours = OurSweep(scorer, scorer.tokenizer.encode(texts[:32], offsets=False))
        ours.run(ours.batches)
        return scorer.logits(texts), ours.logits

    reference, rows, failed = logits("float32", "cpu"), [], False
    for dtype in types:
        both = zip(logits(dtype, device), reference, strict=True)
        gap = max(float(np.abs(a - b).max()) for a, b in both)
        failed |= not gap <= TOLERANCES[dtype]
        cell = f"{gap:.1e}" + ("" if gap <= TOLERANCES[dtype] else ", not reached")
        rows.append(
            ["largest difference to the CPU", "shipped", dtype, cell, f"{TOLERANCES[dtype]:g}"]
        )
    torch.set_float32_matmul_precision("highest")  # tf32 holds for a process
    return rows, failed


def sweeps(
    name: str, folder: Path, texts: Texts, dtype: str, device: str, rounds: int
) -> list[list[str]]:
    """All single heads: ours against a hook, by length at its best batch size, and in file order."""
    scorer = Scorer(open_checkpoint(folder, dtype=dtype, device=device, attention="sdpa"))
    encoded = scorer.tokenizer.encode(texts, offsets=False)
    ours = OurSweep(scorer, encoded)
    masks = ours.one_a_layer()
    loops = {
        (size, by_length): PlainLoop(scorer, encoded, masks, size=size, by_length=by_length)
        for size in BATCHES
        for by_length in (True, False)
    }
    runs: dict[Any, Callable[[], Any]] = {"ours": lambda: ours.run(ours.batches), **loops}
    seconds = median_seconds(runs, rounds)
    scale = len(ours.shape.all_heads) / len(masks)
    by_length, in_order = (
        scale * min(t for key, t in seconds.items() if key != "ours" and key[1] is sort)
        for sort in (True, False)
    )
    flops = matrix_flops(ours.swept, ours.batches)

    def plain(batches: Sequence[Batch]) -> Iterator[torch.Tensor]:
        return (forward(scorer.checkpoint, b.to(scorer.checkpoint.device)) for b in batches)

    bound = len(ours.variants) * matrix_flops(plain, ours.batches) / flops
    share = flops / seconds["ours"] / matrix_peak(scorer.encoder.layers[0].dtype, device=device)
    aim = "" if dtype == "float32" else ("30 %" if "base" in name else "45 %")
    return [
        [
            "sweep, times faster by length",
            name,
            dtype,
            f"{by_length / seconds['ours']:.2f}× (by products counted: {bound:.2f}×)",
            "2×",
        ],
        [
            "sweep, times faster in file order",
            name,
            dtype,
            f"{in_order / seconds['ours']:.2f}×",
            "4×",
        ],
        ["sweep, share of the matrix peak", name, dtype, f"{share:.0%}", aim],
    ]


def scoring(name: str, folder: Path, texts: Texts, device: str, rounds: int) -> list[list[str]]:
    """Pairs a second in bfloat16, from texts to logits."""
    ours = Scorer(open_checkpoint(folder, dtype="bfloat16", device=device), max_length=128)
    theirs = CrossEncoder(
        str(folder),
        max_length=128,
        device=device,
        local_files_only=True,
        model_kwargs={"dtype": torch.bfloat16, "attn_implementation": "sdpa"},
    )
    identity = torch.nn.Identity()
    runs: dict[Any, Callable[[], Any]] = {
        size: lambda size=size: theirs.predict(
            texts, batch_size=size, activation_fn=identity, show_progress_bar=False
        )
        for size in BATCHES
    }
    seconds = median_seconds({"ours": lambda: ours.logits(texts), **runs}, rounds)
    best = min(t for key, t in seconds.items() if key != "ours")
    rate = len(texts) / seconds["ours"]
    cell = f"{best / seconds['ours']:.2f}× ({rate:,.0f} pairs/s)"
    return [["scoring against CrossEncoder.predict", name, "bfloat16", cell, "1.3×"]]


def pretraining(shards: Sequence[Path], device: str, seconds: float) -> list[list[str]]:
    """Real tokens a second of `qt-bert pretrain` against a plain loop, of the shipped model's shape."""
    from pretraining import against_plain

    ours, plain = against_plain(shards, device, seconds)
    cell = f"{ours / plain:.2f}× ({ours:,.0f} tokens/s)"
    return [["pretraining against a plain loop", "12 × 12 × 384", "bfloat16", cell, "2×"]]


def parse() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("pairs", type=Path, help="file of pairs; labels are unread")
    parser.add_argument("--columns", help="names of its columns: query=q,title=t")
    parser.add_argument("--text", type=Path, nargs="*", help="shards to pretrain on")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--small", action="store_true", help="a few pairs, a tiny model, no README")
    parser.add_argument("--readme", type=Path, default=README, help="page to write the table into")
    return parser.parse_args()


if __name__ == "__main__":
    main()
