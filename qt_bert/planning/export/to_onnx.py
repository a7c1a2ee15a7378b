"""From a checkpoint to an ONNX file: the graph traced once, for any batch and length."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from qt_bert.encoder import Checkpoint
from qt_bert.errors import CheckpointError
from qt_bert.planning.export.extra import quietly
from qt_bert.planning.export.graph import Graph

OPSET = 20
"""The oldest in which GELU is one operator; onnxruntime runs it since 1.17."""

LARGEST_FILE = 1_900_000_000
"""Bytes of weights that go into the file itself; protobuf ends at 2 GiB, and more go beside it."""

TRACED = (2, 8)
"""Rows and tokens of the batch that is traced; neither is fixed by it."""


def write_onnx(checkpoint: Checkpoint, path: Path) -> None:
    """Write the forward of `checkpoint` (float32) to `path`, with weights.

    Very large weights lie beside it in `NAME.data`. Raises CheckpointError where torch cannot trace
    the model.
    """
    length = torch.export.Dim("length", max=checkpoint.longest)
    dynamic = {0: torch.export.Dim("batch"), 1: length}
    rows, tokens = TRACED[0], min(TRACED[1], checkpoint.longest)
    names = input_names(checkpoint)
    # A tensor of its own for each: the tracer would take one tensor for one input.
    example = {name: torch.ones(rows, tokens, dtype=torch.long) for name in names}
    try:
        with quietly():
            program = torch.onnx.export(
                Graph(checkpoint).eval(),
                kwargs=example,
                input_names=list(names),
                output_names=["logits"],
                dynamic_shapes={name: dynamic for name in names},
                opset_version=OPSET,
                dynamo=True,
                verbose=False,
            )
    except torch.onnx.errors.OnnxExporterError as error:
        reason = str(error.__cause__ or error).strip().splitlines()[0]
        raise CheckpointError(
            f"{checkpoint.folder}: cannot be written as ONNX ({reason})"
        ) from error
    assert program is not None
    _tidy(program.model, checkpoint)
    program.save(path, external_data=weight_bytes(checkpoint) > LARGEST_FILE)


def input_names(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The graph's inputs; a model that knows one type of token alone is not asked for types."""
    types = int(getattr(checkpoint.model.config, "type_vocab_size", 0)) > 1
    return ("input_ids", *(("token_type_ids",) if types else ()), "attention_mask")


def weight_bytes(checkpoint: Checkpoint) -> int:
    """Bytes of all weights in float32."""
    return sum(4 * weight.numel() for weight in checkpoint.model.parameters())


def _tidy(model: Any, checkpoint: Checkpoint) -> None:
    """Take out what only the tracer needs: source lines and paths, and the shapes of inner values.

    The quantiser turns weights over and then stumbles on the old shapes.
    """
    nodes = list(model.graph.all_nodes())
    inner = [value for node in nodes for value in node.outputs if not value.is_graph_output()]
    inner += model.graph.initializers.values()
    for value in inner:
        value.shape = value.type = None
    for holder in (model, model.graph, *nodes, *inner, *model.graph.inputs, *model.graph.outputs):
        holder.metadata_props.clear()
        holder.doc_string = None
    model.metadata_props["model"] = checkpoint.name
    model.metadata_props["model_sha256"] = checkpoint.sha256
