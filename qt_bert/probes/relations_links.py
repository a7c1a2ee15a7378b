"""Two spans that people linked, and unlinked ones to compare them with; the attention between spans.

Links are the arcs of a treebank's sentences, or spans of query and title that mean the same. A linked
pair of spans is compared with unlinked pairs of its *stratum*: the same text, distance and lengths. Spans
that share a character take no part, linked or not: matching heads answer for repetition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.data.treebank import Sentence, halves, read_treebank
from qt_bert.errors import PairFileError
from qt_bert.heads import Head, by_layer
from qt_bert.probes.matching_cells import Aligned, alignments
from qt_bert.probes.streams import is_punctuation, stream, tokens_within
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray

Float32Array = npt.NDArray[np.float32]
Tokens = tuple[int, int]
"""A span's tokens [start, end) in its pair."""

ALIGNED = "aligned"
"""The relation of two spans with one meaning."""
UNLINKED = ""
"""The relation of two spans that nobody linked."""
UNLABELLED = "?"
"""The relation of an arc whose label says nothing: no link of any relation, and not unlinked."""
LEAST_DISTANCE = 2
"""Neighbours are left out: what a head gives them says nothing of a link."""
LEAST_LINKS = 50
"""A relation with fewer links to compare in either half is not asked about."""


# Links, and the unlinked pairs of their strata.


class Link(NamedTuple):
    """Two spans that are compared with others of equal `stratum`.

    `pair` says which pair of texts they stand in, `unit` which sentence or query they are resampled
    with. Of linked spans the first is the dependent word, or the query's.
    """

    pair: int
    unit: int
    first: Tokens
    second: Tokens
    relation: str
    stratum: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Links:
    """N links, strata together; `pairs` are the texts that a model reads.

    `pair`, `unit`, `stratum` [N] number from 0, `first` and `second` [N, 2] are tokens [start, end).
    `relation` [N] is a place in `relations`, −1 for unlinked ones.
    """

    pairs: list[tuple[str, str]]
    units: int
    relations: tuple[str, ...]
    pair: IntArray
    unit: IntArray
    first: IntArray
    second: IntArray
    relation: IntArray
    stratum: IntArray

    def __len__(self) -> int:
        return len(self.pair)

    @property
    def linked(self) -> BoolArray:
        """Which are linked [N]."""
        return np.asarray(self.relation >= 0)

    @cached_property
    def counts(self) -> dict[str, int]:
        """How many links each relation has."""
        found = np.bincount(self.relation[self.linked], minlength=len(self.relations))
        return dict(zip(self.relations, found.tolist(), strict=True))

    def of(self, relation: str) -> IntArray:
        """The links of one relation and the unlinked pairs of their strata, in order."""
        mine = self.relation == self.relations.index(relation)
        return np.flatnonzero(mine | (~self.linked & np.isin(self.stratum, self.stratum[mine])))


def links_of(
    pairs: Sequence[tuple[str, str]],
    units: int,
    found: Iterable[Link],
    *,
    relations: Sequence[str],
    most: int,
    seed: int,
) -> Links:
    """`found` as arrays: strata with both kinds, of `relations`, and at most `most` unlinked a link.

    Which of more unlinked ones stay is drawn.
    """
    strata: dict[tuple[int, ...], list[Link]] = {}
    for link in found:
        strata.setdefault(link.stratum, []).append(link)
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, Link]] = []
    for members in strata.values():
        linked = [one for one in members if one.relation in relations]
        free = [one for one in members if one.relation == UNLINKED]
        if free and linked:
            drawn = sorted(rng.permutation(len(free))[: most * len(linked)])
            number = kept[-1][0] + 1 if kept else 0
            kept += [(number, one) for one in (*linked, *(free[place] for place in drawn))]
    numbers = {relation: place for place, relation in enumerate(relations)}

    def column(values: Iterable[object], width: int = 0) -> IntArray:
        return np.array(list(values), np.int64).reshape((-1, width) if width else -1)

    return Links(
        pairs=list(pairs),
        units=units,
        relations=tuple(relations),
        pair=column(one.pair for _, one in kept),
        unit=column(one.unit for _, one in kept),
        first=column((one.first for _, one in kept), 2),
        second=column((one.second for _, one in kept), 2),
        relation=column(numbers.get(one.relation, -1) for _, one in kept),
        stratum=column(number for number, _ in kept),
    )


def tokens_of(encoded: EncodedPair, side: int, span: Span) -> Tokens | None:
    """The tokens with a character within `span` of one side; None where there are none."""
    found = tokens_within(encoded, side, span)
    return (found[0], found[-1] + 1) if found else None


# Words of a treebank's sentences, linked by arcs.


@dataclass(frozen=True, eq=False)
class Read:
    """Sentences that a model reads whole, two by two, a short one with a long one.

    `where` says of each which of `pairs` it stands in, and as which side. `words` are the tokens of
    its words; None for punctuation, and for a word that shares a token with another.
    """

    sentences: list[Sentence]
    pairs: list[tuple[str, str]]
    where: list[tuple[int, int]]
    words: list[list[Tokens | None]]

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
    """At most `limit` of `sentences`, drawn; of an odd number one is read with another's text.

    Those that do not fit, or have fewer than two words, are left out.
    """
    drawn = list(sentences)
    if limit is not None and limit < len(drawn):
        places = np.random.default_rng(seed).permutation(len(drawn))[:limit]
        drawn = [drawn[place] for place in sorted(places)]
    couples = _couples(drawn)
    found = Read([], [(couple[QUERY].text, couple[TITLE].text) for couple in couples], [], [])
    seen: set[str] = set()
    for number, encoded in enumerate(tokenizer.encode(found.pairs)):
        cut = {QUERY: encoded.query_truncated, TITLE: encoded.title_truncated}
        for side, sentence in enumerate(couples[number]):
            words = _words(sentence, encoded, side)
            fits = not cut[side] and sum(word is not None for word in words) > 1
            if fits and sentence.text not in seen:
                seen.add(sentence.text)
                found.sentences.append(sentence)
                found.where.append((number, side))
                found.words.append(words)
    return found


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
    """The tokens of each word; None for punctuation, and for words that share a token."""
    found = []
    for word, span in zip(sentence.words, sentence.spans, strict=True):
        mark = all(map(is_punctuation, word.form))
        found.append(None if mark else tokens_of(encoded, side, span))
    owners = Counter(token for word in found if word for token in range(*word))
    return [
        None if word is None or any(owners[token] > 1 for token in range(*word)) else word
        for word in found
    ]


def enough(read: Sequence[Read], least: int = LEAST_LINKS) -> tuple[str, ...]:
    """The relations with `least` links in every half that have an unlinked pair beside them.

    Those with most links come first.
    """
    counted = []
    for half in read:
        links = list(_arcs(half))
        there = {link.stratum for link in links if link.relation == UNLINKED}
        counted.append(Counter(link.relation for link in links if link.stratum in there))
    both = set.intersection(*(set(one) for one in counted)) - {UNLINKED, UNLABELLED}
    kept = (r for r in both if min(one[r] for one in counted) >= least)
    return tuple(sorted(kept, key=lambda r: (-counted[0][r], r)))


def sentence_links(read: Read, relations: Sequence[str], *, most: int, seed: int) -> Links:
    """The links of `relations`, and unlinked words of the same sentence, distance and lengths."""
    return links_of(read.pairs, len(read), _arcs(read), relations=relations, most=most, seed=seed)


def _arcs(read: Read) -> Iterator[Link]:
    """Every two words of a sentence that are far enough apart and share no character."""
    for number, (sentence, tokens) in enumerate(zip(read.sentences, read.words, strict=True)):
        words = sentence.words
        for left, right in combinations(range(len(tokens)), 2):
            first, second = tokens[left], tokens[right]
            if right - left < LEAST_DISTANCE or first is None or second is None:
                continue
            if set(words[left].form.casefold()) & set(words[right].form.casefold()):
                continue
            relation, up = UNLINKED, False
            if words[left].head == right:
                relation = words[left].relation or UNLABELLED
            elif words[right].head == left:
                relation, up = words[right].relation or UNLABELLED, True
            sizes = sorted(end - start for start, end in (first, second))
            yield Link(
                pair=read.where[number][0],
                unit=number,
                first=second if up else first,
                second=first if up else second,
                relation=relation,
                stratum=(number, right - left, *sizes),
            )


# Spans of query and title that mean the same in other words.


def aligned_links(
    tokenizer: PairTokenizer,
    pairs: Sequence[Pair],
    segmenter: Segmenter,
    *,
    most: int,
    seed: int,
    limit: int | None = None,
) -> Links:
    """The aligned spans of those of `pairs` that ship, and unlinked ones of the same two texts.

    At most `limit` pairs are drawn. All spans, linked or not, begin and end where words do and hold
    no punctuation or white space. Unlinked ones are as long, and do not both meet the spans of one
    alignment. A unit is a query.
    """
    known = alignments()
    found = [pair for pair in pairs if (pair.query, pair.title) in known]
    if limit is not None:
        found = spread_over_queries(found, limit, seed)
    texts = [(pair.query, pair.title) for pair in found]
    queries = {query: number for number, query in enumerate(dict.fromkeys(q for q, _ in texts))}
    encoded = tokenizer.encode(texts) if texts else []
    links = (
        link
        for number, (pair, tokens) in enumerate(zip(texts, encoded, strict=True))
        for link in _spans(number, queries[pair[0]], pair, known[pair], tokens, segmenter)
    )
    return links_of(texts, len(queries), links, relations=(ALIGNED,), most=most, seed=seed)


def _spans(
    number: int,
    unit: int,
    pair: tuple[str, str],
    aligned: Sequence[Aligned],
    encoded: EncodedPair,
    segmenter: Segmenter,
) -> Iterator[Link]:
    spans = {((one.q_start, one.q_end), (one.t_start, one.t_end)) for one in aligned}
    edges = [{edge for span in segmenter.spans(text) for edge in span} for text in pair]
    wanted = {
        one
        for one in spans
        if all(known.issuperset(span) for span, known in zip(one, edges, strict=True))
        and _comparable(pair, *one)
    }
    other: dict[tuple[Span, Span], None] = {}
    for query, title in sorted(wanted):
        for both in product(_as_long(query, edges[0]), _as_long(title, edges[1])):
            apart = not any(_meet(both[0], one[0]) and _meet(both[1], one[1]) for one in spans)
            if apart and _comparable(pair, *both):
                other[both] = None

    def tokens(both: tuple[Span, Span]) -> tuple[Tokens, Tokens] | None:
        first, second = tokens_of(encoded, QUERY, both[0]), tokens_of(encoded, TITLE, both[1])
        return None if first is None or second is None else (first, second)

    linked = [one for one in map(tokens, spans) if one is not None]
    for relation, those in ((ALIGNED, sorted(wanted)), (UNLINKED, list(other))):
        for query, title in those:
            own = tokens((query, title))
            if own is None or (
                relation == UNLINKED
                and any(_meet(own[0], one[0]) and _meet(own[1], one[1]) for one in linked)
            ):  # a token of both texts' linked spans spells a part of these, too
                continue
            lengths = query[1] - query[0], title[1] - title[0]
            yield Link(number, unit, *own, relation, (number, *lengths))


def _as_long(span: Span, edges: set[int]) -> list[Span]:
    """Spans of this length that begin and end at `edges`."""
    length = span[1] - span[0]
    return [(start, start + length) for start in sorted(edges) if start + length in edges]


def _comparable(pair: tuple[str, str], query: Span, title: Span) -> bool:
    """Whether neither span has punctuation or white space, and they share no character."""
    first, second = pair[0][slice(*query)].casefold(), pair[1][slice(*title)].casefold()
    plain = not any(one.isspace() or is_punctuation(one) for one in first + second)
    return plain and set(first).isdisjoint(second)


def _meet(one: Span, other: Span) -> bool:
    return one[0] < other[1] and other[0] < one[1]


# The largest attention between two spans, either way.


@dataclass(frozen=True, eq=False)
class SpanAttention:
    """The largest attention from any token of one span to any of the other.

    `up` [N, heads] from the first span to the second, `down` from the second to the first: in a causal
    model, where the later one alone sees the other, both are what it gives. `on_text`
    [heads]: the share of its attention that a token of the texts gives to tokens of the texts.
    """

    heads: Sequence[Head]
    up: Float32Array
    down: Float32Array
    on_text: FloatArray

    @property
    def either(self) -> Float32Array:
        """The larger of both ways [N, heads]."""
        return np.maximum(self.up, self.down)


def span_attention(
    scorer: Scorer,
    pairs: Sequence[tuple[str, str]],
    spans: tuple[IntArray, IntArray, IntArray],
    heads: Sequence[Head],
    *,
    shown: Progress = silent,
) -> SpanAttention:
    """One plain pass. `spans`: the `pair` of each [N], its `first` and `second` tokens [N, 2].

    `shown` counts pairs. Without pairs, spans or heads nothing is run.
    """
    pair, first, second = spans
    found = SpanAttention(
        heads,
        np.zeros((len(pair), len(heads)), np.float32),
        np.zeros((len(pair), len(heads)), np.float32),
        np.zeros(len(heads)),
    )
    if not len(pair) or not heads:
        return found
    columns = {head: column for column, head in enumerate(heads)}
    of_layer = by_layer(heads)
    order = np.argsort(pair, kind="stable")
    of_pair = np.split(order, np.cumsum(np.bincount(pair, minlength=len(pairs)))[:-1])
    tokens = np.zeros(len(pairs))

    def compute(view: View) -> torch.Tensor:
        batch, numbers = view.batch, of_layer[view.layer]
        maps = view.values[:, list(numbers)].float().cpu().numpy()
        mine = np.array([columns[Head(view.layer, number)] for number in numbers])
        items = np.concatenate([of_pair[row] for row in batch.rows])
        rows = np.repeat(np.arange(len(batch)), [len(of_pair[row]) for row in batch.rows])
        sizes = np.stack([np.diff(first[items])[:, 0], np.diff(second[items])[:, 0]], axis=1)
        for size in np.unique(sizes, axis=0):
            some = (sizes == size).all(axis=1)
            row = rows[some, None, None]
            one = first[items[some], 0, None, None] + np.arange(size[0])[:, None]
            other = second[items[some], 0, None, None] + np.arange(size[1])
            where = np.ix_(items[some], mine)
            found.up[where] = maps[row, :, one, other].max(axis=(1, 2))
            found.down[where] = maps[row, :, other, one].max(axis=(1, 2))
            if scorer.checkpoint.family.causal:
                found.up[where] = found.down[where] = np.maximum(found.up[where], found.down[where])
        texts = np.zeros(tuple(batch.input_ids.shape), np.float32)
        for place, encoded in enumerate(batch.encoded):
            texts[place, : len(encoded)] = np.array(encoded.side) >= 0
        tokens[batch.rows] = texts.sum(axis=1)
        found.on_text[mine] += np.einsum("bq,bhqk,bk->h", texts, maps, texts, optimize=True)
        return torch.zeros(len(batch))

    stream(scorer, pairs, [Reduction("spans", "attention", tuple(of_layer), compute)], shown=shown)
    found.on_text[:] /= max(1.0, tokens.sum())
    return found
