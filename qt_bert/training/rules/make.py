"""Making training pairs: every rule over every base, the same pairs for the same seed."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, zip_longest
from random import Random
from typing import NamedTuple

from qt_bert.errors import ArgumentError
from qt_bert.pairs import GradeSet, segmenter
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.training.rules.catalogue import RULES
from qt_bert.training.rules.needs import composed
from qt_bert.training.rules.related import RelatedTexts
from qt_bert.training.rules.rule import Base, Draw, Made, Rule
from qt_bert.training.rules.wording import with_courtesy, with_synonym, with_tail

KEPT = ":kept"
"""Ends the rule's name beside a twin: the same query with a title that keeps its meaning."""

_TAILS = 0.3
_COURTESIES = 0.06
_REWORDED = 0.5
_TRIES = 40
_QUERY_LENGTH = range(4, 31)
_TITLE_LENGTH = range(2, 81)
_HAN = re.compile("[一-鿿]")
_PROSE = re.compile("[。；…“”\"']|，.*，|[他她]们?[说的]|我说")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029]")


class MadePair(NamedTuple):
    """A pair that a rule made, with the grades it stands for."""

    query: str
    title: str
    grades: GradeSet
    rule: str


def make_pairs(
    texts: Sequence[str],
    good_pairs: Sequence[tuple[str, str]],
    *,
    rules: Sequence[str] = tuple(RULES),
    per_rule: int | Mapping[str, int],
    seed: int,
    forbidden: Callable[[str], bool] | Set[str] = frozenset(),
) -> Iterator[MadePair]:
    """Pairs made by `rules`, rule by rule, at most `per_rule` of each, their twins not counted.

    `texts` are texts people type, of 4-30 characters (others are passed over); `good_pairs` are
    queries with a title known to be good (grade 4 or 5); further pairs are composed from the
    tables. No query, and no title, is or holds as its base a query of `forbidden` (compared
    without case, width, spaces and punctuation where it is a set). No pair comes twice, none of
    `good_pairs` comes under other grades. The same arguments and seed give the same pairs.

    Raises ArgumentError for an unknown rule or a negative number.
    """
    numbers = _numbers(rules, per_rule)
    if not numbers:
        return
    is_barred = _barrier(forbidden)
    cutter = segmenter("rjieba")
    rng = Random(seed)
    usable = [t for t in dict.fromkeys(map(_clean, texts)) if _is_query(t) and not is_barred(t)]
    good = [(_clean(q), _clean(t)) for q, t in good_pairs]
    good = [(q, t) for q, t in dict.fromkeys(good) if _is_query(q) and not is_barred(q)]
    bases = (
        [Base(text, _reworded(text, cutter, rng), (5,)) for text in usable],
        [Base(query, title, (4, 5)) for query, title in good],
        list(_composed_bases(4 * max(numbers.values()), rng)),
    )
    related = RelatedTexts(usable, cutter)
    accept = _Gate(is_barred, good)
    for name, number in numbers.items():
        source = Random(f"{seed}/{name}")
        draws = (Draw(base, source, cutter, related) for base in _mixed(bases, source))
        yield from _made_by(RULES[name], draws, number, accept)


def _made_by(rule: Rule, draws: Iterable[Draw], number: int, accept: _Gate) -> Iterator[MadePair]:
    count = 0
    for tries, draw in enumerate(draws):
        if count == number or tries == _TRIES * number:
            return
        made = rule.apply(draw)
        if made is None:
            continue
        pairs = _dressed(rule, made, draw.rng)
        if accept(pairs):
            count += 1
            yield from pairs


def _dressed(rule: Rule, made: Made, rng: Random) -> list[MadePair]:
    """The pair and its twin, with tails and courtesies as often under every grade."""
    query = with_courtesy(made.query, rng) if rng.random() < _COURTESIES else made.query
    pairs = [MadePair(query, _tailed(made.title, rng), rule.grades, rule.name)]
    if made.kept is not None:
        pairs.append(
            MadePair(query, _tailed(made.kept, rng), made.kept_grades, f"{rule.name}{KEPT}")
        )
    return pairs


def _tailed(title: str, rng: Random) -> str:
    return with_tail(title, rng) if rng.random() < _TAILS else title


class _Gate:
    """Lets through what is new, says nothing of a barred query, and contradicts no good pair."""

    def __init__(self, is_barred: Callable[[str], bool], good: Iterable[tuple[str, str]]) -> None:
        self._is_barred = is_barred
        self._seen = {(folded(query), folded(title)) for query, title in good}

    def __call__(self, pairs: Sequence[MadePair]) -> bool:
        made = pairs[0]
        key = folded(made.query), folded(made.title)
        if key in self._seen and 5 not in made.grades:
            return False
        if 5 not in made.grades and key[0] == key[1]:
            return False
        exact = made.query, made.title
        if exact in self._seen or any(self._bars(pair) for pair in pairs):
            return False
        self._seen |= {exact, key, *((pair.query, pair.title) for pair in pairs)}
        return True

    def _bars(self, pair: MadePair) -> bool:
        too_long = len(pair.title) not in _TITLE_LENGTH
        return too_long or self._is_barred(pair.query) or self._is_barred(pair.title)


def folded(text: str) -> str:
    """`text` without case, width, spaces and punctuation: what near-equal texts share."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return "".join(character for character in plain if character.isalnum())


def _barrier(forbidden: Callable[[str], bool] | Set[str]) -> Callable[[str], bool]:
    if not isinstance(forbidden, Set):
        return forbidden
    barred = {folded(query) for query in forbidden}
    return lambda text: folded(text) in barred


def _numbers(rules: Sequence[str], per_rule: int | Mapping[str, int]) -> dict[str, int]:
    given = per_rule if isinstance(per_rule, Mapping) else dict.fromkeys(rules, per_rule)
    for name in (*rules, *given):
        if name not in RULES:
            raise ArgumentError(f"no rule {name!r}; there are {', '.join(RULES)}")
    for name, number in given.items():
        if number < 0:
            raise ArgumentError(f"per_rule: {number} pairs of {name!r}; give 0 or more")
    return {name: given[name] for name in dict.fromkeys(rules) if given.get(name)}


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text).strip()


def _is_query(text: str) -> bool:
    """Whether `text` may be something a person types to search: short, no prose or dialogue."""
    return len(text) in _QUERY_LENGTH and bool(_HAN.search(text)) and not _PROSE.search(text)


def _reworded(text: str, cutter: Segmenter, rng: Random) -> str:
    reworded = with_synonym(text, cutter, rng) if rng.random() < _REWORDED else None
    return reworded or text


def _composed_bases(number: int, rng: Random) -> Iterator[Base]:
    drawn = dict.fromkeys(composed(rng) for _ in range(number))
    return (Base(query, title, (5,)) for query, title in drawn)


def _mixed(bases: Sequence[Sequence[Base]], rng: Random) -> Iterator[Base]:
    """All bases, the sources in turn, each in a random order."""
    orders = (rng.sample(source, len(source)) for source in bases)
    return (base for base in chain.from_iterable(zip_longest(*orders)) if base is not None)
