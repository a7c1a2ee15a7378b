"""From what a user asks for to the pairs, parts and variants of a sweep."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path

from qt_bert.ablation.families import DRAWS, FAMILIES, named_set
from qt_bert.ablation.loop import batch_tokens
from qt_bert.ablation.masks import PARTS, MeanContexts
from qt_bert.ablation.means import mean_contexts
from qt_bert.ablation.variant import Part, Variant
from qt_bert.ablation.variant_table import read_variants
from qt_bert.encoder import ModelLabels
from qt_bert.encoder.heads import Head, Shape
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair, ReaderOptions
from qt_bert.pairs.splits import half_of
from qt_bert.progress import progress
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.columns import has_grade_column
from qt_bert.scoring.judge import graded_pairs

PartOf = Callable[[str, Iterable[Head]], Part]
"""A mode and heads to the part of a variant."""


def load_pairs_for_sweep(
    path: Path, options: ReaderOptions, labels: ModelLabels, *, rejects_path: Path | None = None
) -> tuple[list[Pair], int]:
    """The pairs of `path` with labels this model can be judged by, and how many rows are rejects.

    A file with labels is read as `evaluate` reads it, and a row without one is a reject. A file
    with no grade column (in JSON Lines: with no grade in any row) gives pairs without labels.
    Raises PairFileError.
    """
    if options.grades is None and not has_grade_column(path, options):
        reader = options.open(path, rejects_path=rejects_path)
        pairs = list(reader)
        if all(pair.label is None for pair in pairs):
            return pairs, reader.rejected
    return graded_pairs(path, options, labels, rejects_path=rejects_path)


def discovery_pairs(path: Path, options: ReaderOptions) -> list[Pair]:
    """The pairs of a file whose queries belong to the discovery half, with or without labels.

    Raises ArgumentError where there is none.
    """
    pairs = [pair for pair in options.open(path) if half_of(pair.query) == "discovery"]
    if not pairs:
        raise ArgumentError(
            f"{path}: no query belongs to the discovery half, which mean contexts are taken from; "
            "give pairs for them with --reference FILE"
        )
    return pairs


def reference_means(scorer: Scorer, pairs: Sequence[Pair]) -> MeanContexts:
    """The mean contexts of all heads over `pairs`."""
    texts = [(pair.query, pair.title) for pair in pairs]
    batches = scorer.fresh().batches(texts, batch_tokens())
    with progress(len(pairs), "mean contexts", "pairs") as shown:
        return mean_contexts(scorer.encoder, batches, shown)


def parts_with(means: Callable[[], MeanContexts]) -> PartOf:
    """How each mode leaves heads out; `means` is called where the mode is `mean`, once.

    `block` cuts query and title from each other. What it gives raises ArgumentError for another mode.
    """
    once = cache(means)

    def part_of(mode: str, heads: Iterable[Head]) -> Part:
        if mode not in PARTS:
            raise ArgumentError(f"mode {mode!r}: choose from {', '.join(PARTS)}")
        return PARTS[mode](tuple(heads), once)

    return part_of


def variants_asked(
    asked: Sequence[str],
    shape: Shape,
    mode: str,
    part_of: PartOf,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Variant]:
    """The variants that `--masks` names: a family, a file in the form of `variants.csv`, or heads.

    `mode` says how heads are left out, but for a file, whose rows say so themselves. Raises
    ArgumentError for anything else.
    """

    def mask(heads: Iterable[Head]) -> Part:
        return part_of(mode, heads)

    variants: list[Variant] = []
    for text in asked:
        if text in FAMILIES:
            variants += FAMILIES[text](shape, mask, draws, seed)
        elif os.path.isfile(text) or text.endswith(".csv"):
            variants += read_variants(text, shape, part_of)
        else:
            variants += _heads(text, shape, mask)
    return variants


def _heads(text: str, shape: Shape, mask: Callable[[Iterable[Head]], Part]) -> list[Variant]:
    try:
        return named_set(shape, mask, text)
    except ArgumentError as error:
        raise ArgumentError(
            f"--masks {text!r}: {error} (or {', '.join(FAMILIES)}, or a file of variants)"
        ) from error
