"""The masked loop: batches outside, variants inside; shared states are computed once."""

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

Of = Literal["attention", "z", "hidden"]


@dataclass(frozen=True, eq=False)
class View:
    """The input of a reduction: one variant in one layer, for a batch of B pairs of L tokens.

    `values`: attention weights [B, heads, rows, L], each head's output z [B, heads, rows, width], or the
    layer's output [B, rows, hidden]; rows is L, or 1 (the token that the classifier reads) for
    `first_row`. Attention is the softmax's output, also for a head whose z is replaced; z is what
    reaches W_O. Values at padding (where `batch.real` is False) are arbitrary.
    """

    values: torch.Tensor
    batch: Batch
    layer: int


@dataclass(frozen=True)
class Reduction:
    """A few numbers a pair, from the attention, head outputs or output of some layers.

    `compute` returns [B, …], always of the same shape after B; `first_row` restricts it to the token that
    the classifier reads ([CLS]), which is cheaper in the last layer.
    """

    name: str
    of: Of
    layers: tuple[int, ...]
    compute: Callable[[View], torch.Tensor]
    first_row: bool = False


@dataclass(eq=False)
class Branch:
    """Variants of one state that make the same change in this layer.

    `full`: all rows of the layer's output are needed, not only that of the token that is read; `alone`: no
    other branch runs the layer on this state, so its tensors may be changed in place. `passed` [B, L,
    size] is the layer's input where the branch skips the layer; then `state` is not used.
    """

    state: int
    change: LayerIntervention
    variants: list[int]
    full: bool
    alone: bool
    passed: torch.Tensor | None = None


PLAIN = LayerIntervention()


@dataclass(frozen=True, eq=False)
class PassPlan:
    """A sweep by layers, shared by its batches.

    `of` raises ArgumentError for reductions and variants that do not fit the model or each other.
    """

    encoder: Encoder
    entering: list[OutputEdit | None]  # [variant], edits of the embeddings' output
    changes: list[list[LayerIntervention]]  # [variant][layer]
    horizons: list[int]  # the highest layer in which a variant's tokens mix, −1 for none
    reductions: dict[int, list[tuple[Reduction, int]]]  # layer → (reduction, index in `layers`)
    full_output: int  # the highest layer whose whole output a reduction needs, −1 for none
    every_row: set[int]  # layers in which a reduction needs attention or head outputs of all rows
    attention: set[int]  # layers in which a reduction needs attention

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
        of_layer: dict[int, list[tuple[Reduction, int]]] = {}
        for reduction in reductions:
            for position, layer in enumerate(reduction.layers):
                of_layer.setdefault(layer, []).append((reduction, position))
        asked = [(n, r) for r in reductions for n in r.layers]
        # Attention needs every token's key, so the whole output of the layer below, also for one row.
        full = [n - 1 for n, r in asked if r.of != "hidden"]
        full += [n for n, r in asked if r.of == "hidden" and not r.first_row]
        every_row = {n for n, r in asked if r.of != "hidden" and not r.first_row}
        attention = {n for n, r in asked if r.of == "attention"}
        horizons = [
            max((n for n in layers if by_layer[n].mixes(encoder.layers[n].heads)), default=-1)
            for by_layer in changes
        ]
        if encoder.reads == "mean":
            full.append(len(encoder.layers))
        highest = max(full, default=-1)
        return cls(encoder, entering, changes, horizons, of_layer, highest, every_row, attention)

    def needs_all_rows(self, layer: int, variants: Sequence[int]) -> bool:
        """Whether all rows of this layer's output are needed for one of the variants."""
        return layer < max(self.full_output + 1, *(self.horizons[v] for v in variants))


def _check_reductions(reductions: Sequence[Reduction], layers: int) -> None:
    """Raise ArgumentError for a repeated name, or a layer that the model lacks."""
    names = [reduction.name for reduction in reductions]
    for reduction in reductions:
        if names.count(reduction.name) > 1:
            raise ArgumentError(f"two reductions are named {reduction.name!r}")
        if not reduction.layers or not set(reduction.layers) <= set(range(layers)):
            raise ArgumentError(
                f"reduction {reduction.name!r} asks for layers {list(reduction.layers)}; "
                f"the model has layers 0 to {layers - 1}"
            )


def _check_variant(variant: Variant, shape: Shape, reductions: Sequence[Reduction]) -> None:
    """Raise ArgumentError for parts that the model lacks, or left-out layers that are needed."""
    checked_heads(variant.heads, shape)
    name, changes = f"variant {variant.name!r}", variant.changes
    outside = [layer for layer in changes if not EMBEDDINGS <= layer < shape.layers]
    if outside:
        raise ArgumentError(
            f"{name} changes layer {outside[0]}; the model has layers 0 to {shape.layers - 1}"
        )
    if changes.get(EMBEDDINGS, PLAIN).inside != PLAIN:
        raise ArgumentError(f"{name} changes more of the embeddings than their output")
    skipped = {layer for layer, change in changes.items() if change.skipped}
    if len(skipped) == shape.layers:
        raise ArgumentError(f"{name} leaves out every layer; keep at least one")
    for reduction in reductions:
        if reduction.of != "hidden" and (gone := skipped.intersection(reduction.layers)):
            raise ArgumentError(
                f"reduction {reduction.name!r} asks for the {reduction.of} of layer {min(gone)}, which "
                f"{name} leaves out"
            )


Store = Callable[[list[int], torch.Tensor], None]
"""Stores a value [B, …] for its variants."""


class LayerPass:
    """One layer's pass over `hidden` [states, B, L, size].

    What branches share (projections, attention, head outputs, their sum through W_O) is computed once
    for all states, on first use. `every_row`: attention and head outputs of all rows are needed;
    `keeps_attention`: a reduction needs attention maps. Where `hidden` has only the row of the token
    that is read, every branch leaves all heads out.
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
        self._unshared: dict[Branch, _Attended] = {}
        self._reduced: dict[tuple[str, int], torch.Tensor] = {}

    def finish(self, chunk: Sequence[Branch]) -> torch.Tensor:
        """The layer's output for branches of the same rows [branches, B, L or 1, size], all with the
        feed-forward block or all without it."""
        rows = self.hidden.shape[2] if chunk[0].full else 1
        run = [branch for branch in chunk if branch.passed is None]
        if len(run) == len(chunk):
            return self._run(run, rows)
        done = iter(self._run(run, rows)) if run else iter(())
        return torch.stack(
            [next(done) if b.passed is None else self.batch.rows_of(b.passed, rows) for b in chunk]
        )

    def _run(self, chunk: Sequence[Branch], rows: int) -> torch.Tensor:
        states = [branch.state for branch in chunk]
        mixed = [self._mixed(branch) for branch in chunk]
        end = partial(self.layer.feed_forward, block=not chunk[0].change.no_feed_forward)
        rows_of = self.batch.rows_of
        hidden = rows_of(self.hidden, rows)
        if states == list(range(len(hidden))) and all(m is None for m in mixed):
            return end(rows_of(self.mixed, rows), hidden)
        stacked = torch.stack(
            [
                rows_of(self.mixed[state] if m is None else m, rows).expand(-1, rows, -1)
                for state, m in zip(states, mixed, strict=True)
            ]
        )
        return end(stacked, hidden[index(tuple(states), hidden.device)])

    def reduce(self, reduction: Reduction, chunk: Sequence[Branch], store: Store) -> None:
        """Evaluate a reduction of attention or head outputs for each branch of `chunk`."""
        for branch in chunk:
            shared = branch.change.shares_z and (
                reduction.of == "attention" or branch.change.z is None
            )
            key = (reduction.name, branch.state)
            if shared and key in self._reduced:
                store(branch.variants, self._reduced[key])
                continue
            values = self._attention(branch) if reduction.of == "attention" else self._z_of(branch)
            values = row_at(values, self.batch.at, axes=2) if reduction.first_row else values
            reduced = reduction.compute(View(values, self.batch, self.number))
            if shared:
                self._reduced[key] = reduced
            store(branch.variants, reduced)

    def clear(self) -> None:
        """Drop the attention of branches that do not share their state's."""
        self._unshared.clear()

    @cached_property
    def projections(self) -> Projections:
        """Query [states, B, heads, rows, width], key and value [states, B, heads, L, width]."""
        return _project(self.layer, self.hidden, self.rows, self.batch.at)

    @cached_property
    def attended(self) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Attention weights [states, B, heads, rows, L], None unless kept, and head outputs."""
        if self.rows > 1:
            weights, z = self._attend(*self.projections, self.bias)
            changes = [branch.change for branch in self.branches]
            if all(c.shares_z and not (c.z is not None and c.z.mixes) for c in changes):
                del self.projections  # this object lives until all layers above are done
            return weights, z
        states = len(self.hidden)
        bias, position = self.bias, self.batch.at
        if bias is not None and len(bias) > 1:
            bias = bias.repeat(states, 1, 1, 1)
        if isinstance(position, torch.Tensor):
            position = position.repeat(states)
        row = self.layer.attend_row(self.hidden.flatten(0, 1), bias, position)
        weights, z = (tensor.unflatten(0, (states, -1)) for tensor in row)
        return weights, z

    def _attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, bias: torch.Tensor | None
    ) -> tuple[torch.Tensor | None, torch.Tensor]:
        """Attention weights (None unless kept) and head outputs."""
        if not self.keeps_attention:
            return None, self.layer.attend(query, key, value, bias)
        weights = self.layer.attention(query, key, bias)
        return weights, torch.matmul(weights, value)

    @cached_property
    def z(self) -> torch.Tensor:
        """Each head's output z [states, B, heads, rows, width], edited where a branch is alone."""
        z = self.attended[1]
        if not self.keeps_attention:
            del self.attended  # else maps of all layers would add up
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
        """W_O over a branch's head outputs [B, rows or 1, size]; None where it is its state's `mixed`."""
        change, edit = branch.change, branch.change.z
        if edit is not None and not change.mixes(self.layer.heads):
            return self._through(edit, self._site(branch.state))
        if not change.shares_z:
            return self.layer.mix(self._attended_by(branch).z)
        if edit is None or branch.alone:
            return None
        return self._replaced(branch.state, edit)

    def _replaced(self, state: int, edit: ZEdit) -> torch.Tensor:
        """W_O is linear: subtract the edited heads' part, or compute that of the others."""
        kept = [head for head in range(self.layer.heads) if head not in edit.heads]
        z = self.z[state]
        if len(edit.heads) <= len(kept):
            part = self.layer.mix_some(z[:, index(edit.heads, z.device)], edit.heads)
            mixed = self.mixed[state] - part
        else:
            part = z[:, index(tuple(kept), z.device)]
            mixed = self.layer.mix_some(part, kept) + self.layer.constant
        new = edit.z(self._site(state))
        return mixed if new is None else mixed + self.layer.mix_some(new, edit.heads)

    def _through(self, edit: ZEdit, site: Site) -> torch.Tensor:
        """W_O over a constant edit of all heads [B, rows or 1, size]."""
        new = edit.z(site)
        bias = site.layer.constant.expand(len(self.batch), 1, -1)
        return bias if new is None else bias + site.layer.mix_some(new, edit.heads)

    def _attention(self, branch: Branch) -> torch.Tensor:
        shares = branch.change.shares_z
        weights = self.attended[0] if shares else self._attended_by(branch).attention
        assert weights is not None
        return weights[branch.state] if shares else weights

    def _z_of(self, branch: Branch) -> torch.Tensor:
        """The head outputs that reach W_O [B, heads, rows, width]."""
        edit = branch.change.z
        if not branch.change.shares_z:
            return self._attended_by(branch).z
        z = self.z[branch.state]
        if edit is None or branch.alone:
            return z
        return edit_z(z.clone(), edit, self._site(branch.state))

    def _attended_by(self, branch: Branch) -> _Attended:
        """Attention and head outputs of a branch that does not share its state's, kept until `clear`."""
        if branch not in self._unshared:
            self._unshared[branch] = self._attend_changed(branch)
        return self._unshared[branch]

    def _attend_changed(self, branch: Branch) -> _Attended:
        change = branch.change
        site = self._site(branch.state)
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
        return _Attended(weights, z)

    def _site(self, state: int) -> Site:
        def project() -> Projections:
            query, key, value = self.projections
            return query[state], key[state], value[state]

        hidden, rows, clean = self.hidden[state], self.rows, self.clean
        return Site(self.number, self.layer, self.batch, hidden, project, self.bias, rows, clean)


class _Attended(NamedTuple):
    attention: torch.Tensor | None
    z: torch.Tensor


def _project(layer: Layer, hidden: torch.Tensor, rows: int, position: At) -> Projections:
    """Query of all rows or of the token at `position`, key and value of all, of [..., B, L, size]."""
    flat = hidden.flatten(0, -3)
    if rows == hidden.shape[-2]:
        projected = layer.project(flat)
    else:
        if isinstance(position, torch.Tensor):
            position = position.repeat(len(flat) // len(position))
        projected = layer.project_row(flat, position)
    return tuple(tensor.unflatten(0, hidden.shape[:-2]) for tensor in projected)  # type: ignore[return-value]


# A pass goes through the layers with a stack of *states*. Variants that change the same things in the
# layers below share a state, the hidden states there, which is computed once. In a layer a state may
# split into *branches*, one for each different change; branches are stacked on the batch axis again,
# within a token budget, and run the layers above, depth first. Variants that differ only in an edit of
# a layer's output split after that layer.
#
# Above the last layer that mixes tokens (the last one, or the last with a head left in), only the token
# that the classifier reads is computed, unless it reads the mean of all.


STACK_TOKENS = 2048
"""Tokens computed at once, over all variants of a stack."""
PLAIN_BATCH_TOKENS = 1024
SWEPT_BATCH_TOKENS = 256
"""Tokens of a batch of pairs, without and with many variants: small batches leave room for several
variants in a stack, which share matrix products."""

SHARE = STACK_TOKENS // SWEPT_BATCH_TOKENS


@dataclass(frozen=True, eq=False)
class Swept:
    """One batch of B pairs under V variants.

    `rows` [B]: indices of the pairs; `logits` [V, B, labels]; `reduced`: name of a reduction → float32
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

    `tokens` bounds what is computed at once (a batch of more tokens runs one variant at a time); on a GPU
    the default is what its free memory holds, halved when memory runs out. Memory grows with it and with
    variants × pairs of a batch, not with the number of batches. `shown` counts variants × pairs. The
    unmasked pass is the variant `none`. Batches may be on any device.

    Raises ArgumentError for a reduction or a variant of layers or heads that the model lacks, and where a
    GPU has no memory for a single pair.
    """
    plan = PassPlan.of(encoder, variants, reductions)
    on_cpu = encoder.device.type == "cpu"
    memory = Memory(tokens or (STACK_TOKENS if on_cpu else stack_tokens(encoder.model)))

    def run(part: Batch) -> Swept:
        attempt = _Pass(plan, part, memory.tokens, shown)
        try:
            return attempt.run()
        except torch.OutOfMemoryError:
            shown.advance(-attempt.counted)
            raise

    for batch in batches:
        with torch.inference_mode():
            parts = in_parts(batch.to(encoder.device), memory, run, SHARE)
        yield parts[0] if len(parts) == 1 else _concatenated(parts)


def _concatenated(parts: Sequence[Swept]) -> Swept:
    reduced = {
        name: np.concatenate([part.reduced[name] for part in parts], 1) for name in parts[0].reduced
    }
    logits = np.concatenate([part.logits for part in parts], 1)
    return Swept(np.concatenate([part.rows for part in parts]), logits, reduced)


def batch_tokens(variants: int = 1) -> int:
    """The best number of tokens of a batch of pairs for so many variants."""
    return SWEPT_BATCH_TOKENS if variants > 2 else PLAIN_BATCH_TOKENS


def masked_forward(encoder: Encoder, *parts: Intervention) -> Callable[[Batch], torch.Tensor]:
    """A function batch → logits [B, labels] on the CPU, of the model under `parts`."""
    variants = [Variant("masked", parts) if parts else NONE]

    def forward(batch: Batch) -> torch.Tensor:
        (swept,) = sweep(encoder, [batch], variants, tokens=1)
        return torch.from_numpy(swept.logits[0])  # on the CPU, as in `Swept`

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
        """All variants of the batch; results stay on the device until the end."""
        encoder, batch = self.plan.encoder, self.batch
        hidden = encoder.embed(batch)
        self.clean = CleanCache(encoder, batch, encoder.biases(batch), hidden)
        labels = int(encoder.model.config.num_labels)
        self.logits = hidden.new_empty(
            len(self.plan.changes), len(batch), labels, dtype=torch.float32
        )
        variants = list(range(len(self.plan.changes)))
        for states, entering in self._split_by_output(self.plan.entering, [variants], hidden[None]):
            self._ascend(0, states, entering)
        reduced = {name: values.cpu().numpy() for name, values in self.reduced.items()}
        return Swept(batch.rows, self.logits.cpu().numpy(), reduced)

    def _ascend(self, number: int, states: list[list[int]], hidden: torch.Tensor) -> None:
        """Run the layers from `number` on; `hidden` [states, B, L or 1, size] is its input."""
        if number == len(self.plan.encoder.layers):
            self._store_logits(states, hidden)
            return
        branches, inputs = self._split_by_change(number, states, hidden)
        layer = LayerPass(
            number,
            self.plan.encoder.layers[number],
            self.clean,
            inputs,
            [branch for branch in branches if branch.passed is None],
            every_row=number in self.plan.every_row,
            keeps_attention=number in self.plan.attention,
        )
        leaving = [changes[number].output for changes in self.plan.changes]
        for chunk in self._chunks(number, branches, hidden.shape[2]):
            output = layer.finish(chunk)
            for reduction, position in self.plan.reductions.get(number, ()):
                if reduction.of != "hidden":
                    store = partial(self._store_reduced, reduction, position)
                    layer.reduce(reduction, chunk, store)
            layer.clear()
            variants = [branch.variants for branch in chunk]
            for split, edited in self._split_by_output(leaving, variants, output):
                self._reduce_output(number, split, edited)
                self._ascend(number + 1, split, edited)

    def _split_by_output(
        self, edits: Sequence[OutputEdit | None], states: list[list[int]], hidden: torch.Tensor
    ) -> Iterator[tuple[list[list[int]], torch.Tensor]]:
        """States split by their variants' edits of `hidden` [states, B, rows, size], in stacks."""
        if all(edits[variant] is None for variants in states for variant in variants):
            yield states, hidden
            return
        split: list[tuple[int, OutputEdit | None, list[int]]] = []
        for state, variants in enumerate(states):
            groups: dict[OutputEdit | None, list[int]] = {}
            for variant in variants:
                groups.setdefault(edits[variant], []).append(variant)
            split += [(state, edit, members) for edit, members in groups.items()]
        most = max(len(states), self.budget // (len(self.batch) * hidden.shape[2]))
        real = self.batch.rows_of(self.batch.real[..., None], hidden.shape[2])
        for start in range(0, len(split), most):
            stack = split[start : start + most]
            edited = [
                hidden[state]
                if edit is None
                else torch.where(real, edit.outputs(hidden[state], self.clean), hidden[state])
                for state, edit, _ in stack
            ]
            yield [members for _, _, members in stack], torch.stack(edited)

    def _reduce_output(self, number: int, states: list[list[int]], hidden: torch.Tensor) -> None:
        """Evaluate the reductions of a layer's output [states, B, rows, size]."""
        for reduction, position in self.plan.reductions.get(number, ()):
            if reduction.of != "hidden":
                continue
            for variants, output in zip(states, hidden, strict=True):
                values = row_at(output, self.batch.at) if reduction.first_row else output
                reduced = reduction.compute(View(values, self.batch, number))
                self._store_reduced(reduction, position, variants, reduced)

    def _split_by_change(
        self, number: int, states: list[list[int]], hidden: torch.Tensor
    ) -> tuple[list[Branch], torch.Tensor]:
        """Split states by their variants' changes in this layer; the states that the layer runs on."""
        branches: list[Branch] = []
        running: list[int] = []
        for state, variants in enumerate(states):
            groups: dict[LayerIntervention, list[int]] = {}
            for variant in variants:
                groups.setdefault(self.plan.changes[variant][number].inside, []).append(variant)
            runs = sum(not change.skipped for change in groups)
            branches += [
                Branch(
                    len(running),
                    change,
                    members,
                    full=self.plan.needs_all_rows(number, members),
                    alone=runs == 1,
                    passed=hidden[state] if change.skipped else None,
                )
                for change, members in groups.items()
            ]
            running += [state] if runs else []
        if len(running) == len(states):
            return branches, hidden
        return branches, hidden[index(tuple(running), hidden.device)]

    def _chunks(self, number: int, branches: list[Branch], length: int) -> Iterator[list[Branch]]:
        """Branches that can run together (same rows, same blocks) within the token budget."""
        alike: dict[tuple[bool, bool], list[Branch]] = {}
        for branch in branches:
            alike.setdefault((branch.full, branch.change.no_feed_forward), []).append(branch)
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
        pooled = encoder.pooled(hidden, self.batch.mask)
        logits = encoder.family.head(encoder.model, pooled.flatten(0, 1)).float()
        logits = logits.unflatten(0, hidden.shape[:2])
        variants = tuple(variant for members in states for variant in members)
        of = tuple(state for state, members in enumerate(states) for _ in members)
        device = logits.device
        self.logits[index(variants, device)] = logits[index(of, device)]
        runs = len(variants) * len(self.batch)
        self.counted += runs
        self.shown.advance(runs)

    def _store_reduced(
        self, reduction: Reduction, position: int, variants: list[int], value: torch.Tensor
    ) -> None:
        value = value.float()
        if reduction.name not in self.reduced:
            shape = (len(self.plan.changes), len(self.batch), len(reduction.layers))
            self.reduced[reduction.name] = value.new_empty(shape + value.shape[1:])
        self.reduced[reduction.name][index(tuple(variants), value.device), :, position] = value
