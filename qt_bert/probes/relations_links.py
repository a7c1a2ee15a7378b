"""Linked spans, unlinked controls, and the attention between spans.

Links are the arcs of a treebank's sentences, or synonymous spans of query and title. A linked pair of spans
is compared with unlinked pairs of its *stratum*: the same text, distance and lengths. Spans that share a
character are left out, as matching heads attend to repetition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.splits import spread_over_queries
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair, PairTokenizer
from qt_bert.data.treebank import Sentence, halves
from qt_bert.errors import PairFileError
from qt_bert.heads import Head, by_layer
from qt_bert.probes.streams import is_punctuation, stream, tokens_within
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.shipped import shipped
from qt_bert.stats.arrays import BoolArray, FloatArray, IntArray
from qt_bert.stats.judgements import index_queries

Float32Array = npt.NDArray[np.float32]
Tokens = tuple[int, int]
"""A span's tokens [start, end) in its pair."""

ALIGNED = "aligned"
"""The relation of synonymous spans."""
UNLINKED = ""
"""The relation of spans without a link."""
UNLABELLED = "?"
"""The relation of an arc without a label: neither a link nor unlinked."""
LEAST_DISTANCE = 2
"""Neighbours are left out: heads of a fixed offset attend to them."""
LEAST_LINKS = 50
"""The least number of comparable links of a relation in each half."""


# Links, and the unlinked pairs of their strata.


class Link(NamedTuple):
    """Two spans, compared with others of equal `stratum`.

    `pair`: their pair of texts; `unit`: the sentence or query with which they are resampled. The first
    of linked spans is the dependent word, or the query's.
    """

    pair: int
    unit: int
    first: Tokens
    second: Tokens
    relation: str
    stratum: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Links:
    """N links by stratum; `pairs` are the model's inputs.

    `pair`, `unit`, `stratum` [N]: numbers from 0; `first`, `second` [N, 2]: tokens [start, end);
    `relation` [N]: an index into `relations`, −1 for unlinked.
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
        """The number of links of each relation."""
        counts = np.bincount(self.relation[self.linked], minlength=len(self.relations))
        return dict(zip(self.relations, counts.tolist(), strict=True))

    def of(self, relation: str) -> IntArray:
        """The links of one relation and the unlinked pairs of their strata, in order."""
        linked = self.relation == self.relations.index(relation)
        return np.flatnonzero(linked | (~self.linked & np.isin(self.stratum, self.stratum[linked])))


def links_of(
    pairs: Sequence[tuple[str, str]],
    units: int,
    links: Iterable[Link],
    *,
    relations: Sequence[str],
    most: int,
    seed: int,
) -> Links:
    """`links` as arrays: strata with links of `relations` and unlinked pairs, at most `most` drawn a link."""
    strata: dict[tuple[int, ...], list[Link]] = {}
    for link in links:
        strata.setdefault(link.stratum, []).append(link)
    rng = np.random.default_rng(seed)
    kept: list[tuple[int, Link]] = []
    for members in strata.values():
        linked = [link for link in members if link.relation in relations]
        free = [link for link in members if link.relation == UNLINKED]
        if free and linked:
            drawn = sorted(rng.permutation(len(free))[: most * len(linked)])
            number = kept[-1][0] + 1 if kept else 0
            kept += [(number, link) for link in (*linked, *(free[place] for place in drawn))]
    numbers = {relation: place for place, relation in enumerate(relations)}

    def column(values: Iterable[object], width: int = 0) -> IntArray:
        return np.array(list(values), np.int64).reshape((-1, width) if width else -1)

    return Links(
        pairs=list(pairs),
        units=units,
        relations=tuple(relations),
        pair=column(link.pair for _, link in kept),
        unit=column(link.unit for _, link in kept),
        first=column((link.first for _, link in kept), 2),
        second=column((link.second for _, link in kept), 2),
        relation=column(numbers.get(link.relation, -1) for _, link in kept),
        stratum=column(number for number, _ in kept),
    )


def tokens_of(encoded: EncodedPair, side: int, span: Span) -> Tokens | None:
    """The tokens with a character within `span` of one side; None without any."""
    tokens = tokens_within(encoded, side, span)
    return (tokens[0], tokens[-1] + 1) if tokens else None


# Words of a treebank's sentences, linked by arcs.


@dataclass(frozen=True, eq=False)
class TokenisedSentences:
    """Sentences that fit, read in pairs of a short and a long one.

    `where`: each sentence's index in `pairs`, and its side. `words`: the tokens of its words; None for
    punctuation, and for words that share a token.
    """

    sentences: list[Sentence]
    pairs: list[tuple[str, str]]
    where: list[tuple[int, int]]
    words: list[list[Tokens | None]]

    def __len__(self) -> int:
        return len(self.sentences)


def sentences_of(files: Sequence[Path]) -> tuple[list[Sentence], list[Sentence]]:
    """All treebanks' distinct sentences by half. Raises PairFileError, also for an empty half."""
    both = halves(files)
    for name, half in zip(both._fields, both, strict=True):
        if not half:
            raise PairFileError(
                f"{', '.join(map(str, files))}: the {name} half of the sentences is empty; give a "
                "treebank of more sentences"
            )
    return both.discovery, both.validation


def read_sentences(
    tokenizer: PairTokenizer, sentences: Sequence[Sentence], limit: int, seed: int
) -> TokenisedSentences:
    """At most `limit` of `sentences`, drawn; those that do not fit, or have fewer than two words, are left out."""
    places = np.random.default_rng(seed).permutation(len(sentences))[:limit]
    couples = _couples([sentences[place] for place in sorted(places)])
    pairs = [(couple[QUERY].text, couple[TITLE].text) for couple in couples]
    kept = TokenisedSentences([], pairs, [], [])
    texts: set[str] = set()
    for number, encoded in enumerate(tokenizer.encode(pairs)):
        cut = {QUERY: encoded.query_truncated, TITLE: encoded.title_truncated}
        for side, sentence in enumerate(couples[number]):
            words = _words(sentence, encoded, side)
            fits = not cut[side] and sum(word is not None for word in words) > 1
            if fits and sentence.text not in texts:
                texts.add(sentence.text)
                kept.sentences.append(sentence)
                kept.where.append((number, side))
                kept.words.append(words)
    return kept


def _couples(sentences: Sequence[Sentence]) -> list[tuple[Sentence, Sentence]]:
    """The shortest with the longest and so on, sides alternating; an odd middle one with the shortest."""
    ordered = sorted(sentences, key=lambda sentence: len(sentence.text))
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
    words = []
    for word, span in zip(sentence.words, sentence.spans, strict=True):
        mark = all(map(is_punctuation, word.form))
        words.append(None if mark else tokens_of(encoded, side, span))
    owners = Counter(token for tokens in words if tokens for token in range(*tokens))
    return [
        None if tokens is None or any(owners[token] > 1 for token in range(*tokens)) else tokens
        for tokens in words
    ]


def frequent_relations(read: Sequence[TokenisedSentences]) -> tuple[str, ...]:
    """The relations with LEAST_LINKS links that have an unlinked control in every half, most frequent first."""
    counted = []
    for half in read:
        links = list(_arcs(half))
        controlled = {link.stratum for link in links if link.relation == UNLINKED}
        counted.append(Counter(link.relation for link in links if link.stratum in controlled))
    both = set.intersection(*map(set, counted)) - {UNLINKED, UNLABELLED}
    kept = (r for r in both if min(counts[r] for counts in counted) >= LEAST_LINKS)
    return tuple(sorted(kept, key=lambda r: (-counted[0][r], r)))


def sentence_links(
    read: TokenisedSentences, relations: Sequence[str], *, most: int, seed: int
) -> Links:
    """The links of `relations`, and unlinked words of the same sentence, distance and lengths."""
    return links_of(read.pairs, len(read), _arcs(read), relations=relations, most=most, seed=seed)


def _arcs(read: TokenisedSentences) -> Iterator[Link]:
    """All pairs of words of a sentence that are LEAST_DISTANCE apart and share no character."""
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


# Synonymous spans of query and title.


class Aligned(NamedTuple):
    """Characters [start, end) of the query and of the title with one meaning."""

    q_start: int
    q_end: int
    t_start: int
    t_end: int


@cache
def alignments() -> Mapping[tuple[str, str], tuple[Aligned, ...]]:
    """(query, title) → its aligned spans, for every shipped pair that has some."""
    by_id: dict[str, list[Aligned]] = {}
    lines = shipped("pairs/alignments.tsv").read_text(encoding="utf-8").splitlines()
    for line in lines[1:]:
        id, _, *places = line.split("\t")
        by_id.setdefault(id, []).append(Aligned(*map(int, places)))
    return {
        (pair.query, pair.title): tuple(by_id[pair.id])
        for split in ("pairs/train.tsv", "pairs/dev.tsv", "pairs/test.tsv")
        for pair in ReaderOptions().open(shipped(split))
        if pair.id in by_id
    }


def aligned_links(
    tokenizer: PairTokenizer,
    pairs: Sequence[Pair],
    segmenter: Segmenter,
    *,
    most: int,
    seed: int,
    limit: int | None = None,
) -> Links:
    """The aligned spans of the shipped ones of `pairs` (at most `limit`, drawn), and unlinked controls.

    All spans begin and end at word boundaries, without punctuation or white space. Controls have the
    same lengths and do not both overlap the spans of one alignment. A unit is a query.
    """
    known = alignments()
    chosen = [pair for pair in pairs if (pair.query, pair.title) in known]
    if limit is not None:
        chosen = spread_over_queries(chosen, limit, seed)
    texts = [(pair.query, pair.title) for pair in chosen]
    units, n_queries = index_queries([query for query, _ in texts])
    encoded = tokenizer.encode(texts) if texts else []
    links = (
        link
        for number, (pair, tokens) in enumerate(zip(texts, encoded, strict=True))
        for link in _spans(number, int(units[number]), pair, known[pair], tokens, segmenter)
    )
    return links_of(texts, n_queries, links, relations=(ALIGNED,), most=most, seed=seed)


def _spans(
    number: int,
    unit: int,
    pair: tuple[str, str],
    aligned: Sequence[Aligned],
    encoded: EncodedPair,
    segmenter: Segmenter,
) -> Iterator[Link]:
    spans = {((each.q_start, each.q_end), (each.t_start, each.t_end)) for each in aligned}
    edges = [{edge for span in segmenter.spans(text) for edge in span} for text in pair]
    usable = {
        both
        for both in spans
        if all(of_text.issuperset(span) for span, of_text in zip(both, edges, strict=True))
        and _comparable(pair, *both)
    }
    controls: dict[tuple[Span, Span], None] = {}
    for query, title in sorted(usable):
        for both in product(_as_long(query, edges[0]), _as_long(title, edges[1])):
            apart = not any(_overlap(both[0], q) and _overlap(both[1], t) for q, t in spans)
            if apart and _comparable(pair, *both):
                controls[both] = None

    def tokens(both: tuple[Span, Span]) -> tuple[Tokens, Tokens] | None:
        first, second = tokens_of(encoded, QUERY, both[0]), tokens_of(encoded, TITLE, both[1])
        return None if first is None or second is None else (first, second)

    linked = [both for both in map(tokens, spans) if both is not None]
    for relation, members in ((ALIGNED, sorted(usable)), (UNLINKED, list(controls))):
        for query, title in members:
            spanned = tokens((query, title))
            if spanned is None or (
                relation == UNLINKED
                and any(_overlap(spanned[0], q) and _overlap(spanned[1], t) for q, t in linked)
            ):  # shares a token with the linked spans in both texts
                continue
            lengths = query[1] - query[0], title[1] - title[0]
            yield Link(number, unit, *spanned, relation, (number, *lengths))


def _as_long(span: Span, edges: set[int]) -> list[Span]:
    """Spans of this length that begin and end at `edges`."""
    length = span[1] - span[0]
    return [(start, start + length) for start in sorted(edges) if start + length in edges]


def _comparable(pair: tuple[str, str], query: Span, title: Span) -> bool:
    """Whether neither span has punctuation or white space, and they share no character."""
    first, second = pair[0][slice(*query)].casefold(), pair[1][slice(*title)].casefold()
    plain = not any(
        character.isspace() or is_punctuation(character) for character in first + second
    )
    return plain and set(first).isdisjoint(second)


def _overlap(first: Span, second: Span) -> bool:
    return first[0] < second[1] and second[0] < first[1]


# The largest attention between two spans.


@dataclass(frozen=True, eq=False)
class SpanAttention:
    """The largest attention from any token of one span to any of the other.

    `up` [N, heads] from the first span to the second, `down` the reverse; equal in a causal model, where
    only the later span sees the other. `on_text` [heads]: the attention of text tokens to text tokens.
    """

    heads: Sequence[Head]
    up: Float32Array
    down: Float32Array
    on_text: FloatArray

    @property
    def either(self) -> Float32Array:
        """The larger of both directions [N, heads]."""
        return np.maximum(self.up, self.down)


def span_attention(
    scorer: Scorer,
    pairs: Sequence[tuple[str, str]],
    spans: tuple[IntArray, IntArray, IntArray],
    heads: Sequence[Head],
    *,
    shown: Progress = silent,
) -> SpanAttention:
    """One clean pass's attention: `pair` [N], `first`, `second` tokens [N, 2]. `shown`: pairs."""
    pair, first, second = spans
    attention = SpanAttention(
        heads,
        np.zeros((len(pair), len(heads)), np.float32),
        np.zeros((len(pair), len(heads)), np.float32),
        np.zeros(len(heads)),
    )
    if not len(pair) or not heads:
        return attention
    columns = {head: column for column, head in enumerate(heads)}
    of_layer = by_layer(heads)
    order = np.argsort(pair, kind="stable")
    of_pair = np.split(order, np.cumsum(np.bincount(pair, minlength=len(pairs)))[:-1])
    tokens = np.zeros(len(pairs))

    def compute(view: View) -> torch.Tensor:
        batch, numbers = view.batch, of_layer[view.layer]
        maps = view.values[:, list(numbers)].float().cpu().numpy()
        of_heads = np.array([columns[Head(view.layer, number)] for number in numbers])
        items = np.concatenate([of_pair[row] for row in batch.rows])
        rows = np.repeat(np.arange(len(batch)), [len(of_pair[row]) for row in batch.rows])
        sizes = np.stack([np.diff(first[items])[:, 0], np.diff(second[items])[:, 0]], axis=1)
        for size in np.unique(sizes, axis=0):
            of_size = (sizes == size).all(axis=1)
            row = rows[of_size, None, None]
            start = first[items[of_size], 0, None, None] + np.arange(size[0])[:, None]
            end = second[items[of_size], 0, None, None] + np.arange(size[1])
            where = np.ix_(items[of_size], of_heads)
            up = maps[row, :, start, end].max(axis=(1, 2))
            down = maps[row, :, end, start].max(axis=(1, 2))
            if scorer.checkpoint.family.causal:
                up = down = np.maximum(up, down)
            attention.up[where], attention.down[where] = up, down
        texts = np.zeros(tuple(batch.input_ids.shape), np.float32)
        for place, encoded in enumerate(batch.encoded):
            texts[place, : len(encoded)] = np.array(encoded.side) >= 0
        tokens[batch.rows] = texts.sum(axis=1)
        on_text = np.einsum("bq,bhqk,bk->h", texts, maps, texts, optimize=True)
        attention.on_text[of_heads] += on_text
        return torch.zeros(len(batch))

    stream(scorer, pairs, [Reduction("spans", "attention", tuple(of_layer), compute)], shown=shown)
    attention.on_text[:] /= max(1.0, tokens.sum())
    return attention
