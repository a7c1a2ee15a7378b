"""One layer of the masked loop, for a stack of states and the branches they split into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import torch

from qt_bert.ablation.branch import Branch
from qt_bert.ablation.change import Change, ContextEdit, Projections, Site
from qt_bert.ablation.reduction import Reduction, View
from qt_bert.ablation.untouched import Untouched
from qt_bert.encoder.forward import Layer, attention

Store = Callable[[list[int], torch.Tensor], None]
"""Takes the variants that a value holds for, and the value [B, …]."""


class LayerPass:
    """A layer at work on `hidden` [states, B, L, size].

    What branches share (projections, attention, contexts, their sum through W_O) is computed for
    all states at once, when it is first asked for; `every_row` asks for attention and contexts of
    all rows, `keeps_attention` for maps that a reduction will see. Where `hidden` has the first token's row alone, every branch leaves all heads out.
    """

    def __init__(
        self,
        number: int,
        layer: Layer,
        untouched: Untouched,
        hidden: torch.Tensor,
        branches: Sequence[Branch],
        *,
        every_row: bool,
        keeps_attention: bool,
    ) -> None:
        self.number, self.layer, self.untouched = number, layer, untouched
        self.batch, self.bias = untouched.batch, untouched.biases[number]
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
            [next(done) if one.passed is None else one.passed[:, :rows] for one in chunk]
        )

    def _run(self, chunk: Sequence[Branch], rows: int) -> torch.Tensor:
        layer = chunk[0].change.weights or self.layer
        states = [branch.state for branch in chunk]
        mixed = [self._mixed(branch) for branch in chunk]
        if states == list(range(len(self.hidden))) and all(one is None for one in mixed):
            return layer.feed_forward(self.mixed[:, :, :rows], self.hidden[:, :, :rows])
        stacked = torch.stack(
            [
                (self.mixed[state] if one is None else one)[:, :rows].expand(-1, rows, -1)
                for state, one in zip(states, mixed, strict=True)
            ]
        )
        return layer.feed_forward(stacked, self.hidden[:, :, :rows][states])

    def reduce(self, reduction: Reduction, chunk: Sequence[Branch], store: Store) -> None:
        """Evaluate a reduction of attention or contexts for each branch of `chunk`."""
        for branch in chunk:
            shared = branch.change.shares_contexts and (
                reduction.of == "attention" or branch.change.contexts is None
            )
            key = (reduction.name, branch.state)
            if shared and key in self._seen:
                store(branch.variants, self._seen[key])
                continue
            values = (
                self._attention(branch) if reduction.of == "attention" else self._contexts(branch)
            )
            values = values[:, :, :1] if reduction.first_row else values
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
        return _project(self.layer, self.hidden, self.rows)

    @cached_property
    def attended(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Attention weights [states, B, heads, rows, L], and the contexts they give."""
        if self.rows > 1:
            query, key, value = self.projections
            weights = attention(query, key, self.bias)
            if all(_is_done_with_projections(branch.change) for branch in self.branches):
                del self.projections  # this object lives until all layers above are done
            return weights, torch.matmul(weights, value)
        states = len(self.hidden)
        bias = None if self.bias is None else self.bias.repeat(states, 1, 1, 1)
        first = self.layer.attend_first(self.hidden.flatten(0, 1), bias)
        weights, contexts = (one.unflatten(0, (states, -1)) for one in first)
        return weights, contexts

    @cached_property
    def contexts(self) -> torch.Tensor:
        """The heads' contexts [states, B, heads, rows, width], edited where a branch is alone."""
        contexts = self.attended[1]
        if not self.keeps_attention:
            del self.attended  # maps of all layers below would add up on the way to the last
        for branch in self.branches:
            edit = branch.change.contexts
            if branch.alone and branch.change.shares_contexts and edit is not None:
                _edit(contexts[branch.state], edit, self._site(branch.state))
        return contexts

    @cached_property
    def mixed(self) -> torch.Tensor:
        """W_O over `contexts` [states, B, rows, size]."""
        return self.layer.mix(self.contexts)

    def _mixed(self, branch: Branch) -> torch.Tensor | None:
        """What the heads of a branch give [B, rows or 1, size]; None: what its state's `mixed` has."""
        change, edit = branch.change, branch.change.contexts
        if edit is not None and not change.mixes(self.layer.heads):
            return self._through(edit, self._site(branch.state, change.weights))
        if not change.shares_contexts:
            own = self._own_of(branch)
            return own.layer.mix(own.contexts)
        if edit is None or branch.alone:
            return None
        return self._replaced(branch.state, edit)

    def _replaced(self, state: int, edit: ContextEdit) -> torch.Tensor:
        """W_O is linear: the edited heads' part is taken off, or the part of those kept is made."""
        heads = range(self.layer.heads)
        kept = [head for head in heads if head not in edit.heads]
        contexts = self.contexts[state]
        if len(edit.heads) <= len(kept):
            gone = self.layer.mix_some(contexts[:, list(edit.heads)], edit.heads)
            mixed = self.mixed[state] - gone
        else:
            mixed = self.layer.mix_some(contexts[:, kept], kept) + self.layer.output.bias
        new = edit.contexts(self._site(state))
        return mixed if new is None else mixed + self.layer.mix_some(new, edit.heads)

    def _through(self, edit: ContextEdit, site: Site) -> torch.Tensor:
        """W_O over an edit of all heads that is constant: the same for every row [B or 1, 1, size]."""
        new = edit.contexts(site)
        bias = site.layer.output.bias.expand(len(self.batch), 1, -1)
        return bias if new is None else bias + site.layer.mix_some(new, edit.heads)

    def _attention(self, branch: Branch) -> torch.Tensor:
        if branch.change.shares_contexts:
            return self.attended[0][branch.state]
        return self._own_of(branch).attention

    def _contexts(self, branch: Branch) -> torch.Tensor:
        """The contexts that reach W_O [B, heads, rows, width]."""
        edit = branch.change.contexts
        if not branch.change.shares_contexts:
            return self._own_of(branch).contexts
        contexts = self.contexts[branch.state]
        if edit is None or branch.alone:
            return contexts
        return _edit(contexts.clone(), edit, self._site(branch.state))

    def _own_of(self, branch: Branch) -> _Own:
        """Attention and contexts of a branch that does not attend as its state does, until `forget`."""
        if id(branch) not in self._own:
            self._own[id(branch)] = self._attend_alone(branch)
        return self._own[id(branch)]

    def _attend_alone(self, branch: Branch) -> _Own:
        change = branch.change
        site = self._site(branch.state, change.weights)
        if change.projections is not None:
            site = site.with_projections(change.projections.projections(site))
        lost = None
        if change.attention is not None:
            added = change.attention.bias(site)
            if change.attention.loses:
                lost = added[:, :, : self.rows] != 0
            else:
                site = site.with_bias(added if site.bias is None else site.bias + added)
        query, key, value = projected = site.project()
        site = site.with_projections(projected)
        bias = None if site.bias is None else site.bias[:, :, : self.rows]
        weights = attention(query, key, bias)
        if lost is not None:
            weights = weights.masked_fill(lost, 0)
        contexts = torch.matmul(weights, value)
        if change.contexts is not None:
            _edit(contexts, change.contexts, site)
        return _Own(site.layer, weights, contexts)

    def _site(self, state: int, weights: Layer | None = None) -> Site:
        layer = weights or self.layer
        hidden = self.hidden[state]

        def shared() -> Projections:
            query, key, value = self.projections
            return query[state], key[state], value[state]

        project = shared if weights is None else partial(_project, layer, hidden, self.rows)
        return Site(
            self.number,
            layer,
            self.batch,
            hidden,
            project,
            self.bias,
            self.rows,
            self.untouched,
        )


@dataclass(frozen=True, eq=False)
class _Own:
    layer: Layer
    attention: torch.Tensor
    contexts: torch.Tensor


def _is_done_with_projections(change: Change) -> bool:
    """Whether a change asks for nothing of the projections but the contexts made of them."""
    edit = change.contexts
    return change.shares_contexts and not (edit is not None and edit.mixes)


def _project(layer: Layer, hidden: torch.Tensor, rows: int) -> Projections:
    """Query of `rows` rows, key and value of all, of `hidden` [..., B, L, size]."""
    flat = hidden.flatten(0, -3)
    found = layer.project(flat) if rows == hidden.shape[-2] else layer.project_first(flat)
    return tuple(one.unflatten(0, hidden.shape[:-2]) for one in found)  # type: ignore[return-value]


def _edit(contexts: torch.Tensor, edit: ContextEdit, site: Site) -> torch.Tensor:
    """Replace contexts [B, heads, rows, width] in place."""
    new = edit.contexts(site)
    contexts[:, list(edit.heads)] = 0 if new is None else new  # type: ignore[assignment]
    return contexts
