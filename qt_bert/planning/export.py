"""`qt-bert export`: a classifier as ONNX or as a plain transformers folder, checked, or nothing."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification

from qt_bert.codec import decode
from qt_bert.errors import CheckpointError, EquivalenceError
from qt_bert.files import atomic_folder, check_apart, sha256_file
from qt_bert.models.checkpoint import Checkpoint, check_place, save_checkpoint
from qt_bert.models.folder import stored_bytes
from qt_bert.models.forward import Encoder
from qt_bert.models.loading import quietly as transformers_quietly
from qt_bert.models.pruned import is_plain, parameter_count, with_absent_heads, with_absent_units
from qt_bert.models.tokenizer import TYPES
from qt_bert.planning import export_session
from qt_bert.planning.export_session import (
    EXPORTING,
    INT8_MODEL,
    MODEL,
    OnnxScorer,
    int8_loss,
    need,
    quietly,
    write_int8,
)
from qt_bert.planning.prune import largest_difference
from qt_bert.planning.task import Sample
from qt_bert.results.evaluation import JudgedModel
from qt_bert.results.plan import EXPORT, CheckedCase, ExportCheck, ExportFile
from qt_bert.shipped import installed_versions


class Graph(nn.Module):
    """A checkpoint's forward as a module that torch can trace, for any batch and length: `input_ids`,
    `attention_mask`, `token_type_ids` (default: 0) [batch, length] → logits. Shares the checkpoint's
    weights."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__()
        self.model = checkpoint.model  # embeddings, norms and head are parts of it
        self.encoder = Encoder(checkpoint.model, checkpoint.family, laid_out=False)

    def forward(
        self,
        input_ids: torch.Tensor,
        attention_mask: torch.Tensor,
        token_type_ids: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits [batch, labels], float32; the mask is 1 at real tokens and 0 at padding behind them."""
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        return self.encoder.logits(input_ids, types, attention_mask)


OPSET = 20
"""The oldest in which GELU is one operator; onnxruntime runs it since 1.17."""

LARGEST_FILE = 1_900_000_000
"""Bytes of weights up to which they are in the file itself: protobuf files end at 2 GiB."""

TRACED = (2, 8)
"""Rows and tokens of the traced batch; both stay variable."""


def write_onnx(checkpoint: Checkpoint, path: Path) -> None:
    """Write the forward of `checkpoint` (float32) to `path`, weights over LARGEST_FILE beside it in
    `NAME.data`. Raises CheckpointError where torch cannot trace the model."""
    length = torch.export.Dim("length", max=checkpoint.longest)
    dynamic = {0: torch.export.Dim("batch"), 1: length}
    rows, tokens = TRACED[0], min(TRACED[1], checkpoint.longest)
    names = input_names(checkpoint)
    # On the CPU, where it will run. Distinct tensors: the tracer would merge inputs that share one.
    checkpoint = replace(checkpoint, model=copy.deepcopy(checkpoint.model).cpu())
    example = {name: torch.ones(rows, tokens, dtype=torch.long) for name in names}
    try:
        with quietly(), torch.no_grad():
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
    program.save(path, external_data=4 * parameter_count(checkpoint.model) > LARGEST_FILE)


def input_names(checkpoint: Checkpoint) -> tuple[str, ...]:
    """The graph's inputs; no `token_type_ids` for a model with one type of token, or that gets none."""
    known = int(getattr(checkpoint.model.config, "type_vocab_size", 0))
    sent = TYPES in checkpoint.tokenizer.model_input_names
    types = checkpoint.family.segments and known > 1 and sent
    return ("input_ids", *((TYPES,) if types else ()), "attention_mask")


def _tidy(model: Any, checkpoint: Checkpoint) -> None:
    """Remove what the tracer alone needs: source paths, and shapes that break the quantiser."""
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


BOUND = 1e-4
"""How far a logit may lie from torch's, as a share of the largest where that is above 1."""

SHORTEST, LENGTHS = 5, 5
"""Tokens of the shortest batch, [CLS] and two texts with their separators; and how many lengths."""

LONGEST = 512
"""Longest check of models with more positions: attention of seven rows of 8,192 takes over 30 GB."""

ROWS = 7


@dataclass(frozen=True, eq=False)
class Case:
    """Token ids and types [rows, length] and the mask, 1 at real tokens; all int64."""

    input_ids: np.ndarray
    token_type_ids: np.ndarray
    attention_mask: np.ndarray

    @property
    def padded(self) -> bool:
        """Whether some rows are shorter."""
        return not self.attention_mask.all()


def check_export(checkpoint: Checkpoint, path: Path) -> ExportCheck:
    """Run the file at `path` in a new process and compare its logits with those of `checkpoint`.

    Raises EquivalenceError where they differ by more than BOUND, or where the file does not run.
    """
    cases = made_up_cases(checkpoint)
    stored = _with_logits(checkpoint, cases)
    differences = _in_a_new_process(path, stored)
    check = ExportCheck(
        bound=BOUND * max(1.0, float(np.abs(_logits_of(stored)).max())),
        largest=float(np.max(differences)),  # unlike Python's, NumPy's maximum keeps NaN
        cases=tuple(
            CheckedCase(
                rows=len(case.input_ids),
                length=case.input_ids.shape[1],
                padded=case.padded,
                difference=difference,
            )
            for case, difference in zip(cases, differences, strict=True)
        ),
    )
    if not check.largest <= check.bound:
        worst = check.cases[int(np.argmax(differences))]
        raise EquivalenceError(
            f"the ONNX file of {checkpoint.name} differs from torch by {check.largest:.2g} in a "
            f"logit, at {worst.rows} rows of {worst.length} tokens; at most {check.bound:.2g} is allowed, "
            "so nothing was exported"
        )
    return check


def made_up_cases(checkpoint: Checkpoint) -> list[Case]:
    """Random tokens: one row, seven of one length, and seven with padding, from 5 tokens up to the number
    of positions, at most LONGEST or the model's `max_length`. The padding token does not occur as a token:
    RoBERTa counts positions by it.
    """
    generator = np.random.default_rng(0)
    shortest = min(SHORTEST, checkpoint.longest)
    longest = min(checkpoint.longest, max(LONGEST, checkpoint.settings.max_length))
    lengths = np.unique(np.geomspace(shortest, longest, LENGTHS).round().astype(int))
    cases = []
    for length in lengths.tolist():
        whole = np.full(ROWS, length)
        shorter = np.linspace(length, shortest, ROWS).round().astype(int)
        for rows in (whole[:1], whole, *([shorter] if length > shortest else [])):
            cases.append(_case(checkpoint, rows, generator))
    return cases


def _case(checkpoint: Checkpoint, lengths: np.ndarray, generator: np.random.Generator) -> Case:
    places = np.arange(lengths[0])
    mask = (places < lengths[:, None]).astype(np.int64)
    vocabulary = np.arange(checkpoint.model.config.vocab_size)
    drawn = generator.choice(vocabulary[vocabulary != checkpoint.pad], size=mask.shape)
    types = (places >= lengths[:, None] // 2) & (TYPES in input_names(checkpoint))
    return Case(np.where(mask == 1, drawn, checkpoint.pad), types * mask, mask)


@torch.inference_mode()
def _with_logits(checkpoint: Checkpoint, cases: list[Case]) -> dict[str, np.ndarray]:
    """The input of `differences`: the inputs of every case, and torch's logits."""
    encoder = Encoder(checkpoint.model, checkpoint.family)
    stored: dict[str, np.ndarray] = {}
    for number, case in enumerate(cases):
        inputs = vars(case)
        tensors = (torch.from_numpy(values).to(encoder.device) for values in inputs.values())
        logits = encoder.logits(*tensors)
        stored |= {f"{number}/{name}": values for name, values in inputs.items()}
        stored[f"{number}/logits"] = logits.float().cpu().numpy()
    return stored


def _logits_of(stored: Mapping[str, np.ndarray]) -> np.ndarray:
    """Torch's logits of all cases [rows, outputs]."""
    return np.concatenate([found for name, found in stored.items() if name.endswith("/logits")])


def _in_a_new_process(path: Path, stored: Mapping[str, np.ndarray]) -> list[float]:
    with tempfile.TemporaryDirectory() as work:
        cases = Path(work) / "cases.npz"
        np.savez(cases, **dict(stored))  # type: ignore[arg-type]
        process = subprocess.run(
            [sys.executable, "-P", "-m", export_session.__name__, path, cases],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
        )
    if process.returncode:
        reason = (process.stderr.strip().splitlines() or [f"status {process.returncode}"])[-1]
        raise EquivalenceError(f"{path.name} does not run in onnxruntime: {reason}")
    return [float(difference) for difference in json.loads(process.stdout)]


def check_ready(out: Path, overwrite: bool) -> None:
    """Raise RunFolderError (as `check_place`), or ArgumentError for a missing package."""
    need(EXPORTING)
    check_place(out, overwrite)


def export_onnx(
    checkpoint: Checkpoint,
    out: Path,
    *,
    int8_on: Sample | None = None,
    overwrite: bool = False,
) -> ExportFile:
    """Write `checkpoint` (opened in float32, compact) to the folder `out`, whole or not at all: the ONNX
    file, the tokenizer, `qt_bert.json`, `kept.json` of a smaller model and `export.json`; with `int8_on`
    also a file in eight bits, and its loss on these pairs.

    Raises as `check_ready`, `check_apart` and `int8_loss` do, and EquivalenceError where the file differs
    from torch.
    """
    check_ready(out, overwrite)
    check_apart(out, checkpoint.folder)
    with atomic_folder(out) as folder:
        write_onnx(checkpoint, folder / MODEL)
        check = check_export(checkpoint, folder / MODEL)
        checkpoint.tokenizer.save_pretrained(folder)
        checkpoint.settings.write(folder)
        if checkpoint.kept is not None:
            checkpoint.kept.write(folder)
        if int8_on is not None:
            write_int8(folder / MODEL, folder / INT8_MODEL)
        result = _export_file(checkpoint, folder, check)
        result.write(folder / EXPORT)
        if int8_on is not None:
            exact, short = (OnnxScorer(folder / name) for name in (MODEL, INT8_MODEL))
            result = replace(result, int8=int8_loss(exact, short, int8_on))
            result.write(folder / EXPORT)
    return result


def _export_file(checkpoint: Checkpoint, folder: Path, check: ExportCheck) -> ExportFile:
    return ExportFile(
        model=decode(JudgedModel, checkpoint.describe()),
        family=checkpoint.family.model_type,
        opset=OPSET,
        inputs=input_names(checkpoint),
        pad=checkpoint.pad,
        positions=checkpoint.longest,
        versions=installed_versions() | {name: version(name) for name in EXPORTING},
        sha256={file.name: sha256_file(file) for file in sorted(folder.iterdir())},
        check=check,
    )


PLAIN_BOUND = 1e-5
"""How far a logit may lie from the pruned model's, as a share of the largest where that is above 1."""


def export_transformers(
    checkpoint: Checkpoint, out: Path, *, overwrite: bool = False
) -> dict[str, Any]:
    """Write `checkpoint` (opened in float32, compact) to `out` as its family's own classifier, removed heads
    and feed-forward units as zeros, so that the config describes every layer.

    Returns the `folder`, bytes of the `weights` before and after, the largest `difference` of a logit.
    Raises CheckpointError for a weight that no config of its family has, EquivalenceError where
    transformers gives other logits, and as `check_place` and `check_apart` do.
    """
    check_place(out, overwrite)
    check_apart(out, checkpoint.folder)
    model = copy.deepcopy(checkpoint.model)
    if checkpoint.kept is not None:
        kept = checkpoint.kept
        with_absent_heads(model, checkpoint.family, kept.layers, kept.teacher.heads)
        with_absent_units(model, checkpoint.family)
    if not is_plain(model):
        raise CheckpointError(
            f"{checkpoint.name} has a weight that no config of a {checkpoint.family.model_type} has (the "
            "norm of the new lowest layer); export it as ONNX"
        )
    cases, names = made_up_cases(checkpoint), input_names(checkpoint)
    expected = _logits_of(_with_logits(checkpoint, cases))
    settings, like = checkpoint.settings, checkpoint.folder
    with atomic_folder(out) as folder:
        save_checkpoint(folder, model, checkpoint.tokenizer, settings=settings, like=like)
        with transformers_quietly(), torch.inference_mode():
            plain = AutoModelForSequenceClassification.from_pretrained(folder, dtype=torch.float32)
            inputs = ({n: torch.from_numpy(vars(case)[n]) for n in names} for case in cases)
            logits = torch.cat([plain.eval()(**tensors).logits for tensors in inputs]).numpy()
        difference, allowed = largest_difference(logits, expected, PLAIN_BOUND)
        if not difference <= allowed:
            raise EquivalenceError(
                f"transformers gives logits that differ by {difference:.2g} from those of "
                f"{checkpoint.name}; nothing was written"
            )
        weights = stored_bytes(checkpoint.folder), stored_bytes(folder)
        return {"folder": str(out), "weights": weights, "difference": difference}
