"""Masked runs for a plan: losses pair by pair, and changes of metrics with paired intervals."""

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
from qt_bert.ablation.engine import batch_tokens, sweep
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
from qt_bert.stats.arrays import FloatArray
from qt_bert.stats.estimate import RESAMPLES

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels


@dataclass(frozen=True, eq=False)
class Losses:
    """The loss of every variant of a sweep on every pair.

    `names` [V] are the variants', `none` first; `values` [V, P]: 1 − Σ p over the pair's label (a
    logarithm would reward removals that only make the model less confident), or for a model of one logit
    the squared change of its score.
    """

    pairs: tuple[Pair, ...]
    names: tuple[str, ...]
    values: FloatArray

    def mean(self, name: str) -> float:
        """The mean loss under one variant. Raises ArgumentError for one that was not run."""
        if name not in self.names:
            raise ArgumentError(f"there is no variant {name} in this sweep")
        return float(self.values[self.names.index(name)].mean())

    def on(self, pairs: Sequence[Pair]) -> Losses:
        """The same on some of the pairs. Raises ArgumentError for a pair that was not measured."""
        rows = {_place(pair): row for row, pair in enumerate(self.pairs)}
        strange = next((pair for pair in pairs if _place(pair) not in rows), None)
        if strange is not None:
            raise ArgumentError(f"the pair of line {strange.line} is not among those measured")
        places = [rows[_place(pair)] for pair in pairs]
        return Losses(tuple(pairs), self.names, self.values[:, places])


def losses_of(
    logits: np.ndarray, names: Sequence[str], pairs: Sequence[Pair], labels: ModelLabels
) -> Losses:
    """The losses of logits [V, P, K], row 0 the whole model's.

    Raises ArgumentError for logits that are not finite, for labels that do not fit the model, and
    for pairs without labels, unless the model has one logit.
    """
    reader = OutputReader(pairs, labels)
    if labels.logits > 1 and not reader.labelled:
        raise ArgumentError("heads and layers are chosen by the labels, and the pairs have none")
    whole = reader.read(logits[0])
    values = np.empty(logits.shape[:2])
    for variant, row in enumerate(logits):
        outputs = reader.read(row)
        if outputs.log_label is None:
            values[variant] = np.square(outputs.score - whole.score)
        else:
            values[variant] = 1 - np.exp(outputs.log_label)
    return Losses(tuple(pairs), tuple(names), values)


def _place(pair: Pair) -> tuple[int, str, str, str]:
    return pair.line, pair.id, pair.query, pair.title


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
    *,
    work: Path | None,
    name: str,
    shown: Progress = silent,
) -> Losses:
    """The losses of the whole model and of `variants` on `pairs`; see `logits`."""
    values = logits(scorer, pairs, variants, work=work, name=name, shown=shown)
    names = [variant.name for variant in with_plain(variants)]
    return losses_of(values, names, pairs, scorer.checkpoint.settings.labels)


def logits(
    scorer: Scorer,
    pairs: Sequence[Pair],
    variants: Sequence[Variant],
    *,
    work: Path | None,
    name: str,
    shown: Progress = silent,
) -> np.ndarray:
    """Logits [1 + V, P, K] of the whole model and of `variants`; `shown` counts variants × pairs.

    With `work` they are kept in the sweep folder `work`/`name`: a finished one of the same model,
    pairs and variants is read, an unfinished one is resumed, any other is replaced. Raises
    ArgumentError for no pairs, two variants of one name, or a scorer that leaves heads out.
    """
    if not pairs:
        raise ArgumentError("no pairs to choose or measure on")
    if scorer.left_out:
        raise ArgumentError("a plan takes the whole model, not one that leaves heads out")
    if work is not None and variants:
        return _stored(scorer, pairs, variants, work / name, shown)
    return logits_of_texts(scorer, [(p.query, p.title) for p in pairs], variants, shown)


def logits_of_texts(
    scorer: Scorer,
    texts: Sequence[tuple[str, str]],
    variants: Sequence[Variant],
    shown: Progress = silent,
) -> np.ndarray:
    """The same for (query, title) texts, in memory."""
    listed = with_plain(variants)
    shape = len(listed), len(texts), scorer.checkpoint.settings.labels.logits
    out = np.empty(shape, np.float32)
    batches = scorer.fresh().batches(texts, batch_tokens(len(listed)))
    for swept in sweep(scorer.encoder, batches, listed, shown=shown):
        out[:, swept.rows] = swept.logits
    return out


def _stored(
    scorer: Scorer,
    pairs: Sequence[Pair],
    variants: Sequence[Variant],
    folder: Path,
    shown: Progress,
) -> np.ndarray:
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
    """Heads and whole blocks (layers, by number) that are left out together; the plain model if empty."""

    heads: tuple[Head, ...] = ()
    blocks: tuple[int, ...] = ()


Changes = dict[str, MetricChange]
"""By metric."""


def changes(
    scorer: Scorer,
    pairs: Sequence[Pair],
    removals: Sequence[Removal],
    *,
    metrics: Sequence[str],
    resamples: int = RESAMPLES,
    seed: int = 0,
    work: Path | None = None,
    name: str = "changes",
    shown: Progress = silent,
) -> list[Changes]:
    """The changes by each removal, in order, measured in one sweep over `pairs`.

    `metrics` are names of `Effects`; those undefined for these labels and this model are left out.
    `work` / `name` is the folder in which the sweep is stored and resumed; `shown` counts
    variants × pairs.

    Raises ArgumentError for no pairs, unknown metrics, and heads or layers that the model lacks.
    """
    variants = [
        Variant(f"removal {place}", parts_of(removal.heads, removal.blocks), "plan")
        for place, removal in enumerate(removals)
    ]
    cut = [variant for variant in variants if variant.parts]
    outputs = logits(scorer, pairs, cut, work=work, name=name, shown=shown)
    labels = scorer.checkpoint.settings.labels
    effects = Effects(outputs, pairs, labels, resamples=resamples, draws=0, seed=seed)
    rows = [1 + cut.index(variant) if variant.parts else 0 for variant in variants]
    return [changes_of(effects, row, metrics) for row in rows]


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
