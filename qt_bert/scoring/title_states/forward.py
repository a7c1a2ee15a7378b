"""A forward pass that reads the title's half and computes the query's once, and both above."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from qt_bert.encoder import Encoder
from qt_bert.encoder.batches import TITLE, Batch
from qt_bert.errors import ArgumentError
from qt_bert.scoring.title_states.halves import title_at, title_key
from qt_bert.scoring.title_states.queries import QueryHalves
from qt_bert.scoring.title_states.states import UNKNOWN, TitleStates

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
        places = self._places(batch)
        self.counts = self.counts.with_batch(places)
        read, whole = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        found: list[torch.Tensor] = []
        if len(read):
            found.append(self._of_states(_some(batch, read), places[read]))
        if len(whole):
            found.append(self.encoder.logits_of(_some(batch, whole)))
        return torch.cat(found)[np.argsort(np.concatenate([read, whole]))]

    def _places(self, batch: Batch) -> np.ndarray:
        """The places of the titles' states [B], `UNKNOWN` or `_LONG`."""
        places = self.states.find([title_key(pair) for pair in batch.encoded])
        begins = np.array([title_at(pair) for pair in batch.encoded])
        return np.where(begins > self.states.offline.title_start, _LONG, places)

    def _of_states(self, batch: Batch, places: np.ndarray) -> torch.Tensor:
        titles = torch.from_numpy(self.states.read(places)).to(self.encoder.layers[0].dtype)
        queries = self._queries.of(batch.encoded)
        hidden = titles.new_zeros(*batch.groups.shape, titles.shape[1])
        hidden[batch.groups == TITLE] = titles
        hidden[batch.real & (batch.groups != TITLE)] = torch.cat(queries)
        return self.encoder.logits_from(hidden, batch, self._layers)


def _some(batch: Batch, rows: np.ndarray) -> Batch:
    """Some pairs of a batch, as wide as it is."""
    if len(rows) == len(batch):
        return batch
    chosen = torch.from_numpy(rows)
    return Batch(
        rows=batch.rows[rows],
        encoded=tuple(batch.encoded[row] for row in rows),
        input_ids=batch.input_ids[chosen],
        token_type_ids=batch.token_type_ids[chosen],
        mask=None if batch.mask is None else batch.mask[chosen],
        groups=batch.groups[chosen],
    )
