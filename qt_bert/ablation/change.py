"""What a variant does differently in one layer, in the only terms that the masked loop knows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch

from qt_bert.ablation.untouched import Untouched
from qt_bert.encoder.batches import Batch
from qt_bert.encoder.forward import Layer
from qt_bert.errors import ArgumentError

Projections = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Query [B, heads, rows, width], key and value [B, heads, L, width]."""


@dataclass(frozen=True, eq=False)
class Site:
    """One layer of one variant at work on a batch of B pairs of L tokens.

    `hidden` [B, L, hidden] is the layer's input; `bias` is added to the attention scores before
    the softmax and broadcasts over [B, heads, L, L] (None: nothing is masked). `rows` is L, or 1
    where the first token alone is still needed. `project` gives the projections, which are not
    computed unless they are asked for; `untouched` is the unmasked model on the same batch, which
    is not run unless it is asked for.
    """

    number: int
    layer: Layer
    batch: Batch
    hidden: torch.Tensor
    project: Callable[[], Projections]
    bias: torch.Tensor | None
    rows: int
    untouched: Untouched

    def with_projections(self, projections: Projections) -> Site:
        """The same site with other queries, keys and values."""
        return replace(self, project=lambda: projections)

    def with_bias(self, bias: torch.Tensor) -> Site:
        """The same site under another additive mask."""
        return replace(self, bias=bias)


class ContextEdit(Protocol):
    """Other contexts for some heads of a layer. Equal edits must give equal contexts."""

    @property
    def heads(self) -> tuple[int, ...]:
        """The heads whose contexts it replaces."""

    @property
    def mixes(self) -> bool:
        """Whether the new contexts depend on the layer's input; False for constants."""

    def contexts(self, site: Site) -> torch.Tensor | None:
        """New contexts [B or 1, len(heads), rows or 1, width]; None for zeros.

        An edit that does not mix must not ask for the projections: there may be none.
        """


class AttentionEdit(Protocol):
    """Something added to the attention scores."""

    @property
    def loses(self) -> bool:
        """Whether attention to what is masked is lost, rather than moved on by the softmax.

        Then only 0 and other numbers are told apart in `bias`.
        """

    def bias(self, site: Site) -> torch.Tensor:
        """Additive mask, broadcastable to [B, heads, L, L]; it is added to the site's own."""


class ProjectionEdit(Protocol):
    """Other queries, keys or values, as from another input of one of these projections."""

    def projections(self, site: Site) -> Projections:
        """The projections to go on with; the site's own must not be written to."""


class OutputEdit(Protocol):
    """Another output of a layer."""

    def outputs(self, hidden: torch.Tensor, untouched: Untouched) -> torch.Tensor:
        """From what the layer gives [B, rows, hidden] to what goes on; `hidden` is not written to.

        What it makes of padding does not matter: the loop keeps padding as it was.
        """


EMBEDDINGS = -1
"""The number under which the embeddings' output is changed; only `Change.output` is known there."""


@dataclass(frozen=True)
class MeanContexts:
    """A vector for each head: its context averaged over the real tokens of a reference set.

    `vectors` [layers, heads, width], float32; two are equal where their `sha256` is.
    """

    sha256: str
    vectors: torch.Tensor = field(compare=False, repr=False)


@dataclass(frozen=True)
class Change:
    """What differs in one layer; a part that is None is as in the plain model.

    The order is that of the layer: `weights` stand in for the layer's own, `projections` alters
    query, key and value, `attention` the scores, `contexts` what the heads give, `output` what the
    layer hands on. `skipped` hands the layer's input on as its output, so nothing else can be changed
    there (ArgumentError). Changes are compared, and what two variants of a batch have in common is
    computed once.
    """

    contexts: ContextEdit | None = None
    attention: AttentionEdit | None = None
    projections: ProjectionEdit | None = None
    weights: Layer | None = None
    output: OutputEdit | None = None
    skipped: bool = False

    def __post_init__(self) -> None:
        others = (self.contexts, self.attention, self.projections, self.weights, self.output)
        if self.skipped and any(one is not None for one in others):
            raise ArgumentError("a layer that is left out whole cannot be changed besides")

    @property
    def shares_contexts(self) -> bool:
        """Whether the heads attend as in the plain layer, so that only contexts differ."""
        return self.attention is None and self.projections is None and self.weights is None

    @property
    def inside(self) -> Change:
        """What differs before the layer's output: variants that share it run the layer once."""
        return self if self.output is None else replace(self, output=None)

    def mixes(self, heads: int) -> bool:
        """Whether tokens of a layer of `heads` heads still see each other under this change."""
        if self.skipped:
            return False
        edit = self.contexts
        return edit is None or edit.mixes or len(edit.heads) < heads
