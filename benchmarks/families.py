"""Every family at full size, with random weights: the sweep and scoring against plain code.

    python benchmarks/families.py [PAIRS] [--only gte] [--pairs-of 32] [--dtype bfloat16]

Sweep over all single heads: against a hook on the Hugging Face model that zeroes the head before W_O, in
file order, batches of 32, the same dtype, timed on one head a layer and scaled up, between two halves of
ours; with the ratio of counted matrix products. Scoring of the same pairs, tokenising included: against
`sentence_transformers.CrossEncoder.predict` at its best batch size. The table goes to standard output
and into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from common.flops import flop_counter, matrix_flops
from common.machine import median_seconds, processor, timed
from common.readme import markdown_table, rewrite_section
from common.runs import drawn
from make_models import byte_level, sentencepiece, shipped_characters, wordpiece
from sentence_transformers import CrossEncoder
from sweeping.ours import OurSweep
from sweeping.plain import forward, plain_batches, plain_logits
from transformers import AutoConfig, AutoModelForSequenceClassification

from qt_bert.errors import CheckpointError
from qt_bert.models.opening import open_checkpoint
from qt_bert.models.tokenizer import open_tokenizer
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import TEST, shipped

SIZES: dict[str, dict[str, Any]] = {
    "modernbert": {"vocab_size": 50_368},
    "gte": {"vocab_size": 250_048},
    "deberta-v2": {
        "vocab_size": 21_128,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "relative_attention": True,
        "position_buckets": 256,
        "pos_att_type": ["p2c", "c2p"],
        "norm_rel_ebd": "layer_norm",
        "share_att_key": True,
        "position_biased_input": False,
        "type_vocab_size": 0,
    },
    "qwen3": {
        "vocab_size": 151_936,
        "hidden_size": 1024,
        "num_hidden_layers": 28,
        "num_attention_heads": 16,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "intermediate_size": 3072,
    },
}
"""Config values of the full size besides transformers' defaults (ModernBERT-base, GTE-base)."""
NAMES = {
    "modernbert": "ModernBERT-base (22 × 12 × 768)",
    "gte": "GTE-base (12 × 12 × 768)",
    "deberta-v2": "DeBERTa-base (12 × 12 × 768)",
    "qwen3": "Qwen3-0.6B (28 × 16 × 1024)",
}
SWEEP_AIMS = {"modernbert": 4.0, "gte": 4.5, "deberta-v2": 3.0, "qwen3": 3.0}
SCORING_AIM = 1.1
FEWER = {"qwen3": 8}
"""A model of 448 heads is swept on fewer pairs."""
BATCH_SIZES = (8, 16, 32)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("pairs", type=Path, nargs="?", default=shipped(TEST))
    parser.add_argument("--columns")
    parser.add_argument("--only", choices=sorted(SIZES))
    parser.add_argument("--pairs-of", type=int, default=32, help="pairs that are swept")
    parser.add_argument("--dtype", default="bfloat16", choices=("float32", "bfloat16"))
    options = parser.parse_args()
    sample = drawn(options.pairs, options.columns, 4 * options.pairs_of)
    rows = [
        [
            "model",
            "sweep: aim",
            "in file order",
            "by products counted",
            "scoring: aim",
            "measured",
            "largest difference",
        ]
    ]
    for family in [options.only] if options.only else SIZES:
        with TemporaryDirectory() as folder:
            make(Path(folder) / family, family)
            swept = min(options.pairs_of, FEWER.get(family, options.pairs_of))
            rows.append(row_of(Path(folder) / family, family, sample, swept, options.dtype))
        print(" | ".join(rows[-1]), flush=True)
    note = (
        f"{processor()}, torch {torch.__version__}, {options.dtype}; "
        f"{options.pairs_of} pairs of {options.pairs.name} ({FEWER['qwen3']} by Qwen3), drawn with seed 0, are swept and "
        f"{len(sample)} scored; times faster than the plain loop and than the best CrossEncoder."
    )
    print(note)
    if not options.only:
        text = f"{markdown_table(rows)}\n\n{note}"
        rewrite_section(Path(__file__).parent / "README.md", "families", text)


def make(folder: Path, family: str) -> None:
    """A random classifier of a family at full size, with one logit."""
    characters = shipped_characters()
    if family == "gte":
        sentencepiece(folder, [c for c in characters if not c.startswith("##")])
    elif family == "qwen3":
        texts = [" ".join([c.removeprefix("##")] * 3) for c in characters]
        byte_level(folder, texts, 3 * len(characters))
    else:
        wordpiece(folder, characters, len(characters) + 5)
    pad = open_tokenizer(folder).pad_token_id
    config = AutoConfig.for_model(family, num_labels=1, pad_token_id=pad, **SIZES[family])
    torch.manual_seed(0)
    model = AutoModelForSequenceClassification.from_config(config)
    model.to(torch.float16).save_pretrained(folder)


def row_of(
    folder: Path, family: str, texts: list[tuple[str, str]], swept: int, dtype: str
) -> list[str]:
    """One row of the table."""
    try:
        checkpoint = open_checkpoint(folder, dtype=dtype, attention="sdpa")
    except CheckpointError:  # DeBERTa's attention has no fused kernel
        checkpoint = open_checkpoint(folder, dtype=dtype)
    scorer = Scorer(checkpoint)
    faster, counted, apart = sweep_ratio(scorer, texts[:swept])
    scoring = scoring_ratio(scorer, folder, texts, dtype)
    return [
        NAMES[family],
        f"{SWEEP_AIMS[family]:g}×",
        f"{faster:.2f}×",
        f"{counted:.2f}×",
        f"{SCORING_AIM}×",
        f"{scoring:.2f}×",
        f"{apart:.1e}",
    ]


@torch.inference_mode()
def sweep_ratio(scorer: Scorer, texts: list[tuple[str, str]]) -> tuple[float, float, float]:
    """Our sweep against the plain loop: times faster, times fewer matrix products, and the largest
    difference of logits."""
    encoded = scorer.tokenizer.encode(texts, offsets=False)
    ours = OurSweep(scorer, encoded)
    masks = ours.one_a_layer()
    scorer.checkpoint.model.requires_grad_(False)  # else the counter installs hooks
    batches = plain_batches(encoded, pad=scorer.pad, by_length=False)
    plain_logits(scorer.checkpoint, batches, masks[:1])
    ours.run(ours.batches[-1:])
    first, second = ours.halves()
    seconds = timed(lambda: ours.run(first))
    theirs: list[np.ndarray] = []
    plain = timed(lambda: theirs.append(plain_logits(scorer.checkpoint, batches, masks)))
    seconds += timed(lambda: ours.run(second))
    apart = np.abs(theirs[0] - ours.logits_of(masks)) / np.maximum(1, np.abs(theirs[0]))

    heads = len(ours.shape.all_heads)
    with flop_counter() as counter:  # of whole batches, whose pairs share some products
        for batch in batches:
            forward(scorer.checkpoint, batch)
    counted = heads * counter.get_total_flops() / matrix_flops(ours.swept, ours.batches)
    return plain * heads / len(masks) / seconds, counted, float(apart.max())


def scoring_ratio(scorer: Scorer, folder: Path, texts: list[tuple[str, str]], dtype: str) -> float:
    """Pairs a second of ours over those of the best CrossEncoder; medians of three rounds in turn."""
    theirs = CrossEncoder(
        str(folder),
        max_length=scorer.tokenizer.max_length,
        device="cpu",
        local_files_only=True,
        model_kwargs={"dtype": getattr(torch, dtype)},
    )
    runs: dict[str, Callable[[], Any]] = {"ours": lambda: scorer.logits(texts)}
    for size in BATCH_SIZES:
        runs[str(size)] = lambda size=size: theirs.predict(
            texts, batch_size=size, show_progress_bar=False
        )
    medians = median_seconds(runs, 3)
    return min(value for name, value in medians.items() if name != "ours") / medians["ours"]


if __name__ == "__main__":
    main()
