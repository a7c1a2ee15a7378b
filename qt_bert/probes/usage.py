"""Does the model use what its vectors hold? (`primer_in_bertology`; Elazar et al. 2021, "Amnesic probing")

A property that linear probes read (`layers_reading`) is erased from the vectors of one place rn, and the
model runs on from there. LEACE (Belrose et al. 2023) is the least change after which no linear probe finds
the property. How far the grades move is held against two controls: LEACE of permuted labels, and random
subspaces of the same rank and variance. The grade itself is erased for comparison: so much there is to lose.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from concept_erasure import LeaceFitter
from scipy.special import rel_entr
from scipy.stats import rankdata

from qt_bert.ablation.interventions import Variant
from qt_bert.ablation.weights import AffineMap, Erasure
from qt_bert.figures import Figure, head_map
from qt_bert.probes.base import Context, Result, mean_of
from qt_bert.probes.contests import Ablated, ablate
from qt_bert.probes.layers import counts, tasks, too_few
from qt_bert.probes.layers_reading import (
    GRADE,
    MATCHED,
    POS,
    PROPERTIES,
    Column,
    Decoded,
    Examples,
    Moments,
    Places,
    Reader,
    Seen,
    Task,
    begun,
    decode,
    in_words,
    passes,
    vectors,
)
from qt_bert.probes.streams import for_model
from qt_bert.progress import Progress
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray, IntArray, ratio
from qt_bert.stats.estimate import Estimate, from_leave_one_out, jackknife, over_queries
from qt_bert.stats.judgements import known, set_means
from qt_bert.text import Text

QUICK_PROPERTIES = (POS, MATCHED, GRADE)
"""One of syntax, one of meaning, and the grade; all of them stand in the same texts."""
QUICK_PAIRS = 64
QUICK_STEP = 3
"""A quick run looks at every third layer, the last among them."""
QUICK_DRAWS = {"probe": 2, "eraser": 5}
FULL_DRAWS = {"probe": 5, "eraser": 10}
"""How often each control is drawn: of the probe, and of the eraser (of either kind)."""
CONTROLS = ("permuted", "random")
LEAST_SINGULAR = 1e-6
"""Directions of the whitened vectors that covary less with the labels than this are left alone."""
WITHIN, CLOSE = 0.1, 0.02
"""A subspace counts as matched up to this share of the wanted variance; bisection stops at the other."""
STEPS, STEEPEST, FRAMES = 60, 8.0, 5
"""Steps of the bisection, the largest tilt either way, and frames drawn before a subspace is given up."""
FLAT = 1e-12
"""Directions that hold less than this share of the largest variance are no part of the space."""


# Erasers: LEACE from running sums, in float64.


def leace(sums: Moments, layer: int, block: slice) -> AffineMap:
    """The map that erases the targets of `block` from the vectors of one of the sums' layers.

    The covariance is shrunk as `concept-erasure` does it, which takes nothing from the erasure and
    keeps directions of hardly any variance from being blown up. Rank 0 where nothing covaries.
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
    """Of the vectors of one layer [width, width]."""
    mean = sums.x[layer] / sums.n
    found = sums.xx[layer] / sums.n - np.outer(mean, mean)
    return np.asarray((found + found.T) / 2)


def removed_variance(one: AffineMap, spread: FloatArray) -> float:
    """The mean of |x − map(x)|² over vectors of covariance `spread` [size, size]."""
    left, right = one.left.numpy(), one.right.numpy()
    return float(np.einsum("ij,ij->", left.T @ left, right @ spread @ right.T))


# Controls: permuted labels, and random subspaces.


def permuted(task: Task, draws: int, seed: int) -> list[Column]:
    """The labels of `task` permuted: characters and words within their text, texts among all texts."""
    rng = np.random.default_rng([seed, 8])

    def order(examples: Examples) -> IntArray:
        places = examples.places
        if examples.kinds is None:  # a whole text
            return rng.permutation(len(places))
        # Places stand in the order of their texts, so that a shuffle within each keeps that order.
        return np.lexsort((rng.random(len(places)), places.text))

    return [
        Column(task, draw, *(one.labels[order(one)] for one in (task.fit, task.check)))
        for draw in range(draws)
    ]


def matched_subspaces(
    spread: FloatArray,
    like: AffineMap,
    draws: int,
    rng: np.random.Generator,
) -> list[AffineMap]:
    """Orthogonal projections off random subspaces of the rank of `like` that take as much variance.

    A few principal directions hold most variance, so a Gaussian frame is tilted: in their basis its rows
    are multiplied by λ to the power t. What the subspace holds grows with t, and bisection finds t. A draw
    that no tilt brings within 10 % of the wanted variance is left out.
    """
    wanted, values = removed_variance(like, spread), np.linalg.eigh(spread)
    held = values.eigenvalues > FLAT * max(float(values.eigenvalues[-1]), 0.0)
    variances, axes = values.eigenvalues[held], values.eigenvectors[:, held]
    if not 0 < like.rank < len(variances) or not wanted > 0:
        return []
    logs = np.log(variances)

    def tilted(frame: FloatArray) -> tuple[FloatArray, float]:
        """A basis of the tilted frame [m, rank], and how much it holds, as a share of what is wanted."""
        low, high = -STEEPEST, STEEPEST
        for _ in range(STEPS):
            powers = (low + high) / 2 * logs
            basis = np.linalg.qr(np.exp(powers - powers.max())[:, None] * frame)[0]
            share = float(variances @ np.square(basis).sum(axis=1)) / wanted
            if abs(share - 1) <= CLOSE:
                break
            low, high = ((low + high) / 2, high) if share < 1 else (low, (low + high) / 2)
        return basis, share

    found = []
    for _ in range(draws):
        for _ in range(FRAMES):
            basis, share = tilted(rng.standard_normal((len(variances), like.rank)))
            if abs(share - 1) <= WITHIN:
                across = torch.from_numpy(axes @ basis)
                found.append(AffineMap(across, across.T.contiguous(), like.centre))
                break
    return found


# Every property at every place: how well it is read, its eraser, and the controls of both.


Erased = Mapping[tuple[str, int], Mapping[str, Sequence[Variant]]]
"""By property and place rn the variants of each family: `erased:pos@r3`, and of CONTROLS
`permuted:pos@r3#00`, `random:pos@r3#00`."""


def on_dependents(task: Task) -> Task:
    """A task of arcs asked of the dependent word's mean alone; any other task as it is.

    An arc is read from both words and their product, which no map of single tokens can erase.
    """

    def first_word(places: Places) -> Places:
        return replace(places, unit="text", spans=places.spans[:, :1])

    if task.fit.places.unit != "edge":
        return task
    fit, check = (replace(one, places=first_word(one.places)) for one in (task.fit, task.check))
    return Task(fit, check)


def erasers(
    read: Reader, asked: Sequence[Task], places: Sequence[int], draws: int, context: Context
) -> Erased:
    """Erasers of every task at every place, fitted on all texts that its probe is fitted on."""

    def columns(task: Task) -> list[Column]:
        own = Column(task, None, task.fit.labels, task.check.labels)
        count = 0 if task.about is GRADE else draws
        return [own, *permuted(task, count, context.seed)]

    found: dict[tuple[str, int], dict[str, list[Variant]]] = {}
    for groups in passes(asked, columns):
        sums: list[Moments] = []
        with context.progress(len(groups[0].places("fit").texts), "texts") as shown:
            for batch in read([group.places("fit") for group in groups], shown):
                seen = [Seen(one.rows, one.values.double()) for one in batch]
                if not sums:
                    sums = [begun(group, one)[0] for group, one in zip(groups, seen, strict=True)]
                for group, whole, one in zip(groups, sums, seen, strict=True):
                    whole.add(one.values, group.fit[one.rows].double())
        for group, whole in zip(groups, sums, strict=True):
            for task in group.tasks:
                name = task.about.name
                labels = [one.name for one in group.columns if one.task is task]
                for layer, place in enumerate(places):
                    rng = np.random.default_rng([context.seed, place, *name.encode()])
                    own, *others = (leace(whole, layer, group.blocks[one]) for one in labels)
                    random = matched_subspaces(covariance(whole, layer), own, len(others), rng)
                    at = f"{name}@r{place}"
                    found[name, place] = {
                        "erased": [Variant(f"erased:{at}", (Erasure(place, own),), "erased")],
                        **{
                            family: [
                                Variant(
                                    f"{family}:{at}#{draw:02d}",
                                    (Erasure(place, one),),
                                    family,
                                    draw,
                                )
                                for draw, one in enumerate(maps)
                            ]
                            for family, maps in zip(CONTROLS, (others, random), strict=True)
                        },
                    }
    return found


def readable(one: Decoded) -> list[Estimate]:
    """The way from the control's score to a perfect one, at each place, as a share.

    The control is a control task, or permuted labels of texts; where it does worse than a probe that
    knows nothing, that one. Undefined where the control is perfect.
    """
    names = one.task.check.places.names
    n = len(names)
    weights = np.concatenate([np.ones((1, n)), 1 - np.eye(n)]) if n > 1 else np.ones((2, n))
    score, guess = one.own.score(weights), one.majority.score(weights)
    controls = [each.score(weights) for each in one.controls]
    base = np.fmax(np.mean(controls, axis=0), guess) if controls else guess
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(base < 1, (score - base) / (1 - base), np.nan)
    return [from_leave_one_out(float(each[0]), each[1:], names) for each in share.T]


# What erasing does to the grades.


def divergence(run: Ablated, names: Sequence[str]) -> Estimate:
    """KL(clean ‖ variant) in nats, mean over the variants `names`."""
    clean, *moved = (run.probability.shares(run.logits(name)) for name in ("none", *names))
    # A share may be too small for a number.
    least = np.finfo(float).tiny
    moved = [rel_entr(clean, np.maximum(one, least)).sum(axis=1) for one in moved]
    return over_queries(np.mean(moved, axis=0), run.queries)


def change_of_rho(
    run: Ablated, families: Sequence[Mapping[str, Sequence[Variant]]], control: str
) -> Estimate:
    """Spearman's ρ with the labels behind the erasers, less that behind a control.

    `families` are the variants of each place; the mean is over places, of a control over its draws.
    """
    weighed = {
        one.name: sign / len(each[family]) / len(families)
        for each in families
        for family, sign in (("erased", 1), (control, -1))
        for one in each[family]
    }
    labels = run.probability.labels
    scores = np.stack([ranking_scores(run.logits(name), labels) for name in weighed])
    grades, weights = set_means([known(one.grades) for one in run.pairs]), list(weighed.values())

    def change(rows: IntArray) -> float:
        ranks = rankdata(np.vstack([scores[:, rows], grades[rows]]), axis=1)
        ranks -= ranks.mean(axis=1, keepdims=True)
        size = np.sqrt(np.square(ranks).sum(axis=1))
        return float(weights @ ratio(ranks[:-1] @ ranks[-1], size[:-1] * size[-1]))

    return jackknife(change, run.queries)


def measure(context: Context) -> Result:
    """Read and erase properties at several places; hold the grades' shift against the controls'."""
    if few := too_few(context):
        return Result(nothing="few", facts=few)
    chosen = context.choose(QUICK_PROPERTIES, tuple(PROPERTIES.values()))
    asked = [on_dependents(task) for task in tasks(context, chosen)]
    if not asked:
        return Result(nothing="no_property")
    layers = context.model.checkpoint.shape.layers
    quick = tuple(range(layers, 0, -QUICK_STEP))[::-1]
    places = tuple(range(layers + 1)) if context.full else quick
    draws = context.choose(QUICK_DRAWS, FULL_DRAWS)

    # How well each property is read, and its erasers; the grade comes last.
    def read(at: Sequence[Places], shown: Progress) -> Iterator[tuple[Seen, ...]]:
        return vectors(context.model, at, places, shown=shown)

    found = decode(read, asked, draws=draws["probe"], seed=context.seed)
    names = sorted(found, key=lambda name: name == GRADE.name)
    made = erasers(read, asked, places, draws["eraser"], context)
    variants = {(name, place): made[name, place] for name in names for place in places}
    held = {
        (name, place): one
        for name in names
        for place, one in zip(places, readable(found[name]), strict=True)
    }
    tested = [name for name in names if name != GRADE.name]

    # All erasers and controls in one sweep: the shift of the grades, and the change of ρ.
    pairs = for_model(context.validation, QUICK_PAIRS, context)
    listed = [one for families in variants.values() for each in families.values() for one in each]
    run = ablate(context, "erased", listed, pairs)
    shift: dict[tuple[str, int, str], Estimate] = {}
    for (name, place), families in variants.items():
        for family, some in families.items():
            if some:
                shift[name, place, family] = divergence(run, [one.name for one in some])

    def beyond(name: str, place: int) -> Estimate:
        """The shift beyond the control that moves the grades most; without a control the shift."""
        own = shift[name, place, "erased"]
        controls = [shift[name, place, one] for one in CONTROLS if (name, place, one) in shift]
        return min([own - one for one in controls] or [own], key=lambda one: one.value)

    def everywhere(name: str) -> list[str]:
        """The controls that could be drawn at every place."""
        return [one for one in CONTROLS if all((name, at, one) in shift for at in places)]

    used: dict[str, Estimate | None] = {}
    for name in tested:
        means = [
            mean_of([shift[name, at, "erased"] - shift[name, at, one] for at in places])
            for one in everywhere(name)
        ]
        used[name] = min(means, key=lambda one: one.value, default=None)

    # Of what is read above its control: the property whose erasure changes ρ least.
    candidates: dict[str, tuple[float, Estimate]] = {}
    for name in tested if len(set(run.queries)) > 1 else []:
        ends = mean_of([held[name, at] for at in places]).interval(context.resamples, context.seed)
        if ends is None or not ends[0] > 0:
            continue
        changes = [
            (max(map(abs, interval)), one)
            for control in everywhere(name)
            for one in [change_of_rho(run, [variants[name, at] for at in places], control)]
            if (interval := one.interval(context.resamples, context.seed)) is not None
        ]
        if changes:
            candidates[name] = max(changes, key=lambda one: one[0])
    nearest = min(candidates, key=lambda name: candidates[name][0], default=None)

    of_grade = [shift[GRADE.name, at, "erased"] for at in places if GRADE.name in names]
    ceiling = mean_of(of_grade) if of_grade else None
    measured: dict[str, Estimate | float | None] = {
        **{f"usage_used_{one.name}": used.get(one.name) for one in chosen if one is not GRADE},
        "usage_encoded_not_used": None if nearest is None else candidates[nearest][1],
        "usage_ceiling": ceiling,
    }
    return Result(
        measurements=measured,
        figures=[_map(names, places, held, {point: beyond(*point) for point in variants}, context)],
        facts={
            **counts(context),
            "pairs": len(pairs),
            "used": in_words(
                {n: one.value for n, one in used.items() if one}, "+.3f", reverse=True
            ),
            "nearest": PROPERTIES[nearest].title if nearest else Text("–", "–"),
            "draws": draws["eraser"],
        },
        settings={
            "places": [f"r{place}" for place in places],
            "draws": draws,
            "nearest_to_unused": nearest,
            "properties": {
                name: {
                    "fitted_on": len(found[name].task.fit),
                    "scored_on": len(found[name].task.check),
                    "controls": {
                        f"r{place}": {
                            family: len(variants[name, place][family]) for family in CONTROLS
                        }
                        for place in places
                    },
                }
                for name in names
            },
        },
        pairs=pairs,
    )


def _map(
    names: Sequence[str],
    places: Sequence[int],
    held: Mapping[tuple[str, int], Estimate],
    cells: Mapping[tuple[str, int], Estimate],
    context: Context,
) -> Figure:
    """What is used, property by layer, with what is read in small."""
    ends = {key: one.interval(context.resamples, context.seed) for key, one in cells.items()}
    marked = [
        (row, column)
        for row, name in enumerate(names)
        for column, place in enumerate(places)
        if name != GRADE.name and (interval := ends[name, place]) and interval[0] > 0
    ]
    drawn = head_map(
        "usage_used",
        [[cells[name, place].value for place in places] for name in names],
        digits=3,
        scale="diverging",
    )
    return replace(
        drawn,
        columns=tuple(f"r{place}" for place in places),
        rows=tuple(PROPERTIES[name].title for name in names),
        annotations=tuple(
            tuple(_share(held[name, place].value) for place in places) for name in names
        ),
        marked=tuple(marked),
    )


def _share(value: float) -> str:
    return f"{value:.2f}" if np.isfinite(value) else "–"
