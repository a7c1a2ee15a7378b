"""Pairs as token ids, with the place of every token in the query or the title."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from qt_bert.data.segmenters import Span
from qt_bert.errors import ArgumentError, CheckpointError

# Pairs as token ids, with the place of every token in the query or the title.
#
# A fast tokenizer of transformers keeps truncation and padding as state and changes it on every
# call;
# shared between threads it silently cuts at the wrong length. So a private copy is taken here, with
# both switched off for good, and what is too long is cut in Python.


SPECIAL = -1
QUERY = 0
TITLE = 1

# No ordinary text has as many characters a token. A longer one is first tried up to here, and read
# whole only if that gave too few tokens to fill the sequence, with some to spare for the cut edge.
_CHARACTERS_PER_TOKEN = 64
_SPARE_TOKENS = 16


@dataclass(frozen=True, slots=True)
class EncodedPair:
    """The tokens of one pair; all lists have one entry per token.

    `side` is 0 in the query, 1 in the title, -1 at special tokens. `spans` are characters
    [start, end) of the query or the title, (0, 0) at special tokens; empty where offsets were not
    asked for. A text is truncated where any of its tokens were left out.
    """

    input_ids: list[int]
    token_type_ids: list[int]
    side: list[int]
    spans: list[tuple[int, int]]
    query_truncated: bool
    title_truncated: bool

    def __len__(self) -> int:
        return len(self.input_ids)

    @property
    def cls(self) -> int:
        """The index of the classification token: the first special one."""
        return self.side.index(SPECIAL)

    @property
    def separators(self) -> list[int]:
        """The indices of the special tokens after the classification token."""
        return [i for i, side in enumerate(self.side) if side == SPECIAL][1:]


class PairTokenizer:
    """Encodes (query, title) pairs to at most `max_length` tokens, special tokens included.

    The title loses its last tokens first, down to none; only then does the query, and either is
    flagged. With `title_tokens` no title keeps more than so many, whatever the query. May be shared
    between threads. `tokenizer` is a fast tokenizer of transformers or a `tokenizers.Tokenizer`; it
    is copied and left as it is. Text that spells a special token, such as `[SEP]`, becomes that
    token, as it does in transformers; its side is still its text's.

    Raises CheckpointError for a tokenizer that is not a fast one, ArgumentError for a `max_length`
    without room for a token of each text.
    """

    def __init__(
        self,
        tokenizer: Any,
        max_length: int,
        *,
        title_tokens: int | None = None,
    ) -> None:
        self._backend = _private_copy(tokenizer)
        self.max_length = max_length
        self.title_tokens = title_tokens
        specials = self._backend.num_special_tokens_to_add(is_pair=True)
        if max_length < specials + 2:
            raise ArgumentError(
                f"--max-length {max_length}: a pair needs {specials} special tokens and a token of "
                f"each text, {specials + 2} at least"
            )
        self.title_separators = specials - 2
        """Special tokens of a title: all but the first token and the first separator."""
        self._query_budget = max_length - specials
        self._characters = max_length * _CHARACTERS_PER_TOKEN

    def encode(
        self, pairs: Sequence[tuple[str, str]], *, offsets: bool = True
    ) -> list[EncodedPair]:
        """Encode pairs, in order; `offsets=False` leaves `spans` empty and is faster.

        Raises ArgumentError where a text holds a lone surrogate, which is no Unicode text.
        """
        limit = self._characters
        starts = [(query[:limit], title[:limit]) for query, title in pairs]
        return [
            self._encoded(whole, start, encoded, offsets)
            for whole, start, encoded in zip(
                pairs, starts, self._encodings(starts, offsets), strict=True
            )
        ]

    def _encodings(
        self, pairs: Sequence[tuple[str, str]], offsets: bool
    ) -> list[tuple[Any, list[Span]]]:
        """Each pair as the tokenizer gives it, and the spans of its tokens where they are asked for."""
        encode = self._backend.encode_batch if offsets else self._backend.encode_batch_fast
        try:
            return [(one, one.offsets if offsets else []) for one in encode(list(pairs))]
        except (TypeError, UnicodeError):
            for query, title in pairs:
                _refuse_surrogates(query)
                _refuse_surrogates(title)
            raise

    def _encoded(
        self,
        whole: tuple[str, str],
        start: tuple[str, str],
        encoded: tuple[Any, list[Span]],
        offsets: bool,
    ) -> EncodedPair:
        encoding, spans = encoded
        side = _sides(encoding)
        query_cut, title_cut = start[0] != whole[0], start[1] != whole[1]
        if (query_cut and side.count(QUERY) < self._query_budget + _SPARE_TOKENS) or (
            title_cut and len(side) < self.max_length + _SPARE_TOKENS
        ):
            encoding, spans = self._encodings([whole], offsets)[0]
            side = _sides(encoding)
        ids, types = encoding.ids, encoding.type_ids
        titles = side.count(TITLE)
        above = 0 if self.title_tokens is None else max(0, titles - self.title_tokens)
        excess = max(above, len(side) - self.max_length)
        if excess <= 0:
            return EncodedPair(ids, types, side, spans, False, False)
        from_title = min(excess, titles)
        keep = _kept(side, {TITLE: from_title, QUERY: excess - from_title})
        return EncodedPair(
            [ids[i] for i in keep],
            [types[i] for i in keep],
            [side[i] for i in keep],
            [spans[i] for i in keep] if offsets else [],
            query_truncated=excess > from_title,
            title_truncated=from_title > 0,
        )


def _private_copy(tokenizer: Any) -> Any:
    from tokenizers import Tokenizer

    backend = getattr(tokenizer, "backend_tokenizer", tokenizer)
    if not isinstance(backend, Tokenizer):
        raise CheckpointError(
            f"{type(tokenizer).__name__} is not a fast tokenizer, so it cannot say where its "
            "tokens stand; save the model's tokenizer as tokenizer.json"
        )
    copy = Tokenizer.from_str(backend.to_str())
    copy.no_truncation()
    copy.no_padding()
    return copy


def _sides(encoding: Any) -> list[int]:
    return [SPECIAL if sequence is None else sequence for sequence in encoding.sequence_ids]


def _kept(side: list[int], drop: dict[int, int]) -> list[int]:
    """The indices left when the last `drop[s]` tokens of each side are taken out."""
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


# Encoded pairs as rectangles of numbers: which rows go together, and what fills the shorter ones.


class Padded(NamedTuple):
    """B pairs, padded to L tokens: int64 [B, L], and True at real tokens [B, L]."""

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    real: np.ndarray


def padded(encoded: Sequence[EncodedPair], pad: int) -> Padded:
    """`encoded`, one a row; `pad` is the token id of padding, whose type is 0."""
    lengths = np.array([len(row) for row in encoded])
    real = np.arange(lengths.max()) < lengths[:, None]
    ids = np.full(real.shape, pad, np.int64)
    types = np.zeros(real.shape, np.int64)
    ids[real] = np.concatenate([row.input_ids for row in encoded])
    types[real] = np.concatenate([row.token_type_ids for row in encoded])
    return Padded(ids, types, real)


def length_batches(lengths: Sequence[int], budget: int) -> Iterator[np.ndarray]:
    """Row indices of batches of at most `budget` tokens (one row, if that is longer), longest first.

    A batch ends where the length changes, unless it is under half full; then it goes on into
    shorter rows, which are padded.
    """
    order = np.argsort(-np.asarray(lengths), kind="stable")
    start = 0
    for i in range(1, len(order) + 1):
        longest = lengths[order[start]]
        full = (i - start + 1) * longest > budget
        changes = i < len(order) and lengths[order[i]] != lengths[order[i - 1]]
        if i == len(order) or full or (changes and 2 * (i - start) * longest >= budget):
            yield order[start:i]
            start = i


@dataclass
class Counts:
    """What a scorer has seen."""

    pairs: int = 0
    truncated_titles: int = 0
    truncated_queries: int = 0

    def add(self, encoded: Sequence[EncodedPair]) -> None:
        """Count `encoded`, and the texts of them that were cut."""
        self.pairs += len(encoded)
        self.truncated_titles += sum(one.title_truncated for one in encoded)
        self.truncated_queries += sum(one.query_truncated for one in encoded)
