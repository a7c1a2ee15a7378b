"""The Hugging Face model with heads left out by hooks: slow, plain, and what the checks trust.

Written without anything of the masked loop, pair by pair over real tokens, so that a fault of the
one does not hide in the other. The hooks on heads stand before `attention.output.dense`, where
heads are contiguous slices under every attention kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from qt_bert.models.batches import CLS, GONE, QUERY, TITLE, Batch, Direction
from qt_bert.models.card import Offline, layers_apart
from qt_bert.models.families import Family


@dataclass
class PlainLayer:
    """One pair in one layer: values of its n real tokens, by head, and who may see whom.

    `row` is the pair's row of the batch.
    """

    row: int
    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    visible: torch.Tensor
    groups: torch.Tensor
    z: torch.Tensor

    def attend(self, head: int) -> torch.Tensor:
        """z of the head [n, width], over the tokens that each row may see."""
        scores = self.query[head] @ self.key[head].T / self.query.shape[-1] ** 0.5
        scores = scores.masked_fill(~self.visible[head], float("-inf"))
        return scores.softmax(-1) @ self.value[head]

    def cut(self, directions: Iterable[Direction], heads: Iterable[int] | None = None) -> None:
        """Let no row of some heads (None: all) see the columns that directions take away."""
        groups = self.groups.tolist()
        gone = set().union(*(GONE[direction] for direction in directions))
        seen = [[(row, column) not in gone for column in groups] for row in groups]
        apart = torch.tensor(seen, device=self.visible.device)
        for head in range(len(self.z)) if heads is None else heads:
            self.visible[head] &= apart
            self.z[head] = self.attend(head)


Edit = Callable[[PlainLayer], None]
"""Changes the head outputs, or who may see whom, in place."""


Map = Callable[[int, torch.Tensor], torch.Tensor]
"""The pair's row of the batch, and vectors of its n tokens [n, hidden], to others of that shape."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """What a run gave, padded as the batch: streams by place, and what each layer's W_O was given."""

    stream: list[torch.Tensor]
    given: list[torch.Tensor]
    lengths: list[int]
    heads: list[int]

    def states(self, place: int, row: int) -> torch.Tensor:
        """The residual stream of one pair [n, hidden]; place 0 is behind the embeddings."""
        return self.stream[place][row, : self.lengths[row]]

    def z(self, layer: int, row: int) -> torch.Tensor:
        """What a layer's heads gave one pair [heads, n, width]."""
        return _by_head(self.given[layer][row, : self.lengths[row]], self.heads[layer])


class Installed(Protocol):
    """What can be done to the plain model: a part of a variant."""

    def install(self, model: PlainModel) -> None:
        """Do it, by `PlainModel.edit`, `skip`, `map`, `project` or `write`."""


class PlainModel:
    """A Hugging Face classifier that parts of variants install hooks on; `batch` is the one at work.

    `offline` is the block of an offline model, which the Hugging Face model itself does not know.
    """

    batch: Batch

    def __init__(self, model: Any, family: Family, offline: Offline | None = None) -> None:
        self.model = model
        self.family = family
        self.offline = offline
        self.backbone = getattr(model, family.backbone)
        self.layers = self.backbone.encoder.layer
        self._written: list[tuple[Any, Any, torch.Tensor]] = []
        self.begin()

    def begin(self) -> None:
        """Forget all that was installed, but for weights that were written."""
        apart = layers_apart(self.offline)
        self._first: dict[int, list[Edit]] = {layer: [_apart] for layer in range(apart)}
        self._then: dict[int, list[Edit]] = {}
        self._skipped: set[int] = set()
        self._mapped: list[tuple[int, Map]] = []
        self._projected: list[tuple[Any, Callable[..., Any]]] = []

    @torch.no_grad()
    def logits(self, batch: Batch, parts: Iterable[Installed] = ()) -> torch.Tensor:
        """Logits [B, labels] with `parts` installed; no hook and no weight is left behind."""
        self.batch = batch
        try:
            for part in parts:
                part.install(self)
            with self._hooked(batch):
                return self._run()
        finally:
            self.begin()
            while self._written:
                parameter, index, values = self._written.pop()
                parameter.data[index] = values

    def record(self) -> Recorded:
        """What a run of the batch gives, with all that is installed by now."""
        lengths = self.batch.real.sum(1).tolist()
        heads = [int(one.attention.self.num_attention_heads) for one in self.layers]
        found = Recorded([], [], lengths, heads)
        handles = [
            self._giving(place).register_forward_hook(_append(found.stream))
            for place in range(len(self.layers) + 1)
        ]
        with self._hooked(self.batch):
            for layer in self.layers:  # behind the edits, so that what they give is seen
                dense = layer.attention.output.dense
                handles.append(
                    dense.register_forward_pre_hook(lambda _, given: found.given.append(given[0]))
                )
            try:
                self._run()
            finally:
                for handle in handles:
                    handle.remove()
        return found

    def _run(self) -> torch.Tensor:
        return self.model(  # type: ignore[no-any-return]
            input_ids=self.batch.input_ids,
            token_type_ids=self.batch.token_type_ids,
            attention_mask=self.batch.real.long(),
            position_ids=None if self.offline is None else self._positions(self.offline),
        ).logits

    def _positions(self, offline: Offline) -> torch.Tensor:
        """The numbers of the position embeddings [B, L], pair by pair."""
        found = torch.zeros_like(self.batch.groups)
        for row, groups in enumerate(self.batch.groups.tolist()):
            before = sum(group in (CLS, QUERY) for group in groups)
            moved = max(offline.title_start, before) - before
            for place, group in enumerate(groups):
                found[row, place] = place + (moved if group == TITLE else 0)
        return found + self.family.first_position(self.model.config.pad_token_id)

    def write(self, parameter: Any, index: Any, values: torch.Tensor) -> None:
        """Let part of a parameter have other values, until `logits` returns."""
        self._written.append((parameter, index, parameter.data[index].clone()))
        parameter.data[index] = values.to(parameter)

    def project(self, layer: int, name: str, head: int, read: Sequence[torch.Tensor]) -> None:
        """Let one head's rows of the projection `name` be made of `read`: for each pair [n, hidden]."""
        attention = self.layers[layer].attention.self
        module, heads = getattr(attention, name), int(attention.num_attention_heads)

        def hook(module: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
            found = output.clone()
            for row, vectors in enumerate(read):
                made = vectors.to(output) @ module.weight.T + module.bias
                at = _by_head(found[row, : len(made)], heads)
                at[head] = _by_head(made, heads)[head]
            return found

        self._projected.append((module, hook))

    def edit(self, layer: int, edit: Edit, *, first: bool = False) -> None:
        """Let `edit` change what a layer's heads give, pair by pair, before W_O.

        Edits of who may see whom come `first`: others may depend on it.
        """
        (self._first if first else self._then).setdefault(layer, []).append(edit)

    def skip(self, layer: int) -> None:
        """Let a layer hand on its input as its output."""
        self._skipped.add(layer)

    def map(self, place: int, function: Map) -> None:
        """Let `function` change the vectors of real tokens before layer `place`, behind the last too.

        Place 0 is what the embeddings give, place n what layer n − 1 gives.
        """
        self._mapped.append((place, function))

    def _giving(self, place: int) -> Any:
        """The module whose output stands at a place."""
        if place:
            return self.layers[place - 1]
        projected = getattr(self.backbone, "embeddings_project", None)
        return self.backbone.embeddings if projected is None else projected

    @contextmanager
    def _hooked(self, batch: Batch) -> Iterator[None]:
        handles = [self.layers[n].register_forward_hook(_pass_on) for n in self._skipped]
        for place, function in self._mapped:
            hook = _map(function, batch)
            handles.append(self._giving(place).register_forward_hook(hook))
        for module, hook in self._projected:
            handles.append(module.register_forward_hook(hook))
        for number in self._first.keys() | self._then.keys():
            attention = self.layers[number].attention
            kept: dict[str, torch.Tensor] = {}
            for name in ("query", "key", "value"):
                handles.append(
                    getattr(attention.self, name).register_forward_hook(_keep(kept, name))
                )
            edits = self._first.get(number, []) + self._then.get(number, [])
            heads = int(attention.self.num_attention_heads)
            rewriting = _rewrite(kept, edits, batch, heads)
            handles.append(attention.output.dense.register_forward_pre_hook(rewriting))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _apart(seen: PlainLayer) -> None:
    """What a layer of an offline block gives: each text sees itself alone."""
    seen.cut(("all",))


def _pass_on(module: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> Any:
    return (inputs[0], *output[1:]) if isinstance(output, tuple) else inputs[0]


def _map(function: Map, batch: Batch) -> Callable[[Any, Any, Any], Any]:
    def hook(module: Any, inputs: Any, output: Any) -> Any:
        given = output[0] if isinstance(output, tuple) else output
        mapped = given.clone()
        for row, real in enumerate(batch.real):
            mapped[row, real] = function(row, given[row, real])
        return (mapped, *output[1:]) if isinstance(output, tuple) else mapped

    return hook


def _append(kept: list[torch.Tensor]) -> Callable[..., None]:
    def hook(module: Any, inputs: Any, output: Any) -> None:
        kept.append((output[0] if isinstance(output, tuple) else output).clone())

    return hook


def _keep(kept: dict[str, torch.Tensor], name: str) -> Callable[..., None]:
    def hook(module: Any, inputs: Any, output: torch.Tensor) -> None:
        kept[name] = output

    return hook


def _rewrite(
    kept: dict[str, torch.Tensor], edits: Sequence[Edit], batch: Batch, heads: int
) -> Callable[..., tuple[torch.Tensor]]:
    def hook(module: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
        z = inputs[0].clone()
        for row, real in enumerate(batch.real):
            groups = batch.groups[row][real]
            n = len(groups)
            parts = [_by_head(kept[name][row, :n], heads) for name in ("query", "key", "value")]
            visible = torch.ones(heads, n, n, dtype=torch.bool, device=groups.device)
            query, key, value = parts
            held = _by_head(z[row, :n], heads).clone()
            seen = PlainLayer(row, query, key, value, visible, groups, held)
            for edit in edits:
                edit(seen)
            z[row, :n] = seen.z.transpose(0, 1).flatten(1)
        return (z,)

    return hook


def _by_head(tokens: torch.Tensor, heads: int) -> torch.Tensor:
    """[n, heads × width] → [heads, n, width]."""
    return tokens.unflatten(-1, (heads, -1)).transpose(0, 1)
