"""Making training pairs: every rule over every base, the same pairs for the same seed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, zip_longest
from random import Random

from qt_bert.errors import ArgumentError
from qt_bert.pairs import segmenter
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.training.rules.catalogue import RULES
from qt_bert.training.rules.gate import Gate, MadePair, barrier
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
_COMPOSED = 8
_QUERY_LENGTH = range(4, 31)
_HAN = re.compile("[一-鿿]")
_PROSE = re.compile("[。；…“”\"']|，.*，|[他她]们?[说的]|我说")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")


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
    tables. No query and no title is one of `forbidden`, nor made from one (a set is compared
    without case, width, spaces and punctuation). No pair comes twice, and none under grades that
    contradict another's or `good_pairs`. The same arguments and seed give the same pairs.

    Raises ArgumentError for an unknown rule, a negative number, or where rjieba (the extra `fast`)
    is not installed.
    """
    numbers = _numbers(rules, per_rule)
    is_barred = barrier(forbidden)
    cutter = segmenter("rjieba")
    rng = Random(seed)
    usable = _usable(texts, is_barred)
    good = _usable_pairs(good_pairs, is_barred)
    bases = (
        [Base(text, _reworded(text, cutter, rng), (5,)) for text in usable],
        [Base(query, title, (4, 5)) for query, title in good],
        _composed_bases(_COMPOSED * max(numbers.values(), default=0), rng),
    )
    related = RelatedTexts(usable, cutter)
    gate = Gate(is_barred, good)

    def made_by(name: str) -> Iterator[MadePair]:
        source = Random(f"{seed}/{name}")
        draws = (Draw(base, source, cutter, related) for base in _mixed(bases, source))
        return _made_by(RULES[name], draws, numbers[name], gate)

    return chain.from_iterable(map(made_by, numbers))


def _made_by(rule: Rule, draws: Iterable[Draw], number: int, gate: Gate) -> Iterator[MadePair]:
    count = 0
    for tries, draw in enumerate(draws):
        if count == number or tries == _TRIES * number:
            return
        made = rule.apply(draw)
        if made is None or not gate.admits(made, rule.grades):
            continue
        pair, *twin = _dressed(rule, made, draw.rng)
        if gate.is_new(pair):
            count += 1
            yield pair
            yield from filter(gate.is_new, twin)


def _dressed(rule: Rule, made: Made, rng: Random) -> list[MadePair]:
    """The pair and its twin, with tails and courtesies as often under every grade."""
    query = with_courtesy(made.query, rng) if rng.random() < _COURTESIES else made.query
    pairs = [MadePair(query, _tailed(made.title, rng), rule.grades, rule.name)]
    if made.kept is not None:
        kept = _tailed(made.kept, rng)
        pairs.append(MadePair(query, kept, made.kept_grades, f"{rule.name}{KEPT}"))
    return pairs


def _tailed(title: str, rng: Random) -> str:
    return with_tail(title, rng) if rng.random() < _TAILS else title


def _numbers(rules: Sequence[str], per_rule: int | Mapping[str, int]) -> dict[str, int]:
    given = per_rule if isinstance(per_rule, Mapping) else dict.fromkeys(rules, per_rule)
    for name in (*rules, *given):
        if name not in RULES:
            raise ArgumentError(f"no rule {name!r}; there are {', '.join(RULES)}")
    for name, number in given.items():
        if number < 0:
            raise ArgumentError(f"per_rule: {number} pairs of {name!r}; give 0 or more")
    return {name: given[name] for name in dict.fromkeys(rules) if given.get(name)}


def _usable(texts: Iterable[str], is_barred: Callable[[str], bool]) -> list[str]:
    cleaned = dict.fromkeys(map(_clean, texts))
    return [text for text in cleaned if _is_query(text) and not is_barred(text)]


def _usable_pairs(
    pairs: Iterable[tuple[str, str]], is_barred: Callable[[str], bool]
) -> list[tuple[str, str]]:
    cleaned = dict.fromkeys((_clean(query), _clean(title)) for query, title in pairs)
    return [
        (query, title)
        for query, title in cleaned
        if title and _is_query(query) and not is_barred(query) and not is_barred(title)
    ]


def _clean(text: str) -> str:
    return _UNPRINTABLE.sub(" ", text).strip()


def _is_query(text: str) -> bool:
    """Whether `text` may be something a person types to search: short, no prose or dialogue."""
    return len(text) in _QUERY_LENGTH and bool(_HAN.search(text)) and not _PROSE.search(text)


def _reworded(text: str, cutter: Segmenter, rng: Random) -> str:
    reworded = with_synonym(text, cutter, rng) if rng.random() < _REWORDED else None
    return reworded or text


def _composed_bases(number: int, rng: Random) -> list[Base]:
    drawn = dict.fromkeys(composed(rng) for _ in range(number))
    return [Base(query, title, (5,)) for query, title in drawn]


def _mixed(bases: Sequence[Sequence[Base]], rng: Random) -> Iterator[Base]:
    """All bases, the sources in turn, each in a random order."""
    orders = (rng.sample(source, len(source)) for source in bases)
    return (base for base in chain.from_iterable(zip_longest(*orders)) if base is not None)
