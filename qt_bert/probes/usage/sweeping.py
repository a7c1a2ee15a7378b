"""Every eraser and every control as a variant of one sweep, and what each does to the grades."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qt_bert.ablation.effects import Effects
from qt_bert.ablation.folder import SweepFolder
from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.sweep import run_sweep
from qt_bert.ablation.weights import AffineMap, Erasure
from qt_bert.data.pairs import Pair
from qt_bert.probes.base import Context
from qt_bert.probes.naming import Estimate, mean_over
from qt_bert.probes.split import reference
from qt_bert.probes.usage.erasers import Erasers
from qt_bert.probes.usage.reading import Encoded

SWEEP = "erased"
PERMUTED, RANDOM = "permuted", "random"
CONTROLS = (PERMUTED, RANDOM)


class Metrics(NamedTuple):
    """What is measured: how far outputs move, and what becomes of rank correlation and accuracy.

    A model of one logit has no KL: its outputs have moved as far as 1 − ρ to the untouched score, and
    that is its rank correlation too.
    """

    moved: str
    ranks: str
    right: str

    @classmethod
    def of(cls, logits: int) -> Metrics:
        """For a model of so many logits."""
        return cls("kl" if logits > 1 else "spearman", "spearman", _RIGHT[logits > 1])


_RIGHT = {True: "accuracy", False: "pairwise_accuracy"}


@dataclass(frozen=True, eq=False)
class Effect:
    """What one metric changes by at one place: by the eraser, and by the mean draw of each control.

    A control without a draw is not there.
    """

    erased: Estimate
    controls: Mapping[str, Estimate]

    def beyond(self, control: str) -> Estimate:
        """The eraser's change less that of a control."""
        return self.erased.less(self.controls[control])


@dataclass(frozen=True, eq=False)
class Changes:
    """All effects: (property, place, metric) → `Effect`; on so many pairs and queries."""

    effects: Mapping[tuple[str, int, str], Effect]
    metrics: Metrics
    plain: Mapping[str, float | None]
    n_pairs: int
    n_queries: int


def variants(encoded: Iterable[Encoded]) -> list[Variant]:
    """`erased:pos@r3`, `permuted:pos@r3#00`, `random:pos@r3#00`, of families of these names."""
    return [
        Variant(name, (Erasure(made.place, each),), family, None if family == SWEEP else draw)
        for one in encoded
        for made in one.erasers
        for family, maps in _named(one.name, made).items()
        for draw, (name, each) in enumerate(maps.items())
    ]


def sweep_erased(context: Context, pairs: list[Pair], encoded: Sequence[Encoded]) -> SweepFolder:
    """Run them all on `pairs`, checks first."""
    folder = run_sweep(
        context.model,
        pairs,
        variants(encoded),
        context.work / SWEEP,
        pairs_ref=reference(context.files.pairs, pairs),
        resamples=None,
        seed=context.seed,
        resume=True,
        label=f"{context.label}: {SWEEP}",
    )
    context.guards[SWEEP] = folder.record.guards
    return folder


def changes(context: Context, folder: SweepFolder, encoded: Sequence[Encoded]) -> Changes:
    """What the sweep's logits say, with resamples of the queries."""
    labels = context.model.checkpoint.settings.labels
    effects = Effects(
        folder.logits,
        folder.pairs,
        labels,
        resamples=context.resamples,
        draws=0,
        seed=context.seed,
    )
    metrics = Metrics.of(labels.logits)
    rows = {name: row for row, name in enumerate(folder.variants["name"])}
    found: dict[tuple[str, int, str], Effect] = {}
    with context.progress(len(rows), "variants") as shown:
        for one, made in [(each, made) for each in encoded for made in each.erasers]:
            named = _named(one.name, made)
            drawn = {
                family: _estimates(effects, metrics, [rows[name] for name in maps])
                for family, maps in named.items()
            }
            shown.advance(sum(map(len, named.values())))
            for metric in dict.fromkeys(metrics):
                found[one.name, made.place, metric] = _effect(drawn, metric, context.seed)
    plain = {metric: effects.base(metric) for metric in dict.fromkeys(metrics)}
    return Changes(found, metrics, plain, effects.n_pairs, effects.n_queries)


def _effect(drawn: Mapping[str, list[dict[str, Estimate]]], metric: str, seed: int) -> Effect:
    means = {}
    for control in CONTROLS:
        if draws := [one[metric] for one in drawn[control]]:
            stacked = np.stack([one.samples for one in draws])
            value = float(np.mean([one.value for one in draws]))
            means[control] = Estimate(value, mean_over(stacked, seed, control))
    return Effect(drawn[SWEEP][0][metric], means)


def _estimates(
    effects: Effects, metrics: Metrics, rows: Sequence[int]
) -> list[dict[str, Estimate]]:
    """Of each variant the change of each metric; of KL its own value, for its base is 0."""
    names = list(dict.fromkeys(metrics))
    found = []
    for row in rows:
        values = [effects.change(row, name) for name in names]
        samples = effects.resampled_by(row, names)
        found.append(
            {
                name: Estimate(float("nan") if value is None else value, sampled)
                for name, value, sampled in zip(names, values, samples, strict=True)
            }
        )
    return found


def _named(about: str, made: Erasers) -> dict[str, dict[str, AffineMap]]:
    """Family → the names of its variants, each with its map."""
    at = f"{about}@r{made.place}"
    return {
        SWEEP: {f"{SWEEP}:{at}": made.eraser},
        PERMUTED: {f"{PERMUTED}:{at}#{n:02d}": one for n, one in enumerate(made.permuted)},
        RANDOM: {f"{RANDOM}:{at}#{n:02d}": one for n, one in enumerate(made.random)},
    }
