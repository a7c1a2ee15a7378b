"""Training pairs of known grades, made by rule from the texts and good pairs that a recipe names.

    python -m experiments.make_pairs.run --recipe experiments/make_pairs/recipe.toml \
        --data DATA --out DATA/made.tsv [--seed 1]
    python -m experiments.make_pairs.run --list
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import chain, zip_longest
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common.command import one_line_faults, parser_of
from experiments.make_pairs.language import (
    Base,
    Draw,
    Made,
    RelatedTexts,
    Rule,
    composed,
    with_courtesy,
    with_synonym,
    with_tail,
)
from experiments.make_pairs.rules_of_content import NUMBERS, OTHERS, SCOPE, THINGS
from experiments.make_pairs.rules_of_wording import ORDER, POLARITY, SALAD, SAMENESS
from qt_bert.data.pairs import GradeSet
from qt_bert.data.reader import PairReader
from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_write
from qt_bert.training.corpus import text_lines
from qt_bert.training.recipes import Recipe, load_recipe

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for several in (SAMENESS, ORDER, POLARITY, NUMBERS, THINGS, SCOPE, OTHERS, SALAD)
    for rule in several
}
"""Every rule by its name."""

KEPT = ":kept"
"""Ends the rule's name beside a twin: the same query with a title that keeps its meaning."""

COLUMNS = ("query", "title", "grade", "rule")
TEXTS_A_SHARD = 4_000
GOOD = 4
"""A pair whose label means this grade or better has a title to change."""

_TITLE_LENGTH = range(2, 81)
_TAILS = 0.3
_COURTESIES = 0.06
_REWORDED = 0.5
_TRIES = 40
_COMPOSED = 8
_QUERY_LENGTH = range(4, 31)
_HAN = re.compile("[一-鿿]")
_PROSE = re.compile("[。；…“”\"']|，.*，|[他她]们?[说的]|我说")
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]")


class MadePair(NamedTuple):
    """A pair that a rule made, with the grades it stands for."""

    query: str
    title: str
    grades: GradeSet
    rule: str


class Gate:
    """Remembers what passed. `good` are pairs known to mean grade 4 or 5."""

    def __init__(self, is_barred: Callable[[str], bool], good: Iterable[tuple[str, str]]) -> None:
        self._is_barred = is_barred
        self._grades: dict[tuple[str, str], GradeSet] = {
            (folded(query), folded(title)): (4, 5) for query, title in good
        }
        self._passed: set[tuple[str, str]] = set()

    def admits(self, made: Made, grades: GradeSet) -> bool:
        """Whether a pair and its twin, before tails, may stand beside all that was admitted."""
        meant = [(made.title, grades)]
        if made.kept is not None:
            meant.append((made.kept, made.kept_grades))
        if self._is_barred(made.query) or any(self._is_barred(title) for title, _ in meant):
            return False
        if any(len(title) not in _TITLE_LENGTH for title, _ in meant):
            return False
        query = folded(made.query)
        keyed = {(query, folded(title)): grades for title, grades in meant}
        if len(keyed) < len(meant) or any(self._contradicts(*entry) for entry in keyed.items()):
            return False
        for key, known in keyed.items():
            self._grades.setdefault(key, known)
        return True

    def is_new(self, pair: MadePair) -> bool:
        """Whether exactly this pair has not passed before; it has, from now on."""
        key = (pair.query, pair.title)
        if key in self._passed or self._is_barred(pair.query) or self._is_barred(pair.title):
            return False
        self._passed.add(key)
        return True

    def _contradicts(self, key: tuple[str, str], grades: GradeSet) -> bool:
        query, title = key
        known = (5,) if query == title else self._grades.get(key, grades)
        return not set(known) & set(grades)


def folded(text: str) -> str:
    """`text` without case, width, spaces and punctuation: what near-equal texts share."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return "".join(character for character in plain if character.isalnum())


def barrier(forbidden: Set[str]) -> Callable[[str], bool]:
    """Whether a text is forbidden: membership once folded."""
    barred = {folded(query) for query in forbidden}
    return lambda text: folded(text) in barred


def make_pairs(
    texts: Sequence[str],
    good_pairs: Sequence[tuple[str, str]],
    *,
    rules: Sequence[str] = tuple(RULES),
    per_rule: int | Mapping[str, int],
    seed: int,
    forbidden: Set[str] = frozenset(),
) -> Iterator[MadePair]:
    """Pairs made by `rules`, rule by rule, at most `per_rule` of each, their twins not counted.

    `texts` are texts people type, of 4-30 characters (others are passed over); `good_pairs` are
    queries with a title known to be good (grade 4 or 5); further pairs are composed from the
    tables. No query and no title is one of `forbidden`, nor made from one, compared without case,
    width, spaces and punctuation. No pair comes twice, and none under grades that contradict
    another's or `good_pairs`. The same arguments and seed give the same pairs.

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


def grade_label(grades: GradeSet) -> str:
    """`2`, or `1-2` for neighbouring grades: the label written for a set of grades."""
    return str(grades[0]) if len(grades) == 1 else f"{grades[0]}-{grades[-1]}"


def make_from(recipe: Recipe, out: Path, *, seed: int = 0) -> Counter[str]:
    """Write the pairs made by a recipe to `out`, as TSV; returns how many each rule gave.

    Texts are the sources' queries and up to 4,000 lines of each shard, drawn by the seed. Of
    `[settings]`, `per_rule` says how many pairs each rule makes, `forbidden` names files whose
    queries are never used or made. The column `grade` is a label such as `2` or `4-5`. Raises
    RunFolderError where `out` is there, and what readers and rules raise.
    """
    if out.exists():
        raise RunFolderError(f"{out} is there already; choose another --out")
    barred = {pair.query for path in recipe.settings["forbidden"] for pair in PairReader(path)}
    read = [pair for source in recipe.pairs for pair in source.read()]
    texts = [pair.query for pair in read] + list(_drawn_lines(recipe.text, seed))
    good = [(p.query, p.title) for p in read if p.grades and min(p.grades) >= GOOD]
    numbers = recipe.settings["per_rule"]
    counts: Counter[str] = Counter()
    with atomic_write(out) as temporary, open(temporary, "w", encoding="utf-8") as file:
        print(*COLUMNS, sep="\t", file=file)
        for one in make_pairs(texts, good, per_rule=numbers, seed=seed, forbidden=barred):
            counts[one.rule] += 1
            print(one.query, one.title, grade_label(one.grades), one.rule, sep="\t", file=file)
    return counts


def _drawn_lines(shards: Sequence[Path], seed: int) -> Iterator[str]:
    for shard in shards:
        lines = list(text_lines(shard))
        chosen: Any = np.random.default_rng([seed, len(lines)]).permutation(len(lines))
        for i in sorted(chosen[:TEXTS_A_SHARD]):
            yield lines[int(i)]


def main(arguments: list[str] | None = None) -> None:
    """Make the pairs, or list the rules; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("--list", action="store_true", help="the rules and their grades")
    parser.add_argument("--recipe", type=Path, default=Path(__file__).with_name("recipe.toml"))
    parser.add_argument("--data", type=Path, default=Path("."), help="the folder of its files")
    parser.add_argument("--out", type=Path, default=Path("made.tsv"))
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    if options.list:
        for rule in RULES.values():
            print(f"{rule.name:20} {grade_label(rule.grades):4} {rule.text}")
        return
    with one_line_faults():
        recipe = load_recipe(options.recipe, options.data)
        names = recipe.settings.get("forbidden", [])
        recipe.settings["forbidden"] = [options.data / name for name in names]
        counts = make_from(recipe, options.out, seed=options.seed)
    for name, count in counts.items():
        print(f"{count:7,}  {name}")
    print(f"{counts.total():,} pairs made: {options.out}")


if __name__ == "__main__":
    main()
