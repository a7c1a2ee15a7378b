"""Kinds of tokens: special ones, punctuation, parts of speech, subject and object.

The features are those of Kovaleva et al. (2019), 4.3, with numbers and punctuation beside.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from qt_bert.data.segmenters import Tagged
from qt_bert.data.tokenise import SPECIAL, EncodedPair
from qt_bert.data.treebank import Sentence
from qt_bert.probes.streams import is_marker, is_punctuation
from qt_bert.stats.arrays import FloatArray

SPECIALS = ("cls", "sep")
OF_TEXTS = ("punctuation", "noun", "verb", "pronoun", "number", "negation")
OF_ARCS = ("subject", "object")
"""Known only where people drew the arcs of a sentence."""

TUNED, OTHER = "tuned", "other"
"""Nouns, objects and negation together; tokens of the texts that are of no kind above."""

KINDS = (*SPECIALS, *OF_TEXTS, *OF_ARCS, TUNED, OTHER)

_DENYING = """
    不 没 没有 无 非 未 别 勿 莫 甭 不是 不会 不能 不可 不可以 不要 不用 不得 不必 不想 不再 不曾 不愿 不肯
    不该 不应 并不 并非 无法 没法 没能 从不 从未 从没 未必 未曾 毫无 绝不 决不 无须 无需
"""
NEGATIONS = frozenset(_DENYING.split())
"""Words that deny, by form: neither jieba nor every treebank marks them."""

_BY_TAG = {"n": "noun", "v": "verb", "r": "pronoun", "m": "number"}
_BY_UPOS = {
    "NOUN": "noun",
    "PROPN": "noun",
    "VERB": "verb",
    "PRON": "pronoun",
    "NUM": "number",
}
_TUNED = ("noun", "object", "negation")
_PLACE = {kind: place for place, kind in enumerate(KINDS)}


class Labelled(NamedTuple):
    """A text and of which kinds its characters are: 0 or 1 [characters, KINDS]."""

    text: str
    kinds: FloatArray


def place_of(kind: str) -> int:
    """The column of a kind."""
    return _PLACE[kind]


def by_tags(text: str, tag: Callable[[str], list[Tagged]]) -> Labelled:
    """`text` by jieba's tags: n… nouns, v… verbs, r… pronouns, m… numbers."""
    return _labelled(
        text, (((start, end), (_BY_TAG.get(of[:1], ""),)) for (start, end), of in tag(text))
    )


def by_people(sentence: Sentence) -> Labelled:
    """A treebank's sentence: its words' parts of speech, subjects and direct objects.

    Where it says no part of speech, what needs one is left out: no token is of TUNED, or of OTHER.
    """
    found = _labelled(
        sentence.text,
        (
            (span, (_BY_UPOS.get(word.upos or "", ""), _role(word.relation)))
            for span, word in zip(sentence.spans, sentence.words, strict=True)
        ),
    )
    if not any(word.upos for word in sentence.words):
        found.kinds[:, [_PLACE[TUNED], _PLACE[OTHER]]] = 0
    return found


def of_tokens(encoded: EncodedPair, query: Labelled, title: Labelled) -> FloatArray:
    """Of which kinds the tokens of a pair are [tokens, KINDS]: of each the share of its characters.

    The pair must have been encoded with offsets. Marks that spell nothing are of no kind.
    """
    found = np.zeros((len(encoded), len(KINDS)))
    found[encoded.cls, _PLACE["cls"]] = 1
    found[encoded.separators, _PLACE["sep"]] = 1
    for token, (side, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side != SPECIAL and end > start and not is_marker(encoded, token):
            found[token] = (query, title)[side].kinds[start:end].mean(axis=0)
    return found


def _labelled(text: str, words: Iterable[tuple[tuple[int, int], Iterable[str]]]) -> Labelled:
    kinds = np.zeros((len(text), len(KINDS)))
    for (start, end), named in words:
        for kind in named:
            if kind:
                kinds[start:end, _PLACE[kind]] = 1
        if text[start:end] in NEGATIONS:
            kinds[start:end, _PLACE["negation"]] = 1
    marks = [is_punctuation(character) for character in text]
    kinds[marks] = 0  # a tagger may call a sign a noun, or a number
    kinds[marks, _PLACE["punctuation"]] = 1
    kinds[:, _PLACE[TUNED]] = kinds[:, [_PLACE[kind] for kind in _TUNED]].max(axis=1)
    kinds[:, _PLACE[OTHER]] = 1 - kinds.max(axis=1)
    return Labelled(text, kinds)


def _role(relation: str | None) -> str:
    label = (relation or "").split(":")[0]
    return {"nsubj": "subject", "obj": "object"}.get(label, "")
