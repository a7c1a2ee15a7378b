"""What the rules know of the language, and what a rule is.

The tables in `tables/` are tab-separated and hand-written; `#` begins a comment.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from random import Random
from typing import NamedTuple

from qt_bert.data.pairs import GradeSet
from qt_bert.data.segmenters import Segmenter

# The tables of words.

TEMPLATE_ONLY = "~"
"""Begins the name of a kind whose words mean other things in free text."""

_TITLES_OF_WORKS = frozenset({"novel", "tv", "movie"})
"""Kinds whose members of two characters are everyday words too."""


@cache
def rows(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of the table `name`, split at tabs."""
    text = (files(__package__) / "tables" / f"{name}.tsv").read_text(encoding="utf-8")
    lines = (line for line in text.split("\n") if line and not line.startswith("#"))
    return tuple(tuple(line.split("\t")) for line in lines)


@cache
def words_of_kind() -> Mapping[str, tuple[str, ...]]:
    """Kind of thing → its members, such as `fruit` → 香蕉, 葡萄, …"""
    return {kind: tuple(members.split("|")) for kind, _, members in rows("entities")}


@cache
def name_of_kind() -> Mapping[str, str]:
    """Kind of thing → what people call it, such as `fruit` → 水果."""
    return {kind: name for kind, name, _ in rows("entities")}


@cache
def kinds_of_word() -> Mapping[str, tuple[str, ...]]:
    """Word → every kind it is a member of."""
    kinds: dict[str, tuple[str, ...]] = {}
    for kind, members in words_of_kind().items():
        for word in members:
            kinds[word] = (*kinds.get(word, ()), kind)
    return kinds


@cache
def kind_in_text() -> Mapping[str, str]:
    """Word → its kind, for words that mean one kind of thing wherever they stand."""
    plain = {
        word: [kind for kind in kinds if not kind.startswith(TEMPLATE_ONLY)]
        for word, kinds in kinds_of_word().items()
    }
    return {
        word: kinds[0]
        for word, kinds in plain.items()
        if len(kinds) == 1 and len(word) >= (3 if kinds[0] in _TITLES_OF_WORKS else 2)
    }


class Wording(NamedTuple):
    """Ways to say one thing of members of these kinds."""

    kinds: tuple[str, ...]
    forms: tuple[str, ...]


@cache
def wordings(name: str) -> tuple[Wording, ...]:
    """A table whose rows are kinds, then ways to put a text, alike in meaning."""
    return tuple(Wording(tuple(k.split(",")), tuple(f.split("|"))) for k, f in rows(name))


@cache
def alternatives(*names: str) -> Mapping[str, tuple[str, ...]]:
    """Word → the other words of its rows in these tables."""
    return _grouped((word, [w for w in row if w != word]) for n in names for row in rows(n)
                    for word in row)  # fmt: skip


def _grouped(entries: Iterable[tuple[str, list[str]]]) -> Mapping[str, tuple[str, ...]]:
    grouped: dict[str, list[str]] = defaultdict(list)
    for word, others in entries:
        grouped[word] += others
    return {word: tuple(dict.fromkeys(others)) for word, others in grouped.items()}


# Finding the words of a table inside a text, at the borders of its words.

_MOST_TOKENS = 4


class Place(NamedTuple):
    """Characters [start, end) of a text, and the word that stands there."""

    start: int
    end: int
    word: str


def find(text: str, table: Container[str], segmenter: Segmenter) -> list[Place]:
    """Where words of `table` stand in `text`, longest first at each place, without overlap."""
    spans = segmenter.spans(text)
    places: list[Place] = []
    free = 0
    for i, (start, _) in enumerate(spans):
        if start < free:
            continue
        for _, end in reversed(spans[i : i + _MOST_TOKENS]):
            if text[start:end] in table:
                places.append(Place(start, end, text[start:end]))
                free = end
                break
    return places


def shared(query: str, title: str, table: Container[str], segmenter: Segmenter) -> list[Place]:
    """The places of `find` in `title` whose word stands in `query` too, once in each."""
    return [
        place
        for place in find(title, table, segmenter)
        if query.count(place.word) == 1 and title.count(place.word) == 1
    ]


def put(text: str, place: Place, word: str) -> str:
    """`text` with `word` at `place`."""
    return text[: place.start] + word + text[place.end :]


def exchange(text: str, first: Place, second: Place) -> str:
    """`text` with the words at two places, the first before the second, exchanged."""
    return put(put(text, second, first.word), first, second.word)


def chosen(places: list[Place], rng: Random) -> Place | None:
    """One of `places`, or None where there is none."""
    return rng.choice(places) if places else None


# What a text asks, of what: read from, and written in, the forms of the table of needs.

_SLOT = "{X}"
_QUESTION = re.compile("[怎如何什么哪几谁吗呢的了和与或，。？?! 、:：-]|为什|多少")


class Need(NamedTuple):
    """A subject, what is asked of it, and the kinds of thing that the subject may be."""

    subject: str
    wording: Wording
    form: str
    kinds: tuple[str, ...]


def read_need(text: str) -> Need | None:
    """What `text` asks, where a form of the table fits it from end to end."""
    for form, wording in _by_ending()[text[-2:]]:
        before, after = form.split(_SLOT)
        if text.startswith(before) and text.endswith(after):
            need = _need(text[len(before) : len(text) - len(after)], wording, form)
            if need is not None:
                return need
    return None


def other_form(need: Need, rng: Random) -> str | None:
    """The same need in other words."""
    forms = [form for form in need.wording.forms if form != need.form]
    return phrase(rng.choice(forms), need.subject) if forms else None


def other_need(need: Need, rng: Random) -> str | None:
    """The form of another need that the same subject may have."""
    others = _other_wordings(need, rng)
    return rng.choice(rng.choice(others).forms) if others else None


def other_aspects(need: Need, number: int, rng: Random) -> list[str]:
    """Up to `number` other needs of the subject, phrased without naming it again."""
    others = _other_wordings(need, rng)
    drawn = (rng.choice(w.forms).split(_SLOT) for w in rng.sample(others, min(number, len(others))))
    return [after.removeprefix("的") for before, after in drawn if not before and len(after) > 1]


def _other_wordings(need: Need, rng: Random) -> list[Wording]:
    asked = set(need.wording.forms)
    return [w for w in _by_kind()[rng.choice(need.kinds)] if not asked & set(w.forms)]


def phrase(form: str, subject: str) -> str:
    """`form` with `subject` in its slot."""
    return form.replace(_SLOT, subject)


def composed(rng: Random) -> tuple[str, str]:
    """Two texts of one need of a thing of the tables, in different words."""
    kind = rng.choice(_kinds_with_members())
    forms = rng.choice(_by_kind()[kind]).forms
    subject = rng.choice(words_of_kind()[kind])
    query, title = rng.sample(forms, 2)
    return phrase(query, subject), phrase(title, subject)


def _need(subject: str, wording: Wording, form: str) -> Need | None:
    if not 2 <= len(subject) <= 12:
        return None
    known = kinds_of_word().get(subject, ())
    if known:
        kinds = tuple(kind for kind in wording.kinds if kind in known)
    elif _QUESTION.search(subject):
        return None
    else:
        kinds = tuple(kind for kind in wording.kinds if kind not in words_of_kind())
    return Need(subject, wording, form, kinds) if kinds else None


@cache
def _kinds_with_members() -> tuple[str, ...]:
    # A kind comes as often as it has needs, so that texts of a rich kind do not repeat less.
    return tuple(
        kind for kind, found in _by_kind().items() if kind in words_of_kind() for _ in found
    )


@cache
def _by_kind() -> Mapping[str, tuple[Wording, ...]]:
    found: dict[str, list[Wording]] = defaultdict(list)
    for wording in wordings("needs"):
        for kind in wording.kinds:
            found[kind].append(wording)
    return {kind: tuple(several) for kind, several in found.items()}


@cache
def _by_ending() -> Mapping[str, list[tuple[str, Wording]]]:
    """The last two characters of a form (or of a subject it ends with) → forms, longest first."""
    found: dict[str, list[tuple[str, Wording]]] = defaultdict(list)
    for wording in wordings("needs"):
        for form in wording.forms:
            for ending in _endings(form, wording):
                found[ending].append((form, wording))
    for several in found.values():
        several.sort(key=lambda entry: -len(entry[0]))
    return found


def _endings(form: str, wording: Wording) -> set[str]:
    after = form.split(_SLOT)[1]
    if len(after) > 1:
        return {after[-2:]}
    members = [word for kind in wording.kinds for word in words_of_kind().get(kind, ())]
    return {(word + after)[-2:] for word in members}


# Changes of wording that leave a text's meaning alone: synonyms, courtesies, tails of titles.

_QUESTION_END = ("吗", "呢", "啊", "呀", "？", "?", "。", "！", "!")
_FULL_WIDTH = str.maketrans("?!,:()", "？！，：（）")


def with_synonym(text: str, segmenter: Segmenter, rng: Random) -> str | None:
    """`text` with one or two words replaced by synonyms, or in another form of the same need."""
    need = read_need(text)
    form = other_form(need, rng) if need and rng.random() < 0.6 else None
    if form is not None:
        return form
    table = alternatives("synonyms")
    places = find(text, table, segmenter)
    if not places:
        return None
    chosen = rng.sample(places, min(len(places), rng.choice((1, 1, 2))))
    for place in sorted(chosen, reverse=True):
        text = put(text, place, rng.choice(table[place.word]))
    return text


def with_tail(title: str, rng: Random) -> str:
    """`title` with the name of a site or another mark of a page at one end."""
    if rng.random() < 0.15:
        return rng.choice(_texts("tails")["before"]) + title
    return title + rng.choice(_texts("tails")["after"])


def with_courtesy(query: str, rng: Random) -> str:
    """`query` as a person might type it to another person."""
    if rng.random() < 0.6:
        return rng.choice(_texts("courtesies")["before"]) + query
    return query + rng.choice(_texts("courtesies")["after"])


def with_mark(text: str, rng: Random) -> str:
    """`text` with other punctuation, width of signs, case, or a particle at its end."""
    if text.endswith(_QUESTION_END):
        return text.rstrip("".join(_QUESTION_END)) or text
    changes = [text + mark for mark in _texts("tails")["particle"] if mark.strip() and mark != "吗"]
    changes += [text.translate(_FULL_WIDTH), text.upper(), text.lower(), text.replace(" ", "")]
    return rng.choice(changes)


@cache
def _texts(table: str) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = {}
    for where, text in rows(table):
        found.setdefault(where, []).append(text)
    return found


# Other texts that share a word with a text, or none: found through an index of words.

_MOST_TEXTS = 400
"""A word of more texts than this says too little of any of them."""


class RelatedTexts:
    """Texts and the content words in them. A content word has two characters or more."""

    def __init__(self, texts: Sequence[str], segmenter: Segmenter) -> None:
        self._texts = texts
        self._segmenter = segmenter
        self._empty = {word for (word,) in rows("function_words")}

    def content_words(self, text: str) -> list[str]:
        """The different words of `text` that say what it is about, in their order."""
        words = dict.fromkeys(self._segmenter.words(text))
        return [w for w in words if len(w) > 1 and w not in self._empty and w.isalnum()]

    def rarity(self, word: str) -> int:
        """In how many of the texts `word` stands."""
        return len(self._holding.get(word, ()))

    def sharing(self, text: str, word: str, rng: Random) -> str | None:
        """A text that shares `word`, and no other content word, with `text`."""
        candidates = self._holding.get(word, [])
        if not 2 <= len(candidates) <= _MOST_TEXTS:
            return None
        words = set(self.content_words(text))
        for _ in range(4):
            other = self._texts[rng.choice(candidates)]
            if words & set(self.content_words(other)) == {word} and other not in text:
                return other
        return None

    def unlike(self, text: str, rng: Random) -> str | None:
        """A text that shares no content word and hardly a character with `text`."""
        if not self._texts:
            return None
        words = self.content_words(text)
        characters = {c for word in words for c in word}
        for _ in range(8):
            other = rng.choice(self._texts)
            if not characters & set(other) and self.content_words(other):
                return other
        return None

    @cached_property
    def _holding(self) -> dict[str, list[int]]:
        holding: dict[str, list[int]] = defaultdict(list)
        for i, text in enumerate(self._texts):
            for word in self.content_words(text):
                holding[word].append(i)
        return dict(holding)


# What a rule is: from a query and a title that meets it, a pair whose grades are known.


@dataclass(frozen=True)
class Base:
    """A query and a title that meets it; `grades` is what the two of them mean."""

    query: str
    title: str
    grades: GradeSet


@dataclass(frozen=True)
class Draw:
    """What a rule works on: a base, a random generator, and the texts around it."""

    base: Base
    rng: Random
    segmenter: Segmenter
    related: RelatedTexts

    @property
    def query(self) -> str:
        """The base's query."""
        return self.base.query

    @property
    def title(self) -> str:
        """The base's title."""
        return self.base.title


@dataclass(frozen=True)
class Made:
    """A pair that a rule made, and its twin: a title for the same query that keeps the meaning.

    A query stands beside both, so that neither query nor title alone tells the grade. `kept` is
    None where the rule has no such twin; `kept_grades` is what the twin means.
    """

    query: str
    title: str
    kept: str | None = None
    kept_grades: GradeSet = (5,)


@dataclass(frozen=True)
class Rule:
    """One way to make a pair: its name, the grades of what it makes, and one sentence on it.

    `apply` answers None where the rule does not fit the draw.
    """

    name: str
    grades: GradeSet
    text: str
    apply: Callable[[Draw], Made | None]


def changed(draw: Draw, title: str) -> Made:
    """The base's query with a title of another meaning, and the base's own title as the twin."""
    return Made(draw.query, title, draw.title, draw.base.grades)


def reworded(draw: Draw, old: str, new: str, title: str) -> Made:
    """The pair where `title` is the base's with `new` for `old`, a word that the query has once.

    Half the time the query is given `new` too and the titles change roles: both words then stand
    as often in titles that meet their query as in titles that do not.
    """
    if draw.rng.random() < 0.5:
        return changed(draw, title)
    at = draw.query.lower().index(old.lower())
    query = draw.query[:at] + new + draw.query[at + len(old) :]
    return Made(query, draw.title, title, draw.base.grades)
