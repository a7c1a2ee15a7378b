"""Rules on order: where exchanging two things changes the need, and where it does not."""

from __future__ import annotations

import re

from qt_bert.training.rules.lookup import kinds_of_word, wordings, words_of_kind
from qt_bert.training.rules.places import Place, exchange, find
from qt_bert.training.rules.rule import Draw, Made, Rule, changed

_DIRECTED = re.compile(
    "(直?达|到|至|飞往?|开往|转换?成?|换成?|兑换?|翻译?成|给|送给?|借给|追|咬|打败?|战胜|击败|起诉"
    "|比|对|欠|嫁到?|寄往?到?|发往|搬到|去|导入|升级到?|代替|替代)"
)
_KEYWORD = re.compile("[一-鿿]{2,6}")
_DISTANCE = re.compile("多远|公里|距离|多少米|时差|区别")
_COMPARED = re.compile(
    r"(?P<a>[\w]{2,8})(?P<link>和|与|跟|还是)(?P<b>[\w]{2,8}?)"
    r"(?P<rest>(?:的|有什么|有啥|之间的?)*(?:区别|不同|差别|关系|对比|哪个(?:更)?[好大贵难]).*)"
)
_TIME_AFTER_SUBJECT = re.compile(
    r"(?P<rest>\w{2,6})(?P<when>最近|今天|明天|今年|去年)(?P<more>\w{2,})"
)


def _direction(draw: Draw) -> Made | None:
    if draw.rng.random() < 0.5:
        return _composed(draw, "directed", turned=True)
    pair = _two_alike(draw)
    if pair is None or _DISTANCE.search(draw.title):
        return None
    first, second = pair
    if not _DIRECTED.fullmatch(draw.title[first.end : second.start]):
        return None
    return changed(draw, exchange(draw.title, first, second))


def _neutral_order(draw: Draw) -> Made | None:
    if draw.rng.random() < 0.4:
        return _composed(draw, "symmetric", turned=False)
    title = _turned_comparison(draw.query) or _turned_time(draw.query) or _turned_words(draw)
    return Made(draw.query, title) if title and title != draw.query else None


def _composed(draw: Draw, table: str, turned: bool) -> Made | None:
    """A query with {A} and {B}, a title with them exchanged, and a twin where that matters."""
    rng = draw.rng
    wording = rng.choice(wordings(table))
    first, second = rng.sample(words_of_kind()[rng.choice(wording.kinds)], 2)
    query, kept = rng.sample(wording.forms, 2)
    other = rng.choice(wording.forms)
    return Made(
        _filled(query, first, second),
        _filled(other, second, first),
        _filled(kept, first, second) if turned else None,
    )


def _filled(form: str, first: str, second: str) -> str:
    return form.replace("{A}", first).replace("{B}", second)


def _two_alike(draw: Draw) -> tuple[Place, Place] | None:
    """The two words of one kind in the title, if the query has them in the same order."""
    kinds = kinds_of_word()
    places = find(draw.title, kinds, draw.segmenter)
    if len(places) != 2 or places[0].word == places[1].word:
        return None
    first, second = places
    at = draw.query.find(first.word), draw.query.find(second.word)
    same_kind = set(kinds[first.word]) & set(kinds[second.word])
    return (first, second) if same_kind and 0 <= at[0] < at[1] else None


def _turned_comparison(text: str) -> str | None:
    match = _COMPARED.fullmatch(text)
    if match is None or "从" in match["a"] or _DIRECTED.search(match["a"] + match["b"]):
        return None
    return f"{match['b']}{match['link']}{match['a']}{match['rest']}"


def _turned_time(text: str) -> str | None:
    match = _TIME_AFTER_SUBJECT.fullmatch(text)
    if match is not None:
        return f"{match['when']}{match['rest']}{match['more']}"
    return None


def _turned_words(draw: Draw) -> str | None:
    """Two to four keywords, typed with spaces between them, in another order."""
    words = draw.query.split(" ")
    if not 2 <= len(words) <= 4 or not all(_KEYWORD.fullmatch(word) for word in words):
        return None
    if any(_DIRECTED.search(word) for word in words):
        return None
    return " ".join(draw.rng.sample(words, len(words)))


ORDER = (
    Rule(
        "direction",
        (2,),
        "有方向的两样东西对调（A到B、A换B、A追B、A借给B），字面相同，需求相反",
        "two things are exchanged where direction matters: the same words, another need",
        _direction,
    ),
    Rule(
        "neutral_order",
        (5,),
        "对调或换序而意思不变（A和B的区别、并列的关键词、时间词前移）",
        "things are exchanged or moved where it changes nothing",
        _neutral_order,
    ),
)
