"""An exported file, run without torch: scoring, comparison with stored logits, weights in eight bits.

As a module, `python -m qt_bert.planning.export_session MODEL.onnx CASES.npz` runs stored inputs and
prints how far each batch's logits lie from the stored ones, as JSON.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from qt_bert.data.tokenise import Counts, EncodedPair, PairTokenizer, length_batches, padded
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import sha256_file
from qt_bert.models.card import read_settings
from qt_bert.models.families import FAMILIES
from qt_bert.progress import Progress, silent
from qt_bert.results.plan import EXPORT, ExportFile, Int8Loss
from qt_bert.scoring.judge import TextScorer, check_finite, judge_logits
from qt_bert.stats.comparison import compare

if TYPE_CHECKING:  # it needs torch
    from qt_bert.planning.task import Sample

EXPORTING = ("onnx", "onnxscript", "onnxruntime")
RUNNING = ("onnxruntime",)


def need(packages: tuple[str, ...]) -> None:
    """Raise ArgumentError where one of `packages` is not installed."""
    missing = [name for name in packages if find_spec(name) is None]
    if missing:
        raise ArgumentError(f"ONNX needs {', '.join(missing)}: pip install 'qt-bert[export]'")


@contextmanager
def quietly() -> Iterator[None]:
    """Silence these packages, whose warnings users cannot act on."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.disable(disabled)


def open_session(path: Path, threads: int | None = None) -> Any:
    """An onnxruntime session on the CPU."""
    import onnxruntime

    threads_set = os.environ.get("OMP_NUM_THREADS", "")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads or (int(threads_set) if threads_set.isdecimal() else 0)
    options.log_severity_level = 3  # errors alone
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


def differences(session: Any, cases: Mapping[str, np.ndarray]) -> list[float]:
    """Largest difference of a logit by case; case 3 is `3/input_ids`, …, expected: `3/logits`."""
    names = [node.name for node in session.get_inputs()]
    differences: list[float] = []
    while f"{len(differences)}/logits" in cases:
        case = len(differences)
        (logits,) = session.run(None, {name: cases[f"{case}/{name}"] for name in names})
        differences.append(float(np.abs(logits - cases[f"{case}/logits"]).max()))
    return differences


MODEL, INT8_MODEL = "model.onnx", "model.int8.onnx"
TOKENIZER = "tokenizer.json"

BATCH_TOKENS = 1024
"""Tokens a run takes at most (one pair, if that is longer): small batches stay in cache."""

WINDOW = 8192
"""Pairs whose tokens are held in memory at a time."""


class OnnxScorer(TextScorer):
    """Scores pairs with a file of `qt-bert export`; `counts` has truncated texts.

    `path` is the folder, or one of its files (`model.onnx`, `model.int8.onnx`). Raises CheckpointError
    where the folder was not made by `qt-bert export`, or its files are damaged; ArgumentError where
    onnxruntime is not installed. `threads` defaults to OMP_NUM_THREADS, else to onnxruntime's choice.
    """

    left_out = None  # heads are a checkpoint's

    def __init__(
        self,
        path: str | Path,
        *,
        threads: int | None = None,
        max_length: int | None = None,
        model_grades: str | None = None,
    ) -> None:
        need(RUNNING)
        folder, file = _file_of(Path(path))
        self.file = file.name
        self.name = folder.name if file.name == MODEL else f"{folder.name}/{file.name}"
        self.export = _verified(folder, file)
        if max_length is not None and max_length > self.export.positions:
            raise ArgumentError(
                f"--max-length {max_length}: {self.name} has positions for {self.export.positions} tokens"
            )
        try:
            self.session = open_session(file, threads)
        except Exception as error:  # onnxruntime's errors have no common base
            raise CheckpointError(f"{file}: onnxruntime cannot open it ({error})") from error
        labels = int(self.session.get_outputs()[0].shape[1])
        settings = read_settings(folder, labels, self.export.positions, model_grades)
        self.settings = replace(settings, labels=settings.labels.ascending())
        tokenizer = _tokenizer(folder / TOKENIZER)
        causal = self.export.family in FAMILIES and FAMILIES[self.export.family].causal
        self.tokenizer = PairTokenizer(
            tokenizer,
            self.settings.max_length if max_length is None else max_length,
            last=self.export.pad if causal else None,
            template=self.settings.template,
        )
        self.counts = Counts()

    def describe(self) -> dict[str, Any]:
        """The file's facts; `exported` is the hash of the exported model."""
        return {
            "name": self.name,
            "sha256": self.export.sha256[self.file],
            "exported": self.export.model.sha256,
            "family": self.export.family,
            "dtype": "int8" if self.file == INT8_MODEL else "float32",
            "device": "cpu",
        }

    def identity(self) -> dict[str, str]:
        """The export, whose files were verified on opening, the file, what its outputs mean, and the length."""
        return {
            "model": repr(self.export),
            "file": self.file,
            "model_grades": repr(self.settings.labels),
            "max_length": str(self.tokenizer.max_length),
        }

    def logits(self, pairs: Sequence[tuple[str, str]], shown: Progress = silent) -> np.ndarray:
        """Float32 logits [pair, output] of (query, title) pairs, in their order."""
        out = np.empty((len(pairs), self.settings.labels.logits), np.float32)
        for rows, encoded in self._batches(pairs):
            out[rows] = self._run(encoded)
            shown.advance(len(rows))
        return check_finite(out, pairs, self.name)

    def _batches(
        self, pairs: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[np.ndarray, list[EncodedPair]]]:
        for start in range(0, len(pairs), WINDOW):
            encoded = self.tokenizer.encode(pairs[start : start + WINDOW], offsets=False)
            self.counts.add(encoded)
            for rows in length_batches([len(pair) for pair in encoded], BATCH_TOKENS):
                yield rows + start, [encoded[i] for i in rows]

    def _run(self, encoded: Sequence[EncodedPair]) -> np.ndarray:
        ids, types, real = padded(encoded, self.export.pad)
        for row, pair in zip(real, encoded, strict=True):
            if pair.at:  # an older graph reads the last token, which is this one
                row[pair.at + 1 :] = False
        inputs = {
            "input_ids": ids,
            "token_type_ids": types,
            "attention_mask": real.astype(np.int64),
        }
        try:
            (logits,) = self.session.run(None, {name: inputs[name] for name in self.export.inputs})
        except Exception as error:  # onnxruntime's errors have no common base
            raise CheckpointError(
                f"{self.name}: onnxruntime cannot run these pairs; a token without an embedding? ({error})"
            ) from error
        order = self.settings.labels.order
        return np.asarray(logits if order is None else logits[:, list(order)])


def _file_of(path: Path) -> tuple[Path, Path]:
    """The folder of an export, and the file that `path` names in it."""
    file = path / MODEL if path.is_dir() else path
    if not file.is_file() or not (file.parent / EXPORT).is_file():
        raise CheckpointError(
            f"{path}: no ONNX model of `qt-bert export`; give its folder, or {MODEL} or "
            f"{INT8_MODEL} in it, beside {EXPORT}"
        )
    return file.parent, file


def _verified(folder: Path, used: Path) -> ExportFile:
    export = ExportFile.read(folder / EXPORT)
    if used.name not in export.sha256:
        raise CheckpointError(f"{used}: not among the files of {EXPORT}; give one of these")
    for name, expected in export.sha256.items():
        file = folder / name
        if not file.is_file() or sha256_file(file) != expected:
            raise CheckpointError(
                f"{file}: missing, or its bytes differ from {EXPORT}; export the model again"
            )
    return export


def _tokenizer(file: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises bare Exception
        raise CheckpointError(f"{file}: the tokenizer cannot be opened ({error})") from error


METRICS = ("spearman", "qwk", "accuracy", "pairwise_accuracy")


def write_int8(exact: Path, path: Path) -> None:
    """Write the file at `exact` to `path` with weights of matrices and embeddings in eight bits: a scale for
    each column, activations scaled at run time (dynamic quantisation). Processors without VNNI add in 16
    bits, which may saturate: measure again there."""
    from onnxruntime.quantization import QuantType, quantize_dynamic

    with quietly():
        quantize_dynamic(exact, path, per_channel=True, weight_type=QuantType.QInt8)


def int8_loss(exact: OnnxScorer, short: OnnxScorer, graded: Sample) -> Int8Loss:
    """The paired change of the metrics on graded pairs, as `qt-bert compare` measures it.

    Raises ArgumentError where there are no pairs, or where labels and model do not fit.
    """
    pairs = graded.pairs
    if not pairs:
        raise ArgumentError(f"{graded.ref.name} holds no graded pair to measure --int8 on")
    logits = [scorer.logits(graded.texts) for scorer in (exact, short)]
    first, second = (judge_logits(values, pairs, exact.settings.labels) for values in logits)
    metrics = compare(first, second, metrics=METRICS, most_different=0).metrics
    return Int8Loss(
        pairs=graded.ref,
        metrics=metrics,
        largest=float(np.abs(logits[1] - logits[0]).max()),
    )


if __name__ == "__main__":
    with np.load(sys.argv[2]) as stored:
        print(json.dumps(differences(open_session(Path(sys.argv[1])), stored)))
