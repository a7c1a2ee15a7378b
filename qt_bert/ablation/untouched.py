"""The unmasked model on a batch: what patches put in, and what paths hold still."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import torch

from qt_bert.encoder.batches import Batch
from qt_bert.encoder.forward import Encoder, attend
from qt_bert.errors import ArgumentError


@dataclass(eq=False)
class Untouched:
    """One batch of B pairs of L tokens under the plain model, which runs when it is first asked for.

    `biases` has each layer's additive mask (`Encoder.biases`), `embedded` [B, L, size] is what the
    embeddings give.
    """

    encoder: Encoder
    batch: Batch
    biases: Sequence[torch.Tensor | None]
    embedded: torch.Tensor = field(repr=False)
    _derived: dict[Hashable, torch.Tensor] = field(default_factory=dict, repr=False)

    def states(self, place: int) -> torch.Tensor:
        """The residual stream [B, L, size]: place 0 behind the embeddings, n behind layer n − 1."""
        return self._run[0][place]

    def contexts(self, layer: int) -> torch.Tensor:
        """What a layer's heads give [B, heads, L, width]."""
        return self._run[1][layer]

    def mixed(self, layer: int) -> torch.Tensor:
        """W_O over `contexts` [B, L, size]."""
        return self.derived(
            ("mixed", layer), lambda: self.encoder.layers[layer].mix(self.contexts(layer))
        )

    def inner(self, layer: int) -> torch.Tensor:
        """What a layer's feed-forward block adds [B, L, size]."""
        at_work = self.encoder.layers[layer]
        return self.derived(
            ("inner", layer), lambda: at_work.inner(self.mixed(layer), self.states(layer))
        )

    @cached_property
    def of_twin(self) -> Untouched:
        """The same of the batch's twin. Raises ArgumentError where it has none."""
        twin = self.batch.twin
        if twin is None:
            raise ArgumentError("this batch has no twin to take anything from")
        return Untouched(self.encoder, twin, self.biases, self.encoder.embed(twin))

    def derived(self, key: Hashable, make: Callable[[], torch.Tensor]) -> torch.Tensor:
        """What `make` gives, made once for all variants that ask under the same key."""
        if key not in self._derived:
            self._derived[key] = make()
        return self._derived[key]

    @cached_property
    def _run(self) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        states, contexts = [self.embedded], []
        for layer, bias in zip(self.encoder.layers, self.biases, strict=True):
            contexts.append(attend(*layer.project(states[-1]), bias))
            states.append(layer.finish(contexts[-1], states[-1]))
        return states, contexts
