"""Properties read from a model's vectors by linear probes, layer by layer.

Vectors are r0, the embeddings, to rn, what the last layer gives. A probe is a ridge regression in closed
form on running sums, one covariance a layer for all properties at the same places; no vector is kept.
Its control (Hewitt and Liang 2019, "Designing and Interpreting Probes with Control Tasks") has the same
places and random labels: what a probe gets right there it knows by heart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NamedTuple

import numpy as np
import torch

from qt_bert.ablation.engine import batch_tokens
from qt_bert.errors import ArgumentError
from qt_bert.models.batches import Batch
from qt_bert.models.forward import Encoder
from qt_bert.probes.texts import texts_of
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import FloatArray, IntArray, ratio, sum_by
from qt_bert.text import Text

Unit = Literal["token", "edge", "text"]
"""What has the property: a character, two words that are linked, or a whole pair."""

LEAST_SHARE = 0.005
"""A class of a smaller share of the examples to fit on goes with the others."""
LEAST_EXAMPLES = 5
OTHER = "other"
HELD_BACK = 5
"""One query or sentence in so many of those to fit on decides over the penalty."""
PENALTIES = (1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0, 100.0)
"""What is tried, in units of the vectors' mean variance."""


# Properties, where they are read, and what is true there.


@dataclass(frozen=True, slots=True)
class Property:
    """Something known of a character, an edge or a text: one of some classes, or a number."""

    name: str
    unit: Unit
    number: bool = False

    @property
    def title(self) -> Text:
        """The name in words."""
        return texts_of("layers").text(f"words.{self.name}")


POSITION = Property("position", "token", True)
"""How many tokens of the sequence stand before the character."""
LENGTH = Property("length", "text", True)
"""How many tokens the pair has."""
BOUNDARY = Property("boundary", "token")
"""Whether a word ends behind the character."""
POS = Property("pos", "token")
"""The part of speech of the character's word, by jieba's tags."""
DEPENDENCY = Property("dependency", "edge")
"""The label of the arc between two words of a treebank."""
ORDER = Property("order", "text")
"""Whether the title's characters were shuffled."""
ENTITY = Property("entity", "token")
"""Person, place, organisation, another name, or no name: by jieba's tags."""
MATCHED = Property("matched", "token")
"""Whether the character's word stands in the other text, too."""
GRADE = Property("grade", "text", True)
"""What the label says: its grade, or the mean of the grades that it may mean."""

PROPERTIES: Mapping[str, Property] = {
    one.name: one
    for one in (
        *(POSITION, LENGTH, BOUNDARY, POS, DEPENDENCY),
        *(ORDER, ENTITY, MATCHED, GRADE),
    )
}
"""All of them by name, from the surface up."""


def in_words(values: Mapping[str, float], form: str, *, reverse: bool = False) -> Text:
    """Properties with their values in this format, the lowest first, or the highest if `reverse`."""
    ranked = sorted(values, key=lambda name: values[name], reverse=reverse)
    told = [(PROPERTIES[name].title, format(values[name], form)) for name in ranked]
    return Text(
        "、".join(f"{title.zh} {value}" for title, value in told) or "–",
        ", ".join(f"{title.en} {value}" for title, value in told) or "–",
    )


@dataclass(frozen=True, eq=False)
class Places:
    """N places in T texts at which vectors are read; properties read at the same places share them.

    `texts` are (query, title) pairs, as a model reads them. Of each place: `text` [N], the number of
    its text, never falling; `spans` [N, S, 2], the tokens [start, end) of the sequence that are read.
    A `token` has one span of one token. A `text` has those of query and title, over which one mean is
    taken (a share of special tokens in it would tell the length). An `edge` has those of its two
    words, whose means u and v are read as u, v and u·v. `groups` [T] numbers the queries or sentences
    that are resampled together, from 0 without gaps.
    """

    unit: Unit
    texts: tuple[tuple[str, str], ...]
    text: IntArray
    spans: IntArray
    groups: IntArray

    def __len__(self) -> int:
        return len(self.text)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The query or sentence of each group: the first text of it."""
        found: dict[int, str] = {}
        for group, (query, _) in zip(self.groups.tolist(), self.texts, strict=True):
            found.setdefault(group, query)
        return tuple(found[group] for group in range(len(found)))

    @property
    def n_groups(self) -> int:
        """How many queries or sentences there are."""
        return len(self.names)

    @cached_property
    def group(self) -> IntArray:
        """The query or sentence of each place [N]."""
        return np.asarray(self.groups[self.text])

    @cached_property
    def starts(self) -> IntArray:
        """Where the places of each text begin [T + 1]."""
        return np.searchsorted(self.text, np.arange(len(self.texts) + 1))


@dataclass(frozen=True, eq=False)
class Examples:
    """What is true at each of N places.

    `labels` [N] are numbers, or places in `classes`. `kinds` [N] numbers what stands there apart from
    its context (the character, of an edge the dependent word); none for texts.
    """

    about: Property
    places: Places
    labels: IntArray | FloatArray
    classes: tuple[str, ...] = ()
    kinds: IntArray | None = None

    def __len__(self) -> int:
        return len(self.labels)


@dataclass(frozen=True, eq=False)
class Task:
    """A property with the examples that its probe is fitted on and those that it is scored on.

    No text of `check` is one of `fit`; both have the same classes, and number kinds alike.
    """

    fit: Examples
    check: Examples

    @property
    def about(self) -> Property:
        """What is asked."""
        return self.fit.about

    @property
    def classes(self) -> tuple[str, ...]:
        """The names of the classes; none where the property is a number."""
        return self.fit.classes


class Labelled(NamedTuple):
    """Places with their labels as they are named, and what stands there apart from its context."""

    places: Places
    labels: Sequence[float | str]
    kinds: Sequence[str] | None = None


def task_of(about: Property, fit: Labelled, check: Labelled) -> Task | None:
    """The task; None where a half has too few examples, or all of one are alike.

    Classes stand the commonest first; those of a small share, and those of `check` alone, are one, the
    last.
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
        return Examples(about, half.places, labels, tuple(classes), numbered)

    return Task(examples(fit), examples(check))


# Vectors.


class Seen(NamedTuple):
    """What is read at some places: `rows` [n] says at which; `values` float32 [layers, n, width]."""

    rows: IntArray
    values: torch.Tensor


Reader = Callable[[Sequence[Places], Progress], Iterator[tuple[Seen, ...]]]
"""How places of the same texts are read: batches with one `Seen` for each of these places."""


def states(encoder: Encoder, batch: Batch) -> Iterator[torch.Tensor]:
    """r0 … rn of a batch, each [B, L, hidden]; r(l + 1) is what layer l gives."""
    batch = batch.to(encoder.device)
    hidden = encoder.embed(batch)
    yield hidden
    for layer, bias in zip(encoder.layers, encoder.biases(batch), strict=True):
        query, key, value = layer.project(hidden)
        hidden = layer.finish(layer.attend(query, key, value, bias), hidden)
        yield hidden


def vectors(
    scorer: Scorer,
    places: Sequence[Places],
    layers: Sequence[int] | None = None,
    *,
    shown: Progress = silent,
) -> Iterator[tuple[Seen, ...]]:
    """What is read at `places`, batch by batch, of all r or of the r numbered `layers`.

    Several `places` may be read in one pass where they are of the same texts; a batch gives one
    `Seen` for each. `shown` counts texts. Raises ArgumentError for places of different texts, and
    for an r that the model does not have.
    """
    if any(one.texts != places[0].texts for one in places[1:]):
        raise ArgumentError("places that are read together must be of the same texts")
    numbers = range(len(scorer.encoder.layers) + 1)
    wanted = list(numbers) if layers is None else list(layers)
    if outside := [number for number in wanted if number not in numbers]:
        raise ArgumentError(f"r{outside[0]}: the model has r0 to r{numbers[-1]}")
    for batch in scorer.fresh().batches(places[0].texts, batch_tokens()):
        at = [_at(batch, one) for one in places]
        read: list[list[torch.Tensor]] = [[] for _ in places]
        with torch.inference_mode():
            for number, hidden in enumerate(states(scorer.encoder, batch)):
                if number in wanted:
                    values = hidden.float().cpu()
                    sums = torch.nn.functional.pad(values.cumsum(1), (0, 0, 1, 0))
                    for one, (_, of, spans), into in zip(places, at, read, strict=True):
                        into.append(_read(one.unit, of, spans, values, sums))
                if number == max(wanted):
                    break
            order = [sorted(wanted).index(number) for number in wanted]
            seen = tuple(
                Seen(rows, torch.stack([into[place] for place in order]))
                for (rows, _, _), into in zip(at, read, strict=True)
            )
        yield seen
        shown.advance(len(batch))


def _at(batch: Batch, places: Places) -> tuple[IntArray, torch.Tensor, torch.Tensor]:
    """Places in a batch: their numbers [n], their rows there [n], and their spans [n, S, 2]."""
    starts, ends = places.starts[batch.rows], places.starts[batch.rows + 1]
    rows = np.concatenate([np.arange(a, b) for a, b in zip(starts, ends, strict=True)])
    of = np.repeat(np.arange(len(batch)), ends - starts)
    return rows, torch.from_numpy(of), torch.from_numpy(places.spans[rows])


def _read(
    unit: Unit, of: torch.Tensor, spans: torch.Tensor, hidden: torch.Tensor, sums: torch.Tensor
) -> torch.Tensor:
    """[n, width] of vectors [B, L, hidden] and their running sums from 0 [B, L + 1, hidden]."""
    if unit == "token":
        return hidden[of, spans[:, 0, 0]]
    totals = sums[of[:, None], spans[..., 1]] - sums[of[:, None], spans[..., 0]]  # [n, S, hidden]
    sizes = (spans[..., 1] - spans[..., 0])[..., None]
    if unit == "text":
        return totals.sum(1) / sizes.sum(1)
    left, right = (totals / sizes).unbind(1)
    return torch.cat([left, right, left * right], dim=-1)


# Targets: labels and those of the controls side by side, classes as ones and zeros.


class Column(NamedTuple):
    """Labels to fit and to score: a property's own (`draw` is None), or those of a control."""

    task: Task
    draw: int | None
    fit: IntArray | FloatArray
    check: IntArray | FloatArray

    @property
    def name(self) -> str:
        """The property, and the number of the draw."""
        own = self.task.about.name
        return own if self.draw is None else f"{own}#{self.draw}"


def columns_of(task: Task, draws: int, seed: int) -> list[Column]:
    """The property's own labels, then so many draws of its control.

    A control task gives each kind (character, dependent word) one label at random, from the property's
    own distribution. A text has no kind: its labels are permuted, and the true ones asked.
    """
    found = [Column(task, None, task.fit.labels, task.check.labels)]
    fit, check = task.fit.kinds, task.check.kinds
    for draw in range(draws):
        rng = np.random.default_rng([seed, 7, draw])
        if fit is None or check is None:
            found.append(Column(task, draw, rng.permutation(task.fit.labels), task.check.labels))
        else:
            label = rng.choice(task.fit.labels, size=1 + max(int(fit.max()), int(check.max())))
            found.append(Column(task, draw, label[fit], label[check]))
    return found


@dataclass(frozen=True, eq=False)
class Group:
    """Tasks at the same places: their columns of labels side by side as targets `fit` [places, targets].

    `blocks` says by column which targets are its own. Numbers are brought to mean 0 and deviation 1 of
    the examples to fit (`scale`).
    """

    columns: tuple[Column, ...]
    blocks: dict[str, slice]
    fit: torch.Tensor
    scale: dict[str, tuple[float, float]]

    @classmethod
    def of(cls, columns: Sequence[Column]) -> Group:
        """Of columns at the same places."""
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
        """The tasks, in their order."""
        return [column.task for column in self.columns if column.draw is None]

    def places(self, half: Literal["fit", "check"]) -> Places:
        """Those to fit, or to score."""
        task = self.columns[0].task
        return task.fit.places if half == "fit" else task.check.places

    def restored(self, column: Column, predicted: torch.Tensor) -> np.ndarray:
        """Of predictions [layers, n, targets] the column's: classes, or numbers [layers, n]."""
        own = predicted[:, :, self.blocks[column.name]]
        if column.task.classes:
            return np.asarray(own.argmax(-1).numpy())
        mean, deviation = self.scale[column.name]
        return np.asarray(own[:, :, 0].double().numpy() * deviation + mean)


# Ridge regression in closed form from running sums.


@dataclass(eq=False)
class Moments:
    """Sums over n examples of vectors x [width] in each of some layers, and of targets y [targets].

    All are sums of differences from a `shift` [layers, width] near the mean, so that float32 products
    lose nothing: `x` [layers, width], `xx` [layers, width, width], `xy` [layers, width, targets], `y`
    and `yy` [targets] (squares). Two of the same shift can be added.
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
        """Nothing summed yet."""
        layers, width = shift.shape
        return cls(
            shift,
            0,
            np.zeros((layers, width)),
            np.zeros((layers, width, width)),
            np.zeros((layers, width, targets)),
            np.zeros(targets),
            np.zeros(targets),
        )

    def add(self, x: torch.Tensor, y: torch.Tensor) -> None:
        """Sum further examples: vectors float32 [layers, n, width], targets float32 [n, targets]."""
        x = x - self.shift[:, None]
        turned = x.transpose(1, 2)
        self.n += len(y)
        self.x += x.sum(1, dtype=torch.float64).numpy()
        self.xx += torch.matmul(turned, x).double().numpy()
        self.xy += torch.matmul(turned, y).double().numpy()
        self.y += y.sum(0, dtype=torch.float64).numpy()
        self.yy += y.double().square().sum(0).numpy()

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            self.shift,
            self.n + other.n,
            self.x + other.x,
            self.xx + other.xx,
            self.xy + other.xy,
            self.y + other.y,
            self.yy + other.yy,
        )


@dataclass(frozen=True, eq=False)
class Ridge:
    """Weights [layers, width, targets] and intercepts [layers, targets], float32.

    `penalties` are those chosen for each block of targets, in each layer [layers].
    """

    weights: torch.Tensor
    intercepts: torch.Tensor
    penalties: Mapping[str, FloatArray]

    def predict(self, x: torch.Tensor) -> torch.Tensor:
        """Of vectors [layers, n, width]: [layers, n, targets]."""
        return torch.baddbmm(self.intercepts[:, None], x, self.weights)


def fit(
    part: Moments,
    rest: Moments,
    blocks: Mapping[str, slice],
    penalties: Sequence[float] = PENALTIES,
) -> Ridge:
    """Ridge on the examples of both, its penalty the one that, fitted on `part`, errs least on `rest`.

    Each block of targets has a penalty of its own, in each layer: the least sum of squared errors.
    Where either part has no example, the middle penalty is taken.
    """
    whole = part + rest
    solver = Solver.of(whole)
    if part.n and rest.n:
        errors = _errors(Solver.of(part), rest, penalties)
    else:
        errors = np.ones((len(penalties), *whole.xy.shape[::2]))
        errors[len(penalties) // 2] = 0.0
    weights, chosen = np.empty(whole.xy.shape), {}
    for name, block in blocks.items():
        best = errors[:, :, block].sum(axis=2).argmin(axis=0)
        chosen[name] = np.asarray(penalties)[best]
        weights[:, :, block] = solver.axes @ solver.shrunk(chosen[name], block)
    n = max(whole.n, 1)
    mean = whole.x / n + whole.shift.double().numpy()  # the shift goes into the intercepts
    intercepts = whole.y / n - np.einsum("lw,lwt->lt", mean, weights)
    return Ridge(torch.from_numpy(weights).float(), torch.from_numpy(intercepts).float(), chosen)


@dataclass(frozen=True, eq=False)
class Solver:
    """The centred covariance of each layer by its eigenvectors, for any penalty.

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
        """Of the covariance that these sums give."""
        n = max(sums.n, 1)
        mean, target = sums.x / n, sums.y / n
        covariance = sums.xx / n - mean[:, :, None] * mean[:, None]
        values, axes = np.linalg.eigh(covariance)
        with_target = sums.xy / n - mean[:, :, None] * target
        along = axes.transpose(0, 2, 1) @ with_target
        return cls(np.maximum(values, 0.0), axes, along, mean, target)

    def shrunk(self, penalty: FloatArray, block: slice = slice(None)) -> FloatArray:
        """Weights along the axes, with a penalty a layer [layers]; 0 on one without variance."""
        scale = self.values + penalty[:, None] * self.values.mean(axis=1, keepdims=True)
        inverse = np.divide(1.0, scale, out=np.zeros_like(scale), where=scale > 0)
        return np.asarray(self.along[:, :, block] * inverse[:, :, None])


def _errors(solver: Solver, rest: Moments, penalties: Sequence[float]) -> FloatArray:
    """Squared errors on `rest` of fits elsewhere [penalties, layers, targets], from its sums alone."""
    axes, turned = solver.axes, solver.axes.transpose(0, 2, 1)
    xx, xy = turned @ rest.xx @ axes, turned @ rest.xy
    x, mean = (np.einsum("law,lw->la", turned, one) for one in (rest.x, solver.mean))
    found = []
    for penalty in penalties:
        w = solver.shrunk(np.full(len(axes), penalty))
        b = solver.target - np.einsum("la,lat->lt", mean, w)
        quadratic = np.einsum("lat,lab,lbt->lt", w, xx, w, optimize=True)
        cross = np.einsum("lat,lat->lt", w, xy) - b * np.einsum("la,lat->lt", x, w) + b * rest.y
        found.append(rest.yy - 2 * cross + quadratic + rest.n * b * b)
    return np.stack(found)


# Every property read from every layer: fitted in one pass, scored in another.


@dataclass(frozen=True, eq=False)
class Sums:
    """What a score is made of, by query or sentence, and in each layer: two arrays [groups, layers].

    Of classes right answers and all answers, so that accuracy is their quotient; of numbers squared
    errors, and squared distances from the mean of the examples that were fitted, so that R² is one
    less the quotient.
    """

    good: FloatArray
    total: FloatArray
    number: bool

    def score(self, weights: FloatArray | None = None) -> FloatArray:
        """Accuracy or R² [layers], or with the groups weighed by `weights` [R, groups]: [R, layers]."""
        drawn = np.ones((1, len(self.good))) if weights is None else weights
        found = ratio(drawn @ self.good, drawn @ self.total)
        found = 1 - found if self.number else found
        return found[0] if weights is None else found


@dataclass(frozen=True, eq=False)
class Decoded:
    """How well one property is read from each layer, r0 first: its own labels, and its controls'.

    `majority` is what a probe gets that knows nothing: it says the commonest class of the examples
    to fit, or their mean (one layer).
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
        """The score above its controls' [layers]; a control below a probe that knows nothing is one."""
        controls = [one.score() for one in self.controls]
        floor = np.broadcast_to(self.majority.score(), self.score.shape)
        return self.score - np.fmax(np.mean(controls, axis=0) if controls else floor, floor)


def decode(
    read: Reader, tasks: Sequence[Task], *, draws: int, seed: int, shown: Progress = silent
) -> dict[str, Decoded]:
    """Each property by name, read from every layer that `read` gives; `draws` of each control.

    `shown` counts texts.
    """
    found: dict[str, Decoded] = {}
    for groups in passes(tasks, lambda task: columns_of(task, draws, seed)):
        sums: list[tuple[Moments, Moments]] = []
        for seen in read([group.places("fit") for group in groups], shown):
            if not sums:
                sums = [begun(group, one) for group, one in zip(groups, seen, strict=True)]
            for group, (part, rest), one in zip(groups, sums, seen, strict=True):
                of = group.places("fit").group[one.rows]
                held = torch.from_numpy(of % HELD_BACK == HELD_BACK - 1)
                targets = group.fit[one.rows]
                part.add(one.values[:, ~held], targets[~held])
                rest.add(one.values[:, held], targets[held])
        fitted = [fit(*both, group.blocks) for group, both in zip(groups, sums, strict=True)]
        answers: dict[str, np.ndarray] = {}
        for seen in read([group.places("check") for group in groups], shown):
            for group, probe, one in zip(groups, fitted, seen, strict=True):
                predicted = probe.predict(one.values)
                for column in group.columns:
                    told = group.restored(column, predicted)
                    empty = np.empty((len(told), len(column.check)), told.dtype)
                    answers.setdefault(column.name, empty)[:, one.rows] = told
        for group in groups:
            for task in group.tasks:
                columns = [one for one in group.columns if one.task is task]
                own, *others = (sums_of(one, answers[one.name]) for one in columns)
                name = task.about.name
                found[name] = Decoded(task, own, tuple(others), majority_sums(task))
    return found


def passes(tasks: Sequence[Task], columns: Callable[[Task], list[Column]]) -> Iterator[list[Group]]:
    """Groups of tasks at the same places; those of the same texts are read in one pass.

    `columns` gives what is fitted for a task: its own labels, and others beside them.
    """
    at: dict[int, list[Task]] = {}
    for task in tasks:
        at.setdefault(id(task.fit.places), []).append(task)
    by_texts: dict[int, list[Group]] = {}
    for together in at.values():
        group = Group.of([column for task in together for column in columns(task)])
        by_texts.setdefault(id(together[0].fit.places.texts), []).append(group)
    yield from by_texts.values()


def begun(group: Group, first: Seen) -> tuple[Moments, Moments]:
    """Empty sums, their shift the mean of the first batch."""
    layers, n, width = first.values.shape
    shift = first.values.mean(1) if n else first.values.new_zeros(layers, width)
    targets = group.fit.shape[1]
    return Moments.empty(shift, targets), Moments.empty(shift, targets)


def sums_of(column: Column, answers: np.ndarray) -> Sums:
    """What the score of these answers [layers, n] is made of."""
    places = column.task.check.places
    group, n = places.group, places.n_groups
    if column.task.classes:
        right = [sum_by(group, one == column.check, n) for one in answers]
        total = sum_by(group, np.ones(len(group)), n)
    else:
        right = [sum_by(group, np.square(one - column.check), n) for one in answers]
        total = sum_by(group, np.square(column.check - float(column.fit.mean())), n)
    repeated = np.repeat(total[:, None], len(answers), axis=1)
    return Sums(np.stack(right, axis=1), repeated, not column.task.classes)


def majority_sums(task: Task) -> Sums:
    """What the score of a probe that knows nothing is made of: see `Decoded`."""
    own = Column(task, None, task.fit.labels, task.check.labels)
    answer = float(own.fit.mean())
    if task.classes:
        answer = int(np.bincount(own.fit.astype(np.int64)).argmax())
    return sums_of(own, np.full((1, len(own.check)), answer))
