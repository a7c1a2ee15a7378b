"""Layers for an offline model that matches above its block: those of the base that stay, lifted.

In many models the terms of query and title are matched in the lowest layers, which an offline model
must run apart. So its upper layers start as chosen layers of the base, the ones that a plan keeps,
and its lower ones as layers that hand on what they get and learn from there (block expansion, Wu et
al. 2024, LLaMA Pro): before the first step the model is about the one that the plan keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from qt_bert.encoder.families import Family
from qt_bert.errors import ArgumentError


def listed_layers(text: str) -> list[int]:
    """The numbers in `0,1,4`. Raises ArgumentError where it is no such list."""
    try:
        return [int(one) for one in text.split(",")]
    except ValueError:
        raise ArgumentError(
            f"--layers-above {text!r}: give layers of the base, such as 0,1,4"
        ) from None


@torch.no_grad()
def lift_layers(model: Any, family: Family, lifted: Sequence[int], below: int) -> None:
    """Start the layers from `below` on as the layers `lifted` of the same model, in place.

    The layers under `below` keep their queries, keys, values and wider layers, and hand on what they
    get: what they would add is 0, and their norms restore mean and scale of the embeddings. Raises
    ArgumentError where there are not as many `lifted` as upper layers, or one is not the model's.
    """
    backbone = getattr(model, family.backbone)
    layers = backbone.encoder.layer
    _check(lifted, below, len(layers))
    states = [
        {name: tensor.clone() for name, tensor in layers[one].state_dict().items()}
        for one in lifted
    ]
    for layer, state in zip(layers[below:], states, strict=True):
        layer.load_state_dict(state)
    mean, scale = _spread(backbone)
    for layer in layers[:below]:
        for dense in (layer.attention.output.dense, layer.output.dense):
            dense.weight.zero_()
            dense.bias.zero_()
        for norm in (layer.attention.output.LayerNorm, layer.output.LayerNorm):
            norm.weight.fill_(scale)
            norm.bias.fill_(mean)


def _check(lifted: Sequence[int], below: int, layers: int) -> None:
    if len(lifted) != layers - below:
        raise ArgumentError(
            f"--layers-above names {len(lifted)} layers; above {below} of {layers} layers there "
            f"are {layers - below}"
        )
    unknown = [one for one in lifted if not 0 <= one < layers]
    if unknown:
        raise ArgumentError(f"--layers-above {unknown[0]}: the base has layers 0 to {layers - 1}")


def _spread(backbone: Any) -> tuple[float, float]:
    """Mean and standard deviation that the embeddings of a token have over their numbers.

    Their norm leaves z of mean 0 and variance 1, times its weight, plus its bias; some families
    project that. Taken for numbers of z that do not vary together.
    """
    norm = backbone.embeddings.LayerNorm
    project = getattr(backbone, "embeddings_project", None)
    if project is None:
        centre, variance = norm.bias, norm.weight.square()
    else:
        centre = project(norm.bias)
        variance = (project.weight * norm.weight).square().sum(1)
    total = variance.mean() + centre.var(correction=0)
    return float(centre.mean()), float(total.sqrt())
