"""Masked runs for a plan: mean losses, and changes of metrics with paired intervals."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.effects import Effects, OutputReader
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import Intervention, Variant, with_plain
from qt_bert.ablation.masks import BlocksOut, blocks, zeroed
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.heads import Head
from qt_bert.progress import Progress, silent
from qt_bert.results.plan import MetricChange
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.estimate import RESAMPLES

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels


def losses_of(
    logits: np.ndarray, names: Sequence[str], pairs: Sequence[Pair], labels: ModelLabels
) -> dict[str, float]:
    """The mean loss of every variant, by its name in `names` [V], of logits [V, P, K], row 0 the whole model's.

    A pair's loss is 1 − Σ p over its label (a logarithm would reward removals that only make the model
    less confident), or for a model of one logit the squared change of its score. Raises ArgumentError for
    logits that are not finite, for labels that do not fit the model, and for pairs without labels, unless
    the model has one logit.
    """
    reader = OutputReader(pairs, labels)
    if labels.logits > 1 and not reader.labelled:
        raise ArgumentError("heads and layers are chosen by the labels, and the pairs have none")
    whole = reader.read(logits[0])
    means = {}
    for name, row in zip(names, logits, strict=True):
        outputs = reader.read(row)
        if outputs.log_label is None:
            of_pairs = np.square(outputs.score - whole.score)
        else:
            of_pairs = 1 - np.exp(outputs.log_label)
        means[name] = float(of_pairs.mean())
    return means


def check_removals(scorer: Scorer, pairs: Sequence[Pair]) -> Mapping[str, Any]:
    """Run the equivalence check of a plan, once, on removed heads and blocks; returns the figures of the
    checks. Raises EquivalenceError."""
    shape = scorer.checkpoint.shape
    variants = single(shape, zeroed) + (blocks(shape) if shape.layers > 1 else [])
    encoded = scorer.tokenizer.encode([(p.query, p.title) for p in pairs], offsets=False)
    return check_equivalence(scorer.checkpoint, scorer.encoder, variants, encoded)


def parts_of(heads: Sequence[Head], layers: Sequence[int]) -> tuple[Intervention, ...]:
    """The parts of a variant that leaves out `heads` and whole `layers`."""
    others = [head for head in heads if head.layer not in layers]
    return (*([zeroed(others)] if others else []), *([BlocksOut(tuple(layers))] if layers else []))


def losses(
    scorer: Scorer,
    pairs: Sequence[Pair],
    variants: Sequence[Variant],
    folder: Path,
    shown: Progress = silent,
) -> dict[str, float]:
    """The mean losses of the whole model and of `variants` on `pairs`, by name; see `logits`."""
    values = logits(scorer, pairs, variants, folder, shown)
    names = [variant.name for variant in with_plain(variants)]
    return losses_of(values, names, pairs, scorer.settings.labels)


def logits(
    scorer: Scorer,
    pairs: Sequence[Pair],
    variants: Sequence[Variant],
    folder: Path,
    shown: Progress = silent,
) -> np.ndarray:
    """Logits [1 + V, P, K] of the whole model and of `variants`; `shown` counts variants × pairs.

    They are kept in the sweep folder `folder`: a finished one of the same model, pairs and variants is
    read, an unfinished one is resumed, any other is replaced. Raises ArgumentError for no pairs, two
    variants of one name, or a scorer that leaves heads out.
    """
    if not pairs:
        raise ArgumentError("no pairs to choose or measure on")
    if scorer.left_out:
        raise ArgumentError("a plan takes the whole model, not one that leaves heads out")
    texts = "\n".join(f"{p.id}\t{p.query}\t{p.title}\t{p.label}" for p in pairs)
    reference = PairsRef.of(folder.name, hashlib.sha256(texts.encode()).hexdigest(), pairs)
    run = partial(
        run_sweep,
        scorer,
        pairs,
        variants,
        folder,
        pairs_ref=reference,
        resamples=None,
        guards={},
        shown=shown,
    )
    try:
        return run(resume=True).logits
    except RunFolderError:  # of other inputs, or damaged
        return run(overwrite=True).logits


@dataclass(frozen=True)
class Removal:
    """Heads and whole blocks (layers, by number) that are left out together."""

    heads: tuple[Head, ...] = ()
    blocks: tuple[int, ...] = ()


Changes = dict[str, MetricChange]
"""By metric."""


def changes(
    scorer: Scorer,
    pairs: Sequence[Pair],
    removals: Sequence[Removal],
    folder: Path,
    *,
    metrics: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
    shown: Progress = silent,
) -> list[Changes]:
    """The changes by each removal, in order, measured in one sweep over `pairs`.

    `metrics` are names of `Effects`; those undefined for these labels and this model are left out.
    `folder` and `shown` as in `logits`.

    Raises ArgumentError for no pairs, heads or layers that the model lacks, and an empty removal.
    """
    variants = [
        Variant(f"removal {place}", parts_of(removal.heads, removal.blocks), "plan")
        for place, removal in enumerate(removals)
    ]
    outputs = logits(scorer, pairs, variants, folder, shown)
    labels = scorer.settings.labels
    effects = Effects(outputs, pairs, labels, resamples=resamples, draws=0, seed=seed)
    return [changes_of(effects, row, metrics) for row in range(1, 1 + len(variants))]


def changes_of(effects: Effects, row: int, metrics: Sequence[str]) -> Changes:
    """The changes in one row of the effects, of the metrics that are defined there and for row 0."""
    metrics = [name for name in metrics if effects.change(row, name) is not None]
    samples = effects.resampled_by(row, metrics) if metrics else ()
    result: Changes = {}
    for metric, drawn in zip(metrics, samples, strict=True):
        base, value = effects.base(metric), effects.value(row, metric)
        assert base is not None and value is not None
        low, high = effects.interval(drawn) or (None, None)
        result[metric] = MetricChange(
            base=base, value=value, change=value - base, ci_low=low, ci_high=high
        )
    return result
