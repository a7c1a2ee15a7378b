"""The texts that probes are fitted on and scored on: pairs as they are, recombined pairs, sentences."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.data.shuffles import shuffle_characters
from qt_bert.data.splits import spread_over_queries
from qt_bert.probes.base import Context
from qt_bert.stats.arrays import IntArray
from qt_bert.text import Text

Texts = tuple[str, str]
"""A query and a title."""

LEAST_TEXTS = 5
"""Fewer pairs in a half say nothing of what can be read from vectors."""


class Sizes(NamedTuple):
    """How many texts of each kind there are at most.

    How well something is read depends on how many texts are fitted (models of random weights are
    ahead in length by less, the more there are), so a quick run fits every property and every model
    on as many, the most that its time allows; the grade, which discovery alone has, on fewer.
    """

    discovery: int
    further: int
    validation: int
    recombined: int
    recombined_validation: int
    sentences: int


QUICK = Sizes(
    discovery=160,
    further=60,
    validation=160,
    recombined=200,
    recombined_validation=110,
    sentences=120,
)
FULL = Sizes(
    discovery=100_000,
    further=100_000,
    validation=100_000,
    recombined=5_000,
    recombined_validation=1_500,
    sentences=100_000,
)


@dataclass(frozen=True, eq=False)
class Natural:
    """Pairs as they stand in the files, with the number of the query of each [T].

    `grades` holds the mean of the grades that a label may mean; None where nothing is said.
    """

    texts: tuple[Texts, ...]
    grades: tuple[float | None, ...]
    groups: IntArray


@dataclass(frozen=True, eq=False)
class Recombined:
    """A query beside a title of another pair, the title's characters shuffled in every other one."""

    texts: tuple[Texts, ...]
    shuffled: IntArray
    groups: IntArray


def sizes(context: Context) -> Sizes:
    """Those of the profile."""
    return context.choose(QUICK, FULL)


def checked(context: Context) -> list[Pair]:
    """The pairs of validation that probes are scored on."""
    return spread_over_queries(context.validation, sizes(context).validation, context.seed)


def too_few(context: Context) -> Text | None:
    """What to say of pairs too few to probe vectors with; None where there are enough."""
    fitted, scored = len(_to_fit(context)), len(checked(context))
    if min(fitted, scored) >= LEAST_TEXTS:
        return None
    return Text(
        f"样本太少：可供拟合的 {fitted} 对、检验的 {scored} 对，各需至少 {LEAST_TEXTS} 对，所以没有探测向量。",
        f"Too few pairs: {fitted} to fit on that share no text with the {scored} to score on. "
        f"Probing vectors needs {LEAST_TEXTS} of each, so nothing was read.",
    )


def natural(context: Context) -> tuple[Natural, Natural]:
    """To fit on: discovery, and further texts without grades. To score on: validation.

    No query and no title of the second stands in the first. There must be enough (`too_few`).
    """
    limit = sizes(context)
    validation = checked(context)
    chosen = spread_over_queries(_to_fit(context), limit.discovery, context.seed)
    more = list(_further(context, _known(context)))[: limit.further]
    grades = [*(_grade(pair) for pair in chosen), *[None] * len(more)]
    texts = [*((pair.query, pair.title) for pair in chosen), *more]
    return _natural(texts, grades), _natural(
        [(pair.query, pair.title) for pair in validation], [_grade(pair) for pair in validation]
    )


def _known(context: Context) -> set[str]:
    """Every query and title of validation."""
    return {text for pair in context.validation for text in (pair.query, pair.title)}


def _to_fit(context: Context) -> list[Pair]:
    """The pairs of discovery that share no text with validation."""
    known = _known(context)
    return [pair for pair in context.discovery if not known & {pair.query, pair.title}]


def recombined(context: Context) -> tuple[Recombined, Recombined]:
    """Recombined pairs of all texts of either half, to fit on and to score on."""
    limit = sizes(context)
    mine = [(pair.query, pair.title) for pair in _to_fit(context)]
    mine += _further(context, _known(context))
    theirs = [(pair.query, pair.title) for pair in context.validation]
    return (
        recombine(mine, limit.recombined, context.seed),
        recombine(theirs, limit.recombined_validation, context.seed + 1),
    )


def recombine(pairs: Sequence[Texts], count: int, seed: int) -> Recombined:
    """At most `count` different pairs of a query and a title that are not a pair of the file.

    Those of even number are as they are, those of odd number have their title's characters shuffled
    (titles that have no other order are never drawn).
    """
    rng = np.random.default_rng([seed, 4])
    queries = list(dict.fromkeys(query for query, _ in pairs))
    titles = [one for one in dict.fromkeys(title for _, title in pairs) if len(set(one)) > 1]
    combinations = len(queries) * len(titles)
    taken = set(pairs)
    texts: list[Texts] = []
    for place in rng.choice(combinations, min(combinations, count + len(taken)), replace=False):
        query, title = queries[place // len(titles)], titles[place % len(titles)]
        if len(texts) < count and (query, title) not in taken:
            shuffled = shuffle_characters(title, rng) if len(texts) % 2 else None
            texts.append((query, shuffled or title))
    return Recombined(
        tuple(texts), np.arange(len(texts)) % 2, numbered(query for query, _ in texts)
    )


def numbered(names: Iterable[str]) -> IntArray:
    """Numbers from 0 in the order in which names first stand there."""
    numbers: dict[str, int] = {}
    return np.array([numbers.setdefault(name, len(numbers)) for name in names], np.int64)


def _natural(texts: Sequence[Texts], grades: Sequence[float | None]) -> Natural:
    return Natural(tuple(texts), tuple(grades), numbered(query for query, _ in texts))


def _further(context: Context, known: set[str]) -> list[Texts]:
    """Further texts that validation does not have, in an order drawn by the seed."""
    texts = [one for one in context.further_texts if not known & set(one)]
    order = np.random.default_rng([context.seed, 5]).permutation(len(texts))
    return [texts[place] for place in order]


def _grade(pair: Pair) -> float | None:
    return float(np.mean(pair.grades)) if pair.grades else None
