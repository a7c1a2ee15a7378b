"""Labels as numbers: classes in the order of their frequency, rare ones together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.probes.encoded.examples import Examples, Places, Task
from qt_bert.probes.encoded.property import Property

LEAST_SHARE = 0.005
"""A class of a smaller share of the examples to fit on goes with the others."""
LEAST_EXAMPLES = 5
OTHER = "other"


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
