"""Words of a treebank's sentences: which are linked by an arc, and which are not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

import numpy as np

from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.data.treebank import Sentence, halves, read_treebank
from qt_bert.errors import PairFileError
from qt_bert.probes.relations.links import UNLINKED, Link, Links, Tokens, links_of, tokens_of
from qt_bert.probes.streams import is_punctuation

LEAST_DISTANCE = 2
"""Neighbours are left out: what a head gives them says nothing of a link."""
LEAST_LINKS = 50
"""A relation with fewer links to compare in either half is not asked about."""
UNLABELLED = "?"
"""The relation of an arc whose label says nothing: no link of any relation, and not unlinked."""


@dataclass(frozen=True, eq=False)
class Read:
    """Sentences that a model reads whole, two by two, a short one with a long one.

    `where` says of each which of `pairs` it stands in, and as which side. `words` are the tokens of
    its words; None for punctuation, and for a word that shares a token with another. `left_out`
    counts the sentences that do not fit, or have one word or none.
    """

    sentences: list[Sentence]
    pairs: list[tuple[str, str]]
    where: list[tuple[int, int]]
    words: list[list[Tokens | None]]
    left_out: int

    def __len__(self) -> int:
        return len(self.sentences)


def sentences_of(files: Sequence[Path]) -> tuple[list[Sentence], list[Sentence]]:
    """The sentences of all treebanks, each text once: to choose on, and to test on.

    Raises PairFileError as `read_treebank` does, and where a half has no sentence.
    """
    every: dict[str, Sentence] = {}
    for path in files:
        for sentence in read_treebank(path).sentences:
            every.setdefault(sentence.text, sentence)
    found = halves(every.values())
    for name, half in zip(found._fields, found, strict=True):
        if not half:
            raise PairFileError(
                f"{', '.join(map(str, files))}: the {name} half of the sentences is empty; give a "
                "treebank of more sentences"
            )
    return found.discovery, found.validation


def read_sentences(
    tokenizer: PairTokenizer, sentences: Sequence[Sentence], limit: int | None, seed: int
) -> Read:
    """At most `limit` of `sentences`, drawn; of an odd number one is read with another's text."""
    drawn = list(sentences)
    if limit is not None and limit < len(drawn):
        places = np.random.default_rng(seed).permutation(len(drawn))[:limit]
        drawn = [drawn[place] for place in sorted(places)]
    couples = _couples(drawn)
    pairs = [(couple[QUERY].text, couple[TITLE].text) for couple in couples]
    found = Read([], pairs, [], [], 0)
    seen: set[str] = set()
    for number, encoded in enumerate(tokenizer.encode(pairs)):
        cut = {QUERY: encoded.query_truncated, TITLE: encoded.title_truncated}
        for side, sentence in enumerate(couples[number]):
            words = _words(sentence, encoded, side)
            fits = not cut[side] and sum(word is not None for word in words) > 1
            if fits and sentence.text not in seen:
                seen.add(sentence.text)
                found.sentences.append(sentence)
                found.where.append((number, side))
                found.words.append(words)
    return replace(found, left_out=len(drawn) - len(found))


def _couples(sentences: Sequence[Sentence]) -> list[tuple[Sentence, Sentence]]:
    """The shortest with the longest and so on, so that both fit; queries and titles are as long.

    Of an odd number the middle one comes with the shortest.
    """
    ordered = sorted(sentences, key=lambda one: len(one.text))
    half = len(ordered) // 2
    couples = list(zip(ordered[:half], reversed(ordered), strict=False))
    if len(ordered) % 2:
        couples.append((ordered[0], ordered[half]))
    return [
        (long, short) if number % 2 else (short, long)
        for number, (short, long) in enumerate(couples)
    ]


def _words(sentence: Sentence, encoded: EncodedPair, side: int) -> list[Tokens | None]:
    spans = [tokens_of(encoded, side, *span) for span in sentence.spans]
    return _apart(
        [
            None if span is None or all(map(is_punctuation, word.form)) else span
            for span, word in zip(spans, sentence.words, strict=True)
        ]
    )


def enough(read: Iterable[Read], least: int = LEAST_LINKS) -> tuple[str, ...]:
    """The relations with at least so many links in each of the samples, most links first.

    Only links count whose stratum has an unlinked pair. No weight is looked at.
    """
    counted = [_comparable(list(_links(one))) for one in read]
    both = set.intersection(*(set(one) for one in counted)) - {UNLINKED, UNLABELLED}
    fewest = {relation: min(one[relation] for one in counted) for relation in both}
    return tuple(sorted((r for r in both if fewest[r] >= least), key=lambda r: (-counted[0][r], r)))


def _comparable(links: Sequence[Link]) -> Counter[str]:
    """How many links of each relation have an unlinked pair to be compared with."""
    there = {link.stratum for link in links if link.relation == UNLINKED}
    return Counter(link.relation for link in links if link.stratum in there)


def sentence_links(read: Read, relations: Sequence[str], *, most: int, seed: int) -> Links:
    """The links of `relations`, and unlinked words of the same sentence, distance and lengths."""
    return links_of(read.pairs, len(read), _links(read), relations=relations, most=most, seed=seed)


def _links(read: Read) -> Iterator[Link]:
    for number, (sentence, words) in enumerate(zip(read.sentences, read.words, strict=True)):
        for left, right in combinations(range(len(words)), 2):
            if right - left < LEAST_DISTANCE:
                continue
            first, second = words[left], words[right]
            if first is None or second is None or _alike(sentence, left, right):
                continue
            relation, up = _relation(sentence, left, right)
            sizes = sorted(end - start for start, end in (first, second))
            yield Link(
                pair=read.where[number][0],
                unit=number,
                first=second if up else first,
                second=first if up else second,
                relation=relation,
                stratum=(number, right - left, *sizes),
            )


def _alike(sentence: Sentence, left: int, right: int) -> bool:
    """Whether two words share a character: matching heads answer for these, linked or not.

    No part of the question as first put: the first heads looked at were named for repeated words.
    Both kinds of pairs are left out alike, so that exchanging them stays fair.
    """
    forms = (set(sentence.words[place].form.casefold()) for place in (left, right))
    return bool(set.intersection(*forms))


def _relation(sentence: Sentence, left: int, right: int) -> tuple[str, bool]:
    """The relation of two words, and whether the right one depends on the left one."""
    words = sentence.words
    if words[left].head == right:
        return words[left].relation or UNLABELLED, False
    if words[right].head == left:
        return words[right].relation or UNLABELLED, True
    return UNLINKED, False


def _apart(words: Sequence[Tokens | None]) -> list[Tokens | None]:
    """None for words that share a token."""
    owners = Counter(token for word in words if word for token in range(*word))
    return [
        None if word is None or any(owners[token] > 1 for token in range(*word)) else word
        for word in words
    ]
