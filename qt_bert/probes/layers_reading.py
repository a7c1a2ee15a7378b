"""Properties read from a model's vectors by linear probes, layer by layer.

Vectors are r0, the embeddings, to rn, the last layer's output. A probe is a ridge regression in closed
form on running sums, with one covariance a layer for all properties at the same positions; no vector is
kept. Its control (Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks") has the
same positions and random labels: it measures what the probe memorises.
The model's own head reads its score from every r as it does from rn.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch

from qt_bert.ablation.engine import batch_tokens
from qt_bert.data.tokenise import EncodedPair
from qt_bert.models.batches import Batch, batches_of
from qt_bert.probes.texts import texts_of
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import ranking_scores
from qt_bert.stats.arrays import FloatArray, IntArray, ratio, sum_by
from qt_bert.stats.estimate import group_queries
from qt_bert.text import Text

Unit = Literal["token", "edge", "text"]
"""What has the property: a character, two linked words, or a whole pair."""

LEAST_SHARE = 0.005
"""A class with a smaller share of the examples to fit on is merged into OTHER."""
LEAST_EXAMPLES = 5
OTHER = "other"
HELD_BACK = 5
"""One in so many of the queries or sentences to fit on is held out to choose the penalty."""
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""Ridge penalties tried, in units of the vectors' mean variance."""


# Properties, the positions where they are read, and their labels.


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a character, an edge or a text: a class, or a number."""

    name: str
    unit: Unit
    number: bool = False

    @property
    def title(self) -> Text:
        """The name in words."""
        return texts_of("layers").text(f"words.{self.name}")


POSITION = Property("position", "token", True)
"""The number of tokens before the character."""
LENGTH = Property("length", "text", True)
"""The number of tokens of the pair."""
BOUNDARY = Property("boundary", "token")
"""Whether a word ends after the character."""
POS = Property("pos", "token")
"""The part of speech of the character's word, by jieba's tags."""
DEPENDENCY = Property("dependency", "edge")
"""The label of the arc between two words of a treebank."""
ORDER = Property("order", "text")
"""Whether the title's characters were shuffled."""
ENTITY = Property("entity", "token")
"""Person, place, organisation, another name, or no name: by jieba's tags."""
MATCHED = Property("matched", "token")
"""Whether the character's word is a term that both texts share (`streams.shared_terms`)."""
GRADE = Property("grade", "text", True)
"""The label's grade, or the mean of the grades it allows."""

PROPERTIES: Mapping[str, Property] = {
    each.name: each
    for each in (POSITION, LENGTH, BOUNDARY, POS, DEPENDENCY, ORDER, ENTITY, MATCHED, GRADE)
}
"""All of them by name, from the surface up."""


def in_words(
    values: Mapping[str, float], form: Callable[[float], str], *, reverse: bool = False
) -> Text:
    """Properties with their values in this form, the lowest first, or the highest if `reverse`."""
    ranked = sorted(values, key=lambda name: values[name], reverse=reverse)
    items = [(PROPERTIES[name].title, form(values[name])) for name in ranked]
    return Text(
        "、".join(f"{title.zh} {value}" for title, value in items) or "–",
        ", ".join(f"{title.en} {value}" for title, value in items) or "–",
    )


@dataclass(frozen=True, eq=False)
class Positions:
    """N positions in T texts at which vectors are read, shared by properties read there.

    `texts` are (query, title) pairs. For each position: `text` [N], the number of its text, in order;
    `spans` [N, S, 2], its tokens [start, end). A `token` has one span of one token. A `text` has the
    spans of query and title, read as one mean (special tokens in it would leak the length). An `edge`
    has the spans of its two words, whose means u and v are read as u, v and u·v.
    """

    unit: Unit
    texts: tuple[tuple[str, str], ...]
    text: IntArray
    spans: IntArray

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def _grouped(self) -> tuple[tuple[Hashable, ...], IntArray]:
        return group_queries([query for query, _ in self.texts])

    @property
    def names(self) -> tuple[Hashable, ...]:
        """The queries or sentences, which are resampled."""
        return self._grouped[0]

    @cached_property
    def group(self) -> IntArray:
        """The number in `names` of each position's query or sentence [N]."""
        return np.asarray(self._grouped[1][self.text])

    @cached_property
    def starts(self) -> IntArray:
        """Where the positions of each text begin [T + 1]."""
        return np.searchsorted(self.text, np.arange(len(self.texts) + 1))


@dataclass(frozen=True, eq=False)
class Examples:
    """The labels of N positions.

    `labels` [N] are numbers, or indices into `classes`. `kinds` [N] numbers the types: the character,
    or an edge's dependent word; None for texts.
    """

    about: Property
    positions: Positions
    labels: IntArray | FloatArray
    classes: tuple[str, ...] = ()
    kinds: IntArray | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Task:
    """A property with the examples to fit its probe on and those to score it on.

    The two share no text, and share the numbering of classes and kinds.
    """

    fit: Examples
    check: Examples

    @property
    def about(self) -> Property:
        """The property."""
        return self.fit.about

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; empty for a number."""
        return self.fit.classes


class Labelled(NamedTuple):
    """Positions with the names of their labels and kinds."""

    positions: Positions
    labels: Sequence[float | str]
    kinds: Sequence[str] | None = None


def task_of(about: Property, fit: Labelled, check: Labelled) -> Task | None:
    """The task; None where a half has too few examples, or only one label.

    Classes by falling frequency; rare ones, and those only in `check`, are merged into OTHER, the last.
    """
    if min(len(fit.labels), len(check.labels)) < LEAST_EXAMPLES:
        return None
    if len(set(fit.labels)) < 2 or len(set(check.labels)) < 2:
        return None
    classes: list[str] = []
    if not about.number:
        counts = Counter(map(str, fit.labels))
        least = max(LEAST_SHARE * len(fit.labels), 2)
        common = [name for name, count in counts.most_common() if count >= least]
        rare = not (set(counts) | set(map(str, check.labels))) <= set(common)
        classes = [name for name in common if name != OTHER] + ([OTHER] if rare else [])
        if len(classes) < 2:
            return None
    at = {name: number for number, name in enumerate(classes)}
    kinds: dict[str, int] = {}

    def examples(half: Labelled) -> Examples:
        numbered = None
        if half.kinds is not None:
            numbered = np.array([kinds.setdefault(kind, len(kinds)) for kind in half.kinds])
        labels = (
            np.array([at.get(str(label), len(at) - 1) for label in half.labels], np.int64)
            if classes
            else np.array(half.labels, np.float64)
        )
        return Examples(about, half.positions, labels, tuple(classes), numbered)

    return Task(examples(fit), examples(check))


# Vectors.


class Vectors(NamedTuple):
    """Vectors read at the positions `rows` [n]: `values` float32 [layers, n, width]."""

    rows: IntArray
    values: torch.Tensor


VectorReader = Callable[[Sequence[Positions], Progress], Iterator[tuple[Vectors, ...]]]
"""Reads positions of the same texts, in batches with one `Vectors` for each of the `Positions`."""


def read_vectors(
    scorer: Scorer,
    positions: Sequence[Positions],
    layers: Sequence[int] | None = None,
    *,
    shown: Progress = silent,
) -> Iterator[tuple[Vectors, ...]]:
    """The vectors at `positions`, batch by batch, of all r or of the r numbered `layers`, in rising order.

    All `positions` are of the same texts, which are read in one pass. `shown` counts texts.
    """
    chosen = range(len(scorer.encoder.layers) + 1) if layers is None else layers
    for batch in scorer.fresh().batches(positions[0].texts, batch_tokens()):
        in_batch = [_in_batch(batch, each) for each in positions]
        stores: list[list[torch.Tensor]] = [[] for _ in positions]
        with torch.inference_mode():
            for number, hidden in enumerate(scorer.encoder.states(batch)):
                if number in chosen:
                    values = hidden.float().cpu()
                    sums = torch.nn.functional.pad(values.cumsum(1), (0, 0, 1, 0))
                    for each, (_, of, spans), store in zip(
                        positions, in_batch, stores, strict=True
                    ):
                        store.append(_read(each.unit, of, spans, values, sums))
                if number == chosen[-1]:
                    break
            vectors = tuple(
                Vectors(rows, torch.stack(store))
                for (rows, _, _), store in zip(in_batch, stores, strict=True)
            )
        yield vectors
        shown.advance(len(batch))


def _in_batch(batch: Batch, positions: Positions) -> tuple[IntArray, torch.Tensor, torch.Tensor]:
    """The positions in a batch: their numbers [n], rows in the batch [n], and spans [n, S, 2]."""
    starts, ends = positions.starts[batch.rows], positions.starts[batch.rows + 1]
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
    of = np.repeat(np.arange(len(batch)), ends - starts)
    return rows, torch.from_numpy(of), torch.from_numpy(positions.spans[rows])


def _read(
    unit: Unit, of: torch.Tensor, spans: torch.Tensor, hidden: torch.Tensor, sums: torch.Tensor
) -> torch.Tensor:
    """The vectors [n, width] of positions, from `hidden` and its running `sums` [B, L + 1, hidden]."""
    if unit == "token":
        return hidden[of, spans[:, 0, 0]]
    totals = sums[of[:, None], spans[..., 1]] - sums[of[:, None], spans[..., 0]]  # [n, S, hidden]
    sizes = (spans[..., 1] - spans[..., 0])[..., None]
    if unit == "text":
        return totals.sum(1) / sizes.sum(1)
    left, right = (totals / sizes).unbind(1)
    return torch.cat([left, right, left * right], dim=-1)


# The model's own head after every layer.

WITHIN = 0.5
"""Of a grade: a score is decided from the layer on from which it stays so near to the last one."""


@torch.inference_mode()
def scores_by_layer(
    scorer: Scorer, encoded: Sequence[EncodedPair], shown: Progress = silent
) -> FloatArray:
    """The scores that the model's own head reads from r0 … rn [pairs, layers + 1]; `shown` counts pairs.

    They are expected grades or levels, or the one logit (`Encoder.logits_by_layer`).
    """
    scores = np.empty((len(encoded), len(scorer.encoder.layers) + 1))
    for batch in batches_of(encoded, batch_tokens(), pad=scorer.pad, padded=scorer.padded):
        logits = scorer.encoder.logits_by_layer(batch).float().cpu().numpy()
        scores[batch.rows] = ranking_scores(logits, scorer.settings.labels).T
        shown.advance(len(batch))
    return scores


def decided_at(scores: FloatArray, within: float = WITHIN) -> IntArray:
    """The first r [pairs] from which on scores [pairs, layers + 1] stay `within` of the last one."""
    away = np.abs(scores - scores[:, -1:]) > within
    return np.asarray(np.logical_or.accumulate(away[:, ::-1], axis=1).sum(axis=1))


# Targets: labels and controls side by side, classes one-hot.


class Column(NamedTuple):
    """Labels to fit and to score: a property's own (`draw` is None), or a control's."""

    task: Task
    draw: int | None
    fit: IntArray | FloatArray
    check: IntArray | FloatArray

    @property
    def name(self) -> str:
        """The property's name, with the number of the draw."""
        name = self.task.about.name
        return name if self.draw is None else f"{name}#{self.draw}"


def columns_of(task: Task, draws: int, seed: int) -> list[Column]:
    """The property's own labels, then `draws` of its control.

    A control task gives each kind (character, dependent word) one random label from the property's
    distribution. Texts have no kind: their labels to fit are permuted, those to score stay.
    """
    columns = [Column(task, None, task.fit.labels, task.check.labels)]
    fit, check = task.fit.kinds, task.check.kinds
    for draw in range(draws):
        rng = np.random.default_rng([seed, 7, draw])
        if fit is None or check is None:
            columns.append(Column(task, draw, rng.permutation(task.fit.labels), task.check.labels))
        else:
            label = rng.choice(task.fit.labels, size=1 + max(int(fit.max()), int(check.max())))
            columns.append(Column(task, draw, label[fit], label[check]))
    return columns


@dataclass(frozen=True, eq=False)
class Group:
    """Tasks at the same positions, their columns of labels side by side as targets `fit` [N, targets].

    `blocks`: the targets of each column. Numbers are standardised by mean and deviation of the examples
    to fit (`scale`).
    """

    columns: tuple[Column, ...]
    blocks: dict[str, slice]
    fit: torch.Tensor
    scale: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Group:
        """The group of columns at the same positions."""
        blocks, parts, scale, start = {}, [], {}, 0
        for column in columns:
            classes = column.task.classes
            if classes:
                parts.append(np.eye(len(classes), dtype=np.float32)[column.fit.astype(np.int64)])
            else:
                mean, deviation = float(column.fit.mean()), float(column.fit.std()) or 1.0
                scale[column.name] = mean, deviation
                parts.append(((column.fit - mean) / deviation)[:, None].astype(np.float32))
            blocks[column.name] = slice(start, start + parts[-1].shape[1])
            start = blocks[column.name].stop
        return cls(tuple(columns), blocks, torch.from_numpy(np.concatenate(parts, axis=1)), scale)

    @property
    def tasks(self) -> list[Task]:
        """The tasks, in order."""
        return [column.task for column in self.columns if column.draw is None]

    def positions(self, half: Literal["fit", "check"]) -> Positions:
        """The positions to fit on, or to score on."""
        task = self.columns[0].task
        return task.fit.positions if half == "fit" else task.check.positions

    def restored(self, column: Column, predicted: torch.Tensor) -> np.ndarray:
        """A column's classes or numbers [layers, n] from predictions [layers, n, targets]."""
        block = predicted[:, :, self.blocks[column.name]]
        if column.task.classes:
            return np.asarray(block.argmax(-1).numpy())
        mean, deviation = self.scale[column.name]
        return np.asarray(block[:, :, 0].double().numpy() * deviation + mean)


# Ridge regression in closed form from running sums.


@dataclass(eq=False)
class Moments:
    """Sums over n examples of vectors x [width] in each layer, and of targets y [targets].

    Vectors are taken less a `shift` [layers, width] near the mean, so that float32 products stay exact:
    `x` [layers, width], `xx` [layers, width, width], `xy` [layers, width, targets], `y` and `yy`
    [targets] (squares). Moments of the same shift can be added.
    """

    shift: torch.Tensor
    n: int
    x: FloatArray
    xx: FloatArray
    xy: FloatArray
    y: FloatArray
    yy: FloatArray

    @classmethod
    def empty(cls, shift: torch.Tensor, targets: int) -> Moments:
        """Moments of no examples."""
        layers, width = shift.shape
        return cls(
            shift,
            0,
            *map(np.zeros, ((layers, width), (layers, width, width), (layers, width, targets))),
            *map(np.zeros, (targets, targets)),
        )

    def add(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Add examples: vectors float32 [layers, n, width], targets float32 [n, targets]."""
        x = x - self.shift[:, None]
        turned = x.transpose(1, 2)
        self.n += len(y)
        self.x += x.sum(1, dtype=torch.float64).numpy()
        self.xx += torch.matmul(turned, x).double().numpy()
        self.xy += torch.matmul(turned, y).double().numpy()
        self.y += y.sum(0, dtype=torch.float64).numpy()
        self.yy += y.double().square().sum(0).numpy()

    def __add__(self, other: Moments) -> Moments:
        sums = ("n", "x", "xx", "xy", "y", "yy")
        return replace(self, **{name: getattr(self, name) + getattr(other, name) for name in sums})


class Ridge(NamedTuple):
    """Weights [layers, width, targets] and intercepts [layers, targets], float32."""

    weights: torch.Tensor
    intercepts: torch.Tensor

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        """Predictions for vectors [layers, n, width]: [layers, n, targets]."""
        return torch.baddbmm(self.intercepts[:, None], x, self.weights)


def fit(
    part: Moments, rest: Moments, blocks: Collection[slice], penalties: Sequence[float] = PENALTIES
) -> Ridge:
    """Ridge on the examples of both; the penalty is chosen by fits on `part` and errors on `rest`.

    Each block of targets has its own penalty in each layer, with the least sum of squared errors; the
    middle one where either part is empty.
    """
    whole = part + rest
    solver = Solver.of(whole)
    if part.n and rest.n:
        errors = _errors(Solver.of(part), rest, penalties)
    else:
        errors = np.ones((len(penalties), *whole.xy.shape[::2]))
        errors[len(penalties) // 2] = 0.0
    weights = np.empty(whole.xy.shape)
    for block in blocks:
        best = errors[:, :, block].sum(axis=2).argmin(axis=0)
        weights[:, :, block] = solver.axes @ solver.shrunk(np.asarray(penalties)[best], block)
    n = max(whole.n, 1)
    mean = whole.x / n + whole.shift.double().numpy()  # the shift goes into the intercepts
    intercepts = whole.y / n - np.einsum("lw,lwt->lt", mean, weights)
    return Ridge(torch.from_numpy(weights).float(), torch.from_numpy(intercepts).float())


@dataclass(frozen=True, eq=False)
class Solver:
    """The eigendecomposition of each layer's covariance, for any penalty.

    `values` [layers, width], `axes` [layers, width, width] (columns), `along` the covariance of each
    axis with each target [layers, width, targets], `mean` and `target` the means.
    """

    values: FloatArray
    axes: FloatArray
    along: FloatArray
    mean: FloatArray
    target: FloatArray

    @classmethod
    def of(cls, sums: Moments) -> Solver:
        """The solver of these moments."""
        n = max(sums.n, 1)
        mean, target = sums.x / n, sums.y / n
        covariance = sums.xx / n - mean[:, :, None] * mean[:, None]
        values, axes = np.linalg.eigh(covariance)
        with_target = sums.xy / n - mean[:, :, None] * target
        along = axes.transpose(0, 2, 1) @ with_target
        return cls(np.maximum(values, 0.0), axes, along, mean, target)

    def shrunk(self, penalty: FloatArray, block: slice = slice(None)) -> FloatArray:
        """Weights along the axes with a penalty for each layer [layers]; 0 on axes without variance."""
        scale = self.values + penalty[:, None] * self.values.mean(axis=1, keepdims=True)
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        return np.asarray(self.along[:, :, block] * inverse[:, :, None])


def _errors(solver: Solver, rest: Moments, penalties: Sequence[float]) -> FloatArray:
    """Squared errors on `rest` of fits elsewhere [penalties, layers, targets], from its sums alone."""
    axes, turned = solver.axes, solver.axes.transpose(0, 2, 1)
    xx, xy = turned @ rest.xx @ axes, turned @ rest.xy
    x, mean = (np.einsum("law,lw->la", turned, vector) for vector in (rest.x, solver.mean))
    errors = []
    for penalty in penalties:
        w = solver.shrunk(np.full(len(axes), penalty))
        b = solver.target - np.einsum("la,lat->lt", mean, w)
        quadratic = np.einsum("lat,lab,lbt->lt", w, xx, w, optimize=True)
        cross = np.einsum("lat,lat->lt", w, xy) - b * np.einsum("la,lat->lt", x, w) + b * rest.y
        errors.append(rest.yy - 2 * cross + quadratic + rest.n * b * b)
    return np.stack(errors)


# Probes of all properties in all layers: fitted in one pass, scored in another.


@dataclass(frozen=True, eq=False)
class Sums:
    """The parts of a score by query or sentence: two arrays [groups, layers].

    For classes, right and all predictions: accuracy is their quotient. For numbers, squared errors and
    squared distances from the mean of the examples to fit: R² is one less the quotient.
    """

    good: FloatArray
    total: FloatArray
    number: bool

    def score(self, weights: FloatArray | None = None) -> FloatArray:
        """Accuracy or R² [layers]; with `weights` of the groups [R, groups]: [R, layers]."""
        drawn = np.ones((1, len(self.good))) if weights is None else weights
        score = ratio(drawn @ self.good, drawn @ self.total)
        score = 1 - score if self.number else score
        return score[0] if weights is None else score


@dataclass(frozen=True, eq=False)
class Decoded:
    """How well a property is read from each layer, r0 first: its own labels, and its controls'.

    `majority` (one layer) is the trivial probe: the majority class, or the mean, of the examples to fit.
    """

    task: Task
    own: Sums
    controls: tuple[Sums, ...]
    majority: Sums

    @property
    def score(self) -> FloatArray:
        """Accuracy or R² [layers]."""
        return self.own.score()

    @property
    def selectivity(self) -> FloatArray:
        """The score less the controls' or the majority's, whichever is higher [layers]."""
        controls = [control.score() for control in self.controls]
        floor = np.broadcast_to(self.majority.score(), self.score.shape)
        return self.score - np.fmax(np.mean(controls, axis=0) if controls else floor, floor)


def decode(
    read: VectorReader, tasks: Sequence[Task], *, draws: int, seed: int, shown: Progress = silent
) -> dict[str, Decoded]:
    """Each property by name, probed in all read layers, with `draws` of its control."""
    decoded: dict[str, Decoded] = {}
    for groups in passes(tasks, lambda task: columns_of(task, draws, seed)):
        sums: list[tuple[Moments, Moments]] = []
        for batch in read([group.positions("fit") for group in groups], shown):
            if not sums:
                sums = [empty_moments(*both) for both in zip(groups, batch, strict=True)]
            for group, (part, rest), vectors in zip(groups, sums, batch, strict=True):
                of = group.positions("fit").group[vectors.rows]
                held = torch.from_numpy(of % HELD_BACK == HELD_BACK - 1)
                targets = group.fit[vectors.rows]
                part.add(vectors.values[:, ~held], targets[~held])
                rest.add(vectors.values[:, held], targets[held])
        fitted = [
            fit(*both, group.blocks.values()) for group, both in zip(groups, sums, strict=True)
        ]
        predictions: dict[str, np.ndarray] = {}
        for batch in read([group.positions("check") for group in groups], shown):
            for group, probe, vectors in zip(groups, fitted, batch, strict=True):
                predicted = probe.predict(vectors.values)
                for column in group.columns:
                    values = group.restored(column, predicted)
                    empty = np.empty((len(values), len(column.check)), values.dtype)
                    predictions.setdefault(column.name, empty)[:, vectors.rows] = values
        for group in groups:
            for task in group.tasks:
                columns = [column for column in group.columns if column.task is task]
                own, *others = (sums_of(column, predictions[column.name]) for column in columns)
                decoded[task.about.name] = Decoded(task, own, tuple(others), majority_sums(task))
    return decoded


def passes(tasks: Sequence[Task], columns: Callable[[Task], list[Column]]) -> Iterator[list[Group]]:
    """Groups of tasks at the same positions; those of the same texts are read in one pass.

    `columns` gives the labels to fit for a task: its own, and others beside them.
    """
    at: dict[int, list[Task]] = {}
    for task in tasks:
        at.setdefault(id(task.fit.positions), []).append(task)
    by_texts: dict[int, list[Group]] = {}
    for together in at.values():
        group = Group.of([column for task in together for column in columns(task)])
        by_texts.setdefault(id(together[0].fit.positions.texts), []).append(group)
    yield from by_texts.values()


def empty_moments(group: Group, first: Vectors) -> tuple[Moments, Moments]:
    """Two empty moments, their shift the mean of the first batch."""
    layers, n, width = first.values.shape
    shift = first.values.mean(1) if n else first.values.new_zeros(layers, width)
    targets = group.fit.shape[1]
    return Moments.empty(shift, targets), Moments.empty(shift, targets)


def sums_of(column: Column, predictions: np.ndarray) -> Sums:
    """The sums of these predictions [layers, n]."""
    positions = column.task.check.positions
    group, n = positions.group, len(positions.names)
    if column.task.classes:
        right = [sum_by(group, layer == column.check, n) for layer in predictions]
        total = sum_by(group, np.ones(len(group)), n)
    else:
        right = [sum_by(group, np.square(layer - column.check), n) for layer in predictions]
        total = sum_by(group, np.square(column.check - float(column.fit.mean())), n)
    repeated = np.repeat(total[:, None], len(predictions), axis=1)
    return Sums(np.stack(right, axis=1), repeated, not column.task.classes)


def majority_sums(task: Task) -> Sums:
    """The sums of the trivial probe: see `Decoded`."""
    column = Column(task, None, task.fit.labels, task.check.labels)
    prediction = float(column.fit.mean())
    if task.classes:
        prediction = int(np.bincount(column.fit.astype(np.int64)).argmax())
    return sums_of(column, np.full((1, len(column.check)), prediction))
