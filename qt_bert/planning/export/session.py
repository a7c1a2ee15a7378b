"""Scoring with an exported file: texts in, logits out, with onnxruntime and without torch."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.encoder.card import read_settings
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import sha256_file
from qt_bert.pairs.batching import length_batches, padded
from qt_bert.pairs.counts import Counts
from qt_bert.pairs.tokenise import EncodedPair, PairTokenizer
from qt_bert.pairs.words import folder_is_of_words
from qt_bert.planning.export.extra import RUNNING, need
from qt_bert.planning.export.replay import open_session
from qt_bert.progress import Progress, silent
from qt_bert.results.export import EXPORT, ExportFile

MODEL, INT8_MODEL = "model.onnx", "model.int8.onnx"
TOKENIZER = "tokenizer.json"

BATCH_TOKENS = 1024
"""Tokens a run takes at most (one pair, if that is longer): small batches stay in cache."""

WINDOW = 8192
"""Pairs whose tokens are held in memory at a time."""


class OnnxScorer:
    """Scores pairs with a file of `qt-bert export`; counts what it had to truncate in `counts`.

    `path` is the folder, or one of its files (`model.onnx`, `model.int8.onnx`). Raises CheckpointError
    where the folder was not made by `qt-bert export`, or its files are damaged; ArgumentError where
    onnxruntime is not installed, or for a `max_length` beyond the model's positions.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        max_length: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
        threads: int | None = None,
    ) -> None:
        need(RUNNING)
        folder, file = _file_of(Path(path))
        self.name = folder.name if file.name == MODEL else f"{folder.name}/{file.name}"
        self.export = _verified(folder)
        longest = self.export.positions
        if max_length is not None and max_length > longest:
            raise ArgumentError(
                f"--max-length {max_length}: {self.name} has room for {longest} tokens"
            )
        self.session = _opened(file, threads)
        labels = int(self.session.get_outputs()[0].shape[1])
        self.settings = read_settings(folder, labels, longest)
        tokenizer = _tokenizer(folder / TOKENIZER)
        self.tokenizer = PairTokenizer(
            tokenizer,
            max_length or self.settings.max_length,
            words=folder_is_of_words(folder),
        )
        self.batch_tokens = batch_tokens
        self.counts = Counts()

    def fresh(self) -> OnnxScorer:
        """This scorer with counts of its own and everything else shared."""
        other = copy.copy(self)
        other.counts = Counts()
        return other

    def logits(self, pairs: Sequence[tuple[str, str]], shown: Progress = silent) -> np.ndarray:
        """Float32 logits [pair, output] of (query, title) pairs, in their order."""
        out = np.empty((len(pairs), self.settings.labels.logits), np.float32)
        for rows, encoded in self._batches(pairs):
            out[rows] = self._run(encoded)
            shown.advance(len(rows))
        return out

    def _batches(
        self, pairs: Sequence[tuple[str, str]]
    ) -> Iterator[tuple[np.ndarray, list[EncodedPair]]]:
        for start in range(0, len(pairs), WINDOW):
            encoded = self.tokenizer.encode(pairs[start : start + WINDOW], offsets=False)
            self.counts.add(encoded)
            for rows in length_batches([len(one) for one in encoded], self.batch_tokens):
                yield rows + start, [encoded[i] for i in rows]

    def _run(self, encoded: Sequence[EncodedPair]) -> np.ndarray:
        ids, types, real = padded(encoded, self.export.pad)
        given = {"input_ids": ids, "token_type_ids": types, "attention_mask": real.astype(np.int64)}
        (logits,) = self.session.run(None, {name: given[name] for name in self.export.inputs})
        return np.asarray(logits)


def _file_of(path: Path) -> tuple[Path, Path]:
    """The folder of an export, and the file in it that is meant."""
    file = path / MODEL if path.is_dir() else path
    if not file.is_file() or not (file.parent / EXPORT).is_file():
        raise CheckpointError(
            f"{path}: no ONNX model of `qt-bert export`; give its folder, or {MODEL} or "
            f"{INT8_MODEL} in it, beside {EXPORT}"
        )
    return file.parent, file


def _verified(folder: Path) -> ExportFile:
    export = ExportFile.read(folder)
    for name, expected in export.sha256.items():
        file = folder / name
        if not file.is_file() or sha256_file(file) != expected:
            raise CheckpointError(
                f"{file}: missing, or its bytes differ from {EXPORT}; export the model again"
            )
    return export


def _opened(file: Path, threads: int | None) -> Any:
    try:
        return open_session(file, threads)
    except Exception as error:  # onnxruntime's errors have no common base
        raise CheckpointError(f"{file}: onnxruntime cannot open it ({error})") from error


def _tokenizer(file: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(file))
    except Exception as error:  # tokenizers raises bare Exception
        raise CheckpointError(f"{file}: the tokenizer cannot be opened ({error})") from error
