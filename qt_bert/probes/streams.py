"""Samples of pairs, their characters and terms, and passes that keep a few numbers a pair."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from qt_bert.ablation.engine import Reduction, Swept, batch_tokens, sweep
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.splits import sample_queries, spread_over_queries
from qt_bert.data.tokenise import QUERY, SPECIAL, EncodedPair
from qt_bert.errors import ArgumentError
from qt_bert.probes.base import Context
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.estimate import query_key


def for_model(pairs: Sequence[Pair], limit: int, context: Context) -> list[Pair]:
    """About `limit` pairs spread over queries; whole queries for a one-logit model; all under --full.

    A one-logit model is judged by the order of a query's titles.
    """
    if context.full:
        return list(pairs)
    one_logit = context.model.checkpoint.settings.labels.logits == 1
    return (sample_queries if one_logit else spread_over_queries)(pairs, limit, context.seed)


PAIRS_A_QUERY = 2


def few_a_query(
    pairs: Sequence[Pair], most: int = PAIRS_A_QUERY, *, unlike: bool = False
) -> list[Pair]:
    """At most `most` pairs of each query, in file order; those whose title's hash comes first.

    `unlike`: no two of a query have labels of the same mean grade.
    """
    kept: list[int] = []
    for places in _places_by_query(pairs):
        if unlike:
            first: dict[float | None, int] = {}
            for place in places:
                grades = pairs[place].grades
                first.setdefault(float(np.mean(grades)) if grades else None, place)
            places = [*first.values()]
        kept += places[:most]
    return [pairs[place] for place in sorted(kept)]


def balanced_a_query(pairs: Sequence[Pair], most: int, judged: Collection[GradeSet]) -> list[Pair]:
    """At most `most` pairs of each query, in file order, so that the label sets `judged` are equally many.

    In the order of the titles' hashes each pair taken is of the judged set that has fewest.
    """
    taken: Counter[GradeSet | None] = Counter()
    kept = []

    def rank(place: int) -> tuple[bool, int]:
        grades = pairs[place].grades
        return grades not in judged, taken[grades]

    for places in _places_by_query(pairs):
        for _ in range(min(most, len(places))):
            place = min(places, key=rank)
            places.remove(place)
            taken[pairs[place].grades] += 1
            kept.append(place)
    return [pairs[place] for place in sorted(kept)]


def _places_by_query(pairs: Sequence[Pair]) -> list[list[int]]:
    """The places of each query's pairs, all in the order of their titles' hashes, which is that of no file."""

    def rank(place: int) -> bytes:
        return hashlib.sha256(f"0\0{pairs[place].title}".encode()).digest()

    of_query: dict[Hashable, list[int]] = {}
    for place in sorted(range(len(pairs)), key=rank):
        of_query.setdefault(query_key(pairs[place].query), []).append(place)
    return [*of_query.values()]


def few_in_quick(context: Context, pairs: Sequence[Pair], most: int = PAIRS_A_QUERY) -> list[Pair]:
    """`few_a_query` in a quick run; all pairs under --full."""
    return few_a_query(pairs, context.choose(most, len(pairs)))


# Characters of a pair's tokens. A token may hold several, or a part of one (byte-level BPE cuts a
# character of three bytes).


_HAN = re.compile(
    "[\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002fa1f\U00030000-\U000323af]"
)
"""Ideographs, as Unicode's blocks list them."""


class Character(NamedTuple):
    """A character that is a token: its index among the tokens, and in its text."""

    token: int
    place: int
    text: str


def is_han(character: str) -> bool:
    """Whether it is a Chinese character."""
    return _HAN.fullmatch(character) is not None


def characters_of(
    encoded: EncodedPair, query: str, title: str, side: int, *, han: bool = True
) -> list[Character]:
    """The characters of one side (QUERY or TITLE) that are a token of their own, in text order.

    With `han`, only Chinese characters. The pair must have been encoded with offsets.
    """
    text = query if side == QUERY else title
    return [
        Character(token, start, text[start])
        for token, (start, end) in uncut_tokens(encoded, side).items()
        if end == start + 1 and (not han or is_han(text[start]))
    ]


def uncut_tokens(encoded: EncodedPair, side: int) -> dict[int, Span]:
    """A side's tokens, with spans, that share no character with others; needs offsets."""
    places = enumerate(zip(encoded.side, encoded.spans, strict=True))
    spans = {token: span for token, (owner, span) in places if owner == side and span[0] < span[1]}
    owners = Counter(place for span in spans.values() for place in range(*span))
    return {
        token: span
        for token, span in spans.items()
        if all(owners[place] == 1 for place in range(*span))
    }


def tokens_within(encoded: EncodedPair, side: int, span: Span) -> list[int]:
    """A side's tokens with a character in `span`, in order; needs a pair with offsets."""
    return [
        token
        for token, (owner, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True))
        if owner == side and max(start, span[0]) < min(end, span[1])
    ]


def token_texts(encoded: EncodedPair, query: str, title: str) -> tuple[str, ...]:
    """The text of each token for display, including whole characters of which it is a part.

    White space and a mark of a word's start are `▁`, special tokens of a template `…`. The pair must
    have been encoded with offsets.
    """
    names, separators = [], set(encoded.separators)
    for token, (side, (start, end)) in enumerate(zip(encoded.side, encoded.spans, strict=True)):
        if side == SPECIAL:
            other = "[SEP]" if token in separators else "…"
            names.append("[CLS]" if token == encoded.cls else other)
        else:
            names.append((query, title)[side][start:end] or "▁")
    return tuple(names)


def coverage(texts: Sequence[str], seen: int) -> float:
    """`seen` as a share of the Chinese characters of `texts`; 1 without any."""
    total = sum(is_han(character) for text in texts for character in text)
    return seen / total if total else 1.0


# Terms that a query and a title share; function characters do not count.


STOP_CHARACTERS = frozenset("的了是在和与及或吗呢吧啊呀嘛么怎什就都也还很把被从到于以之这那个")


def is_punctuation(character: str) -> bool:
    """Whether it is neither a letter, a Chinese character, a digit nor white space."""
    return not (character.isalnum() or character.isspace())


def is_content(character: str) -> bool:
    """Whether it is a letter, a Chinese character or a digit, and not in STOP_CHARACTERS."""
    return character.isalnum() and character not in STOP_CHARACTERS


def is_content_word(word: str) -> bool:
    """Whether any of its characters is content."""
    return any(map(is_content, word))


class Shared(NamedTuple):
    """The spans of one term in the query and in the title, as characters [start, end)."""

    query: list[Span]
    title: list[Span]


def shared_terms(query: str, title: str, segmenter: Segmenter) -> dict[str, Shared]:
    """The words of both texts, by the segmenter, with all their spans, in the order of the query.

    Case does not count; function words and punctuation are left out.
    """
    in_query, in_title = _places(query, segmenter), _places(title, segmenter)
    return {
        term: Shared(places, in_title[term])
        for term, places in in_query.items()
        if term in in_title and is_content_word(term)
    }


def _places(text: str, segmenter: Segmenter) -> dict[str, list[Span]]:
    places: dict[str, list[Span]] = {}
    for start, end in segmenter.spans(text):
        places.setdefault(text[start:end].casefold(), []).append((start, end))
    return places


# Streamed passes: a few numbers a pair, with the maps of one batch at a time.


def stream(
    scorer: Scorer,
    texts: Sequence[tuple[str, str]],
    reductions: Sequence[Reduction],
    variants: Sequence[Variant] = (NONE,),
    *,
    shown: Progress = silent,
) -> dict[str, np.ndarray]:
    """Each reduction's numbers [variants, pairs, its layers, …], and `logits` [variants, pairs, labels].

    In a reduction `View.batch.rows` are the indices into `texts`, `View.batch.encoded` the tokens, sides
    and spans. `shown` counts variants × pairs. Raises ArgumentError for no texts.
    """
    if not len(texts):
        raise ArgumentError("no pairs to look at: the sample is empty")
    batches = scorer.fresh().batches(texts, batch_tokens(len(variants)), offsets=True)
    return gathered(sweep(scorer.encoder, batches, variants, reductions, shown=shown), len(texts))


def gathered(swept: Iterable[Swept], pairs: int) -> dict[str, np.ndarray]:
    """The batches of a sweep over `pairs` pairs, joined as by `stream`."""
    joined: dict[str, np.ndarray] = {}
    for batch in swept:
        for name, values in {"logits": batch.logits, **batch.reduced}.items():
            if name not in joined:
                shape = (values.shape[0], pairs, *values.shape[2:])
                joined[name] = np.full(shape, np.nan, np.float32)
            joined[name][:, batch.rows] = values
    return joined
