"""The Hugging Face model under interventions by hooks: the reference of the equivalence checks.

It shares no code with the masked loop and edits pair by pair over real tokens, so that a fault of one
shows against the other. Hooks on heads are before W_O, where heads are contiguous slices under every
attention kernel; cuts are attention masks passed to the model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from qt_bert.errors import ArgumentError
from qt_bert.heads import Head
from qt_bert.models.batches import REMOVED, Batch, Direction
from qt_bert.models.families import Family, Rows, at


@dataclass
class PlainLayer:
    """One pair of n real tokens in one layer: `row` of the batch, `value` and `z` [heads, n, width],
    `visible` [heads, n, n], the columns that each row sees."""

    row: int
    value: torch.Tensor
    visible: torch.Tensor
    z: torch.Tensor


_Cut = tuple[tuple[Direction, ...], Sequence[int] | None]
"""Directions that are cut, and their heads (None: all)."""

HeadZ = Callable[[Head, PlainLayer], torch.Tensor | float]
"""A head, and a pair in its layer → what replaces its z [n, width]."""


Map = Callable[[int, torch.Tensor], torch.Tensor]
"""A pair's row of the batch and its vectors [n, hidden] → other vectors of that shape."""


@dataclass(frozen=True, eq=False)
class Recorded:
    """A recorded run, padded as the batch: the stream by place, and the inputs of each layer's W_O."""

    stream: list[torch.Tensor]
    inputs: list[torch.Tensor]
    lengths: list[int]
    heads: list[int]

    def states(self, place: int, row: int) -> torch.Tensor:
        """The residual stream of one pair [n, hidden]; place 0 is after the embeddings."""
        return self.stream[place][row, : self.lengths[row]]

    def z(self, layer: int, row: int) -> torch.Tensor:
        """A layer's head outputs for one pair [heads, n, width]."""
        return _by_head(self.inputs[layer][row, : self.lengths[row]], self.heads[layer])


class Installable(Protocol):
    """A change of the plain model: a part of a variant."""

    def install(self, model: PlainModel) -> None:
        """Apply it, by `PlainModel.replace`, `cut`, `skip`, `silence`, `map` or `project`."""


class PlainModel:
    """A Hugging Face classifier that parts of variants install hooks on; `batch` is the current one."""

    batch: Batch

    def __init__(self, model: Any, family: Family) -> None:
        self.model = model
        self.family = family
        self.backbone = family.backbone_of(model)
        self.layers = family.layers_of(model)
        self.reset()

    def reset(self) -> None:
        """Remove all that was installed."""
        self._cuts: dict[int, list[_Cut]] = {}
        self._replaced: dict[int, list[tuple[Head, HeadZ]]] = {}
        self._skipped: set[int] = set()
        self._silenced: set[int] = set()
        self._mapped: list[tuple[int, Map]] = []
        self._projected: list[tuple[Any, Callable[..., Any]]] = []

    @torch.no_grad()
    def logits(self, batch: Batch, parts: Iterable[Installable] = ()) -> torch.Tensor:
        """Logits [B, labels] with `parts` installed; they are undone afterwards."""
        self.batch = batch
        try:
            for part in parts:
                part.install(self)
            with self._hooked(batch):
                return self._run()
        finally:
            self.reset()

    def plain(self, batch: Batch) -> PlainModel:
        """The same model on a batch, with nothing installed."""
        other = PlainModel(self.model, self.family)
        other.batch = batch
        return other

    def record(self) -> Recorded:
        """Run the batch with what is installed, and record it."""
        lengths = self.batch.real.sum(1).tolist()
        recorded = Recorded([], [], lengths, [self.family.heads(layer) for layer in self.layers])
        handles = [
            self._module_before(place).register_forward_hook(_append(recorded.stream))
            for place in range(len(self.layers) + 1)
        ]
        with self._hooked(self.batch):
            for layer in self.layers:  # after the hooks that replace z, to record their results
                dense = at(layer, self.family.parts.output)
                handles.append(
                    dense.register_forward_pre_hook(lambda _, x: recorded.inputs.append(x[0]))
                )
            try:
                self._run()
            finally:
                for handle in handles:
                    handle.remove()
        return recorded

    def _run(self) -> torch.Tensor:
        types = {"token_type_ids": self.batch.token_type_ids} if self.family.segments else {}
        return self.model(  # type: ignore[no-any-return]
            input_ids=self.batch.input_ids, attention_mask=self.batch.real.long(), **types
        ).logits

    def project(self, layer: int, which: int, head: int, read: Sequence[torch.Tensor]) -> None:
        """One head's rows of query, key or value (0, 1, 2) from layer inputs [n, hidden]."""
        family, module = self.family, self.layers[layer]
        linear = family.projections(module)[which]
        width, groups = family.width(module), linear.weight.shape[0] // family.width(module)
        if groups < family.heads(module):
            raise ArgumentError(
                "heads of this model share keys and values; a path can enter the query of one alone"
            )
        before = at(module, family.parts.attention_norm) if family.norm_before else None

        calls: list[bool] = []

        def hook(_: Any, inputs: Any, output: torch.Tensor) -> torch.Tensor:
            calls.append(True)
            if len(calls) > 1:  # DeBERTa also projects distances
                return output
            result = output.clone()
            rows = result[..., linear.start : linear.stop] if isinstance(linear, Rows) else result
            columns = slice(head * width, (head + 1) * width)
            for row, vectors in enumerate(read):
                vectors = vectors if before is None else before(vectors)
                projected = torch.nn.functional.linear(vectors, linear.weight, linear.bias)
                rows[row, : len(projected), columns] = projected[:, columns].to(output)
            return result

        self._projected.append((linear.linear if isinstance(linear, Rows) else linear, hook))

    def replace(self, heads: Iterable[Head], z: HeadZ) -> None:
        """Replace each head's z by that of `z`, pair by pair, before W_O."""
        for head in heads:
            self._replaced.setdefault(head.layer, []).append((head, z))

    def cut(
        self, layer: int, directions: Sequence[Direction], heads: Sequence[int] | None = None
    ) -> None:
        """Hide the columns of some directions in some heads (None: all)."""
        self._cuts.setdefault(layer, []).append((tuple(directions), heads))

    def skip(self, layer: int) -> None:
        """Make a layer return its input."""
        self._skipped.add(layer)

    def silence(self, layer: int) -> None:
        """Make a layer's feed-forward block add zeros to the residual stream."""
        self._silenced.add(layer)

    def map(self, place: int, function: Map) -> None:
        """Apply `function` to the vectors of real tokens at a place of the residual stream: 0 after the
        embeddings, n after layer n − 1."""
        self._mapped.append((place, function))

    def _module_before(self, place: int) -> Any:
        """The module whose output is the residual stream at a place."""
        if place:
            return self.layers[place - 1]
        projected = getattr(self.backbone, "embeddings_project", None)
        return at(self.backbone, self.family.embeddings) if projected is None else projected

    def _visible(self, layer: int, row: int) -> torch.Tensor:
        """Which columns each row of a pair sees in a layer [heads, n, n]."""
        module = self.layers[layer]
        groups = self.batch.groups[row][self.batch.real[row]].tolist()
        n, window = len(groups), self.family.window(module)
        device = self.batch.groups.device
        visible = torch.ones(self.family.heads(module), n, n, dtype=torch.bool, device=device)
        for i in range(n):
            for j in range(n):
                far = window is not None and abs(i - j) > window
                if far or (self.family.causal and j > i):
                    visible[:, i, j] = False
        for directions, heads in self._cuts.get(layer, ()):
            gone = set().union(*(REMOVED[direction] for direction in directions))
            uncut = [[(row, column) not in gone for column in groups] for row in groups]
            for head in range(len(visible)) if heads is None else heads:
                visible[head] &= torch.tensor(uncut, device=device)
        return visible

    def _rewrite(
        self, layer: int, kept: dict[str, torch.Tensor], replaced: Sequence[tuple[Head, HeadZ]]
    ) -> Callable[..., tuple[torch.Tensor]]:
        family, module = self.family, self.layers[layer]
        heads, groups = family.heads(module), family.groups(module)

        def hook(_: Any, inputs: tuple[torch.Tensor]) -> tuple[torch.Tensor]:
            z = inputs[0].clone()
            for row, real in enumerate(self.batch.real):
                n = int(real.sum())
                value = _by_head(kept["value"][row, :n], groups)
                value = value.repeat_interleave(heads // max(1, groups), 0)
                by_head = _by_head(z[row, :n], heads).clone()
                plain = PlainLayer(row, value, self._visible(layer, row), by_head)
                for head, new in replaced:
                    plain.z[head.head] = new(head, plain)
                z[row, :n] = plain.z.transpose(0, 1).flatten(1)
            return (z,)

        return hook

    def _masked(self, layer: int) -> Callable[..., Any]:
        """A hook that passes `_visible` to a layer's attention as its mask."""

        def hook(_: Any, args: Any, kwargs: Any) -> Any:
            hidden = args[0] if args else kwargs["hidden_states"]
            heads, length = self.family.heads(self.layers[layer]), hidden.shape[1]
            mask = self.batch.real[:, None, None, :].repeat(1, heads, length, 1)
            for row, real in enumerate(self.batch.real):
                n = int(real.sum())
                mask[row, :, :n, :n] = self._visible(layer, row)
            if self.family.positions != "relative":  # which takes a boolean mask
                least = torch.finfo(hidden.dtype).min
                mask = torch.zeros_like(mask, dtype=hidden.dtype).masked_fill(~mask, least)
            if "attention_mask" in kwargs:
                return args, kwargs | {"attention_mask": mask}
            return (args[0], mask, *args[2:]), kwargs

        return hook

    @contextmanager
    def _hooked(self, batch: Batch) -> Iterator[None]:
        handles = [self.layers[n].register_forward_hook(_return_input) for n in self._skipped]
        for number in self._silenced:
            down = at(self.layers[number], self.family.parts.down)
            handles.append(down.register_forward_hook(lambda _, x, out: torch.zeros_like(out)))
        for place, function in self._mapped:
            hook = _map(function, batch)
            handles.append(self._module_before(place).register_forward_hook(hook))
        for module, hook in self._projected:
            handles.append(module.register_forward_hook(hook))
        for number in self._cuts:
            attention = at(self.layers[number], self.family.parts.attention)
            hook = self._masked(number)
            handles.append(attention.register_forward_pre_hook(hook, with_kwargs=True))
        for number, replaced in self._replaced.items():
            layer = self.layers[number]
            kept: dict[str, torch.Tensor] = {}
            value = self.family.projections(layer)[2]
            linear = value.linear if isinstance(value, Rows) else value
            handles.append(linear.register_forward_hook(_keep(kept, value)))
            output = at(layer, self.family.parts.output)
            handles.append(output.register_forward_pre_hook(self._rewrite(number, kept, replaced)))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def _return_input(module: Any, inputs: tuple[torch.Tensor, ...], output: Any) -> Any:
    return (inputs[0], *output[1:]) if isinstance(output, tuple) else inputs[0]


def _map(function: Map, batch: Batch) -> Callable[[Any, Any, Any], Any]:
    def hook(module: Any, inputs: Any, output: Any) -> Any:
        hidden = output[0] if isinstance(output, tuple) else output
        mapped = hidden.clone()
        for row, real in enumerate(batch.real):
            mapped[row, real] = function(row, hidden[row, real])
        return (mapped, *output[1:]) if isinstance(output, tuple) else mapped

    return hook


def _append(kept: list[torch.Tensor]) -> Callable[..., None]:
    def hook(module: Any, inputs: Any, output: Any) -> None:
        kept.append((output[0] if isinstance(output, tuple) else output).clone())

    return hook


def _keep(kept: dict[str, torch.Tensor], value: Any) -> Callable[..., None]:
    def hook(module: Any, inputs: Any, output: torch.Tensor) -> None:
        kept["value"] = output[..., value.start : value.stop] if isinstance(value, Rows) else output

    return hook


def _by_head(tokens: torch.Tensor, heads: int) -> torch.Tensor:
    """[n, heads × width] → [heads, n, width]."""
    return tokens.unflatten(-1, (heads, -1)).transpose(0, 1)
