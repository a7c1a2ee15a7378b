"""Rules that change what a title is about: its numbers, its thing, its scope, or the whole text."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, partial
from random import Random

from experiments.make_pairs.language import (
    Draw,
    Made,
    Need,
    Rule,
    changed,
    kind_in_text,
    kinds_of_word,
    name_of_kind,
    other_aspects,
    other_need,
    phrase,
    put,
    read_need,
    reworded,
    rows,
    shared,
    words_of_kind,
)

# Rules that change a number: of a model or an episode, of an amount or an age, of a year.

_MODEL = re.compile(r"(?<![A-Za-z0-9.])[A-Za-z]{1,8}[- ]?(?P<number>\d{1,4})(?![0-9.%])")
_YEAR = re.compile(r"(?<!\d)(?P<number>(?:19[5-9]|20[0-3])\d)(?!\d)")
_NUMERALS = "一二三四五六七八九十"


def _model(draw: Draw) -> Made | None:
    return _renumbered(draw) or _counted(draw, "point")


def _number(draw: Draw) -> Made | None:
    return _counted(draw, "part")


def _year(draw: Draw) -> Made | None:
    matches = [m for m in _YEAR.finditer(draw.title) if _same_number(draw.query, m[0])]
    if not matches:
        return None
    match = draw.rng.choice(matches)
    year = int(match["number"]) + draw.rng.choice((-3, -2, -1, 1, 2, 3))
    return _with_number(draw, match, str(year))


def _counted(draw: Draw, weight: str) -> Made | None:
    for match in _with_unit(weight).finditer(draw.title):
        smallest, largest = _limits(match["unit"])
        if not _same_number(draw.query, match[0]):
            continue
        number = _changed_number(match["number"], smallest, largest, draw.rng)
        if number is not None:
            return _with_number(draw, match, number)
    return None


def _renumbered(draw: Draw) -> Made | None:
    matches = [m for m in _MODEL.finditer(draw.title) if _same_number(draw.query, m[0])]
    if not matches:
        return None
    match = draw.rng.choice(matches)
    number = _changed_number(match["number"], 1, 9999, draw.rng)
    return _with_number(draw, match, number) if number else None


def _with_number(draw: Draw, match: re.Match[str], number: str) -> Made:
    start, end = (place - match.start() for place in match.span("number"))
    new = match[0][:start] + number + match[0][end:]
    title = draw.title[: match.start()] + new + draw.title[match.end() :]
    return reworded(draw, match[0], new, title)


def _same_number(query: str, text: str) -> bool:
    """Whether the query names the same model or amount, once."""
    return query.lower().count(text.lower()) == 1


def _changed_number(written: str, smallest: int, largest: int, rng: Random) -> str | None:
    """Another number near `written`, in digits or as a numeral as it was, inside the limits."""
    if written in _NUMERALS:
        at = _NUMERALS.index(written)
        return rng.choice(_NUMERALS[max(0, at - 2) : at] + _NUMERALS[at + 1 : at + 3])
    if written.startswith("0"):
        return None
    value, step = int(written), _step(int(written))
    near = [value + step * count for count in (-3, -2, -1, 1, 2, 3)]
    allowed = [n for n in near if smallest <= n <= largest]
    return str(rng.choice(allowed)) if allowed else None


def _step(value: int) -> int:
    """By how much a number is moved: a round one to another round one."""
    for step in (1000, 100, 10):
        if value % step == 0 and value >= 2 * step:
            return step
    return max(1, value // 100)


@cache
def _with_unit(weight: str) -> re.Pattern[str]:
    units = sorted((unit for unit, _, _, w in rows("units") if w == weight), key=len, reverse=True)
    names = "|".join(map(re.escape, units))
    every = "|".join(re.escape(unit) for unit, *_ in rows("units"))
    return re.compile(
        rf"(?<![\d.A-Za-z~至到一二三四五六七八九十百千万几-])(?P<number>\d{{1,4}}|[二三四五六七八九])"
        rf"(?P<unit>{names})(?!{every}|[A-Za-z人半内外之格])"
    )


@cache
def _limits(unit: str) -> tuple[int, int]:
    return next((int(low), int(high)) for u, low, high, _ in rows("units") if u == unit)


NUMBERS = (
    Rule(
        "model",
        (2,),
        "a model, episode, class or line has another number, which is the point",
        _model,
    ),
    Rule("number", (2, 3), "an age, amount, price or size is another", _number),
    Rule("year", (2, 3), "the year is another", _year),
)


# Rules that put another thing of the same kind in the place of one.

_MARKS = ("-", "_", "|", "—")
"""Stand before the name of a site, which does not describe the page."""

_PLACES = frozenset({"city", "province", "country", "scenic"})


def _subject(draw: Draw) -> Made | None:
    need = read_need(draw.title)
    if need is None or need.subject not in kinds_of_word() or need.subject not in draw.query:
        return None
    kind = draw.rng.choice(need.kinds)
    others = [word for word in words_of_kind()[kind] if word != need.subject]
    return changed(draw, phrase(need.form, draw.rng.choice(others)))


def _entity(draw: Draw) -> Made | None:
    return _replaced(draw, lambda kind: kind not in _PLACES)


def _place(draw: Draw) -> Made | None:
    return _replaced(draw, lambda kind: kind in _PLACES)


def _replaced(draw: Draw, wanted: Callable[[str], bool]) -> Made | None:
    table = kind_in_text()
    found = shared(draw.query, draw.title, table, draw.segmenter)
    places = [
        place
        for place in found
        if wanted(table[place.word]) and draw.title[place.start - 1 : place.start] not in _MARKS
    ]
    if not places:
        return None
    place = draw.rng.choice(places)
    both = draw.query + draw.title
    others = [word for word in words_of_kind()[table[place.word]] if word not in both]
    other = draw.rng.choice(others)
    return reworded(draw, place.word, other, put(draw.title, place, other))


THINGS = (
    Rule("subject", (2,), "the same is asked of another thing of the kind", _subject),
    Rule("entity", (2, 3), "a thing in the text gives way to another of its kind", _entity),
    Rule("place", (2, 3), "a place gives way to another", _place),
)


# Rules on what is asked and how widely: another intent, a constraint more, less or another.

_ANY_KIND = "*"
_SLOT = "{X}"
_GROUPS = ("scope", "audience")
_JOINS = ("，", "、", "及", "和", " ", "？", "以及")
_LISTS = ("大全", "一览表", "汇总", "一览", "对照表", "大全2023最新版")
_ALL = ("各", "各类", "全部", "所有", "常见", "")
_QUESTION = re.compile("[怎如什么哪几谁吗为多何呢好]")
_DROPPABLE = re.compile(
    r"(?:19|20)\d\d年?|\d{1,2}岁|\d{1,2}个月大?|免费|高清|完整版|孕妇|儿童|老人|小儿|女士|男士|新手|初学者"
    r"|小学生|大学生|家用|便宜|进口|二手|正宗|家常|晚上|早上|冬天|夏天"
)


def _intent(draw: Draw) -> Made | None:
    need = read_need(draw.title)
    form = other_need(need, draw.rng) if need and need.subject in draw.query else None
    return changed(draw, phrase(form, need.subject)) if need and form else None


def _constraint_added(draw: Draw, group: str) -> Made | None:
    """The title asks less widely than the query."""
    need = read_need(draw.title)
    words = _qualifiers(need, group) if need and need.subject in draw.query else ()
    if not need or not words:
        return None
    return Made(draw.query, _narrowed(draw.title, need, draw.rng.choice(words), group))


def _constraint_changed(draw: Draw) -> Made | None:
    need = read_need(draw.title)
    groups = [g for g in _GROUPS if need and len(_qualifiers(need, g)) > 1]
    if not need or not groups or draw.query.count(need.subject) != 1:
        return None
    group = draw.rng.choice(groups)
    asked, given = draw.rng.sample(_qualifiers(need, group), 2)
    return Made(
        _narrowed(draw.query, need, asked, group),
        _narrowed(draw.title, need, given, group),
        _narrowed(draw.title, need, asked, group),
    )


def _constraint_dropped(draw: Draw) -> Made | None:
    if draw.rng.random() < 0.5:
        return _added_to_query(draw)
    matches = [
        match
        for match in _DROPPABLE.finditer(draw.title)
        if match[0] in draw.query and draw.title.count(match[0]) == 1
    ]
    if not matches:
        return None
    match = draw.rng.choice(matches)
    end = match.end() + draw.title.startswith("的", match.end())
    title = (draw.title[: match.start()] + draw.title[end:]).strip(" ，,的")
    return changed(draw, title) if len(title) >= 4 else None


def _added_to_query(draw: Draw) -> Made | None:
    need = read_need(draw.title)
    group = draw.rng.choice(_GROUPS)
    words = _qualifiers(need, group) if need else ()
    if not need or not words or draw.query.count(need.subject) != 1:
        return None
    word = draw.rng.choice(words)
    query, kept = (_narrowed(text, need, word, group) for text in (draw.query, draw.title))
    return Made(query, draw.title, kept)


def _narrowed(text: str, need: Need, word: str, group: str) -> str:
    """`text` with a qualifier: one of scope before the subject, of audience before all."""
    if group == "scope":
        return text.replace(need.subject, word + need.subject)
    return word + text.removeprefix(word[-1])


def _wider(draw: Draw) -> Made | None:
    need = read_need(draw.title)
    if not need or need.subject not in draw.query:
        return None
    parts = other_aspects(need, draw.rng.choice((1, 2)), draw.rng)
    join = draw.rng.choice(_JOINS)
    return Made(draw.query, join.join([draw.title, *parts])) if parts else None


def _part(draw: Draw) -> Made | None:
    need = read_need(draw.title)
    second = other_aspects(need, 1, draw.rng) if need and need.subject in draw.query else []
    if not second:
        return None
    asked, kept = draw.rng.sample(_JOINS, 2)
    query = asked.join([draw.query, *second])
    return Made(query, draw.title, kept.join([draw.title, *second]))


def _general(draw: Draw) -> Made | None:
    need = read_need(draw.title)
    if not need or need.subject not in draw.query or need.subject not in kinds_of_word():
        return None
    forms = [f for f in need.wording.forms if f.startswith(_SLOT) and not _QUESTION.search(f)]
    if not forms:
        return None
    name = name_of_kind()[draw.rng.choice(need.kinds)]
    form = draw.rng.choice(forms)
    if form.startswith((f"{_SLOT}{name[-1]}", f"{_SLOT}{name[-2:]}")):
        return None
    two_lists = zip(draw.rng.sample(_ALL, 2), draw.rng.sample(_LISTS, 2), strict=True)
    one, other = (phrase(form, all_of + name) + lists for all_of, lists in two_lists)
    # A list meets its own query: its marks alone say nothing of the grade.
    return changed(draw, one) if draw.rng.random() < 0.5 else Made(other, draw.title, one)


def _qualifiers(need: Need, group: str) -> tuple[str, ...]:
    """The words of the table that may stand before the subject, for what is asked of it."""
    kinds = need.kinds if need.subject in kinds_of_word() else (_ANY_KIND,)
    asked = "|".join(need.wording.forms)
    return tuple(
        word
        for kind in kinds
        for needs, words in _qualifier_table().get((kind, group), ())
        if any(part in asked for part in needs.split("|"))
        for word in words.split("|")
    )


@cache
def _qualifier_table() -> Mapping[tuple[str, str], list[tuple[str, str]]]:
    """Kind and group → rows of the needs they suit and the words."""
    table: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for kinds, group, needs, words in rows("qualifiers"):
        for kind in kinds.split(","):
            table.setdefault((kind, group), []).append((needs, words))
    return table


SCOPE = (
    Rule("intent", (3,), "another intent for the same subject", _intent),
    Rule(
        "constraint_dropped",
        (3, 4),
        "the title lacks one constraint of the query",
        _constraint_dropped,
    ),
    Rule("constraint_changed", (2, 3), "one constraint is another", _constraint_changed),
    Rule(
        "constraint_added",
        (4,),
        "the title is narrower by one constraint",
        partial(_constraint_added, group="scope"),
    ),
    Rule(
        "audience_added",
        (3, 4),
        "the title speaks of one group of people only",
        partial(_constraint_added, group="audience"),
    ),
    Rule("wider", (4,), "the title gives what is asked and more on the same subject", _wider),
    Rule(
        "part",
        (3, 4),
        "the query asks two things of a subject, and the title gives one of them",
        _part,
    ),
    Rule(
        "general",
        (3, 4),
        "of query and title one is a list for a whole kind, the other on one thing of it",
        _general,
    ),
)


# Rules that pair the query with another text: some word shared, or none.

_MOST_SHARED_CHARACTERS = 0.5
_LONGEST_QUERY = 16


def _other_need(draw: Draw) -> Made | None:
    """Shares the rarest word of the query, unless that is all the query is about."""
    words = _by_rarity(draw)
    need = read_need(draw.query)
    if len(words) < 2 or (need is not None and words[0] in need.subject):
        return None
    return _sharing(draw, words[0])


def _stray_word(draw: Draw) -> Made | None:
    words = _by_rarity(draw)
    return _sharing(draw, draw.rng.choice(words[1:])) if len(words) >= 2 else None


def _by_rarity(draw: Draw) -> list[str]:
    if len(draw.query) > _LONGEST_QUERY:
        return []
    words = draw.related.content_words(draw.query)
    return sorted((w for w in words if not w.isdigit()), key=draw.related.rarity)


def _sharing(draw: Draw, word: str) -> Made | None:
    other = draw.related.sharing(draw.query, word, draw.rng)
    if other is None:
        return None
    common = set(draw.query) & set(other)
    alike = len(common) / len(set(draw.query))
    return Made(draw.query, other) if alike <= _MOST_SHARED_CHARACTERS else None


def _random(draw: Draw) -> Made | None:
    other = draw.related.unlike(draw.query, draw.rng)
    return Made(draw.query, other) if other else None


OTHERS = (
    Rule(
        "other_need",
        (2,),
        "another text that shares the query's rarest word and no other",
        _other_need,
    ),
    Rule(
        "stray_word", (1, 2), "another text that shares one common word with the query", _stray_word
    ),
    Rule("random", (1,), "another text without a content word in common", _random),
)
