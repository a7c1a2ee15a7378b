"""Rules that pair the query with another text: some word shared, or none."""

from __future__ import annotations

from qt_bert.training.rules.needs import read_need
from qt_bert.training.rules.rule import Draw, Made, Rule

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
        "另一篇文字，共有查询里最特别的词，此外无关",
        "another text that shares the query's rarest word and no other",
        _other_need,
    ),
    Rule(
        "stray_word",
        (1, 2),
        "另一篇文字，只与查询共有一个常见词",
        "another text that shares one common word with the query",
        _stray_word,
    ),
    Rule(
        "random",
        (1,),
        "另一篇文字，没有共同的实词",
        "another text without a content word in common",
        _random,
    ),
)
