"""The one masked loop: batches outside, variants inside, and nothing computed twice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Literal, NamedTuple

import numpy as np
import torch

from qt_bert.ablation.interventions import (
    EMBEDDINGS,
    NONE,
    CleanCache,
    Intervention,
    LayerIntervention,
    OutputEdit,
    Projections,
    Site,
    Variant,
    ZEdit,
    edit_z,
)
from qt_bert.errors import ArgumentError
from qt_bert.heads import Shape, checked_heads
from qt_bert.models.batches import At, Batch, row_at
from qt_bert.models.devices import Memory, in_parts, index, stack_tokens
from qt_bert.models.forward import Encoder, Layer
from qt_bert.progress import Progress, silent

# Reductions: small functions of what a pass computes, evaluated in the same pass.


Of = Literal["attention", "z", "hidden"]


@dataclass(frozen=True, eq=False)
class View:
    """What a reduction sees of one variant in one layer, for a batch of B pairs of L tokens.

    `values`: attention weights [B, heads, rows, L], each head's output z [B, heads, rows,
    width], or the layer's output [B, rows, hidden]; rows is L, or 1 (the token that is read) for
    `first_row`. Attention is the softmax's own, also for a head whose head output is replaced; head
    outputs are those that reach W_O. Rows and columns of padding hold no meaning: `batch.real`
    tells them apart.
    """

    values: torch.Tensor
    batch: Batch
    layer: int


@dataclass(frozen=True)
class Reduction:
    """A few numbers a pair, from the attention, head outputs or output of some layers.

    `compute` returns [B, …], always of one shape after B; `first_row` asks for the row of the token
    that the classifier reads alone ([CLS]), which is cheaper in the last layer.
    """

    name: str
    of: Of
    layers: tuple[int, ...]
    compute: Callable[[View], torch.Tensor]
    first_row: bool = False


@dataclass(eq=False)
class Branch:
    """Variants of one state that make the same change in this layer.

    `full`: all rows of the layer's output are needed, not that of the token that is read alone; `alone`: no
    other branch runs the layer on this state, so what was computed for it may be changed in place.
    `passed` [B, L, size] is what a branch that skips the layer hands on; it has no place among the
    states that the layer works on.
    """

    state: int
    change: LayerIntervention
    variants: list[int]
    full: bool
    alone: bool
    passed: torch.Tensor | None = None


# What all batches of a sweep share: which layer differs for which variant, and which rows go on.


PLAIN = LayerIntervention()


@dataclass(frozen=True, eq=False)
class PassPlan:
    """The variants of a sweep in the terms of the layers.

    Raises ArgumentError, when it is made, for reductions and variants that the model, or each other,
    do not allow.
    """

    encoder: Encoder
    entering: list[OutputEdit | None]  # [variant], of what the embeddings give
    changes: list[list[LayerIntervention]]  # [variant][layer]
    horizons: list[int]  # the highest layer in which a variant's tokens mix, −1 for none
    reductions: dict[int, list[tuple[Reduction, int]]]  # layer → (reduction, its place in `layers`)
    full_output: int  # the highest layer whose output a reduction wants in full, −1 for none
    every_row: set[int]  # layers in which a reduction wants attention or head outputs of all rows
    attention: set[int]  # layers in which a reduction wants attention

    @classmethod
    def of(
        cls, encoder: Encoder, variants: Sequence[Variant], reductions: Sequence[Reduction]
    ) -> PassPlan:
        layers = range(len(encoder.layers))
        _check_reductions(reductions, len(layers))
        shape = Shape(len(layers), encoder.layers[0].heads)
        for variant in variants:
            _check_variant(variant, shape, reductions)
        entering = [variant.changes.get(EMBEDDINGS, PLAIN).output for variant in variants]
        changes = [[variant.changes.get(n, PLAIN) for n in layers] for variant in variants]
        mixing = [[n for n in layers if one[n].mixes(encoder.layers[n].heads)] for one in changes]
        wanted: dict[int, list[tuple[Reduction, int]]] = {}
        for reduction in reductions:
            for place, layer in enumerate(reduction.layers):
                wanted.setdefault(layer, []).append((reduction, place))
        pairs = [(layer, one) for layer, ones in wanted.items() for one, _ in ones]
        # Attention needs every token's key, so the output of the layer below, also for one row.
        full = [n - 1 for n, one in pairs if one.of != "hidden"]
        full += [n for n, one in pairs if one.of == "hidden" and not one.first_row]
        every_row = {n for n, one in pairs if one.of != "hidden" and not one.first_row}
        attention = {n for n, one in pairs if one.of == "attention"}
        horizons = [max(one, default=-1) for one in mixing]
        if encoder.reads == "mean":
            full.append(len(layers))
        highest = max(full, default=-1)
        return cls(encoder, entering, changes, horizons, wanted, highest, every_row, attention)

    def goes_on_in_full(self, layer: int, variants: Sequence[int]) -> bool:
        """Whether all rows of this layer's output are needed for one of the variants."""
        return layer < max(self.full_output + 1, *(self.horizons[v] for v in variants))


def _check_reductions(reductions: Sequence[Reduction], layers: int) -> None:
    """Raise ArgumentError for two of one name, or one of a layer that the model does not have."""
    names = [one.name for one in reductions]
    for one in reductions:
        if names.count(one.name) > 1:
            raise ArgumentError(f"two reductions are named {one.name!r}")
        if not one.layers or not set(one.layers) <= set(range(layers)):
            raise ArgumentError(
                f"reduction {one.name!r} asks for layers {list(one.layers)}; "
                f"the model has layers 0 to {layers - 1}"
            )


def _check_variant(variant: Variant, shape: Shape, reductions: Sequence[Reduction]) -> None:
    """Raise ArgumentError for heads or layers that the model does not have, and for a layer left out
    that nothing would be left without, or that a reduction asks for."""
    checked_heads(variant.heads, shape)
    name, changes = f"variant {variant.name!r}", variant.changes
    outside = [layer for layer in changes if not EMBEDDINGS <= layer < shape.layers]
    if outside:
        raise ArgumentError(
            f"{name} changes layer {outside[0]}; the model has layers 0 to {shape.layers - 1}"
        )
    if changes.get(EMBEDDINGS, PLAIN).inside != PLAIN:
        raise ArgumentError(f"{name} changes more of the embeddings than what they give")
    skipped = {layer for layer, change in changes.items() if change.skipped}
    if len(skipped) == shape.layers:
        raise ArgumentError(f"{name} leaves out every layer; keep at least one")
    for one in reductions:
        for layer in skipped & set(one.layers) if one.of != "hidden" else ():
            raise ArgumentError(
                f"reduction {one.name!r} asks for the {one.of} of layer {layer}, which {name} leaves "
                "out"
            )


# One layer of the masked loop, for a stack of states and the branches they split into.


Store = Callable[[list[int], torch.Tensor], None]
"""Takes the variants that a value holds for, and the value [B, …]."""


class LayerPass:
    """A layer at work on `hidden` [states, B, L, size].

    What branches share (projections, attention, head outputs, their sum through W_O) is computed
    for all states at once, when it is first asked for; `every_row` asks for attention and head
    outputs of all rows, `keeps_attention` for maps that a reduction will see. Where `hidden` has
    the row of the token that is read alone, every branch leaves all heads out.
    """

    def __init__(
        self,
        number: int,
        layer: Layer,
        clean: CleanCache,
        hidden: torch.Tensor,
        branches: Sequence[Branch],
        *,
        every_row: bool,
        keeps_attention: bool,
    ) -> None:
        self.number, self.layer, self.clean = number, layer, clean
        self.batch, self.bias = clean.batch, clean.biases[number]
        self.hidden = hidden
        self.branches = branches
        self.keeps_attention = keeps_attention
        self.rows = hidden.shape[2] if every_row or any(b.full for b in branches) else 1
        self._own: dict[int, _Own] = {}
        self._seen: dict[tuple[str, int], torch.Tensor] = {}

    def finish(self, chunk: Sequence[Branch]) -> torch.Tensor:
        """The layer's output for branches alike in rows and weights [branches, B, L or 1, size]."""
        rows = self.hidden.shape[2] if chunk[0].full else 1
        run = [branch for branch in chunk if branch.passed is None]
        if len(run) == len(chunk):
            return self._run(run, rows)
        done = iter(self._run(run, rows)) if run else iter(())
        return torch.stack(
            [
                next(done) if one.passed is None else self.batch.rows_of(one.passed, rows)
                for one in chunk
            ]
        )

    def _run(self, chunk: Sequence[Branch], rows: int) -> torch.Tensor:
        layer = chunk[0].change.weights or self.layer
        states = [branch.state for branch in chunk]
        mixed = [self._mixed(branch) for branch in chunk]
        if states == list(range(len(self.hidden))) and all(one is None for one in mixed):
            return layer.feed_forward(self._rows(self.mixed, rows), self._rows(self.hidden, rows))
        stacked = torch.stack(
            [
                self._rows(self.mixed[state] if one is None else one, rows).expand(-1, rows, -1)
                for state, one in zip(states, mixed, strict=True)
            ]
        )
        hidden = self._rows(self.hidden, rows)
        return layer.feed_forward(stacked, hidden[index(tuple(states), hidden.device)])

    def _rows(self, tensor: torch.Tensor, rows: int) -> torch.Tensor:
        """Of [..., B, L or 1, size] all rows, or with `rows` 1 that of the token that is read."""
        return row_at(tensor, self.batch.at) if rows == 1 else tensor

    def reduce(self, reduction: Reduction, chunk: Sequence[Branch], store: Store) -> None:
        """Evaluate a reduction of attention or head outputs for each branch of `chunk`."""
        for branch in chunk:
            shared = branch.change.shares_z and (
                reduction.of == "attention" or branch.change.z is None
            )
            key = (reduction.name, branch.state)
            if shared and key in self._seen:
                store(branch.variants, self._seen[key])
                continue
            values = self._attention(branch) if reduction.of == "attention" else self._z_of(branch)
            values = row_at(values, self.batch.at, axes=2) if reduction.first_row else values
            found = reduction.compute(View(values, self.batch, self.number))
            if shared:
                self._seen[key] = found
            store(branch.variants, found)

    def forget(self) -> None:
        """Drop what branches with an attention of their own have computed."""
        self._own.clear()

    @cached_property
    def projections(self) -> Projections:
        """Query [states, B, heads, rows, width], key and value [states, B, heads, L, width]."""
        return _project(self.layer, self.hidden, self.rows, self.batch.at)

    @cached_property
    def attended(self) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Attention weights [states, B, heads, rows, L], None where no reduction will see them, and the
        head outputs they give."""
        if self.rows > 1:
            weights, z = self._attend(*self.projections, self.bias)
            changes = [branch.change for branch in self.branches]
            if all(one.shares_z and not (one.z is not None and one.z.mixes) for one in changes):
                del self.projections  # this object lives until all layers above are done
            return weights, z
        states = len(self.hidden)
        bias, place = self.bias, self.batch.at
        if bias is not None and len(bias) > 1:
            bias = bias.repeat(states, 1, 1, 1)
        if isinstance(place, torch.Tensor):
            place = place.repeat(states)
        read = self.layer.attend_row(self.hidden.flatten(0, 1), bias, place)
        weights, z = (one.unflatten(0, (states, -1)) for one in read)
        return weights, z

    def _attend(
        self,
        query: torch.Tensor,
        key: torch.Tensor,
        value: torch.Tensor,
        bias: torch.Tensor | None,
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Attention weights, where they are kept, and head outputs."""
        if not self.keeps_attention:
            return None, self.layer.attend(query, key, value, bias)
        weights = self.layer.attention(query, key, bias)
        return weights, torch.matmul(weights, value)

    @cached_property
    def z(self) -> torch.Tensor:
        """Each head's output z [states, B, heads, rows, width], edited where a branch is
        alone."""
        z = self.attended[1]
        if not self.keeps_attention:
            del self.attended  # maps of all layers below would add up on the way to the last
        for branch in self.branches:
            edit = branch.change.z
            if branch.alone and branch.change.shares_z and edit is not None:
                edit_z(z[branch.state], edit, self._site(branch.state))
        return z

    @cached_property
    def mixed(self) -> torch.Tensor:
        """W_O over `z` [states, B, rows, size]."""
        return self.layer.mix(self.z)

    def _mixed(self, branch: Branch) -> torch.Tensor | None:
        """What the heads of a branch give [B, rows or 1, size]; None: what its state's `mixed` has."""
        change, edit = branch.change, branch.change.z
        if edit is not None and not change.mixes(self.layer.heads):
            return self._through(edit, self._site(branch.state, change.weights))
        if not change.shares_z:
            own = self._own_of(branch)
            return own.layer.mix(own.z)
        if edit is None or branch.alone:
            return None
        return self._replaced(branch.state, edit)

    def _replaced(self, state: int, edit: ZEdit) -> torch.Tensor:
        """W_O is linear: the edited heads' part is taken off, or the part of those kept is made."""
        heads = range(self.layer.heads)
        kept = [head for head in heads if head not in edit.heads]
        z = self.z[state]
        if len(edit.heads) <= len(kept):
            gone = self.layer.mix_some(z[:, index(edit.heads, z.device)], edit.heads)
            mixed = self.mixed[state] - gone
        else:
            part = z[:, index(tuple(kept), z.device)]
            mixed = self.layer.mix_some(part, kept) + self.layer.constant
        new = edit.z(self._site(state))
        return mixed if new is None else mixed + self.layer.mix_some(new, edit.heads)

    def _through(self, edit: ZEdit, site: Site) -> torch.Tensor:
        """W_O over an edit of all heads that is constant: the same for every row [B or 1, 1, size]."""
        new = edit.z(site)
        bias = site.layer.constant.expand(len(self.batch), 1, -1)
        return bias if new is None else bias + site.layer.mix_some(new, edit.heads)

    def _attention(self, branch: Branch) -> torch.Tensor:
        shares = branch.change.shares_z
        kept = self.attended[0] if shares else self._own_of(branch).attention
        assert kept is not None
        return kept[branch.state] if shares else kept

    def _z_of(self, branch: Branch) -> torch.Tensor:
        """The head outputs that reach W_O [B, heads, rows, width]."""
        edit = branch.change.z
        if not branch.change.shares_z:
            return self._own_of(branch).z
        z = self.z[branch.state]
        if edit is None or branch.alone:
            return z
        return edit_z(z.clone(), edit, self._site(branch.state))

    def _own_of(self, branch: Branch) -> _Own:
        """Attention and head outputs of a branch that does not attend as its state does, until
        `forget`."""
        if id(branch) not in self._own:
            self._own[id(branch)] = self._attend_alone(branch)
        return self._own[id(branch)]

    def _attend_alone(self, branch: Branch) -> _Own:
        change = branch.change
        site = self._site(branch.state, change.weights)
        edit = change.projections
        projected = site.project() if edit is None else edit.projections(site)
        site = replace(site, project=lambda: projected)
        if change.attention is not None:
            added = change.attention.bias(site)
            site = replace(site, bias=added if site.bias is None else site.bias + added)
        query, key, value = projected
        bias = site.bias
        if bias is not None and self.rows == 1:
            bias = row_at(bias, self.batch.at, axes=2)
        weights, z = self._attend(query, key, value, bias)
        if change.z is not None:
            edit_z(z, change.z, site)
        return _Own(site.layer, weights, z)

    def _site(self, state: int, weights: Layer | None = None) -> Site:
        layer = weights or self.layer
        hidden = self.hidden[state]

        def shared() -> Projections:
            query, key, value = self.projections
            return query[state], key[state], value[state]

        batch, clean = self.batch, self.clean
        project = (
            shared if weights is None else partial(_project, layer, hidden, self.rows, batch.at)
        )
        return Site(self.number, layer, batch, hidden, project, self.bias, self.rows, clean)


class _Own(NamedTuple):
    layer: Layer
    attention: torch.Tensor | None
    z: torch.Tensor


def _project(layer: Layer, hidden: torch.Tensor, rows: int, place: At) -> Projections:
    """Query of all rows or of the token at `place`, key and value of all, of `hidden` [..., B, L, size]."""
    flat = hidden.flatten(0, -3)
    if rows == hidden.shape[-2]:
        found = layer.project(flat)
    else:
        if isinstance(place, torch.Tensor):
            place = place.repeat(len(flat) // len(place))
        found = layer.project_row(flat, place)
    return tuple(one.unflatten(0, hidden.shape[:-2]) for one in found)  # type: ignore[return-value]


# The one masked loop: batches outside, variants inside, and nothing computed twice.
#
# A pass descends the layers with a stack of *states*. A state is what variants of equal history
# share: variants that change the same things in the layers below hold the same hidden states, so
# these are computed once. In a layer a state may split into *branches*, one for each different
# change; branches are stacked on the batch axis again, within a token budget, and descend further,
# depth first. So a sweep over single heads runs the layers below a masked head once, projects
# query, key and value of its layer once, and uses the linearity of W_O: what a branch's heads gave
# is taken off the shared sum. Variants that differ in nothing but what is made of a layer's output
# part behind that layer.
#
# Where no layer above mixes tokens any more (the last layer, or every head above left out), the row
# of the token that the classifier reads goes on alone, unless it reads the mean of all.


STACK_TOKENS = 2048
"""Tokens computed at once, over all variants of a stack."""

PLAIN_BATCH_TOKENS = 1024
SWEPT_BATCH_TOKENS = 256
"""Tokens of a batch of pairs, without and with many variants.

Small batches leave room for several variants in a stack, whose layers then share products.
"""

SHARE = STACK_TOKENS // SWEPT_BATCH_TOKENS


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

    `tokens` bounds what is computed at once (a batch of more tokens goes one variant at a time), on a
    GPU by default what its free memory holds, halved where that was too much; memory grows with it and
    with the number of variants times the pairs of a batch, not with the number of batches. `shown`
    counts variants × pairs. The unmasked pass is the variant `none`. Batches may lie anywhere.

    Raises ArgumentError for a reduction or a variant of layers or heads that the model does not have,
    and where a GPU has no memory for a single pair.
    """
    plan = PassPlan.of(encoder, variants, reductions)
    on_cpu = encoder.device.type == "cpu"
    memory = Memory(tokens or (STACK_TOKENS if on_cpu else stack_tokens(encoder.model)))

    def run(part: Batch) -> Swept:
        one = _Pass(plan, part, memory.tokens, shown)
        try:
            return one.run()
        except torch.OutOfMemoryError:
            shown.advance(-one.counted)
            raise

    for batch in batches:
        with torch.inference_mode():
            parts = in_parts(batch.to(encoder.device), memory, run, SHARE)
        yield parts[0] if len(parts) == 1 else _joined(parts)


def _joined(parts: Sequence[Swept]) -> Swept:
    reduced = {
        name: np.concatenate([part.reduced[name] for part in parts], 1) for name in parts[0].reduced
    }
    logits = np.concatenate([part.logits for part in parts], 1)
    return Swept(np.concatenate([part.rows for part in parts]), logits, reduced)


def batch_tokens(variants: int = 1) -> int:
    """Tokens that a batch of pairs is best made of, for so many variants."""
    return SWEPT_BATCH_TOKENS if variants > 2 else PLAIN_BATCH_TOKENS


def masked_forward(encoder: Encoder, *parts: Intervention) -> Callable[[Batch], torch.Tensor]:
    """A forward pass, batch → logits [B, labels], that runs one variant instead of the model."""
    variants = [Variant("masked", parts) if parts else NONE]

    def forward(batch: Batch) -> torch.Tensor:
        (swept,) = sweep(encoder, [batch], variants, tokens=1)
        return torch.from_numpy(swept.logits[0])  # on the CPU, as `Swept` has them

    return forward


@dataclass(eq=False)
class _Pass:
    """One batch under all variants."""

    plan: PassPlan
    batch: Batch
    budget: int
    shown: Progress
    counted: int = field(init=False, default=0)
    logits: torch.Tensor = field(init=False)
    reduced: dict[str, torch.Tensor] = field(init=False, default_factory=dict)

    def run(self) -> Swept:
        """All variants of the batch; results stay on the device until the last is there."""
        encoder, batch = self.plan.encoder, self.batch
        hidden = encoder.embed(batch)
        self.clean = CleanCache(encoder, batch, encoder.biases(batch), hidden)
        labels = int(encoder.model.config.num_labels)
        self.logits = hidden.new_empty(
            len(self.plan.changes), len(batch), labels, dtype=torch.float32
        )
        everyone = list(range(len(self.plan.changes)))
        for states, entering in self._parted(self.plan.entering, [everyone], hidden[None]):
            self._descend(0, states, entering)
        reduced = {name: found.cpu().numpy() for name, found in self.reduced.items()}
        return Swept(batch.rows, self.logits.cpu().numpy(), reduced)

    def _descend(self, number: int, states: list[list[int]], hidden: torch.Tensor) -> None:
        """Run the layers from `number` on; `hidden` [states, B, L or 1, size] is its input."""
        if number == len(self.plan.encoder.layers):
            self._store_logits(states, hidden)
            return
        branches, worked_on = self._split(number, states, hidden)
        layer = LayerPass(
            number,
            self.plan.encoder.layers[number],
            self.clean,
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
                    layer.reduce(reduction, chunk, partial(self._store_reduced, reduction, place))
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
        every = self.batch.real[..., None]  # padding stays as it is
        for start in range(0, len(parted), most):
            stack = parted[start : start + most]
            real = self.batch.rows_of(every, hidden.shape[2])
            left = [
                hidden[state]
                if edit is None
                else torch.where(real, edit.outputs(hidden[state], self.clean), hidden[state])
                for state, edit, _ in stack
            ]
            yield [members for _, _, members in stack], torch.stack(left)

    def _reduce_output(self, number: int, states: list[list[int]], hidden: torch.Tensor) -> None:
        """Evaluate the reductions of a layer's output [states, B, rows, size]."""
        for reduction, place in self.plan.reductions.get(number, ()):
            if reduction.of != "hidden":
                continue
            for variants, output in zip(states, hidden, strict=True):
                values = row_at(output, self.batch.at) if reduction.first_row else output
                found = reduction.compute(View(values, self.batch, number))
                self._store_reduced(reduction, place, variants, found)

    def _split(
        self, number: int, states: list[list[int]], hidden: torch.Tensor
    ) -> tuple[list[Branch], torch.Tensor]:
        """Each state's variants by what they change in this layer, and the states that it works on."""
        branches: list[Branch] = []
        working: list[int] = []
        for state, variants in enumerate(states):
            groups: dict[LayerIntervention, list[int]] = {}
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
        if len(working) == len(states):
            return branches, hidden
        return branches, hidden[index(tuple(working), hidden.device)]

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
        if encoder.reads != "mean":
            hidden = row_at(hidden, self.batch.at)
        read = encoder.pooled(hidden, self.batch.mask)
        found = encoder.family.head(encoder.model, read.flatten(0, 1))
        logits = found.float().unflatten(0, hidden.shape[:2])
        variants = tuple(variant for members in states for variant in members)
        of = tuple(state for state, members in enumerate(states) for _ in members)
        device = logits.device
        self.logits[index(variants, device)] = logits[index(of, device)]
        runs = len(variants) * len(self.batch)
        self.counted += runs
        self.shown.advance(runs)

    def _store_reduced(
        self, reduction: Reduction, place: int, variants: list[int], value: torch.Tensor
    ) -> None:
        found = value.float()
        if reduction.name not in self.reduced:
            shape = (len(self.plan.changes), len(self.batch), len(reduction.layers))
            self.reduced[reduction.name] = found.new_empty(shape + found.shape[1:])
        self.reduced[reduction.name][index(tuple(variants), found.device), :, place] = found
