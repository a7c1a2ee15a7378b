"""What the redundancy study runs: random shares, halves, layers, single heads, gradient importance."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache, cached_property

import numpy as np

from qt_bert.ablation.effects import EffectRow, Effects
from qt_bert.ablation.families import SHARES, MaskOf, halves, layers, random_shares, single
from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.importance import Importance, importance_on
from qt_bert.ablation.interventions import Intervention, MeanZ, Variant
from qt_bert.ablation.masks import MODES, HeadMask, Mode
from qt_bert.ablation.request import reference_means
from qt_bert.ablation.sweep import run_sweep
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.models.heads import Head, Shape
from qt_bert.probes.base import Context
from qt_bert.probes.split import reference
from qt_bert.probes.streams import for_model
from qt_bert.results.quantities import metric_name
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text

QUICK_PAIRS = {"discovery": 40, "validation": 72}
QUICK_DRAWS, FULL_DRAWS = 5, 20
CLAIMED_SHARES = (0.1, 0.2)
QUICK_SHARES = (0.1, 0.2, 0.4, 0.8, 1.0)


@dataclass(frozen=True, eq=False)
class Study:
    """Both sweeps and the importance of every head; the figures are those of `validation`."""

    shape: Shape
    validation: Sweep
    discovery: Sweep
    importance: Importance
    means: MeanZ


@dataclass(frozen=True, eq=False)
class Sweep:
    """One sweep folder with the effects of its variants."""

    folder: SweepFolder
    effects: Effects

    @cached_property
    def rows(self) -> dict[tuple[str, str], EffectRow]:
        """(variant, metric) → its row of `effects.csv`."""
        return {(row.name, row.metric): row for row in self.folder.effects}

    @cached_property
    def by_family(self) -> dict[str, list[int]]:
        """Family → the rows of its variants in `logits`."""
        found: dict[str, list[int]] = {}
        for row, family in enumerate(self.folder.variants["family"]):
            found.setdefault(family, []).append(row)
        return found

    @property
    def metric(self) -> str:
        """What claims are made of: accuracy, or for a one-logit model pairwise accuracy."""
        return self.effects.tested[0]

    @property
    def metric_name(self) -> Text:
        """The metric's name in both languages, for claims and figures."""
        return metric_name(self.metric)

    @property
    def n_queries(self) -> int:
        return self.effects.n_queries

    def change(self, names: Iterable[str]) -> FloatArray:
        """The metric's change under each of the variants `names`."""
        return np.array([self.rows[name, self.metric].absolute for name in names], np.float64)

    def name(self, row: int) -> str:
        return str(self.folder.variants["name"][row])

    def resampled(self, rows: Iterable[int]) -> FloatArray:
        """The metric's change in each resample of the queries [variants, R]."""
        return np.stack([self._resampled(row) for row in rows])

    @cached_property
    def _resampled(self) -> Callable[[int], FloatArray]:
        """Claims, figures and settings ask for the same variants."""
        return cache(lambda row: self.effects.resampled(row, self.metric))


def study(context: Context) -> Study:
    """Run what is not there yet; the sweeps lie in the probe's working folder and resume there."""
    scorer = context.model
    shape = scorer.checkpoint.shape
    discovery = for_model(context.discovery, QUICK_PAIRS["discovery"], context)
    validation = for_model(context.validation, QUICK_PAIRS["validation"], context)
    _check_metric(validation, context)
    means = reference_means(scorer, context.reference_pairs)
    zero = _mask("zero", means)
    done = _sweep(context, "validation", validation, _variants(shape, means, context))
    chosen_on = _sweep(context, "discovery", discovery, single(shape, zero))
    with context.progress(len(validation), "pairs") as shown:
        importance = importance_on(scorer, validation, shown)
    return Study(shape, done, chosen_on, importance, means)


def _check_metric(pairs: list[Pair], context: Context) -> None:
    """Refuse, before anything is swept, pairs on which the metric of the claims is not defined."""
    labels = context.model.checkpoint.settings.labels
    zeros = np.zeros((1, len(pairs), labels.logits), np.float32)
    effects = Effects(zeros, pairs, labels, resamples=0, draws=0)
    if effects.base(effects.tested[0]) is None:
        raise ArgumentError(
            f"{context.files.pairs}: {effects.tested[0]} is not defined on these {len(pairs)} pairs "
            "(no query has titles of two different labels); give a file where it is"
        )


def _variants(shape: Shape, means: MeanZ, context: Context) -> list[Variant]:
    """Everything in mode zero; in the other modes whole layers, and the rest under --full."""
    seed, shares = context.seed, context.choose(QUICK_SHARES, SHARES)
    zero, draws = _mask("zero", means), context.choose(QUICK_DRAWS, FULL_DRAWS)
    variants = single(shape, zero) + layers(shape, zero)
    if shape.layers > 1:
        variants += halves(shape, zero, draws, seed)
    variants += random_shares(shape, zero, FULL_DRAWS, seed, CLAIMED_SHARES)
    rest = [share for share in shares if share not in CLAIMED_SHARES]
    variants += random_shares(shape, zero, draws, seed, rest)
    for mode in MODES[1:]:
        mask = _mask(mode, means)
        others = layers(shape, mask)
        if context.full:
            others += single(shape, mask) + random_shares(shape, mask, draws, seed, shares)
            others += halves(shape, mask, draws, seed) if shape.layers > 1 else []
        variants += [in_mode(variant, mode) for variant in others]
    return variants


def in_mode(variant: Variant, mode: str) -> Variant:
    """The variant under a name that tells it from that of mode `zero`."""
    return replace(variant, name=named(variant.name, mode), family=named(variant.family, mode))


def named(name: str, mode: str) -> str:
    """`uniform:L3`; of mode `zero` the bare name."""
    return name if mode == "zero" else f"{mode}:{name}"


def _mask(mode: Mode, means: MeanZ) -> MaskOf:
    def mask(heads: Iterable[Head]) -> Intervention:
        return HeadMask(tuple(heads), mode, means if mode == "mean" else None)

    return mask


def _sweep(context: Context, name: str, pairs: list[Pair], variants: list[Variant]) -> Sweep:
    scorer, files = context.model, context.files
    path = files.discovery or files.pairs if name == "discovery" else files.pairs
    folder = run_sweep(
        scorer,
        pairs,
        variants,
        context.work / name,
        pairs_ref=reference(path, pairs),
        resamples=context.resamples,
        seed=context.seed,
        resume=True,
        label=f"{context.label}: {name}",
    )
    context.guards[name] = folder.record.guards
    labels = scorer.checkpoint.settings.labels
    effects = Effects(folder.logits, pairs, labels, resamples=context.resamples, seed=context.seed)
    return Sweep(folder, effects)
