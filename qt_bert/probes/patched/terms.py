"""Terms as whole tokens: what both texts of a pair share, and what can stand in another's place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.pairs import Pair
from qt_bert.pairs.segmenters import Segmenter, Span
from qt_bert.pairs.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.probes.common.characters import is_marker
from qt_bert.probes.common.terms import is_content_word, shared_terms

LEAST_CHARACTERS = 2
"""A term is so long, or as long as its query where that is shorter."""


@dataclass(frozen=True)
class Term:
    """A word of both texts: its tokens in the query, in the title all of them, and each `length` long."""

    word: str
    query: tuple[int, ...]
    title: tuple[int, ...]
    length: int


def usable_terms(
    encoded: EncodedPair, query: str, title: str, segmenter: Segmenter, special: Container[int]
) -> list[Term]:
    """The terms of a pair that can be replaced, in the order of the query.

    Words are those that `shared_terms` finds. In the title every occurrence counts that is made of
    whole tokens, within longer words too; all must have as many tokens, and none may be `special`.
    The pair must have been encoded with offsets.
    """
    found = []
    for word, shared in shared_terms(query, title, segmenter).items():
        if len(word) < min(LEAST_CHARACTERS, len(query.strip())):
            continue
        asked = [tok for span in shared.query for tok in whole_tokens(encoded, QUERY, span)]
        spans = occurrences(title, shared.title)
        there = [tokens for span in spans if (tokens := whole_tokens(encoded, TITLE, span))]
        slot = tuple(token for tokens in there for token in tokens)
        plain = not any(encoded.input_ids[token] in special for token in (*asked, *slot))
        if asked and plain and len({len(tokens) for tokens in there}) == 1:
            found.append(Term(word, tuple(asked), slot, len(there[0])))
    return found


def occurrences(text: str, spans: Iterable[Span]) -> list[Span]:
    """Everywhere that what stands at `spans` stands in `text`, whatever the case."""
    spelled = sorted({text[start:end] for start, end in spans}, key=lambda one: (-len(one), one))
    return [one.span() for one in re.finditer("|".join(map(re.escape, spelled)), text, re.I)]


def whole_tokens(encoded: EncodedPair, side: int, span: Span) -> tuple[int, ...]:
    """The tokens that spell exactly the characters `span` of a text; none where tokens cut it otherwise."""
    start, end = span
    inside = [
        token
        for token, (owner, (first, last)) in enumerate(
            zip(encoded.side, encoded.spans, strict=True)
        )
        if owner == side and start <= first < last <= end and not is_marker(encoded, token)
    ]
    if not inside or inside[-1] - inside[0] + 1 != len(inside):
        return ()
    ends = encoded.spans[inside[0]][0], encoded.spans[inside[-1]][1]
    return tuple(inside) if ends == span else ()


def document_frequency(pairs: Iterable[Pair], segmenter: Segmenter) -> Counter[str]:
    """In how many different texts, queries and titles, each word stands; case does not count."""
    texts = {text for pair in pairs for text in (pair.query, pair.title)}
    return Counter(
        word for text in texts for word in {one.casefold() for one in segmenter.words(text)}
    )


class Donors:
    """Words of queries, as tokens, to stand in for a term; `special` tokens make no word."""

    def __init__(
        self,
        tokenizer: PairTokenizer,
        segmenter: Segmenter,
        queries: Iterable[str],
        special: Container[int],
    ) -> None:
        distinct = sorted(set(queries))
        found: dict[int, dict[tuple[int, ...], str]] = {}
        encodings = tokenizer.encode([(query, "") for query in distinct])
        for query, encoded in zip(distinct, encodings, strict=True):
            for span in segmenter.spans(query):
                word = query[slice(*span)].casefold()
                tokens = whole_tokens(encoded, QUERY, span)
                ids = tuple(encoded.input_ids[token] for token in tokens)
                if _can_stand_in(word) and ids and not any(one in special for one in ids):
                    found.setdefault(len(ids), {}).setdefault(ids, word)
        self._by_length = {length: sorted(words.items()) for length, words in found.items()}

    def draw(
        self, length: int, taken: Container[int], texts: Sequence[str], rng: np.random.Generator
    ) -> tuple[int, ...] | None:
        """Tokens of a word of `length` tokens, none of them `taken`, that stands in none of `texts`.

        None where there is no such word.
        """
        pool, folded = self._by_length.get(length, []), [text.casefold() for text in texts]
        for place in rng.permutation(len(pool)):
            ids, word = pool[place]
            if not any(one in taken for one in ids) and not any(word in text for text in folded):
                return ids
        return None


def _can_stand_in(word: str) -> bool:
    return len(word) >= LEAST_CHARACTERS and is_content_word(word)
