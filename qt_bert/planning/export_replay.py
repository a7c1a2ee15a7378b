"""An ONNX file run alone: with onnxruntime and numpy, nothing of this package, and no torch.

As a script, `python replay.py MODEL.onnx CASES.npz` runs stored inputs and prints how far each
batch's logits lie from the stored ones, as JSON.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

SILENT = 3
"""onnxruntime's level for errors alone."""


def open_session(path: Path, threads: int | None = None) -> Any:
    """An onnxruntime session on the processor.

    `threads` defaults to OMP_NUM_THREADS, else to what onnxruntime chooses.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or _asked_threads()
    options.log_severity_level = SILENT
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def differences(session: Any, cases: Mapping[str, np.ndarray]) -> list[float]:
    """Largest difference of a logit in each case; case 3 has its inputs as `3/input_ids`, …, and
    the logits that are wanted as `3/logits`."""
    names = [one.name for one in session.get_inputs()]
    found: list[float] = []
    while f"{len(found)}/logits" in cases:
        case = len(found)
        (logits,) = session.run(None, {name: cases[f"{case}/{name}"] for name in names})
        found.append(float(np.abs(logits - cases[f"{case}/logits"]).max()))
    return found


def _asked_threads() -> int:
    asked = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdecimal() else 0


def main() -> None:
    """The script."""
    model, cases = map(Path, sys.argv[1:])
    with np.load(cases) as stored:
        print(json.dumps(differences(open_session(model), stored)))


if __name__ == "__main__":
    main()
