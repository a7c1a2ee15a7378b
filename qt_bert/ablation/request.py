"""From options to a sweep of a file of pairs, and to a scorer that leaves heads out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch

from qt_bert.ablation.checks import BATCH_TOKENS, TOLERANCE, check_equivalence
from qt_bert.ablation.engine import Reduction, View, batch_tokens, masked_forward, sweep
from qt_bert.ablation.families import DRAWS, FAMILIES, named_set
from qt_bert.ablation.folder import SweepFolder, means_of, read_variants
from qt_bert.ablation.interventions import NONE, Intervention, MeanZ, Variant
from qt_bert.ablation.masks import INTERVENTIONS, Reference
from qt_bert.ablation.resample import DONORS, Donors
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import halves_of, sample_queries, spread_over_queries
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.files import sha256_file
from qt_bert.heads import Head, Shape, format_heads, parse_heads
from qt_bert.models.batches import Batch, batches_of, to_batch
from qt_bert.models.card import ModelLabels
from qt_bert.models.forward import Encoder
from qt_bert.models.plain import PlainEncoder
from qt_bert.progress import Progress, progress, silent
from qt_bert.request import SweepOptions, discovery_of, pairs_or_test
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import LeftOut, Scorer
from qt_bert.scoring.judge import graded_pairs
from qt_bert.scoring.tables import has_grade_column
from qt_bert.stats.arrays import FloatArray


def mean_z(encoder: Encoder, batches: Iterable[Batch], shown: Progress = silent) -> MeanZ:
    """Each head's unmasked output, averaged over all real tokens, special ones included.

    `shown` counts pairs. Raises ArgumentError for no pairs.
    """

    def summed(view: View) -> torch.Tensor:
        """Sums over a pair's real tokens [B, heads, width]."""
        real = view.batch.real[:, None, :, None]
        return view.values.float().masked_fill(~real, 0).sum(2)

    sums = Reduction("sums", "z", tuple(range(len(encoder.layers))), summed)
    total: FloatArray = np.zeros(())
    tokens = 0
    for batch in batches:
        for swept in sweep(encoder, [batch], [NONE], [sums], shown=shown):
            total = total + swept.reduced["sums"][0].sum(0, dtype=np.float64)
            tokens += int(batch.real.sum())
    if not tokens:
        raise ArgumentError("mean head outputs need at least one pair; the reference set has none")
    return means_of(torch.from_numpy((total / tokens).astype(np.float32)))  # on the CPU, to store


InterventionOf = Callable[[str, Iterable[Head]], Intervention]
"""A mode and heads → an intervention."""


def load_pairs_for_sweep(
    path: Path, options: ReaderOptions, labels: ModelLabels, *, rejects_path: Path | None = None
) -> tuple[list[Pair], int]:
    """The pairs of `path` with labels that fit the model, and the number of rejects.

    A file with labels is read as by `evaluate`: a row without one is a reject. A file with no grade
    column (in JSON Lines: with no grade in any row) gives pairs without labels. Raises PairFileError.
    """
    if options.grades is None and not has_grade_column(path, options):
        reader = options.open(path, rejects_path=rejects_path)
        pairs = list(reader)
        if all(pair.label is None for pair in pairs):
            return pairs, reader.rejected
    return graded_pairs(path, options, labels, rejects_path=rejects_path)


def discovery_pairs(path: Path, options: ReaderOptions) -> list[Pair]:
    """The pairs of a file's discovery half, with or without labels. Raises ArgumentError for none."""
    everything = list(options.open(path))
    halves = halves_of(pair.query for pair in everything)
    pairs = [pair for pair, half in zip(everything, halves, strict=True) if half == "discovery"]
    if not pairs:
        raise ArgumentError(
            f"{path}: no query belongs to the discovery half, which mean head outputs are taken from; "
            "give pairs for them with --reference FILE"
        )
    return pairs


def reference_means(scorer: Scorer, pairs: Sequence[Pair]) -> MeanZ:
    """The mean head outputs of all heads over `pairs`."""
    batches = scorer.fresh().batches([(pair.query, pair.title) for pair in pairs], batch_tokens())
    with progress(len(pairs), "mean head outputs", "pairs") as shown:
        return mean_z(scorer.encoder, batches, shown)


def reference_donors(scorer: Scorer, pairs: Sequence[Pair]) -> Donors:
    """The head outputs of DONORS of the pairs, of as many queries as possible, for `resample`."""
    texts = [(pair.query, pair.title) for pair in spread_over_queries(pairs, DONORS)]
    encoded = scorer.tokenizer.encode(texts, offsets=False)
    batch = to_batch(np.arange(len(encoded)), encoded, pad=scorer.pad)
    layers = tuple(range(len(scorer.encoder.layers)))

    def compute(view: View) -> torch.Tensor:
        """[B, heads, L, width], the last token's past the end."""
        last = view.batch.real.sum(1) - 1
        places = torch.minimum(torch.arange(view.batch.length, device=last.device), last[:, None])
        z = view.values.float()
        return z.gather(2, places[:, None, :, None].expand(-1, z.shape[1], -1, z.shape[3]))

    (swept,) = sweep(scorer.encoder, [batch], [NONE], [Reduction("z", "z", layers, compute)])
    z = np.empty_like(swept.reduced["z"][0], dtype=np.float32)
    z[swept.rows] = swept.reduced["z"][0]
    ids = tuple(tuple(pair.input_ids) for pair in encoded)
    return Donors.of(torch.from_numpy(z), ids)  # on the CPU


def reference_of(scorer: Scorer, pairs: Callable[[], Sequence[Pair]]) -> Reference:
    """What interventions take from the pairs that `pairs` gives."""
    return Reference(
        means=lambda: reference_means(scorer, pairs()),
        donors=lambda: reference_donors(scorer, pairs()),
    )


def interventions_with(reference: Reference) -> InterventionOf:
    """A function that makes the intervention of a mode; it raises ArgumentError for an unknown mode.

    Each part of `reference` is called once, and only for a mode that takes it.
    """
    once = Reference(cache(reference.means), cache(reference.donors))

    def part_of(mode: str, heads: Iterable[Head]) -> Intervention:
        if mode not in INTERVENTIONS:
            raise ArgumentError(f"mode {mode!r}: choose from {', '.join(INTERVENTIONS)}")
        return INTERVENTIONS[mode](tuple(heads), once)

    return part_of


def requested_variants(
    masks: Sequence[str],
    shape: Shape,
    mode: str,
    part_of: InterventionOf,
    *,
    draws: int = DRAWS,
    seed: int = 0,
) -> list[Variant]:
    """The variants of `--masks`: each a family, a file in the format of `variants.csv`, or heads.

    `mode` holds for all but files, which have a column for it. Raises ArgumentError for anything else.
    """

    def mask(heads: Iterable[Head]) -> Intervention:
        return part_of(mode, heads)

    variants: list[Variant] = []
    for text in masks:
        if text in FAMILIES:
            variants += FAMILIES[text](shape, mask, draws, seed)
        elif os.path.isfile(text) or text.endswith(".csv"):
            variants += read_variants(text, shape, part_of)
        else:
            try:
                variants += named_set(shape, mask, text)
            except ArgumentError as error:
                raise ArgumentError(
                    f"--masks {text!r}: {error} (or {', '.join(FAMILIES)}, or a file of variants)"
                ) from error
    return variants


def sweep_pairs(
    scorer: Scorer,
    options: SweepOptions,
    out: Path,
    *,
    rejects: Path | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> tuple[SweepFolder, int]:
    """A sweep of a file of pairs into the folder `out`, and the number of rejects.

    Mean and resampled head outputs are those of the reference pairs, else of the discovery pairs that belong
    to the file.
    Raises ArgumentError for a reference that no variant uses, and as `requested_variants` and `run_sweep`.
    """
    path, reader = pairs_or_test(options.pairs), options.reader
    labels = scorer.checkpoint.settings.labels
    read, rejected = load_pairs_for_sweep(path, reader, labels, rejects_path=rejects)
    pairs = read if options.limit is None else sample_queries(read, options.limit, options.seed)
    reference = dict[str, str]()

    @cache
    def reference_pairs() -> list[Pair]:
        discovery = options.reference or discovery_of(path)
        reference.update(name=(discovery or path).name, sha256=sha256_file(discovery or path))
        if discovery is None:
            reference["half"] = "discovery"
            return discovery_pairs(path, reader)
        columns = reader if options.reference is not None else ReaderOptions()
        return list(columns.open(discovery))

    masks = options.masks or ["single"]
    variants = requested_variants(
        masks,
        scorer.checkpoint.shape,
        options.mode,
        interventions_with(reference_of(scorer, reference_pairs)),
        draws=options.draws,
        seed=options.seed,
    )
    if options.reference is not None and not reference:
        raise ArgumentError("--reference goes with --mode mean or resample, which no variant has")
    arguments: dict[str, Any] = {"masks": masks, "mode": options.mode}
    arguments |= {"reference": reference or None, "draws": options.draws, "limit": options.limit}
    folder = run_sweep(
        scorer,
        pairs,
        variants,
        out,
        pairs_ref=PairsRef(name=path.name, sha256=sha256_file(path)),
        arguments=arguments | {"reader": asdict(reader)},
        resamples=options.resamples,
        seed=options.seed,
        resume=resume,
        overwrite=overwrite,
    )
    return folder, rejected


# A scorer that leaves heads out: `--heads-out` of score, evaluate, compare and explain.


def leave_heads_out(scorer: Scorer, heads: str, mode: str, reference: Sequence[Pair]) -> Scorer:
    """`scorer` with `heads` ('L2H1 L3H7') ablated by `mode`, after the equivalence checks.

    Checks, and under `mean` and `resample` the other head outputs, use the `reference` pairs. Raises ArgumentError for
    invalid heads or an unknown mode, EquivalenceError where a check fails.
    """
    checkpoint = scorer.checkpoint
    parsed = parse_heads(heads, checkpoint.shape)
    if not checkpoint.family.fast:
        texts = [(pair.query, pair.title) for pair in reference[:1]]
        return without_plainly(scorer, parsed, mode, texts)
    part = interventions_with(reference_of(scorer, lambda: reference))(mode, parsed)
    encoded = scorer.tokenizer.encode([(p.query, p.title) for p in reference], offsets=False)
    guards = check_equivalence(checkpoint, scorer.encoder, [Variant("heads out", (part,))], encoded)
    return without_intervention(scorer, part, guards)


def without_plainly(
    scorer: Scorer, heads: Sequence[Head], mode: str, texts: Sequence[tuple[str, str]]
) -> Scorer:
    """The same for a model that runs in transformers: heads output zeros, by a hook.

    Leaving out all heads of each layer must move the logits of `texts`.
    """
    if mode != "zero":
        raise ArgumentError(f"--mode {mode} needs the fast engine; this model has zero alone")
    encoder = scorer.encoder
    assert isinstance(encoder, PlainEncoder)
    encoded = scorer.tokenizer.encode(texts, offsets=False)
    batch = next(batches_of(encoded, BATCH_TOKENS, pad=scorer.pad))
    with torch.inference_mode():
        plain = encoder.logits_of(batch)
        moved = {}
        for layer in sorted({head.layer for head in heads}):
            off = [Head(layer, head) for head in range(scorer.checkpoint.heads)]
            moved[f"L{layer}"] = float((encoder.without(off)(batch) - plain).abs().max())
    still = [name for name, far in moved.items() if not far > TOLERANCE]
    if still:
        raise EquivalenceError(
            f"leaving out all heads of {still[0]} moves no logit: the hook takes no effect on a "
            f"{scorer.checkpoint.family.model_type}; score it without --heads-out"
        )
    forward = encoder.without(heads)
    return scorer.without(LeftOut(format_heads(heads), mode, forward, guards={"layers_off": moved}))


def without_intervention(scorer: Scorer, part: Intervention, guards: Mapping[str, Any]) -> Scorer:
    """`scorer` with the intervention `part`, whose equivalence checks gave the figures `guards`."""
    return scorer.without(
        LeftOut(
            heads=format_heads(part.heads),
            mode=part.kind,
            forward=masked_forward(scorer.encoder, part),
            intervention=part,
            means=None if part.means is None else part.means.sha256,
            guards=guards,
        )
    )
