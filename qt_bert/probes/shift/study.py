"""What is run: both models on the same pairs, and the choice of the matching heads on each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.base_model import open_base, open_second
from qt_bert.probes.controls import contest
from qt_bert.probes.matching_scores import (
    Scores,
    discovery_scores,
    every_query,
    score_heads,
    scored_sample,
    scores_by,
)
from qt_bert.probes.naming import Named, means, name_heads, one_sided_p
from qt_bert.probes.shift.case import Case, case_of
from qt_bert.probes.shift.compare import Comparison, compare
from qt_bert.probes.shift.set_back_study import SetBack, set_back_study
from qt_bert.probes.shift.starts import Starts, open_starts
from qt_bert.scoring.bulk import Scorer
from qt_bert.text import Text

MATCHING_HEADS = 5
QUICK_PAIRS = {"discovery": 60, "validation": 150}
QUICK_DRAWS, FULL_DRAWS = 99, 999
LEAST_CHANGE = 0.05
"""A head is named as strengthened only if its weight on matched terms rose by so much."""


@dataclass(frozen=True, eq=False)
class Choice:
    """The matching heads of one model, best first, by `scores`; none where no pair has a match.

    `held_out` are its scores on each file held out, by the file's name.
    """

    scores: Scores | None
    heads: list[Head]
    held_out: Mapping[Text, Scores] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Study:
    """Both splits under both models; heads are chosen on `discovery`, figures are `validation`'s.

    `on_base` are the matching heads before fine-tuning, `on_model` those after it; `strengthened`
    names the heads whose weight on matched terms rose; `controls` are draws of as many heads in
    the layers of `on_base`, outside it; `case` is there where there is a matching head to draw.
    `set_back` holds validation and every held-out file under layers set back to the base's weights.
    `second` is a model tuned from the same base with another seed, where one was given; `beside`
    compares it with the model on the pairs of `validation`. `starts` is the initialisation study,
    where its record was given.
    """

    shape: Shape
    base: Checkpoint
    discovery: Comparison
    validation: Comparison
    on_base: Choice
    on_model: Choice
    strengthened: Named
    controls: list[tuple[Head, ...]]
    case: Case | None
    set_back: list[SetBack]
    second: Checkpoint | None = None
    beside: Comparison | None = None
    starts: Starts | None = None


def study(context: Context) -> Study:
    """Run all of it. Raises ArgumentError without a base, CheckpointError for one that is none."""
    if context.base is None:
        raise ArgumentError("the model before fine-tuning is needed; give its folder with --base")
    checkpoint = context.model.checkpoint
    base = open_base(context.base, checkpoint)
    second = None if context.second is None else open_second(context.second, checkpoint)
    scorer = _scorer(base, context)
    on_base = _choice(lambda: scores_by(scorer, context), scorer, context)
    discovery = _compare(scorer, "discovery", context.discovery, context)
    shape = checkpoint.shape
    return Study(
        shape,
        base,
        discovery,
        _compare(scorer, "validation", context.validation, context),
        on_base,
        _choice(lambda: discovery_scores(context), context.model, context),
        strengthened(discovery),
        _controls(on_base.heads, shape, context),
        case_of(scorer.encoder, context.model, on_base.heads[0]) if on_base.heads else None,
        set_back_study(scorer.encoder, context),
        second,
        None if second is None else _beside(second, context),
        None
        if context.initialisations is None
        else _starts(context.initialisations, base, context),
    )


def _scorer(checkpoint: Checkpoint, context: Context) -> Scorer:
    return Scorer(checkpoint, max_length=context.model.tokenizer.max_length)


def _starts(folder: Path, base: Checkpoint, context: Context) -> Starts:
    return open_starts(folder, base, context.resamples, context.seed)


def _beside(second: Checkpoint, context: Context) -> Comparison:
    return _compare(_scorer(second, context), "validation", context.validation, context)


def strengthened(comparison: Comparison) -> Named:
    """Heads whose weight on matched terms rose: by how much, how surely, in texts they look at."""
    rise = comparison.change("matched")
    to_texts = 1 - comparison.weight("after", "sep") - comparison.weight("after", "cls")
    return name_heads(means(rise), one_sided_p(rise), means(to_texts), least=LEAST_CHANGE)


def _choice(score: Callable[[], Scores], scorer: Scorer, context: Context) -> Choice:
    """The best heads of a model, half of them at most."""
    try:
        scores = score()
    except ArgumentError:  # nothing to match in these pairs, so no head matches
        return Choice(None, [])
    best = scores.best(min(MATCHING_HEADS, scores.score.size // 2))
    return Choice(scores, best, _held_out(scorer, context))


def _held_out(scorer: Scorer, context: Context) -> dict[Text, Scores]:
    """A model's scores on as many pairs of each file held out; its queries, too, are replacements."""
    found = {}
    for name, pairs in context.held_out:
        queries = every_query(context) | {pair.query for pair in pairs}
        with context.progress(None, "texts") as shown:
            found[Text(name, name)] = score_heads(
                scorer,
                scored_sample(context, pairs),
                context.segmenter,
                queries,
                seed=context.seed,
                shown=shown,
            )
    return found


def _sample(split: str, pairs: Sequence[Pair], context: Context) -> list[Pair]:
    """All pairs of a split under `--full`, else QUICK_PAIRS of them, of many queries."""
    return spread_over_queries(pairs, context.choose(QUICK_PAIRS[split], len(pairs)), context.seed)


def _compare(base: Scorer, split: str, pairs: Sequence[Pair], context: Context) -> Comparison:
    chosen = _sample(split, pairs, context)
    with context.progress(len(chosen), "pairs") as shown:
        return compare(base.encoder, context.model, chosen, context.segmenter, shown=shown)


def _controls(heads: Sequence[Head], shape: Shape, context: Context) -> list[tuple[Head, ...]]:
    if not heads:
        return []
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
    drawn = contest("matching", heads, shape, matched=draws, free=0, seed=context.seed)
    return [variant.heads for variant in drawn.matched]
