"""Rules on what is asked and how widely: another intent, a constraint more, less or another."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache, partial
from random import Random

from qt_bert.training.rules.lookup import kinds_of_word, name_of_kind, rows
from qt_bert.training.rules.needs import Need, other_aspects, other_need, read_need, said
from qt_bert.training.rules.rule import Draw, Made, Rule, changed

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
    return changed(draw, said(form, need.subject)) if need and form else None


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
    one, other = (said(form, all_of + name) + lists for all_of, lists in _two_lists(draw.rng))
    # A list meets its own query: its marks alone say nothing of the grade.
    return changed(draw, one) if draw.rng.random() < 0.5 else Made(other, draw.title, one)


def _two_lists(rng: Random) -> Iterator[tuple[str, str]]:
    return zip(rng.sample(_ALL, 2), rng.sample(_LISTS, 2), strict=True)


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
    Rule(
        "intent",
        (3,),
        "同一事物，问的是另一件事（价格/教程）",
        "another intent for the same subject",
        _intent,
    ),
    Rule(
        "constraint_dropped",
        (3, 4),
        "标题少了查询的一个限定",
        "the title lacks one constraint of the query",
        _constraint_dropped,
    ),
    Rule(
        "constraint_changed",
        (2, 3),
        "限定换成了另一个（二手/全新、孕妇/儿童）",
        "one constraint is another",
        _constraint_changed,
    ),
    Rule(
        "constraint_added",
        (4,),
        "标题比查询窄：多一个限定",
        "the title is narrower by one constraint",
        partial(_constraint_added, group="scope"),
    ),
    Rule(
        "audience_added",
        (3, 4),
        "标题只讲某一类人",
        "the title speaks of one group of people only",
        partial(_constraint_added, group="audience"),
    ),
    Rule(
        "wider",
        (4,),
        "标题除查询所问，还讲同一事物的别的方面",
        "the title gives what is asked and more on the same subject",
        _wider,
    ),
    Rule(
        "part",
        (3, 4),
        "查询问同一事物的两方面，标题只讲其中之一",
        "the query asks two things of a subject, and the title gives one of them",
        _part,
    ),
    Rule(
        "general",
        (3, 4),
        "一边是这一大类的汇总，一边专讲其中一样",
        "of query and title one is a list for a whole kind, the other on one thing of it",
        _general,
    ),
)
