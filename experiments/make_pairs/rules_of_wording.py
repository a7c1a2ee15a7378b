"""Rules that keep or turn the words of a title: sameness, order, polarity, titles that are no sentence."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from random import Random

import numpy as np

from experiments.make_pairs.language import (
    Draw,
    Made,
    Place,
    Rule,
    alternatives,
    changed,
    composed,
    exchange,
    find,
    kinds_of_word,
    put,
    reworded,
    rows,
    shared,
    with_courtesy,
    with_mark,
    with_synonym,
    wordings,
    words_of_kind,
)
from qt_bert.data.shuffles import shuffle_characters, shuffle_words

# Rules whose title states the query's need: other words, other order, another hand.

_MIDDLING, _LONG = 7, 10
_CARRIES_MEANING = re.compile("[不没无非未禁0-9零一二三四五六七八九十两]")


def _same(draw: Draw) -> Made | None:
    change = draw.rng.choice((with_mark, with_courtesy, None))
    return Made(draw.query, change(draw.query, draw.rng) if change else draw.query)


def _synonym(draw: Draw) -> Made | None:
    title = with_synonym(draw.query, draw.segmenter, draw.rng)
    return Made(draw.query, title) if title and title != draw.query else None


def _paraphrase(draw: Draw) -> Made | None:
    query, title = composed(draw.rng)
    return Made(query, title)


def _misspelling(draw: Draw) -> Made | None:
    slip = draw.rng.choice((_homophone, _homophone, _dropped, _exchanged, _unconverted))
    query = slip(draw)
    return Made(query, draw.title) if query and query != draw.query else None


def _homophone(draw: Draw) -> str | None:
    query, table = draw.query, _homophones()
    places = [i for i, c in enumerate(query) if c in table and not _CARRIES_MEANING.match(c)]
    if len(query) < 4 or not places:
        return None
    at = draw.rng.choice(places)
    return query[:at] + draw.rng.choice(table[query[at]]) + query[at + 1 :]


def _dropped(draw: Draw) -> str | None:
    query = draw.query
    at = _middle(query, draw.rng) if len(query) >= _LONG else None
    return query[:at] + query[at + 1 :] if at else None


def _exchanged(draw: Draw) -> str | None:
    query = draw.query
    at = _middle(query, draw.rng)
    if not at or _CARRIES_MEANING.match(query[at + 1]):
        return None
    return query[:at] + query[at + 1] + query[at] + query[at + 2 :]


def _middle(query: str, rng: Random) -> int | None:
    """A place inside a query where a slip does not hide what is asked."""
    if len(query) < _MIDDLING:
        return None
    at = rng.randrange(1, len(query) - 1)
    return None if _CARRIES_MEANING.search(query[at - 1 : at + 1]) or query[at].isascii() else at


def _unconverted(draw: Draw) -> str | None:
    table = alternatives("pinyin")
    places = [p for p in find(draw.query, table, draw.segmenter) if not p.word.isascii()]
    if not places:
        return None
    place = draw.rng.choice(places)
    return put(draw.query, place, table[place.word][0])


@cache
def _homophones() -> Mapping[str, list[str]]:
    table: dict[str, list[str]] = {}
    for (group,) in rows("homophones"):
        for character in group:
            table[character] = [c for c in group if c != character]
    return table


SAMENESS = (
    Rule(
        "same",
        (5,),
        "the title is the query itself, with particles, punctuation, courtesies or a site's name",
        _same,
    ),
    Rule("synonym", (5,), "one or two words of the query give way to synonyms", _synonym),
    Rule("paraphrase", (5,), "the same need of the same thing, put in other words", _paraphrase),
    Rule(
        "misspelling",
        (5,),
        "the query has a homophone, a lost or exchanged character or bare pinyin; same need",
        _misspelling,
    ),
)


# Rules on order: where exchanging two things changes the need, and where it does not.

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
        return _composed_of_two(draw, "directed", turned=True)
    pair = _two_alike(draw)
    if pair is None or _DISTANCE.search(draw.title):
        return None
    first, second = pair
    if not _DIRECTED.fullmatch(draw.title[first.end : second.start]):
        return None
    return changed(draw, exchange(draw.title, first, second))


def _neutral_order(draw: Draw) -> Made | None:
    if draw.rng.random() < 0.4:
        return _composed_of_two(draw, "symmetric", turned=False)
    title = _turned_comparison(draw.query) or _turned_time(draw.query) or _turned_words(draw)
    return Made(draw.query, title) if title and title != draw.query else None


def _composed_of_two(draw: Draw, table: str, turned: bool) -> Made | None:
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
        "two things are exchanged where direction matters: the same words, another need",
        _direction,
    ),
    Rule(
        "neutral_order",
        (5,),
        "things are exchanged or moved where it changes nothing",
        _neutral_order,
    ),
)


# Rules that turn a need around: its negation, its antonym, its opposite.

_YES_OR_NO = re.compile(
    "吗|嘛|吧|能否|是否|可否|能不能|会不会|是不是|要不要|可不可以|有没有|还是|多长时间|(?<![什怎])么[？?]?$"
)
_CHAT = re.compile("[我你您亲]")
_DENIED = re.compile("[不没无未别非]")
_NOT_DENIED = re.compile("[不没无未别非]|怎|如何|多久|多少|几|哪|什么时|何时|呗")
_OPEN = re.compile("[什哪多几谁没不否有]")
_BOUND = re.compile("[还才只可就都也更谁老总很万一再从并所久的大]")


def _negation(draw: Draw) -> Made | None:
    # A yes-or-no question asks the same with and without the negation.
    both = draw.query + draw.title
    if _YES_OR_NO.search(both) or _CHAT.search(both):
        return None
    table = _turned()
    found = shared(draw.query, draw.title, table, draw.segmenter)
    places = [place for place in found if _stands_free(draw.title, place)]
    if not places:
        return None
    denied = [p for p in places if _DENIED.search(p.word)]
    if not denied and (_NOT_DENIED.search(draw.title) or draw.rng.random() < 0.5):
        return None
    place = draw.rng.choice(denied or places)
    other = table[place.word]
    return reworded(draw, place.word, other, put(draw.title, place, other))


def _stands_free(title: str, place: Place) -> bool:
    """Whether nothing beside the word binds it, and its opposite stands nowhere else."""
    before, after = title[max(0, place.start - 1) : place.start], title[place.end : place.end + 1]
    both = title.count(_turned()[place.word]) > place.word.count(_turned()[place.word])
    return not both and not _BOUND.search(before) and not _OPEN.search(after)


def _antonym(draw: Draw) -> Made | None:
    if _YES_OR_NO.search(draw.query):
        return None
    table = alternatives("antonyms")
    places = [
        place
        for place in shared(draw.query, draw.title, table, draw.segmenter)
        if not any(other in draw.title + draw.query for other in table[place.word])
    ]
    if not places:
        return None
    place = draw.rng.choice(places)
    other = draw.rng.choice(table[place.word])
    return reworded(draw, place.word, other, put(draw.title, place, other))


def _opposite(draw: Draw) -> Made | None:
    rng = draw.rng
    kinds, one, other = rng.choice(rows("opposed"))
    kind = rng.choice(kinds.split(","))
    subject = rng.choice(words_of_kind()[kind]) if kind in words_of_kind() else ""
    sides = [one.split("|"), other.split("|")]
    rng.shuffle(sides)
    query, kept = rng.sample(sides[0], 2)
    query, title, kept = (
        text.replace("{X}", subject) for text in (query, rng.choice(sides[1]), kept)
    )
    return Made(query, title, kept)


@cache
def _turned() -> Mapping[str, str]:
    pairs = rows("negations")
    # 会 stands in too many phrases to be denied; 不会 can be affirmed.
    return {a: b for a, b in pairs if a != "会"} | {b: a for a, b in pairs}


POLARITY = (
    Rule("negation", (2,), "an affirmed word is denied, or a denied one affirmed", _negation),
    Rule("antonym", (2,), "one word gives way to its antonym", _antonym),
    Rule(
        "opposite",
        (2,),
        "the opposite need of the same thing, each side put in several ways",
        _opposite,
    ),
)


# Rules that make no sentence: shuffled, reversed, stuffed with keywords.

_FEWEST_CHARACTERS = 6
_FEWEST_WORDS = 6
_GRAMMAR = re.compile("[的了吗是有在被把会能不要给从到]|怎|什么|如何|多少|哪")
_LIST = re.compile(r"[ _|/\-—、]")


def _shuffled_characters(draw: Draw) -> Made | None:
    if len(draw.title) < _FEWEST_CHARACTERS:
        return None
    title = shuffle_characters(draw.title, _generator(draw))
    return changed(draw, title) if title else None


def _shuffled_words(draw: Draw) -> Made | None:
    # A few nouns, or a list of keywords, in another order still say the same.
    is_sentence = _GRAMMAR.search(draw.title) and not _LIST.search(draw.title)
    if not is_sentence or len(draw.segmenter.words(draw.title)) < _FEWEST_WORDS:
        return None
    title = shuffle_words(draw.title, draw.segmenter, _generator(draw))
    return changed(draw, title) if title else None


def _reversed(draw: Draw) -> Made | None:
    title = draw.title[::-1]
    long = len(title) >= _FEWEST_CHARACTERS
    return changed(draw, title) if long and title != draw.title else None


def _stuffing(draw: Draw) -> Made | None:
    """Some keywords of the query, one of them repeated, among keywords of another text."""
    own = draw.related.content_words(draw.query)
    other = draw.related.unlike(draw.query, draw.rng)
    if len(own) < 2 or other is None:
        return None
    foreign = draw.related.content_words(other)
    words = [*own, draw.rng.choice(own), *draw.rng.sample(foreign, min(3, len(foreign)))]
    draw.rng.shuffle(words)
    return Made(draw.query, draw.rng.choice((" ", "", "_", ",", "，")).join(words))


def _generator(draw: Draw) -> np.random.Generator:
    return np.random.default_rng(draw.rng.getrandbits(64))


SALAD = (
    Rule(
        "shuffled_characters",
        (1, 2),
        "the characters of a good title are shuffled",
        _shuffled_characters,
    ),
    Rule("shuffled_words", (1, 2), "the words of a good title are shuffled", _shuffled_words),
    Rule("reversed", (1, 2), "a good title is written backwards", _reversed),
    Rule("stuffing", (2, 3), "keywords of the query, repeated, among unrelated ones", _stuffing),
)
