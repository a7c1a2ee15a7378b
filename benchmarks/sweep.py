"""The sweep over all single heads against a plain loop, in one run.

    python benchmarks/sweep.py --pairs FILE [--columns …] [--model DIR] [--big DIR] [--json OUT]

Measures the shipped model and one of BERT-base's size (with random weights, unless --big names a
folder): our loop in float32 and bfloat16; the Hugging Face model with a hook on each head, in batches of
32 in file order and sorted by length. All start from token ids, with the same weights, threads and
`max_length`; the plain loops run in float32 with transformers' default attention. The table goes to
standard output and into benchmarks/README.md.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from common.arguments import positive
from common.command import one_line_faults, parser_of
from common.machine import processor
from common.readme import markdown_table, rewrite_section
from common.runs import drawn
from make_models import bert_base
from sweeping.measure import Measured, measure
from sweeping.table import HEAD, conditions, rows

from qt_bert.cli.terminal import table
from qt_bert.files import write_json
from qt_bert.shipped import GRADED, shipped

README = Path(__file__).with_name("README.md")


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write; an input error is one line and exit status 2."""
    options = parse(arguments)
    with one_line_faults():
        results = measured(options)
        lines = [HEAD, *(row for label, m in results.items() for row in rows(label, m))]
        notes = notes_on(options, results)
        print("\n\n".join([table(lines, left=2), *notes]))
        if options.json is not None:
            write_json(options.json, to_json(options, results))
        rewrite_section(options.readme, "sweep", "\n\n".join([markdown_table(lines), *notes]))


def measured(options: argparse.Namespace) -> dict[str, Measured]:
    """The results of the shipped and of the larger model."""
    texts = drawn(options.pairs, options.columns, max(options.pairs_count, options.big_pairs))
    with TemporaryDirectory() as work:
        big = options.big or Path(work) / "bert-base"
        if options.big is None:
            bert_base(big)
        jobs = {
            "shipped": (options.model or shipped(GRADED), options.pairs_count, options.rounds),
            "BERT-base": (big, options.big_pairs, options.big_rounds),
        }
        return {
            label: measure(folder, texts[:count], options.max_length, rounds)
            for label, (folder, count, rounds) in jobs.items()
        }


def to_json(options: argparse.Namespace, results: dict[str, Measured]) -> dict[str, Any]:
    """The content of `--json`."""
    return {
        "schema": 1,
        "machine": processor(),
        "torch": torch.__version__,
        "pairs": options.pairs.name,
        "max_length": options.max_length,
        "models": {label: result.to_json() for label, result in results.items()},
    }


def notes_on(options: argparse.Namespace, results: dict[str, Measured]) -> list[str]:
    """The machine and the pairs, and a sentence for each model."""
    machine = (
        f"{processor()}, torch {torch.__version__}; {options.pairs.name}, pairs drawn with seed 0, "
        f"at most {options.max_length} tokens a pair."
    )
    return [machine, *(conditions(label, result) for label, result in results.items())]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument(
        "--pairs", type=Path, required=True, help="file of pairs; labels are unread"
    )
    parser.add_argument("--columns", help="names of its columns: query=q,title=t")
    parser.add_argument("--model", type=Path, help="model folder [default: the shipped one]")
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


if __name__ == "__main__":
    main()
