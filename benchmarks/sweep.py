"""The sweep over all single heads against what a user writes today, in one run.

    python benchmarks/sweep.py --pairs FILE [--columns …] [--model DIR] [--big DIR] [--json OUT]

Measures the shipped model and one of BERT-base's size (random weights, made for the run unless
--big names a folder): our loop in float32 and bfloat16; the Hugging Face model with a hook on each
head, in batches of 32 in file order and sorted by length. All start from token ids, with the same
weights, threads and `max_length`; both plain loops run in float32 with transformers' default
attention. The table goes to standard output and between two comments of benchmarks/README.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from common.machine import processor
from common.readme import markdown_table, rewrite_section
from make_models import bert_base
from sweeping.measure import Measured, measure
from sweeping.ours import Texts
from sweeping.table import HEAD, conditions, rows

from qt_bert.cli.terminal import table
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.files import write_json
from qt_bert.shipped import GRADED, shipped

README = Path(__file__).with_name("README.md")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write; an input's fault is one line and exit status 2."""
    asked = parse(arguments)
    try:
        found = measured(asked)
        listed = [HEAD, *(row for label, one in found.items() for row in rows(label, one))]
        notes = notes_on(asked, found)
        print("\n\n".join([table(listed, left=2), *notes]))
        if asked.json is not None:
            write_json(asked.json, to_json(asked, found))
        rewrite_section(asked.readme, "sweep", "\n\n".join([markdown_table(listed), *notes]))
    except (QtBertError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def measured(asked: argparse.Namespace) -> dict[str, Measured]:
    """What was found for the shipped and for the larger model."""
    texts = drawn(asked.pairs, asked.columns, max(asked.pairs_count, asked.big_pairs))
    with TemporaryDirectory() as work:
        big = asked.big or Path(work) / "bert-base"
        if asked.big is None:
            bert_base(big)
        jobs = {
            "shipped": (asked.model or shipped(GRADED), asked.pairs_count, asked.rounds),
            "BERT-base": (big, asked.big_pairs, asked.big_rounds),
        }
        return {
            label: measure(folder, texts[:count], asked.max_length, rounds)
            for label, (folder, count, rounds) in jobs.items()
        }


def to_json(asked: argparse.Namespace, found: dict[str, Measured]) -> dict[str, Any]:
    """What `--json` stores."""
    return {
        "schema": 1,
        "machine": processor(),
        "torch": torch.__version__,
        "pairs": asked.pairs.name,
        "max_length": asked.max_length,
        "models": {label: one.to_json() for label, one in found.items()},
    }


def notes_on(asked: argparse.Namespace, found: dict[str, Measured]) -> list[str]:
    """The machine and the pairs, and a sentence for each model."""
    where = (
        f"{processor()}, torch {torch.__version__}; {asked.pairs.name}, pairs drawn with seed 0, "
        f"at most {asked.max_length} tokens a pair."
    )
    return [where, *(conditions(label, one) for label, one in found.items())]


def drawn(path: Path, columns: str | None, count: int) -> Texts:
    """`count` pairs of a file in random order, or all. Raises ArgumentError where there is none."""
    texts = [(pair.query, pair.title) for pair in ReaderOptions(columns=columns).open(path)]
    if not texts:
        raise ArgumentError(f"{path}: no pair to measure on")
    order = np.random.default_rng(0).permutation(len(texts))[:count]
    return [texts[i] for i in order]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "--pairs", type=Path, required=True, help="file of pairs; labels are unread"
    )
    parser.add_argument("--columns", help="names of its columns: query=q,title=t")
    parser.add_argument("--model", type=Path, help="model folder [default: the one that ships]")
    parser.add_argument("--big", type=Path, help="larger model [default: random, BERT-base's size]")
    parser.add_argument("--pairs-count", type=positive, default=512, metavar="N")
    parser.add_argument("--big-pairs", type=positive, default=96, metavar="N")
    parser.add_argument("--max-length", type=positive, default=128, metavar="TOKENS")
    parser.add_argument("--rounds", type=positive, default=3, help="rounds with the model")
    parser.add_argument(
        "--big-rounds", type=positive, default=1, help="rounds with the larger model"
    )
    parser.add_argument("--readme", type=Path, default=README, help="page to write the table into")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    return parser.parse_args(arguments)


def positive(text: str) -> int:
    """A whole number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


if __name__ == "__main__":
    main()
