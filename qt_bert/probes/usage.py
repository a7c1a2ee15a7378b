"""Does the model use what its vectors encode? (`primer_in_bertology`; Elazar et al. 2021, "Amnesic probing")

A property that linear probes read (`layers_reading`) is erased from the vectors rn, and the model runs on
from there. LEACE (Belrose et al. 2023) is the least change after which no linear probe finds the property.
The change of the grades is compared with two controls: LEACE of permuted labels, and random subspaces of
the same rank and variance. The grade itself is erased for comparison.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from concept_erasure import LeaceFitter
from scipy.special import rel_entr, softmax
from scipy.stats import rankdata

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.weights import AffineMap, Erasure
from qt_bert.figures import Figure, head_map
from qt_bert.probes.base import Context, Result
from qt_bert.probes.contests import Ablated, ablate
from qt_bert.probes.layers import LEAST_TEXTS, counts, tasks
from qt_bert.probes.layers_reading import (
    GRADE,
    MATCHED,
    POS,
    PROPERTIES,
    Column,
    Decoded,
    Examples,
    Moments,
    Positions,
    Task,
    VectorReader,
    Vectors,
    decode,
    empty_moments,
    in_words,
    passes,
    read_vectors,
)
from qt_bert.probes.streams import few_a_query, for_model
from qt_bert.progress import Progress
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, from_leave_one_out, jackknife, mean_of, over_queries
from qt_bert.stats.judgements import index_queries, known, set_means
from qt_bert.text import Text, signed

QUICK_PROPERTIES = (POS, MATCHED, GRADE)
"""One of syntax, one of meaning, and the grade, all read in the same texts."""
QUICK_PAIRS = 64
QUICK_STEP = 3
"""A quick run takes every third layer, including the last."""
QUICK_DRAWS = {"probe": 2, "eraser": 5}
FULL_DRAWS = {"probe": 5, "eraser": 5}
"""Draws of each control of the probe and of the eraser: five of the eraser at 13 depths are 1,157 runs a pair."""
CONTROLS = ("permuted", "random")
LEAST_SINGULAR = 1e-6
"""Directions of the whitened vectors that covary less with the labels are kept."""
WITHIN, CLOSE = 0.1, 0.02
"""Relative difference of variance up to which a subspace is matched; where bisection stops."""
STEPS, STEEPEST, FRAMES = 60, 8.0, 5
"""Steps of the bisection, the largest tilt, and the frames tried for one subspace."""
FLAT = 1e-12
"""Directions with a smaller share of the largest variance are left out."""


# Erasers: LEACE from running sums, in float64.


def leace(sums: Moments, layer: int, block: slice) -> AffineMap:
    """The map that erases the targets of `block` from the vectors of one layer.

    The covariance is shrunk as in `concept-erasure`, so that directions of little variance are not
    amplified. Rank 0 where nothing covaries.
    """
    mean_x, mean_y = sums.x[layer] / sums.n, sums.y[block] / sums.n
    size, targets = sums.xy[layer][:, block].shape
    fitter = LeaceFitter(
        size,
        targets,
        dtype=torch.float64,
        svd_tol=LEAST_SINGULAR,
        # With one covariance for both sides the trace cannot grow; the check divides by zero where
        # there is nothing to erase.
        constrain_cov_trace=False,
    )
    fitter.n = torch.tensor(sums.n)
    fitter.mean_x = torch.from_numpy(mean_x + sums.shift[layer].double().numpy())
    fitter.mean_z = torch.from_numpy(mean_y)
    fitter.sigma_xx_ = torch.from_numpy(covariance(sums, layer) * sums.n)
    fitter.sigma_xz_ = torch.from_numpy(
        sums.xy[layer][:, block] - sums.n * np.outer(mean_x, mean_y)
    )
    eraser = fitter.eraser
    kept = eraser.proj_left.abs().amax(0) > 0
    return AffineMap(eraser.proj_left[:, kept], eraser.proj_right[kept], fitter.mean_x)


def covariance(sums: Moments, layer: int) -> FloatArray:
    """The covariance of one layer's vectors [width, width]."""
    mean = sums.x[layer] / sums.n
    matrix = sums.xx[layer] / sums.n - np.outer(mean, mean)
    return np.asarray((matrix + matrix.T) / 2)


def removed_variance(eraser: AffineMap, spread: FloatArray) -> float:
    """The mean of |x − map(x)|² over vectors of covariance `spread` [size, size]."""
    left, right = eraser.left.numpy(), eraser.right.numpy()
    return float(np.einsum("ij,ij->", left.T @ left, right @ spread @ right.T))


# Controls: permuted labels, and random subspaces.


def permuted(task: Task, draws: int, seed: int) -> list[Column]:
    """The labels of `task` permuted: characters and words within their text, texts among all texts."""
    rng = np.random.default_rng([seed, 8])

    def order(examples: Examples) -> IntArray:
        positions = examples.positions
        if examples.kinds is None:  # a whole text
            return rng.permutation(len(positions))
        # Positions are in the order of their texts; a shuffle within each text keeps that order.
        return np.lexsort((rng.random(len(positions)), positions.text))

    return [
        Column(task, draw, *(half.labels[order(half)] for half in (task.fit, task.check)))
        for draw in range(draws)
    ]


def matched_subspaces(
    spread: FloatArray, like: AffineMap, draws: int, rng: np.random.Generator
) -> list[AffineMap]:
    """Projections that remove random subspaces of the rank of `like` and of as much variance.

    A few principal directions hold most variance, so a Gaussian frame is tilted: in their basis its rows
    are multiplied by λ to the power t. The subspace's variance grows with t, and bisection finds t. A
    draw that no tilt brings within 10 % of the variance is left out.
    """
    removed, values = removed_variance(like, spread), np.linalg.eigh(spread)
    kept = values.eigenvalues > FLAT * max(float(values.eigenvalues[-1]), 0.0)
    variances, axes = values.eigenvalues[kept], values.eigenvectors[:, kept]
    if not 0 < like.rank < len(variances) or not removed > 0:
        return []
    logs = np.log(variances)

    def tilted(frame: FloatArray) -> tuple[FloatArray, float]:
        """A basis of the tilted frame [m, rank], and its variance relative to that of `like`."""
        low, high = -STEEPEST, STEEPEST
        for _ in range(STEPS):
            powers = (low + high) / 2 * logs
            basis = np.linalg.qr(np.exp(powers - powers.max())[:, None] * frame)[0]
            share = float(variances @ np.square(basis).sum(axis=1)) / removed
            if abs(share - 1) <= CLOSE:
                break
            low, high = ((low + high) / 2, high) if share < 1 else (low, (low + high) / 2)
        return basis, share

    maps = []
    for _ in range(draws):
        for _ in range(FRAMES):
            basis, share = tilted(rng.standard_normal((len(variances), like.rank)))
            if abs(share - 1) <= WITHIN:
                across = torch.from_numpy(axes @ basis)
                maps.append(AffineMap(across, across.T.contiguous(), like.centre))
                break
    return maps


# Every property at every rn: how well it is read, its eraser, and the controls of both.


Erased = Mapping[tuple[str, int], Mapping[str, Sequence[Variant]]]
"""Variants by property, n of rn, and family: `erased:pos@r3`, and for CONTROLS
`permuted:pos@r3#00`, `random:pos@r3#00`."""


def on_dependents(task: Task) -> Task:
    """A task of arcs reduced to the dependent word's mean; any other task unchanged.

    An arc is read from both words and their product, which no map of single tokens can erase.
    """

    def first_word(positions: Positions) -> Positions:
        return replace(positions, unit="text", spans=positions.spans[:, :1])

    if task.fit.positions.unit != "edge":
        return task
    return Task(
        *(replace(half, positions=first_word(half.positions)) for half in (task.fit, task.check))
    )


def erasers(
    read: VectorReader, probed: Sequence[Task], depths: Sequence[int], draws: int, context: Context
) -> Erased:
    """Erasers of every task at every depth n of rn, fitted on the texts of its probe."""

    def columns(task: Task) -> list[Column]:
        column = Column(task, None, task.fit.labels, task.check.labels)
        count = 0 if task.about is GRADE else draws
        return [column, *permuted(task, count, context.seed)]

    erased: dict[tuple[str, int], dict[str, list[Variant]]] = {}
    for groups in passes(probed, columns):
        sums: list[Moments] = []
        with context.progress(len(groups[0].positions("fit").texts), "texts") as shown:
            for batch in read([group.positions("fit") for group in groups], shown):
                doubles = [Vectors(vectors.rows, vectors.values.double()) for vectors in batch]
                if not sums:
                    sums = [empty_moments(*both)[0] for both in zip(groups, doubles, strict=True)]
                for group, whole, vectors in zip(groups, sums, doubles, strict=True):
                    whole.add(vectors.values, group.fit[vectors.rows].double())
        for group, whole in zip(groups, sums, strict=True):
            for task in group.tasks:
                name = task.about.name
                labels = [column.name for column in group.columns if column.task is task]
                for layer, depth in enumerate(depths):
                    rng = np.random.default_rng([context.seed, depth, *name.encode()])
                    eraser, *others = (leace(whole, layer, group.blocks[label]) for label in labels)
                    random = matched_subspaces(covariance(whole, layer), eraser, len(others), rng)
                    at = f"{name}@r{depth}"
                    erased[name, depth] = {
                        "erased": [Variant(f"erased:{at}", (Erasure(depth, eraser),), "erased")],
                        **{
                            family: [
                                Variant(
                                    f"{family}:{at}#{draw:02d}",
                                    (Erasure(depth, control),),
                                    family,
                                    draw,
                                )
                                for draw, control in enumerate(maps)
                            ]
                            for family, maps in zip(CONTROLS, (others, random), strict=True)
                        },
                    }
    return erased


def readable(decoded: Decoded) -> list[Estimate]:
    """(score − control) / (1 − control) at each depth.

    The control is the mean of the control tasks, or the trivial probe if that is better. NaN where the
    control is perfect.
    """
    names = decoded.task.check.positions.names
    n = len(names)
    weights = np.concatenate([np.ones((1, n)), 1 - np.eye(n)]) if n > 1 else np.ones((2, n))
    score, trivial = decoded.own.score(weights), decoded.majority.score(weights)
    controls = [control.score(weights) for control in decoded.controls]
    base = np.fmax(np.mean(controls, axis=0), trivial) if controls else trivial
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(base < 1, (score - base) / (1 - base), np.nan)
    return [from_leave_one_out(float(each[0]), each[1:], names) for each in share.T]


# The change of the grades.


def divergence(run: Ablated, names: Sequence[str]) -> Estimate:
    """KL(clean ‖ variant) in nats, mean over the variants `names`.

    One logit counts as a normal distribution with the spread of the clean scores.
    """
    if run.labels.logits == 1:
        clean, *moved = (run.scores(name) for name in ("none", *names))
        twice = 2 * max(float(clean.var()), np.finfo(float).tiny)
        return over_queries(np.mean(np.square(moved - clean), axis=0) / twice, run.queries)
    clean, *moved = (softmax(run.logits(name), axis=-1) for name in ("none", *names))
    least = np.finfo(float).tiny  # a share may underflow
    moved = [rel_entr(clean, np.maximum(shares, least)).sum(axis=1) for shares in moved]
    return over_queries(np.mean(moved, axis=0), run.queries)


def change_of_rho(
    run: Ablated, families: Sequence[Mapping[str, Sequence[Variant]]], control: str
) -> Estimate:
    """Spearman's ρ with the labels under the erasers, less that under a control.

    `families` are the variants of each depth; the mean is over depths, and over a control's draws.
    """
    weight_of = {
        variant.name: sign / len(each[family]) / len(families)
        for each in families
        for family, sign in (("erased", 1), (control, -1))
        for variant in each[family]
    }
    labels = run.labels
    scores = np.stack([ranking_scores(run.logits(name), labels) for name in weight_of])
    grades = set_means([known(pair.grades) for pair in run.pairs])
    weights = list(weight_of.values())

    def change(rows: IntArray) -> float:
        ranks = rankdata(np.vstack([scores[:, rows], grades[rows]]), axis=1)
        ranks -= ranks.mean(axis=1, keepdims=True)
        size = np.sqrt(np.square(ranks).sum(axis=1))
        return float(weights @ ratio(ranks[:-1] @ ranks[-1], size[:-1] * size[-1]))

    return jackknife(change, run.queries)


@dataclass(frozen=True, eq=False)
class Shifts:
    """The change of the grades `by` property, depth and family; no control that could not be drawn."""

    by: Mapping[tuple[str, int, str], Estimate]
    depths: Sequence[int]

    @classmethod
    def of(cls, run: Ablated, variants: Erased, depths: Sequence[int]) -> Shifts:
        """The `divergence` of every family of variants."""
        by = {
            (name, depth, family): divergence(run, [member.name for member in members])
            for (name, depth), families in variants.items()
            for family, members in families.items()
            if members
        }
        return cls(by, depths)

    def beyond(self, name: str, depth: int) -> Estimate:
        """The shift beyond the stronger control; without a control the shift."""
        moved = self.by[name, depth, "erased"]
        controls = (self.by.get((name, depth, control)) for control in CONTROLS)
        differences = [moved - control for control in controls if control is not None]
        return min(differences or [moved], key=lambda each: each.value)

    def controls(self, name: str) -> list[str]:
        """The controls that could be drawn at every depth."""
        return [each for each in CONTROLS if all((name, n, each) in self.by for n in self.depths)]

    def used(self, name: str) -> Estimate | None:
        """The mean shift over depths beyond the stronger control; None without one."""
        means = [
            mean_of([self.by[name, n, "erased"] - self.by[name, n, each] for n in self.depths])
            for each in self.controls(name)
        ]
        return min(means, key=lambda mean: mean.value, default=None)


def _is_read(
    encoded: Mapping[tuple[str, int], Estimate], name: str, depths: Sequence[int], context: Context
) -> bool:
    """Whether a property is read above its control, mean over depths."""
    return context.sign(mean_of([encoded[name, n] for n in depths])) > 0


def _change_of_rho(
    run: Ablated, variants: Erased, shifts: Shifts, name: str, context: Context
) -> tuple[float, Estimate] | None:
    """The change of ρ beyond the control with the larger one, behind its largest size in the interval."""
    families = [variants[name, n] for n in shifts.depths]
    changes = []
    for control in shifts.controls(name):
        change = change_of_rho(run, families, control)
        if (ends := change.interval(context.resamples, context.seed)) is not None:
            changes.append((max(map(abs, ends)), change))
    return max(changes, key=lambda item: item[0], default=None)


def measure(context: Context) -> Result:
    """Probe and erase properties at several depths; compare the change of the grades with controls."""
    if min((sizes := counts(context)).values()) < LEAST_TEXTS:
        return Result(nothing="few", facts=sizes)
    chosen = context.choose(QUICK_PROPERTIES, tuple(PROPERTIES.values()))
    probed = [on_dependents(task) for task in tasks(context, chosen)]
    if not probed:
        return Result(nothing="no_property")
    layers = context.model.checkpoint.shape.layers
    quick = tuple(range(layers, 0, -QUICK_STEP))[::-1]
    depths = tuple(range(layers + 1)) if context.full else quick
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)

    # How well each property is read, and its erasers; the grade comes last.
    def read(at: Sequence[Positions], shown: Progress) -> Iterator[tuple[Vectors, ...]]:
        return read_vectors(context.model, at, depths, shown=shown)

    decoded = decode(read, probed, draws=draws["probe"], seed=context.seed)
    names = sorted(decoded, key=lambda name: name == GRADE.name)
    erased = erasers(read, probed, depths, draws["eraser"], context)
    variants = {(name, depth): erased[name, depth] for name in names for depth in depths}
    encoded = {
        (name, depth): share
        for name in names
        for depth, share in zip(depths, readable(decoded[name]), strict=True)
    }
    tested = [name for name in names if name != GRADE.name]

    # All erasers and controls in one sweep: the change of the grades, and of ρ.
    pairs = for_model(few_a_query(context.validation, 1), QUICK_PAIRS, context)
    listed = [variant for of in variants.values() for family in of.values() for variant in family]
    run = ablate(context, "erased", listed, pairs)
    shifts = Shifts.of(run, variants, depths)
    used = {name: shifts.used(name) for name in tested}
    several = index_queries(run.queries)[1] > 1
    read_above = [name for name in tested if several and _is_read(encoded, name, depths, context)]
    changes = {
        name: change
        for name in read_above
        if (change := _change_of_rho(run, variants, shifts, name, context)) is not None
    }
    nearest = min(changes, key=lambda name: changes[name][0], default=None)
    of_grade = [shifts.by[GRADE.name, n, "erased"] for n in depths if GRADE.name in names]
    cells = {point: shifts.beyond(*point) for point in variants}
    return Result(
        measurements={
            **{f"usage_used_{each.name}": used.get(each.name) for each in chosen if each != GRADE},
            "usage_encoded_not_used": None if nearest is None else changes[nearest][1],
            "usage_ceiling": mean_of(of_grade) if of_grade else None,
        },
        figures=[_map(names, depths, encoded, cells, context)],
        facts={
            **sizes,
            "pairs": len(pairs),
            "used": in_words(
                {n: each.value for n, each in used.items() if each}, signed, reverse=True
            ),
            "nearest": PROPERTIES[nearest].title if nearest else Text("–", "–"),
            "draws": draws["eraser"],
        },
        settings={
            "places": [f"r{depth}" for depth in depths],
            "draws": draws,
            "nearest_to_unused": nearest,
            "properties": {
                name: {
                    "fitted_on": len(decoded[name].task.fit),
                    "scored_on": len(decoded[name].task.check),
                    "controls": {
                        f"r{depth}": {
                            family: len(variants[name, depth][family]) for family in CONTROLS
                        }
                        for depth in depths
                    },
                }
                for name in names
            },
        },
        pairs=pairs,
    )


def _map(
    names: Sequence[str],
    depths: Sequence[int],
    encoded: Mapping[tuple[str, int], Estimate],
    cells: Mapping[tuple[str, int], Estimate],
    context: Context,
) -> Figure:
    """How much each property is used, by depth; in small, how well it is read."""
    ends = {key: cell.interval(context.resamples, context.seed) for key, cell in cells.items()}
    marked = [
        (row, column)
        for row, name in enumerate(names)
        for column, depth in enumerate(depths)
        if name != GRADE.name and (interval := ends[name, depth]) and interval[0] > 0
    ]
    drawn = head_map(
        "usage_used",
        [[cells[name, depth].value for depth in depths] for name in names],
        digits=3,
        scale="diverging",
    )
    return replace(
        drawn,
        columns=tuple(f"r{depth}" for depth in depths),
        rows=tuple(PROPERTIES[name].title for name in names),
        annotations=tuple(
            tuple(_share(encoded[name, depth].value) for depth in depths) for name in names
        ),
        marked=tuple(marked),
    )


def _share(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "–"
