"""The query's half of a pair behind the offline layers, computed once for all its titles."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from qt_bert.encoder import Encoder
from qt_bert.encoder.batches import batches_of
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.scoring.title_states.halves import query_half

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
        states: list[torch.Tensor] = [torch.empty(0)] * len(halves)
        # Padding is masked and its positions are its own, so that any token may stand there.
        for batch in batches_of(halves, _BATCH_TOKENS, pad=0):
            hidden = self._encoder.below(batch, self._layers)
            for row, half, state in zip(batch.rows, batch.encoded, hidden, strict=True):
                states[row] = state[: len(half)].clone()
        return states

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
