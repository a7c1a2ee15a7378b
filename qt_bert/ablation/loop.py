"""The one masked loop: batches outside, variants inside, and nothing computed twice.

A pass descends the layers with a stack of *states*. A state is what variants of equal history share:
variants that change the same things in the layers below hold the same hidden states, so these are
computed once. In a layer a state may split into *branches*, one for each different change; branches
are stacked on the batch axis again, within a token budget, and descend further, depth first. So a
sweep over single heads runs the layers below a masked head once, projects query, key and value of its
layer once, and uses the linearity of W_O: what a branch's heads gave is taken off the shared sum.
Variants that differ in nothing but what is made of a layer's output part behind that layer.

Where no layer above mixes tokens any more (the last layer, or every head above left out), the
first token's row alone goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from qt_bert.ablation.branch import Branch
from qt_bert.ablation.change import Change, OutputEdit
from qt_bert.ablation.layer_pass import LayerPass
from qt_bert.ablation.pass_plan import PassPlan
from qt_bert.ablation.reduction import Reduction, View
from qt_bert.ablation.untouched import Untouched
from qt_bert.ablation.variant import NONE, Part, Variant
from qt_bert.encoder.batches import Batch
from qt_bert.encoder.forward import Encoder
from qt_bert.progress import Progress, silent

STACK_TOKENS = 2048
"""Tokens computed at once, over all variants of a stack."""

PLAIN_BATCH_TOKENS = 1024
SWEPT_BATCH_TOKENS = 256
"""Tokens of a batch of pairs, without and with many variants.

Small batches leave room for several variants in a stack, whose layers then share products.
"""


@dataclass(frozen=True, eq=False)
class Swept:
    """One batch of B pairs under V variants.

    `rows` [B] says which pairs; `logits` [V, B, labels]; `reduced`: name of a reduction → float32
    [V, B, its layers, …].
    """

    rows: np.ndarray
    logits: np.ndarray
    reduced: dict[str, np.ndarray]


def sweep(
    encoder: Encoder,
    batches: Iterable[Batch],
    variants: Sequence[Variant],
    reductions: Sequence[Reduction] = (),
    *,
    tokens: int | None = None,
    shown: Progress = silent,
) -> Iterator[Swept]:
    """Run every variant on every batch; yields one `Swept` a batch, in the order of `variants`.

    `tokens` bounds what is computed at once (a batch of more tokens goes one variant at a time);
    memory grows with it and with the number of variants times the pairs of a batch, not with the
    number of batches. `shown` counts variants × pairs. The unmasked pass is the variant `none`.

    Raises ArgumentError for a reduction or a variant of layers or heads that the model does not have.
    """
    plan = PassPlan.of(encoder, variants, reductions)
    for batch in batches:
        with torch.inference_mode():
            one = _Pass(plan, batch, tokens or STACK_TOKENS, shown)
            one.run()
        yield Swept(batch.rows, one.logits, one.reduced)


def batch_tokens(variants: int = 1) -> int:
    """Tokens that a batch of pairs is best made of, for so many variants."""
    return SWEPT_BATCH_TOKENS if variants > 2 else PLAIN_BATCH_TOKENS


def masked_forward(encoder: Encoder, *parts: Part) -> Callable[[Batch], torch.Tensor]:
    """A forward pass, batch → logits [B, labels], that runs one variant instead of the model."""
    variants = [Variant("masked", parts) if parts else NONE]

    def forward(batch: Batch) -> torch.Tensor:
        (swept,) = sweep(encoder, [batch], variants, tokens=1)
        return torch.from_numpy(swept.logits[0])

    return forward


@dataclass(eq=False)
class _Pass:
    """One batch under all variants."""

    plan: PassPlan
    batch: Batch
    budget: int
    shown: Progress
    logits: np.ndarray = field(init=False)
    reduced: dict[str, np.ndarray] = field(init=False, default_factory=dict)

    def run(self) -> None:
        """Fill `logits` and `reduced`."""
        encoder, batch = self.plan.encoder, self.batch
        hidden = encoder.embed(batch)
        self.untouched = Untouched(encoder, batch, encoder.biases(batch), hidden)
        labels = int(encoder.model.config.num_labels)
        self.logits = np.empty((len(self.plan.changes), len(batch), labels), np.float32)
        everyone = list(range(len(self.plan.changes)))
        for states, entering in self._parted(self.plan.entering, [everyone], hidden[None]):
            self._descend(0, states, entering)

    def _descend(self, number: int, states: list[list[int]], hidden: torch.Tensor) -> None:
        """Run the layers from `number` on; `hidden` [states, B, L or 1, size] is its input."""
        if number == len(self.plan.encoder.layers):
            self._store_logits(states, hidden)
            return
        branches, worked_on = self._split(number, states, hidden)
        layer = LayerPass(
            number,
            self.plan.encoder.layers[number],
            self.untouched,
            worked_on,
            [branch for branch in branches if branch.passed is None],
            every_row=number in self.plan.every_row,
            keeps_attention=number in self.plan.attention,
        )
        leaving = [changes[number].output for changes in self.plan.changes]
        for chunk in self._chunks(number, branches, hidden.shape[2]):
            output = layer.finish(chunk)
            for reduction, place in self.plan.reductions.get(number, ()):
                if reduction.of != "hidden":
                    layer.reduce(reduction, chunk, self._store_reduced(reduction, place))
            layer.forget()
            given = [branch.variants for branch in chunk]
            for parts, left in self._parted(leaving, given, output):
                self._reduce_output(number, parts, left)
                self._descend(number + 1, parts, left)

    def _parted(
        self, edits: Sequence[OutputEdit | None], states: list[list[int]], hidden: torch.Tensor
    ) -> Iterator[tuple[list[list[int]], torch.Tensor]]:
        """Each state's variants by what they make of `hidden` [states, B, rows, size], in stacks.

        A stack keeps within the token budget where edits make more states than came.
        """
        if all(edits[variant] is None for variants in states for variant in variants):
            yield states, hidden
            return
        parted: list[tuple[int, OutputEdit | None, list[int]]] = []
        for state, variants in enumerate(states):
            groups: dict[OutputEdit | None, list[int]] = {}
            for variant in variants:
                groups.setdefault(edits[variant], []).append(variant)
            parted += [(state, edit, members) for edit, members in groups.items()]
        most = max(len(states), self.budget // (len(self.batch) * hidden.shape[2]))
        for start in range(0, len(parted), most):
            stack = parted[start : start + most]
            left = [self._edited(hidden[state], edit) for state, edit, _ in stack]
            yield [members for _, _, members in stack], torch.stack(left)

    def _edited(self, hidden: torch.Tensor, edit: OutputEdit | None) -> torch.Tensor:
        """`hidden` [B, rows, size] under an edit at every token but padding."""
        if edit is None:
            return hidden
        real = self.batch.real[:, : hidden.shape[1], None]
        return torch.where(real, edit.outputs(hidden, self.untouched), hidden)

    def _reduce_output(self, number: int, states: list[list[int]], hidden: torch.Tensor) -> None:
        """Evaluate the reductions of a layer's output [states, B, rows, size]."""
        for reduction, place in self.plan.reductions.get(number, ()):
            if reduction.of != "hidden":
                continue
            store = self._store_reduced(reduction, place)
            for variants, output in zip(states, hidden, strict=True):
                values = output[:, :1] if reduction.first_row else output
                store(variants, reduction.compute(View(values, self.batch, number)))

    def _split(
        self, number: int, states: list[list[int]], hidden: torch.Tensor
    ) -> tuple[list[Branch], torch.Tensor]:
        """Each state's variants by what they change in this layer, and the states that it works on."""
        branches: list[Branch] = []
        working: list[int] = []
        for state, variants in enumerate(states):
            groups: dict[Change, list[int]] = {}
            for variant in variants:
                groups.setdefault(self.plan.changes[variant][number].inside, []).append(variant)
            at_work = sum(not change.skipped for change in groups)
            branches += [
                Branch(
                    len(working),
                    change,
                    members,
                    full=self.plan.goes_on_in_full(number, members),
                    alone=at_work == 1,
                    passed=hidden[state] if change.skipped else None,
                )
                for change, members in groups.items()
            ]
            working += [state] if at_work else []
        return branches, hidden if len(working) == len(states) else hidden[working]

    def _chunks(self, number: int, branches: list[Branch], length: int) -> Iterator[list[Branch]]:
        """Branches that go on together: alike in rows and weights, and within the token budget."""
        alike: dict[tuple[bool, int], list[Branch]] = {}
        for branch in branches:
            alike.setdefault((branch.full, id(branch.change.weights)), []).append(branch)
        for (full, _), members in alike.items():
            rows = length if full or number in self.plan.every_row else 1
            most = max(1, self.budget // (len(self.batch) * rows))
            parts = -(-len(members) // most)
            for part in range(parts):
                yield members[part * len(members) // parts : (part + 1) * len(members) // parts]

    def _store_logits(self, states: list[list[int]], hidden: torch.Tensor) -> None:
        encoder = self.plan.encoder
        first = encoder.family.head(encoder.model, hidden[:, :, :1].flatten(0, 1))
        logits = first.float().unflatten(0, hidden.shape[:2]).cpu().numpy()
        for state, variants in enumerate(states):
            self.logits[variants] = logits[state]
            self.shown.advance(len(variants) * len(self.batch))

    def _store_reduced(
        self, reduction: Reduction, place: int
    ) -> Callable[[list[int], torch.Tensor], None]:
        def store(variants: list[int], value: torch.Tensor) -> None:
            found = value.float().cpu().numpy()
            if reduction.name not in self.reduced:
                shape = (len(self.plan.changes), len(self.batch), len(reduction.layers))
                self.reduced[reduction.name] = np.empty(shape + found.shape[1:], np.float32)
            self.reduced[reduction.name][variants, :, place] = found

        return store
