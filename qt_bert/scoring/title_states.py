"""Title states: an offline model's half of a title, computed, held, and read by a forward pass."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch

from qt_bert.data.tokenise import EncodedPair
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.batches import TITLE, Batch, batches_of
from qt_bert.models.card import Offline
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.forward import Encoder

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer


# The halves of an encoded pair: the query's, the title's, and the key of the latter.


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


# States of tokens as float32, float16, or eight bits with a scale for each token.


Format = Literal["float32", "float16", "int8"]
FORMATS: tuple[Format, ...] = get_args(Format)

_LARGEST = 127


@dataclass(frozen=True, eq=False)
class PackedStates:
    """States of n tokens: `values` [n, hidden] and, of int8 alone, `scales` [n], float16."""

    values: np.ndarray
    scales: np.ndarray | None = None

    def rows(self, index: np.ndarray) -> np.ndarray:
        """The states of some tokens, float32 [len(index), hidden]."""
        values = self.values[index].astype(np.float32)
        if self.scales is not None:
            values *= self.scales[index].astype(np.float32)[:, None]
        return values


def check_format(dtype: str) -> Format:
    """`dtype` itself. Raises ArgumentError naming the formats there are."""
    for known in FORMATS:
        if dtype == known:
            return known
    raise ArgumentError(f"--dtype {dtype!r}: title states are stored as {', '.join(FORMATS)}")


def pack(states: np.ndarray, dtype: Format) -> PackedStates:
    """States float32 [n, hidden] in a format.

    int8 is symmetric: value × scale, the scale of a token being its largest state over 127, so that
    no state moves by more than half a scale. Raises ArgumentError for states that are no finite
    numbers, or none in the format.
    """
    if dtype != "int8":
        return PackedStates(_cast(states, dtype, dtype))
    scales = _cast(np.abs(states).max(1) / _LARGEST, "float16", dtype)
    steps = states / np.where(scales == 0, 1, scales).astype(np.float32)[:, None]
    return PackedStates(np.clip(np.rint(steps), -_LARGEST, _LARGEST).astype(np.int8), scales)


def _cast(array: np.ndarray, kind: Literal["float32", "float16"], dtype: Format) -> np.ndarray:
    with np.errstate(over="ignore"):
        array = array.astype(kind)
    if not np.isfinite(array).all():
        advice = "the model is broken" if dtype == "float32" else "try --dtype float32"
        raise ArgumentError(f"some states of a title are no finite numbers in {dtype}; {advice}")
    return array


# Title states to read from: found by the titles' keys, in memory or mapped into it.


UNKNOWN = -1
"""The place of a title that has no states."""


@dataclass(frozen=True, eq=False)
class StatesPart:
    """Some of the titles: their `keys` [n] and `lengths` [n] in tokens, separators and all.

    `packed()` gives the states of their tokens, title after title.
    """

    keys: np.ndarray
    lengths: np.ndarray
    packed: Callable[[], PackedStates]

    @cached_property
    def starts(self) -> np.ndarray:
        """Where each title's tokens begin [n]."""
        return np.cumsum(self.lengths, dtype=np.int64) - self.lengths

    @property
    def bytes(self) -> int:
        """Bytes that keys, lengths and states take."""
        packed = self.packed()
        arrays = (self.keys, self.lengths, packed.values, packed.scales)
        return sum(array.nbytes for array in arrays if array is not None)


@dataclass(frozen=True, eq=False)
class TitleStates:
    """What the model with the block `offline` made of titles: states of `hidden` numbers a token.

    `sha256` is that of the manifest they were opened by; None for states that were never stored.
    """

    offline: Offline
    dtype: Format
    hidden: int
    parts: tuple[StatesPart, ...]
    sha256: str | None = None

    @property
    def titles(self) -> int:
        """How many titles there are."""
        return int(self._offsets[-1])

    @cached_property
    def bytes_per_title(self) -> float:
        """Bytes a title takes on average: states and their scales, its key and its length."""
        return sum(part.bytes for part in self.parts) / max(1, self.titles)

    def describe(self) -> dict[str, Any]:
        """The format, how many titles there are, and the hash of the manifest."""
        return {"dtype": self.dtype, "titles": self.titles, "sha256": self.sha256}

    def find(self, keys: Sequence[bytes]) -> np.ndarray:
        """The places of titles by their keys, int64 [n]; `UNKNOWN` where there are no states."""
        if not self.titles:
            return np.full(len(keys), UNKNOWN)
        wanted = np.array(keys, KEY)
        ordered, places = self._index
        at = np.searchsorted(ordered, wanted).clip(max=len(ordered) - 1)
        return np.where(ordered[at] == wanted, places[at], UNKNOWN)

    def read(self, places: np.ndarray) -> np.ndarray:
        """The states of the titles at `places`, one after the other, float32 [tokens, hidden]."""
        owners = np.searchsorted(self._offsets, places, side="right") - 1
        within = places - self._offsets[owners]
        lengths = np.empty(len(places), np.int64)
        for number in np.unique(owners):
            mine = owners == number
            lengths[mine] = self.parts[number].lengths[within[mine]]
        out = np.empty((lengths.sum(), self.hidden), np.float32)
        for number in np.unique(owners):
            part, mine = self.parts[number], owners == number
            rows = token_rows(part.starts[within[mine]], lengths[mine])
            out[np.repeat(mine, lengths)] = part.packed().rows(rows)
        return out

    @cached_property
    def _offsets(self) -> np.ndarray:
        """The place of each part's first title, and how many titles there are in all."""
        return np.cumsum([0, *(len(part.keys) for part in self.parts)])

    @cached_property
    def _index(self) -> tuple[np.ndarray, np.ndarray]:
        """All keys in order, and the place of each."""
        keys = np.concatenate([part.keys for part in self.parts])
        places = np.argsort(keys, kind="stable")
        return keys[places], places


def token_rows(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The rows start … start + length − 1 of each title, one title after the other."""
    behind = np.cumsum(lengths)
    total = int(behind[-1]) if len(behind) else 0
    return np.arange(total) + np.repeat(starts - (behind - lengths), lengths)


# The query's half of a pair behind the offline layers, computed once for all its titles.


KEPT_BYTES = 64 * 2**20
"""Memory that the halves of the last queries may take."""

_BATCH_TOKENS = 1024


class QueryHalves:
    """The states of the first token, the query and the first separator behind the first `layers` layers.

    Those of the last queries are kept, within `kept_bytes`.
    """

    def __init__(self, encoder: Encoder, layers: int, kept_bytes: int = KEPT_BYTES) -> None:
        self._encoder = encoder
        self._layers = layers
        self._free = kept_bytes
        self._kept: dict[tuple[int, ...], torch.Tensor] = {}

    def of(self, pairs: Sequence[EncodedPair]) -> list[torch.Tensor]:
        """One tensor [tokens, hidden] a pair, in their order."""
        halves = [query_half(pair) for pair in pairs]
        names = [tuple(half.input_ids) for half in halves]
        wanted = dict(zip(names, halves, strict=True))
        found = {name: self._kept.pop(name) for name in wanted if name in self._kept}
        new = [name for name in wanted if name not in found]
        computed = dict(zip(new, self._computed([wanted[name] for name in new]), strict=True))
        self._keep(found, computed)
        found |= computed
        return [found[name] for name in names]

    def _computed(self, halves: Sequence[EncodedPair]) -> list[torch.Tensor]:
        states: dict[int, torch.Tensor] = {}
        # Padding is masked and its positions are its own, so that any token may stand there.
        for batch in batches_of(halves, _BATCH_TOKENS, pad=0):
            hidden = self._encoder.below(batch, self._layers)
            for row, half, state in zip(batch.rows, batch.encoded, hidden, strict=True):
                states[int(row)] = state[: len(half)].clone()
        return [states[row] for row in range(len(halves))]

    def _keep(
        self,
        found: dict[tuple[int, ...], torch.Tensor],
        computed: dict[tuple[int, ...], torch.Tensor],
    ) -> None:
        """Put this batch's queries behind all others; the first ones go where memory is short."""
        self._kept |= found | computed
        self._free -= sum(state.nbytes for state in computed.values())
        while self._free < 0:
            oldest = next(iter(self._kept))
            self._free += self._kept.pop(oldest).nbytes


# A forward pass that reads the title's half and computes the query's once, and both above.


_LONG = UNKNOWN - 1
"""Stands for the place of a title behind a query that is too long."""


@dataclass(frozen=True)
class StateCounts:
    """Pairs whose title's states were read, and pairs computed whole: for a query so long that the
    title moves, or for a title without states."""

    read: int = 0
    long_queries: int = 0
    unknown_titles: int = 0

    def with_batch(self, places: np.ndarray) -> StateCounts:
        """With the pairs of a batch, by the places of their titles."""
        return StateCounts(
            self.read + int((places >= 0).sum()),
            self.long_queries + int((places == _LONG).sum()),
            self.unknown_titles + int((places == UNKNOWN).sum()),
        )


class SplitForward:
    """Logits [B, labels] of a batch, as `encoder.logits_of` gives them, with titles read from `states`.

    The queries' halves are computed once and the last of them kept, until `forget`. `counts` says
    how many pairs had to be computed whole. Raises ArgumentError where the states are of a model
    with another block or of another size.
    """

    def __init__(self, encoder: Encoder, states: TitleStates) -> None:
        hidden = int(encoder.model.config.hidden_size)
        if encoder.offline != states.offline or hidden != states.hidden:
            raise ArgumentError("the title states are of a model with another block or size")
        self.encoder = encoder
        self.states = states
        self.counts = StateCounts()
        self._layers = states.offline.layers
        self.forget()

    def fresh(self) -> SplitForward:
        """Another one, with counts of its own and no query kept."""
        return SplitForward(self.encoder, self.states)

    def forget(self) -> None:
        """Let go of the queries that were kept."""
        self._queries = QueryHalves(self.encoder, self._layers)

    @torch.inference_mode()
    def __call__(self, batch: Batch) -> torch.Tensor:
        batch = batch.to(self.encoder.device)
        places = self._places(batch)
        self.counts = self.counts.with_batch(places)
        read, whole = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        found: list[torch.Tensor] = []
        if len(read):
            found.append(self._of_states(batch.some(read), places[read]))
        if len(whole):
            found.append(self.encoder.logits_of(batch.some(whole)))
        order = np.argsort(np.concatenate([read, whole]))
        return torch.cat(found)[torch.from_numpy(order).to(batch.groups.device)]

    def _places(self, batch: Batch) -> np.ndarray:
        """The places of the titles' states [B], `UNKNOWN` or `_LONG`."""
        places = self.states.find([title_key(pair) for pair in batch.encoded])
        begins = np.array([title_at(pair) for pair in batch.encoded])
        return np.where(begins > self.states.offline.title_start, _LONG, places)

    def _of_states(self, batch: Batch, places: np.ndarray) -> torch.Tensor:
        like = self.encoder.layers[0].query.weight
        titles = torch.from_numpy(self.states.read(places)).to(like)
        queries = self._queries.of(batch.encoded)
        hidden = titles.new_zeros(*batch.groups.shape, titles.shape[1])
        hidden[batch.groups == TITLE] = titles
        hidden[batch.real & (batch.groups != TITLE)] = torch.cat(queries)
        return self.encoder.logits_from(hidden, batch, self._layers)


# Computing title states: titles beside an empty query, through the layers below their meeting.


def block_of(checkpoint: Checkpoint) -> Offline:
    """The block of an offline model. Raises CheckpointError for a model that is none."""
    if checkpoint.offline is None or not checkpoint.offline.layers:
        raise CheckpointError(
            f"{checkpoint.name} is no offline model: query and title meet in its first layer, so "
            "nothing of a title can be computed before the query comes; train an offline one with "
            "`qt-bert train --offline-layers`"
        )
    return checkpoint.offline


def states_of(scorer: Scorer, titles: Sequence[str], dtype: Format = "float32") -> TitleStates:
    """The states of titles, held in memory; equal titles have one entry.

    Raises CheckpointError where the scorer's model is no offline one.
    """
    block = block_of(scorer.checkpoint)
    encoded = {title_key(one): one for one in encode_titles(scorer, titles)}
    part = compute(scorer, list(encoded.values()), dtype)
    return TitleStates(block, dtype, hidden_of(scorer.checkpoint), (part,))


def encode_titles(scorer: Scorer, titles: Sequence[str]) -> list[EncodedPair]:
    """Titles as tokens, each beside an empty query, cut as they are beside any."""
    return scorer.tokenizer.encode([("", title) for title in titles], offsets=False)


def hidden_of(checkpoint: Checkpoint) -> int:
    """Numbers in a token's state."""
    return int(checkpoint.model.config.hidden_size)


@torch.inference_mode()
def compute(scorer: Scorer, encoded: Sequence[EncodedPair], dtype: Format) -> StatesPart:
    """The states of titles that `encode_titles` encoded, in their order."""
    checkpoint = scorer.checkpoint
    layers = block_of(checkpoint).layers
    lengths = np.array([len(one) - title_at(one) for one in encoded], np.int64)
    starts = np.cumsum(lengths) - lengths
    states = np.empty((lengths.sum(), hidden_of(checkpoint)), np.float32)
    for batch in batches_of(encoded, scorer.batch_tokens, pad=scorer.pad):
        batch = batch.to(scorer.encoder.device)
        found = scorer.encoder.below(batch, layers)[batch.groups == TITLE]
        rows = token_rows(starts[batch.rows], lengths[batch.rows])
        states[rows] = found.float().cpu().numpy()
    keys = np.array([title_key(one) for one in encoded], KEY)
    packed = pack(states, dtype)
    return StatesPart(keys, lengths.astype(np.int32), lambda: packed)
