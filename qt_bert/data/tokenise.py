"""Pairs as token ids, with the characters of query or title that each token covers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from qt_bert.data.segmenters import Span
from qt_bert.data.templates import Template
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.text import clip

SPECIAL = -1
QUERY = 0
TITLE = 1

# Ordinary texts have fewer characters a token. A longer text is first cut to so many, and encoded whole
# only if that gives too few tokens, with some to spare for the cut edge.
_CHARACTERS_PER_TOKEN = 64
_SPARE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """The tokens of one pair; all lists have one entry per token.

    `side` is 0 in the query, 1 in the title, -1 at special tokens. `spans` are the characters
    [start, end) of the query or the title that a token covers, in part or whole, without white space
    around them: tokens that share a character overlap. start = end at a token without characters
    (special, white space, SentencePiece's word mark). `spans` is empty without offsets. `at` is the
    position of the token that the classifier reads: 0, or in a causal model the last.
    """

    input_ids: list[int]
    token_type_ids: list[int]
    side: list[int]
    spans: list[tuple[int, int]]
    query_truncated: bool
    title_truncated: bool
    at: int = field(default=0, kw_only=True)

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def cls(self) -> int:
        """The index of the classification token: `at` or, where that is 0, the first special token."""
        if self.at or SPECIAL not in self.side:
            return self.at
        return self.side.index(SPECIAL)

    @property
    def separators(self) -> list[int]:
        """Indices of special tokens after the first; in a causal model, after the query but `at`."""
        special = [i for i, side in enumerate(self.side) if side == SPECIAL]
        if not self.at:
            return special[1:]
        query = self.side.index(QUERY) if QUERY in self.side else 0
        return [i for i in special if query < i != self.at]


class PairTokenizer:
    """Encodes (query, title) pairs to at most `max_length` tokens, special tokens included.

    The title is truncated from its end, down to no token, before the query. `tokenizer`, a fast one of
    transformers or a `tokenizers.Tokenizer`, is copied; token types are 0 where its
    `model_input_names` lack them. `last` is the id of padding where the classifier reads the last other
    token. The tokens of `template`, a causal model's prompt, are special. `rows` is the number of
    embeddings. As in transformers, the text `[SEP]` becomes that special token; its side stays its
    text's. May be shared between threads.

    Raises CheckpointError for a slow tokenizer, ArgumentError for a `max_length` without room for a
    token of each text.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int,
        *,
        last: int | None = None,
        template: Template | None = None,
        rows: int | None = None,
    ) -> None:
        self._rows = rows
        self._backend = _private_copy(tokenizer)
        self._types = "token_type_ids" in getattr(
            tokenizer, "model_input_names", ("token_type_ids",)
        )
        self._template = template
        self.max_length = max_length
        self._last = last
        self._mark = self._backend.token_to_id("▁")
        if template is None:
            specials = self._backend.num_special_tokens_to_add(is_pair=True)
        else:
            self._ends = [
                self._backend.encode(text, add_special_tokens=False).ids
                for text in (template.prefix, template.suffix)
            ]
            specials = len(self._in_template([("", "")])[0].ids)
        if max_length < specials + 2:
            raise ArgumentError(
                f"--max-length {max_length}: a pair needs {specials} special tokens and a token of "
                f"each text, {specials + 2} at least"
            )
        self._query_budget = max_length - specials
        self._characters = max_length * _CHARACTERS_PER_TOKEN

    def encode(
        self, pairs: Sequence[tuple[str, str]], *, offsets: bool = True
    ) -> list[EncodedPair]:
        """Encode pairs; `offsets=False` leaves `spans` empty and is faster.

        Raises ArgumentError for a lone surrogate and a token beyond `rows`.
        """
        limit = self._characters
        starts = [(query[:limit], title[:limit]) for query, title in pairs]
        return [
            self._encoded(whole, start, encoded, offsets)
            for whole, start, encoded in zip(
                pairs, starts, self._encodings(starts, offsets), strict=True
            )
        ]

    def _encodings(self, pairs: Sequence[tuple[str, str]], offsets: bool) -> list[_Tokens]:
        """The tokenizer's output for each pair, with spans if `offsets`."""
        encode = self._backend.encode_batch if offsets else self._backend.encode_batch_fast
        try:
            if self._template is not None:
                return self._in_template(pairs)
            return [
                _Tokens(
                    tokens.ids,
                    tokens.type_ids if self._types else [0] * len(tokens.ids),
                    _sides(tokens),
                    tokens.offsets if offsets else [],
                )
                for tokens in encode(list(pairs))
            ]
        except (TypeError, UnicodeError):
            for query, title in pairs:
                _refuse_surrogates(query)
                _refuse_surrogates(title)
            raise

    def _in_template(self, pairs: Sequence[tuple[str, str]]) -> list[_Tokens]:
        """Pairs in the template. A token that has a character of a text belongs to that text."""
        assert self._template is not None
        before, between = self._template.before, self._template.between
        bodies = [f"{before}{query}{between}{title}" for query, title in pairs]
        prefix, suffix = self._ends
        encoded = []
        for (query, title), body in zip(
            pairs, self._backend.encode_batch(bodies, add_special_tokens=False), strict=True
        ):
            starts = len(before), len(before) + len(query) + len(between)
            ranges = [(at, at + len(text)) for at, text in zip(starts, (query, title), strict=True)]
            sides, spans = [SPECIAL] * len(prefix), [(0, 0)] * len(prefix)
            for start, end in body.offsets:
                of = [n for n, (low, high) in enumerate(ranges) if start < high and end > low]
                sides.append(of[0] if of else SPECIAL)
                low, high = ranges[of[0]] if of else (start, start)
                spans.append((max(start, low) - low, min(end, high) - low))
            ids = [*prefix, *body.ids, *suffix]
            sides += [SPECIAL] * len(suffix)
            spans += [(0, 0)] * len(suffix)
            encoded.append(_Tokens(ids, [0] * len(ids), sides, spans))
        return encoded

    def _encoded(
        self,
        whole: tuple[str, str],
        start: tuple[str, str],
        encoded: _Tokens,
        offsets: bool,
    ) -> EncodedPair:
        ids, types, side, _ = encoded
        query_cut, title_cut = start[0] != whole[0], start[1] != whole[1]
        if (query_cut and side.count(QUERY) < self._query_budget + _SPARE_TOKENS) or (
            title_cut and len(side) < self.max_length + _SPARE_TOKENS
        ):
            encoded = self._encodings([whole], offsets)[0]
            ids, types, side, _ = encoded
        if self._rows is not None and max(ids) >= self._rows:
            raise ArgumentError(
                f"the pair {clip(whole[0], 60)!r} / {clip(whole[1], 60)!r} holds the token "
                f"{self._backend.id_to_token(max(ids))!r}, which has no embedding; take it out of the text"
            )
        titles = side.count(TITLE)
        excess = len(side) - self.max_length
        spans = self._trimmed(whole, encoded) if offsets else []
        if excess <= 0:
            return EncodedPair(ids, types, side, spans, False, False, at=self._at(ids))
        from_title = min(excess, titles)
        keep = _kept(side, {TITLE: from_title, QUERY: excess - from_title})
        ids = [ids[i] for i in keep]
        return EncodedPair(
            ids,
            [types[i] for i in keep],
            [side[i] for i in keep],
            [spans[i] for i in keep] if offsets else [],
            query_truncated=excess > from_title,
            title_truncated=from_title > 0,
            at=self._at(ids),
        )

    def _trimmed(self, texts: tuple[str, str], encoded: _Tokens) -> list[Span]:
        """The tokenizer's spans without white space."""
        spans = []
        for id, _, side, (start, end) in zip(*encoded, strict=True):
            text = "" if side == SPECIAL or id == self._mark else texts[side][start:end]
            start += len(text) - len(text.lstrip())
            spans.append((start, start + len(text.strip())))
        return spans

    def _at(self, ids: Sequence[int]) -> int:
        """The position of the token that the classifier reads; 0 where all are padding."""
        if self._last is None:
            return 0
        return max((i for i, token in enumerate(ids) if token != self._last), default=0)


class _Tokens(NamedTuple):
    ids: list[int]
    types: list[int]
    side: list[int]
    spans: list[Span]


def _private_copy(tokenizer: Any) -> Any:
    """A copy without truncation and padding: calls change these, and threads share it."""
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise CheckpointError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, so it has no token offsets; save "
            "the model's tokenizer as tokenizer.json"
        )
    try:
        copy = Tokenizer.from_str(backend.to_str())
    except Exception:
        # A pre-tokenizer in Python (RoFormer's jieba) cannot be copied; its truncation is never set.
        copy = backend
    copy.no_truncation()
    copy.no_padding()
    return copy


def _sides(encoding: Any) -> list[int]:
    return [SPECIAL if sequence is None else sequence for sequence in encoding.sequence_ids]


def _kept(side: list[int], drop: dict[int, int]) -> list[int]:
    """The indices without the last `drop[s]` tokens of each side `s`."""
    left = {which: side.count(which) - count for which, count in drop.items()}
    kept: list[int] = []
    for index, which in enumerate(side):
        if which != SPECIAL:
            left[which] -= 1
            if left[which] < 0:
                continue
        kept.append(index)
    return kept


def _refuse_surrogates(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ArgumentError(
            f"the text {ascii(text[:40])} holds a lone surrogate at character {error.start}, "
            "which is no Unicode text"
        ) from error


class Padded(NamedTuple):
    """B pairs padded to L tokens: int64 [B, L]; `real` is False at padding."""

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    real: np.ndarray


def padded(encoded: Sequence[EncodedPair], pad: int) -> Padded:
    """`encoded` as rows, padded with the token id `pad` of type 0."""
    lengths = np.array([len(row) for row in encoded])
    real = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(real.shape, pad, np.int64)
    types = np.zeros(real.shape, np.int64)
    ids[real] = np.concatenate([row.input_ids for row in encoded])
    types[real] = np.concatenate([row.token_type_ids for row in encoded])
    return Padded(ids, types, real)


def length_batches(
    lengths: Sequence[int], budget: int, *, padded: bool = True
) -> Iterator[np.ndarray]:
    """Row indices of batches of at most `budget` tokens (or of one longer row), longest rows first.

    A batch ends where the length changes; with `padded`, one less than half full takes shorter rows too.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    start = 0
    for i in range(1, len(order) + 1):
        longest = lengths[order[start]]
        full = (i - start + 1) * longest > budget
        changes = i < len(order) and lengths[order[i]] != lengths[order[i - 1]]
        half = not padded or 2 * (i - start) * longest >= budget
        if i == len(order) or full or (changes and half):
            yield order[start:i]
            start = i


@dataclass
class Counts:
    """Pairs and truncated texts of a scorer."""

    pairs: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0

    def add(self, encoded: Sequence[EncodedPair]) -> None:
        """Count the pairs and their truncated texts."""
        self.pairs += len(encoded)
        self.truncated_titles += sum(pair.title_truncated for pair in encoded)
        self.truncated_queries += sum(pair.query_truncated for pair in encoded)
