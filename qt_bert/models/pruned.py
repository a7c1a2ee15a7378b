"""Classifiers with layers, heads or feed-forward units removed: making and opening them."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F
from transformers import AutoModelForSequenceClassification
from transformers.initialization import no_init_weights

from qt_bert.errors import ArgumentError, CheckpointError, QtBertError
from qt_bert.models.families import Family, at, put
from qt_bert.models.folder import weight_files, weight_shapes
from qt_bert.results.kept import KEPT, KeptFile, KeptLayer, TeacherRef, check_kept

# A head's output is its slice of the input of W_O, so a head is removed with its rows of W_Q, W_K and
# W_V and its columns of W_O, and the model computes exactly what it did with that slice at zero
# (Michel et al. 2019, "Are Sixteen Heads Really Better than One?"). transformers did this as
# `prune_heads`, which version 5 has no more.


Units = Mapping[int, Sequence[int]]
"""Number of a layer in the teacher → which of its feed-forward units stay, sorted."""


def smaller_model(
    model: Any,
    family: Family,
    kept: Sequence[KeptLayer],
    *,
    units: Units | None = None,
) -> Any:
    """A copy of the classifier `model` with the layers, heads and units of `kept` alone.

    `units` names the feed-forward units that stay in a layer that keeps only some.

    Raises ArgumentError for layers, heads or units that the model lacks, and for `units` of another number
    than a layer keeps.
    """
    check_kept(kept, reference_of(model, family, "the model"))
    modules = family.layers_of(model)
    small = nn.ModuleList(
        _smaller_layer(family, modules[layer.layer], layer, units) for layer in kept
    )
    # A deep copy with `small` in place of the layers: the removed ones are never copied.
    smaller = copy.deepcopy(model, {id(modules): small})
    return _described(smaller, family, [layer.layer for layer in kept])


def with_own_widths(model: Any, family: Family, kept: Sequence[KeptLayer]) -> tuple[KeptLayer, ...]:
    """`kept`, with each layer's feed-forward units bounded by those of `model`, which may differ."""
    widths = [family.units(module) for module in family.layers_of(model)]
    stay = [min(layer.units or widths[layer.layer], widths[layer.layer]) for layer in kept]
    return tuple(
        replace(layer, units=None if units == max(widths) else units)
        for layer, units in zip(kept, stay, strict=True)
    )


def with_absent_heads(model: Any, family: Family, kept: Sequence[KeptLayer], heads: int) -> Any:
    """`model`, changed in place: each layer has `heads` heads again, removed ones as zeros, each at its
    number in the teacher. The logits stay the same."""
    for module, layer in zip(family.layers_of(model), kept, strict=True):
        if len(layer.heads) < heads:
            _spread_heads(family, module, layer.heads, heads)
    return model


@torch.no_grad()
def with_absent_units(model: Any, family: Family) -> Any:
    """`model`, changed in place so that each layer is as wide as the widest, by units of zeros."""
    modules = family.layers_of(model)
    widest = model.config.intermediate_size = max(map(family.units, modules))
    for module in modules:
        units = family.units(module)
        for path in family.parts.up:
            linear = at(module, path)
            parts = linear.out_features // units  # the units and their gates in one
            rows = [part * widest + unit for part in range(parts) for unit in range(units)]
            put(module, path, _spread(linear, rows, parts * widest))
        down = at(module, family.parts.down)
        put(module, family.parts.down, _linear(F.pad(down.weight, (0, widest - units)), down.bias))
    return model


def reference_of(model: Any, family: Family, name: str, sha256: str = "") -> TeacherRef:
    """The shape of a classifier; heads and units are those of its widest layers."""
    modules = family.layers_of(model)
    return TeacherRef(
        name=name,
        sha256=sha256,
        layers=len(modules),
        heads=max(map(family.heads, modules)),
        units=max(map(family.units, modules)),
    )


def head_parameters(family: Family, module: Any) -> float:
    """The parameters of a head in a layer: its rows of the projections and its columns of W_O.

    Where heads share keys and values, its share of these.
    """
    rows = sum(parameter_count(linear) for linear, _ in _by_heads(family, module))
    return (rows + at(module, family.parts.output).weight.numel()) / family.heads(module)  # type: ignore[no-any-return]


def parameter_count(module: Any) -> int:
    """The number of a module's parameters."""
    return sum(parameter.numel() for parameter in module.parameters())


def _by_heads(family: Family, module: Any) -> list[tuple[Any, str]]:
    """The linear layers whose rows belong to heads, each with its path."""
    linears = []
    for path in (*family.parts.projections, *family.parts.positional):
        owner, _, name = path.rpartition(".")
        if (linear := getattr(at(module, owner), name, None)) is not None:
            linears.append((linear, path))
    return linears


class Headless(nn.Module):
    """The attention of a layer without heads: z of width 0, its output the bias of W_O.

    It keeps the (empty) parts of the module that it replaces, so that all layers have the same parts, and
    the module itself as `whole`, to restore it when heads of zeros are put in.
    """

    def __init__(self, whole: Any, output: str | None) -> None:
        super().__init__()
        for name, child in whole.named_children():
            self.add_module(name, child)
        for name, value in vars(whole).items():
            if not name.startswith("_"):
                setattr(self, name, value)
        self.num_attention_heads, self.all_head_size = 0, 0
        self.behind = output
        self.whole = (whole,)  # in a tuple: no part of the module

    def forward(self, hidden_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:
        """[..., hidden] → [..., 0], or [..., hidden] behind W_O; and no attention weights."""
        nothing = hidden_states[..., :0]
        return (nothing if self.behind is None else getattr(self, self.behind)(nothing)), None


def _smaller_layer(
    family: Family,
    module: Any,
    kept: KeptLayer,
    units: Units | None,
) -> Any:
    small = copy.deepcopy(module)
    _cut_heads(family, small, kept.heads)
    count = family.units(module)
    if kept.units is None or kept.units >= count:
        return small
    chosen = sorted(set((units or {}).get(kept.layer, ())))
    if len(chosen) != kept.units:
        raise ArgumentError(
            f"layer {kept.layer} keeps {kept.units} feed-forward units, but {len(chosen)} are named"
        )
    if chosen[0] < 0 or chosen[-1] >= count:
        wrong = chosen[0] if chosen[0] < 0 else chosen[-1]
        raise ArgumentError(
            f"layer {kept.layer} has no feed-forward unit {wrong}: its units are 0 to {count - 1}"
        )
    _cut_units(family, small, chosen)
    return small


@torch.no_grad()
def _cut_heads(family: Family, module: Any, heads: Sequence[int]) -> None:
    """Keep these heads of a layer. Raises ArgumentError for some heads of a group that shares keys and values."""
    count = family.heads(module)
    if len(heads) == count:
        return
    sharing = family.sharing(module)
    if len({head // sharing for head in heads}) * sharing != len(heads):
        raise ArgumentError(
            f"heads {list(heads)}: each {sharing} heads of this model share one key and value; they stay "
            "or go together"
        )
    for linear, path, rows, _ in _rows_by_heads(family, module, heads, count):
        put(module, path, _rows_of(linear, rows))
    output = at(module, family.parts.output)
    columns = output.weight[:, _rows(heads, family.width(module))]
    put(module, family.parts.output, _linear(columns, output.bias))
    _count_heads(family, module, len(heads))


def _rows(heads: Sequence[int], width: int) -> list[int]:
    return [head * width + place for head in heads for place in range(width)]


def _rows_by_heads(
    family: Family, module: Any, heads: Sequence[int], count: int
) -> Iterator[tuple[Any, str, list[int], int]]:
    """As `_by_heads`, with the rows of `heads` among those of `count` heads, and how many these are."""
    width, sharing = family.width(module), family.sharing(module)
    query, *shared = family.parts.projections
    groups = _rows(sorted({head // sharing for head in heads}), width)
    for linear, path in _by_heads(family, module):
        rows, total = _rows(heads, width), count * width
        if path in shared:
            yield linear, path, groups, total // sharing
        elif path == query and not shared:  # with key and value in one
            yield linear, path, [part * total + row for part in range(3) for row in rows], 3 * total
        else:
            yield linear, path, rows, total


def _rows_of(linear: Any, rows: Sequence[int]) -> nn.Linear:
    bias = linear.bias
    return _linear(linear.weight[list(rows)], None if bias is None else bias[list(rows)])


def _spread(linear: Any, rows: Sequence[int], total: int) -> nn.Linear:
    """The rows of a linear layer at their places `rows` among `total`, zeros between them."""
    places = torch.tensor(rows, dtype=torch.long, device=linear.weight.device)

    def spread(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.new_zeros(total, *tensor.shape[1:]).index_copy(0, places, tensor)

    return _linear(spread(linear.weight), None if linear.bias is None else spread(linear.bias))


@torch.no_grad()
def _spread_heads(family: Family, module: Any, heads: Sequence[int], count: int) -> None:
    """Put a layer's heads at their numbers among `count`, zeros between them."""
    for linear, path, rows, total in _rows_by_heads(family, module, heads, count):
        put(module, path, _spread(linear, rows, total))
    output = at(module, family.parts.output)
    width = family.width(module)
    columns = output.weight.new_zeros(output.out_features, count * width)
    columns[:, _rows(heads, width)] = output.weight
    put(module, family.parts.output, _linear(columns, output.bias))
    _count_heads(family, module, count)


def _count_heads(family: Family, module: Any, count: int) -> None:
    """Set the module's number of heads; transformers' own needs at least one."""
    path = family.parts.width.rpartition(".")[0]
    old = at(module, path)
    if count == 0:
        inside = family.parts.output.startswith(f"{path}.")
        output = family.parts.output.rpartition(".")[2] if inside else None
        put(module, path, Headless(old, output))
        return
    if isinstance(old, Headless):
        (whole,) = old.whole
        for name, child in old.named_children():
            setattr(whole, name, child)
        put(module, path, whole)
        old = whole
    if hasattr(old, "all_head_size"):
        old.num_attention_heads = count
        old.all_head_size = count * family.width(module)


@torch.no_grad()
def _cut_units(family: Family, module: Any, units: Sequence[int]) -> None:
    """Keep these feed-forward units of a layer."""
    chosen, count = list(units), family.units(module)
    for path in family.parts.up:
        linear = at(module, path)
        parts = linear.out_features // count  # the units and their gates in one
        put(
            module,
            path,
            _rows_of(linear, [part * count + unit for part in range(parts) for unit in chosen]),
        )
    down = at(module, family.parts.down)
    put(module, family.parts.down, _linear(down.weight[:, chosen], down.bias))


def _linear(weight: torch.Tensor, bias: torch.Tensor | None) -> nn.Linear:
    """A linear layer of these weights (copied), trainable."""
    # Of no size, nn.Linear would warn that it draws nothing.
    linear = nn.Linear(1, 1, device="meta")
    linear.out_features, linear.in_features = weight.shape
    linear.weight = nn.Parameter(weight.detach().clone(memory_format=torch.contiguous_format))
    copied_bias = None if bias is None else nn.Parameter(bias.detach().clone())
    linear.register_parameter("bias", copied_bias)
    return linear


def _described(model: Any, family: Family, stay: Sequence[int]) -> Any:
    """`model`, its config brought up to date: the number of layers, and of units where all have as many."""
    modules = family.layers_of(model)
    model.config.num_hidden_layers = len(modules)
    if types := getattr(model.config, "layer_types", None):
        model.config.layer_types = [types[layer] for layer in stay]
    widths = set(map(family.units, modules))
    if len(widths) == 1:
        model.config.intermediate_size = widths.pop()
    for place, module in enumerate(modules):
        for part in module.modules():
            if hasattr(part, "layer_idx"):
                part.layer_idx = place
    return model


# Opening a folder whose layers have shapes of their own, which transformers cannot describe.


def open_kept(folder: Path, config: Any) -> KeptFile | None:
    """The checked `kept.json`, None for a whole model. Raises CheckpointError for a bad one."""
    try:
        kept = KeptFile.read(folder)
    except QtBertError as error:
        raise CheckpointError(str(error)) from error
    if kept is None:
        return None
    try:
        check_kept(kept.layers, kept.teacher)
    except ArgumentError as error:
        raise CheckpointError(f"{folder / KEPT}: {error}; fetch the folder anew") from error
    stored_shape = (config.num_hidden_layers, config.num_attention_heads)
    if stored_shape != (len(kept.layers), kept.teacher.heads):
        raise CheckpointError(
            f"{folder / KEPT} has {len(kept.layers)} layers of {kept.teacher.heads} heads, config.json "
            f"{stored_shape[0]} of {stored_shape[1]}; they belong to different models"
        )
    return kept


def load_kept(folder: Path, config: Any, family: Family, kept: KeptFile, attention: str) -> Any:
    """The classifier in float32, as stored. Raises CheckpointError for weights that do not fit."""
    from safetensors.torch import load_file

    with no_init_weights():
        model = AutoModelForSequenceClassification.from_config(
            config, dtype=torch.float32, attn_implementation=attention
        )
    weight_shapes(folder)  # a truncated file is refused here
    state: dict[str, torch.Tensor] = {}
    for path in weight_files(folder):
        state |= {name: value.float() for name, value in load_file(path).items()}
    try:
        for place, layer in enumerate(kept.layers):
            module = family.layers_of(model)[place]
            _cut_heads(family, module, layer.heads)
            if layer.units is not None:
                _cut_units(family, module, range(layer.units))
            _add_parts(family, module, state, f"{family.backbone}.{family.layers}.{place}")
        model.load_state_dict(state)
    except (RuntimeError, IndexError) as error:  # of a unit beyond the config's
        raise CheckpointError(
            f"{folder}: the weights do not fit {KEPT} ({error}); fetch the folder anew"
        ) from error
    return model


def _add_parts(family: Family, module: Any, state: Mapping[str, torch.Tensor], where: str) -> None:
    """Add the norm that a ModernBERT's lowest layer lacks, where that layer was removed."""
    parts = family.parts
    norm = f"{where}.{parts.attention_norm}.weight"
    if isinstance(at(module, parts.attention_norm), nn.Identity) and norm in state:
        put(module, parts.attention_norm, copy.deepcopy(at(module, parts.units_norm)))


def is_plain(model: Any) -> bool:
    """Whether the config describes the model's whole shape, so that transformers opens its folder too."""
    with torch.device("meta"), no_init_weights():
        built = type(model)(copy.deepcopy(model.config))
    described, actual = (
        {name: value.shape for name, value in module.state_dict().items()}
        for module in (built, model)
    )
    return described == actual
