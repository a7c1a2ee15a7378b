"""What is run: attention before and after fine-tuning, and sweeps over weights set back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.sweep import run_sweep
from qt_bert.ablation.weights import Earlier
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.naming import FunctionHeads, function_heads
from qt_bert.probes.revert.attention import Attention, attention_of
from qt_bert.probes.revert.changes import Changes
from qt_bert.probes.revert.earlier import earlier_of, guard
from qt_bert.probes.revert.variants import Reversions, reversions
from qt_bert.probes.split import reference
from qt_bert.probes.streams import for_model

QUICK_PAIRS, QUICK_HELD_OUT, QUICK_SEEN = 64, 48, 96
"""Pairs of a quick run: swept on validation, swept of each held-out file, and looked at."""
QUICK_DRAWS, FULL_DRAWS = 20, 99
VALIDATION = "validation"


@dataclass(frozen=True, eq=False)
class Study:
    """All that the result is made of.

    `asked` are the matching heads, None where no head could be scored. `changes` are those of
    validation; `held_out` those of other files, under the set, its controls and everything alone.
    """

    shape: Shape
    base: Checkpoint
    asked: FunctionHeads | None
    attention: Attention
    reversions: Reversions
    pairs: list[Pair]
    changes: Changes
    held_out: list[Changes]

    @property
    def heads(self) -> tuple[Head, ...]:
        """The heads asked about."""
        return () if self.asked is None else self.asked.heads


def study(context: Context) -> Study:
    """Run all of it. Raises ArgumentError without a base, CheckpointError for one that is none."""
    if context.base is None:
        raise ArgumentError("the model before fine-tuning is needed; give its folder with --base")
    scorer = context.model
    shape = scorer.checkpoint.shape
    base, earlier = earlier_of(context.base, scorer)
    asked = function_heads(context, "matching")
    heads = () if asked is None else asked.heads
    pairs = for_model(context.validation, QUICK_PAIRS, context)

    def wanted(source: Earlier, *, each: bool = context.full) -> Reversions:
        draws = context.choose(QUICK_DRAWS, FULL_DRAWS)
        return reversions(source, shape, heads, draws=draws, seed=context.seed, each=each)

    made = wanted(earlier)
    context.guards["revert"] = guard(
        scorer, context.base, earlier, lambda source: wanted(source).variants, pairs
    )
    return Study(
        shape,
        base,
        asked,
        _attention(earlier, context),
        made,
        pairs,
        _swept(VALIDATION, context.files.pairs, pairs, made.variants, context),
        _held_out(wanted(earlier, each=False).variants, context),
    )


def _attention(earlier: Earlier, context: Context) -> Attention:
    limit = context.choose(QUICK_SEEN, len(context.validation))
    pairs = spread_over_queries(context.validation, limit, context.seed)
    with context.progress(len(pairs), "pairs") as shown:
        return attention_of(earlier.base, context.model, pairs, context.segmenter, shown=shown)


def _held_out(variants: Sequence[Variant], context: Context) -> list[Changes]:
    files = zip(context.held_out_files, context.held_out, strict=True)
    return [
        _swept(
            name, file.path, for_model(pairs, QUICK_HELD_OUT, context), variants, context, number
        )
        for number, (file, (name, pairs)) in enumerate(files, 1)
    ]


def _swept(
    name: str,
    path: Path,
    pairs: list[Pair],
    variants: Sequence[Variant],
    context: Context,
    number: int = 0,
) -> Changes:
    """Run the variants on some pairs; the sweep lies in the probe's folder and resumes there."""
    folder = run_sweep(
        context.model,
        pairs,
        variants,
        context.work / (f"held_out_{number}" if number else VALIDATION),
        pairs_ref=reference(path, pairs),
        resamples=context.choose(None, context.resamples),  # its table of tests takes long
        seed=context.seed,
        resume=True,
        label=context.label,
        guards=context.guards["revert"],
    )
    labels = context.model.checkpoint.settings.labels
    return Changes(folder, labels, context.resamples, context.seed, name)
