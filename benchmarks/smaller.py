"""Latency and throughput of smaller models beside their teacher, in one run.

    python benchmarks/smaller.py PAIRS MODEL… [--columns …] [--teacher DIR] [--json OUT]

MODEL is a model folder (whole, pruned or distilled), a folder of `qt-bert export`, or one of its ONNX
files. All start from texts (tokenising included) and take turns: on each of --alone pairs of all
lengths, one at a time (the best of --rounds), and on --limit pairs in bulk. Ratios are to the teacher
in torch, float32: medians over pairs (latency) or over rounds (throughput) with bootstrap intervals.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.arguments import positive
from common.machine import processor

from qt_bert.cli.terminal import table
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import QtBertError
from qt_bert.files import write_json
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.export_session import MODEL, OnnxScorer
from qt_bert.planning.speeds import Scores, TextPairs, in_turns, ratio, spread
from qt_bert.results.plan import Ratio
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import GRADED, shipped

HEAD = ("model", "ms a pair", "latency", "95 % interval", "pairs/s", "throughput", "95 % interval")


@dataclass(frozen=True)
class Timed:
    """Median time for one pair and pairs a second, with their ratios to the teacher's.

    A `latency` below 1 and a `throughput` above 1 are faster.
    """

    milliseconds: float
    latency: Ratio
    rate: float
    throughput: Ratio


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write; an input's fault is one line and exit status 2."""
    asked = parse(arguments)
    try:
        reader = ReaderOptions(columns=asked.columns).open(asked.pairs)
        with closing(iter(reader)) as rows:
            texts = [(pair.query, pair.title) for pair in islice(rows, asked.limit)]
        found = measure(scorers_of(asked.teacher, asked.models), texts, asked.alone, asked.rounds)
        print(table([HEAD, *(row(name, one) for name, one in found.items())]))
        print(f"{processor()}, torch {torch.__version__}; {len(texts):,} of {asked.pairs.name}")
        if asked.json is not None:
            write_json(asked.json, to_json(asked, len(texts), found))
    except (QtBertError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def scorers_of(teacher: Path | None, models: Sequence[Path]) -> dict[str, Scores]:
    """What is timed, by name: the teacher first."""
    folder = teacher or shipped(GRADED)
    scorers: dict[str, Scores] = {f"teacher {folder.name}": Scorer(open_checkpoint(folder))}
    return scorers | {str(path): opened(path) for path in models}


def opened(path: Path) -> Scores:
    """A model folder in torch, or an ONNX file; both with torch's number of threads."""
    if path.suffix == ".onnx" or (path / MODEL).exists():
        return OnnxScorer(path, threads=torch.get_num_threads())
    return Scorer(open_checkpoint(path, compact=True))


def measure(
    scorers: Mapping[str, Scores], texts: TextPairs, alone: int, rounds: int, seed: int = 0
) -> dict[str, Timed]:
    """Every model in turns, on single pairs and in bulk."""
    models = list(scorers.values())
    single = spread(texts, alone)
    in_turns(models, single, 1)  # warm-up
    one = np.array([in_turns(models, [text], rounds).min(0) for text in single])
    bulk = in_turns(models, texts, rounds)
    return {
        name: Timed(
            milliseconds=float(1000 * np.median(one[:, place])),
            latency=ratio(one[:, place] / one[:, 0], seed),
            rate=float(len(texts) / np.median(bulk[:, place])),
            throughput=ratio(bulk[:, 0] / bulk[:, place], seed),
        )
        for place, name in enumerate(scorers)
    }


def row(name: str, found: Timed) -> tuple[str, ...]:
    """A line of the table."""
    return (
        name,
        f"{found.milliseconds:.2f}",
        *_ratio_cells(found.latency),
        f"{found.rate:,.0f}",
        *_ratio_cells(found.throughput),
    )


def _ratio_cells(found: Ratio) -> tuple[str, str]:
    ends = "" if found.low is None else f"[{found.low:.2f}, {found.high:.2f}]"
    return f"{found.value:.2f}×", ends


def to_json(asked: argparse.Namespace, pairs: int, found: Mapping[str, Timed]) -> dict[str, Any]:
    """What `--json` stores."""
    return {
        "schema": 1,
        "machine": processor(),
        "torch": torch.__version__,
        "pairs": asked.pairs.name,
        "n_pairs": pairs,
        "alone": asked.alone,
        "rounds": asked.rounds,
        "models": {name: asdict(one) for name, one in found.items()},
    }


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--columns")
    parser.add_argument("--teacher", type=Path, help="default: the graded checkpoint that ships")
    parser.add_argument("--limit", type=positive, default=1000)
    parser.add_argument("--alone", type=positive, default=50)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
