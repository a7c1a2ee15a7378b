"""Classifiers with layers, heads or feed-forward units taken out: made, and opened again."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForSequenceClassification
from transformers.initialization import no_init_weights

from qt_bert.errors import ArgumentError, CheckpointError, QtBertError
from qt_bert.models.families import Family
from qt_bert.models.folder import weight_shapes
from qt_bert.results.kept import KEPT, KeptFile, KeptLayer, TeacherRef, check_kept

# Weights of layers, heads and feed-forward units taken out of a classifier, so that it computes
# less.
#
# What a head gives is its slice at the input of W_O, so a head goes with its rows of W_Q, W_K and
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
    fold: torch.Tensor | None = None,
) -> Any:
    """A copy of the classifier `model` that holds what `kept` names, and nothing else.

    `units` says which feed-forward units stay in a layer that keeps only some. `fold` [layers,
    heads, width] are vectors that stand in for z of heads that go: W_O times them is added
    to the bias of W_O; without it they are zeros. A layer that keeps no head still adds that bias.

    Raises ArgumentError for layers, heads or units that the model does not have, where `units`
    does not name as many as a layer keeps, and for a `fold` of another shape.
    """
    check_kept(kept, reference_of(model, family, "the model"))
    modules = layers_of(model, family)
    _check_fold(fold, modules)
    small = nn.ModuleList(_smaller_layer(modules[one.layer], one, units, fold) for one in kept)
    # A deep copy that takes `small` for the layers, and never holds those that go.
    made = copy.deepcopy(model, {id(modules): small})
    return _described(made, family)


def with_own_widths(model: Any, family: Family, kept: Sequence[KeptLayer]) -> tuple[KeptLayer, ...]:
    """`kept`, each layer with the feed-forward units it really keeps: no more than `model` has there.

    Of a model that was narrowed itself, layers may have fewer than the widest.
    """
    widths = [_width(module) for module in layers_of(model, family)]
    stay = [min(one.units or widths[one.layer], widths[one.layer]) for one in kept]
    return tuple(
        replace(one, units=None if units == max(widths) else units)
        for one, units in zip(kept, stay, strict=True)
    )


def with_absent_heads(model: Any, family: Family, kept: Sequence[KeptLayer], heads: int) -> Any:
    """`model`, changed in place so that each layer has `heads` heads again: those gone are zeros.

    A head of zeros gives nothing, so the logits stay; every head has its number in the teacher.
    """
    for module, one in zip(layers_of(model, family), kept, strict=True):
        if len(one.heads) < heads:
            _spread_heads(module, one.heads, heads)
    return model


def layers_of(model: Any, family: Family) -> Any:
    """The encoder's layers, lowest first."""
    return getattr(model, family.backbone).encoder.layer


def reference_of(model: Any, family: Family, name: str, sha256: str = "") -> TeacherRef:
    """The shape of a classifier; heads and units are those of its widest layers."""
    modules = layers_of(model, family)
    return TeacherRef(
        name=name,
        sha256=sha256,
        layers=len(modules),
        heads=max(int(one.attention.self.num_attention_heads) for one in modules),
        units=max(map(_width, modules)),
    )


def _width(module: Any) -> int:
    """How many feed-forward units a layer has."""
    return int(module.intermediate.dense.out_features)


class Headless(nn.Module):
    """The self-attention of a layer without heads: z of no width.

    It keeps the three empty projections, so that a layer has the same parts whatever it keeps, and
    the module it stands for, `whole`, which comes back when heads of zeros are put in.
    """

    def __init__(self, whole: Any) -> None:
        super().__init__()
        self.query, self.key, self.value = whole.query, whole.key, whole.value
        self.num_attention_heads, self.all_head_size = 0, 0
        self.attention_head_size = whole.attention_head_size
        self.whole = (whole,)  # in a tuple: no part of the module

    def forward(self, hidden_states: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, None]:
        """[..., hidden] → [..., 0], and no attention weights."""
        return self.value(hidden_states), None


def _smaller_layer(
    module: Any, kept: KeptLayer, units: Units | None, fold: torch.Tensor | None
) -> Any:
    small = copy.deepcopy(module)
    _cut_heads(small, kept.heads, None if fold is None else fold[kept.layer])
    there = _width(module)
    if kept.units is None or kept.units >= there:
        return small
    chosen = sorted(set((units or {}).get(kept.layer, ())))
    if len(chosen) != kept.units:
        raise ArgumentError(
            f"layer {kept.layer} keeps {kept.units} feed-forward units, but {len(chosen)} are named"
        )
    if chosen[0] < 0 or chosen[-1] >= there:
        wrong = chosen[0] if chosen[0] < 0 else chosen[-1]
        raise ArgumentError(
            f"layer {kept.layer} has no feed-forward unit {wrong}: its units are 0 to {there - 1}"
        )
    _cut_units(small, chosen)
    return small


def _check_fold(fold: torch.Tensor | None, modules: Any) -> None:
    attention = modules[0].attention.self
    width = int(attention.attention_head_size)
    shape = (len(modules), int(attention.num_attention_heads), width)
    if fold is not None and tuple(fold.shape) != shape:
        raise ArgumentError(
            f"mean head outputs of {tuple(fold.shape)} do not fit a model of {shape} (layers, heads, "
            "width); they were measured on another model"
        )


@torch.no_grad()
def _cut_heads(module: Any, heads: Sequence[int], fold: torch.Tensor | None) -> None:
    """Keep these heads of a layer; W_O times `fold` [heads, width] of the others goes to its bias."""
    attention, output = module.attention.self, module.attention.output
    count, width = int(attention.num_attention_heads), int(attention.attention_head_size)
    if len(heads) == count:
        return
    columns = output.dense.weight.unflatten(1, (count, width))
    if fold is not None:
        gone = [head for head in range(count) if head not in heads]
        added = torch.einsum("ohw,hw->o", columns[:, gone].double(), fold[gone].double())
        output.dense.bias += added.to(output.dense.bias.dtype)
    for name in ("query", "key", "value"):
        linear = getattr(attention, name)
        weight = linear.weight.unflatten(0, (count, width))[list(heads)].flatten(0, 1)
        bias = linear.bias.unflatten(0, (count, width))[list(heads)].flatten()
        setattr(attention, name, _linear(weight, bias))
    output.dense = _linear(columns[:, list(heads)].flatten(1), output.dense.bias)
    _count_heads(module, len(heads), width)


@torch.no_grad()
def _spread_heads(module: Any, heads: Sequence[int], count: int) -> None:
    """Put a layer's heads at their numbers among `count`, zeros between them."""
    attention, output = module.attention.self, module.attention.output
    width = int(attention.attention_head_size)
    rows = [head * width + place for head in heads for place in range(width)]
    for name in ("query", "key", "value"):
        linear = getattr(attention, name)
        weight = linear.weight.new_zeros(count * width, linear.in_features)
        bias = linear.bias.new_zeros(count * width)
        weight[rows], bias[rows] = linear.weight, linear.bias
        setattr(attention, name, _linear(weight, bias))
    columns = output.dense.weight.new_zeros(output.dense.out_features, count * width)
    columns[:, rows] = output.dense.weight
    output.dense = _linear(columns, output.dense.bias)
    _count_heads(module, count, width)


def _count_heads(module: Any, count: int, width: int) -> None:
    """Let the module know its number of heads; transformers' own cannot have none."""
    old = module.attention.self
    if count == 0:
        module.attention.self = Headless(old)
        return
    if isinstance(old, Headless):
        (whole,) = old.whole
        whole.query, whole.key, whole.value = old.query, old.key, old.value
        module.attention.self = old = whole
    old.num_attention_heads, old.all_head_size = count, count * width


@torch.no_grad()
def _cut_units(module: Any, units: Sequence[int]) -> None:
    """Keep these feed-forward units of a layer."""
    up, down = module.intermediate.dense, module.output.dense
    chosen = list(units)
    module.intermediate.dense = _linear(up.weight[chosen], up.bias[chosen])
    module.output.dense = _linear(down.weight[:, chosen], down.bias)


def _linear(weight: torch.Tensor, bias: torch.Tensor) -> nn.Linear:
    """A linear layer of these weights (copied), trainable."""
    made = nn.Linear(1, 1, device="meta")  # of no size, nn.Linear would warn that it draws nothing
    made.out_features, made.in_features = weight.shape
    made.weight = nn.Parameter(weight.detach().clone(memory_format=torch.contiguous_format))
    made.bias = nn.Parameter(bias.detach().clone())
    return made


def _described(model: Any, family: Family) -> Any:
    """`model` with a config that says how many layers it has, and units where all have as many."""
    modules = layers_of(model, family)
    model.config.num_hidden_layers = len(modules)
    widths = set(map(_width, modules))
    if len(widths) == 1:
        model.config.intermediate_size = widths.pop()
    for place, module in enumerate(modules):
        if hasattr(module.attention.self, "layer_idx"):
            module.attention.self.layer_idx = place
    return model


# Opening a folder whose layers have shapes of their own, which transformers cannot describe.


def open_kept(folder: Path, config: Any) -> KeptFile | None:
    """What the model of `folder` keeps of its teacher; None where it is no smaller model.

    Raises CheckpointError where `kept.json` is damaged or speaks of another shape than the config.
    """
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
    there = (config.num_hidden_layers, config.num_attention_heads)
    if there != (len(kept.layers), kept.teacher.heads):
        raise CheckpointError(
            f"{folder / KEPT} speaks of {len(kept.layers)} layers of {kept.teacher.heads} heads, "
            f"config.json of {there[0]} of {there[1]}; they belong to different models"
        )
    return kept


def load_kept(folder: Path, config: Any, family: Family, kept: KeptFile, attention: str) -> Any:
    """The classifier in float32, each layer in its stored shape.

    Raises CheckpointError where a weight is missing, unknown, or of another shape than `kept` says.
    """
    from safetensors.torch import load_file

    with no_init_weights():
        model = AutoModelForSequenceClassification.from_config(
            config, dtype=torch.float32, attn_implementation=attention
        )
    weight_shapes(folder)  # a truncated file is refused here
    state: dict[str, torch.Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        state |= {name: value.float() for name, value in load_file(path).items()}
    try:
        for module, one in zip(layers_of(model, family), kept.layers, strict=True):
            _cut_heads(module, one.heads, None)
            if one.units is not None:
                _cut_units(module, range(one.units))
        model.load_state_dict(state)
    except (RuntimeError, IndexError) as error:  # of a unit beyond the config's
        raise CheckpointError(
            f"{folder}: the weights do not fit {KEPT} ({error}); fetch the folder anew"
        ) from error
    return model
