"""Examples of a property: what is read of which text, and what is true of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from qt_bert.probes.layers.property import Property, Unit
from qt_bert.stats.arrays import FloatArray, IntArray

LEAST_SHARE = 0.005
"""A class of a smaller share of the examples to fit on goes with the others."""
LEAST_EXAMPLES = 5
OTHER = "other"


@dataclass(frozen=True, eq=False)
class Places:
    """N places in T texts at which vectors are read; properties read at the same places share them.

    `texts` are (query, title) pairs, as a model reads them. Of each place: `text` [N], the number of
    its text, never falling; `spans` [N, S, 2], the tokens [start, end) of the sequence that are read.
    A `token` has one span of one token. A `text` has those of query and title, over which one mean
    is taken (special tokens, a share of which would tell the length, are no part of it; or [CLS]
    alone stands for it). An `edge` has those of its two words, whose means u and v are read as u, v
    and u·v. `groups` [T] numbers the queries or sentences that are resampled together, from 0
    without gaps.
    """

    unit: Unit
    texts: tuple[tuple[str, str], ...]
    text: IntArray
    spans: IntArray
    groups: IntArray

    def __len__(self) -> int:
        return len(self.text)

    @property
    def n_groups(self) -> int:
        """How many queries or sentences there are."""
        return int(self.groups.max()) + 1 if len(self.groups) else 0

    @cached_property
    def group(self) -> IntArray:
        """The query or sentence of each place [N]."""
        return np.asarray(self.groups[self.text])

    @cached_property
    def starts(self) -> IntArray:
        """Where the places of each text begin [T + 1]."""
        return np.searchsorted(self.text, np.arange(len(self.texts) + 1))

    def width(self, hidden: int) -> int:
        """How many numbers are read at a place of a model with vectors of `hidden` numbers."""
        return 3 * hidden if self.unit == "edge" else hidden


@dataclass(frozen=True, eq=False)
class Examples:
    """What is true at each of N places.

    `labels` [N] are numbers, or places in `classes`. `kinds` [N] numbers what stands there
    apart from its context (the character, of an edge the dependent word): what a control task gives
    its labels to. It is empty for texts.
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


def fewer(examples: Examples, most: int, seed: int) -> Examples:
    """The examples of some whole texts, drawn by the seed: `most`, or as many as there are.

    The last text drawn is taken whole, so that a few more may come.
    """
    places = examples.places
    if len(examples) <= most:
        return examples
    sizes = np.diff(places.starts)
    order = np.random.default_rng([seed, 9]).permutation(len(sizes))
    before = np.cumsum(sizes[order]) - sizes[order]
    texts = np.sort(order[(before < most) & (sizes[order] > 0)])
    kept = np.isin(places.text, texts)
    few = Places(
        places.unit,
        tuple(places.texts[text] for text in texts),
        np.searchsorted(texts, places.text[kept]),
        places.spans[kept],
        np.unique(places.groups[texts], return_inverse=True)[1],
    )
    kinds = None if examples.kinds is None else examples.kinds[kept]
    return replace(examples, places=few, labels=examples.labels[kept], kinds=kinds)


@dataclass(frozen=True, eq=False)
class Described:
    """Places with their labels as they are named, and what stands there apart from its context."""

    places: Places
    labels: Sequence[float | str]
    kinds: Sequence[str] | None = None


def task_of(about: Property, fit: Described, check: Described) -> Task | None:
    """The task; None where a half has too few examples, or all that are to be fitted are alike."""
    least = min(len(fit.labels), len(check.labels))
    if least < LEAST_EXAMPLES or len(set(fit.labels)) < 2 or len(set(check.labels)) < 2:
        return None
    kinds: dict[str, int] = {}
    classes = _classes(fit.labels, check.labels) if about.labels == "classes" else ()
    if about.labels == "classes" and len(classes) < 2:
        return None
    return Task(*(_examples(about, one, classes, kinds) for one in (fit, check)))


def _classes(labels: Sequence[float | str], others: Sequence[float | str]) -> tuple[str, ...]:
    """The commonest first; those of a small share, and those of `others` alone, are one, the last."""
    counts = Counter(map(str, labels))
    least = max(LEAST_SHARE * len(labels), 2)
    common = [name for name, count in counts.most_common() if count >= least]
    rare = not (set(counts) | set(map(str, others))) <= set(common)
    return tuple([name for name in common if name != OTHER] + ([OTHER] if rare else []))


def _examples(
    about: Property, one: Described, classes: tuple[str, ...], kinds: dict[str, int]
) -> Examples:
    numbered = None
    if one.kinds is not None:
        numbered = np.array([kinds.setdefault(kind, len(kinds)) for kind in one.kinds], np.int64)
    if not classes:
        return Examples(about, one.places, np.array(one.labels, np.float64), (), numbered)
    at = {name: number for number, name in enumerate(classes)}
    labels = np.array([at.get(str(label), len(at) - 1) for label in one.labels], np.int64)
    return Examples(about, one.places, labels, classes, numbered)
