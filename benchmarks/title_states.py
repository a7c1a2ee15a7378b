"""One query over a hundred titles: an offline model computing them whole, and reading their states.

    python benchmarks/title_states.py PAIRS [--columns …] [--model DIR] [--offline-layers N] [--json OUT]

PAIRS gives queries and titles; labels are unread. The model is an offline one; of any other,
--offline-layers says how many layers are to be (default: half), which its weights were not trained
for, so that the times mean something and the grades do not. Titles' states are stored as float32,
float16 and int8 in a temporary folder and mapped into memory. All start from texts (tokenising
included) and take turns on each query, whose own low layers are computed anew every time; a query has
titles of its own, drawn with seed 0. Ratios are medians over queries with bootstrap intervals.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from common.arguments import positive
from common.machine import processor

from qt_bert.cli.opening import table
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.files import write_json
from qt_bert.models.card import Offline
from qt_bert.models.checkpoint import Checkpoint, open_checkpoint
from qt_bert.planning.budgets import Texts, in_turns, ratio, spread
from qt_bert.results.plan import Ratio
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.title_folder import open_states
from qt_bert.scoring.title_run import store_titles
from qt_bert.scoring.title_states import FORMATS, Format, title_at
from qt_bert.shipped import GRADED, shipped

HEAD = ("states", "ms a query", "times faster", "95 % interval", "bytes a title", "difference")
WHOLE = "none: computed whole"


@dataclass(frozen=True)
class Timed:
    """Median time for a query, how many times faster than the whole model, and at what price.

    `largest` is the largest difference of a logit to the whole model, `size` bytes a title.
    """

    milliseconds: float
    faster: Ratio
    size: float | None
    largest: float


def main(arguments: list[str] | None = None) -> None:
    """Measure, print, write; an input's fault is one line and exit status 2."""
    asked = parse(arguments)
    try:
        reader = ReaderOptions(columns=asked.columns).open(asked.pairs)
        with closing(iter(reader)) as rows:
            texts = [(pair.query, pair.title) for pair in islice(rows, asked.limit)]
        scorer = offline_scorer(asked, [query for query, _ in texts])
        jobs = rankings(scorer, texts, asked.queries, asked.titles)
        found = measure(scorer, jobs, asked.rounds)
        print(table([HEAD, *(row(name, one) for name, one in found.items())]))
        print(conditions(asked, scorer, len(jobs)))
        if asked.json is not None:
            facts = {"schema": 1, "machine": processor(), "torch": torch.__version__}
            states = {name: asdict(one) for name, one in found.items()}
            write_json(asked.json, facts | {"pairs": asked.pairs.name, "states": states})
    except (QtBertError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


def offline_scorer(asked: argparse.Namespace, queries: Sequence[str]) -> Scorer:
    """The model asked for, with a block of its own where it has none."""
    checkpoint = open_checkpoint(asked.model or shipped(GRADED), compact=True)
    if checkpoint.offline is not None:
        if asked.offline_layers not in (None, checkpoint.offline.layers):
            raise ArgumentError(
                f"--offline-layers {asked.offline_layers}: {checkpoint.name} has "
                f"{checkpoint.offline.layers} offline layers already; leave the option out"
            )
        return Scorer(checkpoint)
    return Scorer(with_block(checkpoint, asked.offline_layers or checkpoint.layers // 2, queries))


def with_block(checkpoint: Checkpoint, layers: int, queries: Sequence[str]) -> Checkpoint:
    """`checkpoint` read as an offline model whose titles begin behind 95 % of the queries."""
    tokenizer = checkpoint.pair_tokenizer()
    encoded = tokenizer.encode([(query, "") for query in queries], offsets=False)
    start = int(np.percentile([title_at(one) for one in encoded], 95, method="higher"))
    tokens = tokenizer.max_length - start - tokenizer.title_separators
    block = Offline(layers, start, tokens).checked(checkpoint.layers, "--offline-layers")
    return replace(checkpoint, settings=replace(checkpoint.settings, offline=block))


def rankings(scorer: Scorer, texts: Texts, queries: int, titles: int) -> list[Texts]:
    """For each of some queries of all lengths that leave the titles in their place: its titles."""
    distinct = list(dict.fromkeys(query for query, _ in texts))
    encoded = scorer.tokenizer.encode([(query, "") for query in distinct], offsets=False)
    start = scorer.checkpoint.offline.title_start
    pairs = zip(distinct, encoded, strict=True)
    fitting = [(query, "") for query, one in pairs if title_at(one) <= start]
    if not fitting:
        raise ArgumentError(f"no query ends before position {start}, where titles begin")
    known = list(dict.fromkeys(title for _, title in texts))
    if len(known) < titles:
        raise ArgumentError(f"--titles {titles}: the pairs read have {len(known)} different titles")
    draw = np.random.default_rng(0)
    return [
        [(query, known[i]) for i in draw.choice(len(known), titles, replace=False)]
        for query, _ in spread(fitting, queries, lambda text: len(text[0]) + len(text[1]))
    ]


def measure(scorer: Scorer, jobs: Sequence[Texts], rounds: int) -> dict[str, Timed]:
    """The whole model and every format of states, in turns on each query."""
    with TemporaryDirectory() as work:
        reading = {kind: stored(scorer, jobs, kind, Path(work)) for kind in FORMATS}
        scorers = [scorer, *reading.values()]
        for one in scorers:
            one.logits(jobs[0])  # warm-up
        seconds = np.array(
            [in_turns(scorers, job, rounds, turn).min(0) for turn, job in enumerate(jobs)]
        )
        logits = [np.concatenate([one.logits(job) for job in jobs]) for one in scorers]
    sizes = [None, *(one.split.states.bytes_per_title for one in reading.values())]
    return {
        name: Timed(
            milliseconds=float(1000 * np.median(seconds[:, place])),
            faster=ratio(seconds[:, 0] / seconds[:, place], 0),
            size=sizes[place],
            largest=float(np.abs(logits[place] - logits[0]).max()),
        )
        for place, name in enumerate((WHOLE, *reading))
    }


def stored(scorer: Scorer, jobs: Sequence[Texts], kind: Format, work: Path) -> Scorer:
    """The scorer reading the states of all titles from a folder in `work`."""
    path, folder = work / "titles.jsonl", work / kind
    titles = dict.fromkeys(title for job in jobs for _, title in job)
    lines = (json.dumps({"query": title, "title": title}) + "\n" for title in titles)
    path.write_text("".join(lines), encoding="utf-8")
    store_titles(path, ReaderOptions(), scorer, folder, dtype=kind)
    return scorer.reading(open_states(folder, scorer.checkpoint))


def row(name: str, found: Timed) -> tuple[str, ...]:
    """A line of the table."""
    ends = "" if found.faster.low is None else f"[{found.faster.low:.2f}, {found.faster.high:.2f}]"
    return (
        name,
        f"{found.milliseconds:.1f}",
        f"{found.faster.value:.2f}×",
        ends,
        "" if found.size is None else f"{found.size:,.0f}",
        f"{found.largest:.1e}",
    )


def conditions(asked: argparse.Namespace, scorer: Scorer, queries: int) -> str:
    """What was measured, and where."""
    checkpoint, block = scorer.checkpoint, scorer.checkpoint.offline
    return (
        f"{checkpoint.name}: {block.layers} of {checkpoint.layers} layers offline, titles from "
        f"position {block.title_start}, at most {block.title_tokens} tokens; {queries} queries of "
        f"{asked.titles} titles each, {asked.pairs.name}; {processor()}, torch {torch.__version__}"
    )


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("pairs", type=Path)
    parser.add_argument("--columns")
    parser.add_argument("--model", type=Path, help="default: the graded checkpoint that ships")
    parser.add_argument("--offline-layers", type=positive, help="of a model that is not offline")
    parser.add_argument("--queries", type=positive, default=20)
    parser.add_argument("--titles", type=positive, default=100)
    parser.add_argument("--limit", type=positive, default=5000, help="pairs to draw from")
    parser.add_argument("--rounds", type=positive, default=3)
    parser.add_argument("--json", type=Path)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
