"""The halves of an encoded pair: the query's, the title's, and the key of the latter."""

from __future__ import annotations

import hashlib

import numpy as np

from qt_bert.pairs.tokenise import EncodedPair

KEY_BYTES = 16
"""Bytes of a key: two of ten million titles share one with a chance below 10⁻²⁴."""

KEY = np.dtype(f"S{KEY_BYTES}")


def title_at(pair: EncodedPair) -> int:
    """Where the title's half begins: behind the first token, the query and the first separator."""
    return pair.separators[0] + 1


def query_half(pair: EncodedPair) -> EncodedPair:
    """The first token, the query and the first separator, without spans."""
    end = title_at(pair)
    ids, types, side = pair.input_ids[:end], pair.token_type_ids[:end], pair.side[:end]
    return EncodedPair(ids, types, side, [], pair.query_truncated, False)


def title_key(pair: EncodedPair) -> bytes:
    """What a title's states are found by: a hash of its token ids, separators and all."""
    ids = np.array(pair.input_ids[title_at(pair) :], "<i4")
    return hashlib.blake2b(ids.tobytes(), digest_size=KEY_BYTES).digest()


def listed(keys: np.ndarray) -> list[bytes]:
    """The keys of an array, whole: numpy's own list drops the zeros at their ends."""
    raw = keys.tobytes()
    return [raw[at : at + KEY_BYTES] for at in range(0, len(raw), KEY_BYTES)]
