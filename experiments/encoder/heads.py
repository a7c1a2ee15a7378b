"""Matching, boundary and order heads of encoders before and after more pretraining.

    python -m experiments.encoder.heads ENCODER ENCODER… --tuned MODEL

By the probes' own scores of attention, on the queries that ship for test, in their quick sizes. `--tuned`
gives length, labels and tokenizer; every encoder must have its shape.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.heads import Head
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.base import Context, read_split
from qt_bert.probes.base_model import open_base, scorer_like
from qt_bert.probes.boundary import LabelledHalves, evaluate_heads, halves_of_pairs
from qt_bert.probes.matching_scores import scores_on
from qt_bert.probes.order import scores_of_half
from qt_bert.request import Request
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import GRADED, TEST, shipped
from qt_bert.stats.arrays import FloatArray

SHOWN = 5
"""Heads to list of each kind."""


def rows_of(
    encoder: Path, context: Context, halves: LabelledHalves
) -> list[tuple[str, int, list[Head], float]]:
    """Kind, number of named heads, the best by score on discovery, and the best one's score.

    Matching: excess attention to matched characters over replaced queries. Boundary: balanced accuracy on
    validation against jieba, calibrated on discovery. Order: the lift of one offset. Raises CheckpointError for
    an encoder of another shape.
    """
    scorer = scorer_like(context, open_base(encoder, context.model.checkpoint))
    matching = scores_on(context, "discovery", scorer)
    boundary = evaluate_heads(context, scorer, halves)
    named = boundary.calibrated.named.heads()
    order = scores_of_half(scorer, context, "discovery")
    best = boundary.measure("balanced", boundary.predicted[boundary.calibrated.best])
    matched, ordered = matching.named(), order.best(SHOWN)
    return [
        ("matching", len(matched), matched[:SHOWN], _first(matching.score, matched)),
        ("boundary", len(named), named[:SHOWN], best.value),
        ("order", len(order.named().heads()), ordered, _first(order.score, ordered)),
    ]


def _first(scores: FloatArray, heads: list[Head]) -> float:
    return float(scores[heads[0]]) if heads else float("nan")


def main(arguments: list[str] | None = None) -> None:
    """Print a Markdown table; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("encoders", type=Path, nargs="+", metavar="ENCODER")
    parser.add_argument("--tuned", type=Path, default=shipped(GRADED), metavar="MODEL")
    parser.add_argument("--pairs", type=Path, default=shipped(TEST), metavar="FILE")
    options = parser.parse_args(arguments)
    with one_line_faults():
        request = Request(pairs=options.pairs)
        context = Context(
            label="heads",
            request=request,
            work=Path(),
            open_model=lambda: Scorer(open_checkpoint(options.tuned)),
            read_pairs=partial(read_split, request),
            result_of=dict[str, ProbeResult]().__getitem__,
        )
        print(
            "| encoder | heads | named | best five | score of the best |\n|---|---|---:|---|---:|"
        )
        halves = halves_of_pairs(context)
        for encoder in options.encoders:
            for kind, named, best, score in rows_of(encoder, context, halves):
                row = (encoder.name, kind, named, " ".join(map(str, best)), f"{score:.3f}")
                print(f"| {' | '.join(map(str, row))} |")


if __name__ == "__main__":
    main()
