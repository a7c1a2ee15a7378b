"""Latency and throughput of smaller models against their teacher, in one run.

    python benchmarks/smaller.py PAIRS MODEL… [--columns …] [--teacher DIR] [--json OUT]

MODEL is a model folder (whole, pruned or distilled), a folder of `qt-bert export`, or one of its ONNX
files. All start from texts (tokenising included) and run in turn: on --alone pairs of all lengths, one
at a time (the best of --rounds), and on --limit pairs in bulk. Ratios are to the teacher in torch,
float32: medians over pairs (latency) or over rounds (throughput) with bootstrap intervals.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from common.arguments import positive
from common.command import one_line_faults, parser_of
from common.machine import processor

from qt_bert.cli.terminal import table
from qt_bert.data.reader import ReaderOptions
from qt_bert.files import write_json
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.export_session import MODEL, OnnxScorer
from qt_bert.planning.speeds import TextPairs, in_turns, ratio
from qt_bert.results.plan import Ratio
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import PairScorer
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
    """Measure, print, write; an input error is one line and exit status 2."""
    options = parse(arguments)
    with one_line_faults():
        reader = ReaderOptions(columns=options.columns).open(options.pairs)
        with closing(iter(reader)) as rows:
            texts = [(pair.query, pair.title) for pair in islice(rows, options.limit)]
        scorers = scorers_of(options.teacher, options.models)
        times = measure(scorers, texts, options.alone, options.rounds)
        print(table([HEAD, *(row(name, timed) for name, timed in times.items())]))
        print(f"{processor()}, torch {torch.__version__}; {len(texts):,} of {options.pairs.name}")
        if options.json is not None:
            write_json(options.json, to_json(options, len(texts), times))


def scorers_of(teacher: Path | None, models: Sequence[Path]) -> dict[str, PairScorer]:
    """The timed models by name, the teacher first."""
    folder = teacher or shipped(GRADED)
    scorers: dict[str, PairScorer] = {f"teacher {folder.name}": Scorer(open_checkpoint(folder))}
    return scorers | {str(path): opened(path) for path in models}


def opened(path: Path) -> PairScorer:
    """A model folder in torch, or an ONNX file; both with torch's number of threads."""
    if path.suffix == ".onnx" or (path / MODEL).exists():
        return OnnxScorer(path, threads=torch.get_num_threads())
    return Scorer(open_checkpoint(path, compact=True))


def measure(
    scorers: Mapping[str, PairScorer], texts: TextPairs, alone: int, rounds: int
) -> dict[str, Timed]:
    """Every model in turns, on single pairs and in bulk."""
    models = list(scorers.values())
    single = spread(texts, alone)
    in_turns(models, single, 1)  # warm-up
    best = np.array([in_turns(models, [text], rounds).min(0) for text in single])
    bulk = in_turns(models, texts, rounds)
    return {
        name: Timed(
            milliseconds=float(1000 * np.median(best[:, place])),
            latency=ratio(best[:, place] / best[:, 0], 0),
            rate=float(len(texts) / np.median(bulk[:, place])),
            throughput=ratio(bulk[:, 0] / bulk[:, place], 0),
        )
        for place, name in enumerate(scorers)
    }


def spread(texts: TextPairs, count: int) -> list[tuple[str, str]]:
    """At most `count` of the texts, spread over their lengths."""
    ordered = sorted(texts, key=lambda text: len(text[0]) + len(text[1]))
    places = np.unique(np.linspace(0, len(ordered) - 1, min(count, len(ordered))).round())
    return [ordered[int(place)] for place in places]


def row(name: str, timed: Timed) -> tuple[str, ...]:
    """A line of the table."""
    return (
        name,
        f"{timed.milliseconds:.2f}",
        *_ratio_cells(timed.latency),
        f"{timed.rate:,.0f}",
        *_ratio_cells(timed.throughput),
    )


def _ratio_cells(ratio: Ratio) -> tuple[str, str]:
    ends = "" if ratio.low is None else f"[{ratio.low:.2f}, {ratio.high:.2f}]"
    return f"{ratio.value:.2f}×", ends


def to_json(options: argparse.Namespace, pairs: int, times: Mapping[str, Timed]) -> dict[str, Any]:
    """The content of `--json`."""
    return {
        "schema": 1,
        "machine": processor(),
        "torch": torch.__version__,
        "pairs": options.pairs.name,
        "n_pairs": pairs,
        "alone": options.alone,
        "rounds": options.rounds,
        "models": {name: asdict(timed) for name, timed in times.items()},
    }


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("pairs", type=Path)
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--columns")
    parser.add_argument("--teacher", type=Path, help="default: the shipped graded checkpoint")
    parser.add_argument("--limit", type=positive, default=1000)
    parser.add_argument("--alone", type=positive, default=50)
    parser.add_argument("--rounds", type=positive, default=5)
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
