"""An exported file against torch: made-up batches of every size, run in a new process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from qt_bert.encoder import Checkpoint, Encoder
from qt_bert.errors import GuardError
from qt_bert.planning.export import replay
from qt_bert.results.export import CheckedCase, ExportCheck

BOUND = 1e-4
"""How far a logit may lie from torch's."""

SHORTEST, LENGTHS = 5, 5
"""Tokens of the shortest batch, [CLS] and two texts with their separators; and how many lengths."""

LONGEST = 512
"""Tokens that are tried at least: the attention of seven rows of 8,192 would take 30 GB and more."""

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


def check_export(checkpoint: Checkpoint, path: Path, *, seed: int = 0) -> ExportCheck:
    """Run the file at `path` in a new process and hold its logits against those of `checkpoint`.

    Raises GuardError where they differ by more than BOUND, or where the file does not run.
    """
    cases = made_up_cases(checkpoint, seed)
    found = _in_a_new_process(path, _with_logits(checkpoint, cases))
    check = ExportCheck(
        bound=BOUND,
        largest=float(np.max(found)),  # unlike Python's, NumPy's maximum keeps NaN
        cases=tuple(
            CheckedCase(
                rows=len(case.input_ids),
                length=case.input_ids.shape[1],
                padded=case.padded,
                difference=difference,
            )
            for case, difference in zip(cases, found, strict=True)
        ),
    )
    if not check.largest <= BOUND:
        worst = check.cases[int(np.argmax(found))]
        raise GuardError(
            f"the ONNX file of {checkpoint.name} differs from torch by {check.largest:.2g} in a "
            f"logit, at {worst.rows} rows of {worst.length} tokens; at most {BOUND:g} is allowed, "
            "so nothing was exported"
        )
    return check


def made_up_cases(checkpoint: Checkpoint, seed: int = 0) -> list[Case]:
    """Random tokens: one row, seven of one length, and seven with padding, from 5 tokens to the limit.

    The limit is that of the positions; where there are more than LONGEST, what the model is set to,
    or LONGEST. The padding token is none of the tokens: RoBERTa counts positions by it.
    """
    generator = np.random.default_rng(seed)
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
    types = (places >= lengths[:, None] // 2) & (checkpoint.model.config.type_vocab_size > 1)
    return Case(np.where(mask == 1, drawn, checkpoint.pad), types * mask, mask)


@torch.inference_mode()
def _with_logits(checkpoint: Checkpoint, cases: list[Case]) -> dict[str, np.ndarray]:
    """What `replay` reads: the inputs of every case, and the logits that torch gives."""
    encoder = Encoder(checkpoint.model, checkpoint.family)
    stored: dict[str, np.ndarray] = {}
    for number, case in enumerate(cases):
        inputs = vars(case)
        logits = encoder.logits(*(torch.from_numpy(one) for one in inputs.values()))
        stored |= {f"{number}/{name}": values for name, values in inputs.items()}
        stored[f"{number}/logits"] = logits.float().numpy()
    return stored


def _in_a_new_process(path: Path, stored: Mapping[str, np.ndarray]) -> list[float]:
    with tempfile.TemporaryDirectory() as work:
        cases = Path(work) / "cases.npz"
        np.savez(cases, **dict(stored))  # type: ignore[arg-type]
        ran = subprocess.run(
            [sys.executable, "-P", replay.__file__, path, cases],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
            capture_output=True,
            text=True,
        )
    if ran.returncode:
        reason = (ran.stderr.strip().splitlines() or [f"status {ran.returncode}"])[-1]
        raise GuardError(f"{path.name} does not run in onnxruntime: {reason}")
    return [float(one) for one in json.loads(ran.stdout)]
