"""The mean context of every head over a reference set: what a head mask of mode `mean` puts in."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from qt_bert.ablation.loop import sweep
from qt_bert.ablation.masks import MeanContexts
from qt_bert.ablation.reduction import Reduction, View
from qt_bert.ablation.variant import NONE
from qt_bert.encoder.batches import Batch
from qt_bert.encoder.forward import Encoder
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.files import atomic_write
from qt_bert.progress import Progress, silent

_TENSOR = "mean_contexts"


def mean_contexts(
    encoder: Encoder, batches: Iterable[Batch], shown: Progress = silent
) -> MeanContexts:
    """Each head's unmasked context, averaged over the real tokens of all pairs.

    The special tokens count too, and every token weighs alike, so a long pair weighs more than a
    short one. `shown` counts pairs. Raises ArgumentError where there is no pair.
    """
    layers = tuple(range(len(encoder.layers)))
    sums = Reduction("sums", "contexts", layers, _sums)
    counts = Reduction("counts", "hidden", layers[-1:], _counts, first_row=True)
    total: FloatArray = np.zeros(())
    tokens = 0.0
    for swept in sweep(encoder, batches, [NONE], [sums, counts], shown=shown):
        total = total + swept.reduced["sums"][0].sum(0, dtype=np.float64)
        tokens += swept.reduced["counts"].sum(dtype=np.float64)
    if not tokens:
        raise ArgumentError("mean contexts need at least one pair; the reference set has none")
    vectors = torch.from_numpy((total / tokens).astype(np.float32))
    return MeanContexts(_hash(vectors), vectors)


def _sums(view: View) -> torch.Tensor:
    """Sum over a pair's real tokens [B, heads, width]."""
    real = view.batch.real[:, None, :, None]
    return view.values.float().masked_fill(~real, 0).sum(2)


def _counts(view: View) -> torch.Tensor:
    return view.batch.real.sum(1)


def _hash(vectors: torch.Tensor) -> str:
    """SHA-256 of the values as little-endian float32, layer by layer."""
    return hashlib.sha256(vectors.numpy().astype("<f4").tobytes()).hexdigest()


def write_means(path: Path, means: MeanContexts) -> None:
    """Store mean contexts with their hash, as safetensors, atomically."""
    tensors = {_TENSOR: means.vectors.contiguous()}
    with atomic_write(path) as temporary:
        # One entry: safetensors orders several at random, and equal sweeps shall be equal files.
        save_file(tensors, temporary, metadata={"sha256": means.sha256})


def read_means(path: Path) -> MeanContexts:
    """The mean contexts that `write_means` stored.

    Raises RunFolderError where the file is missing, is something else, or is damaged.
    """
    try:
        with safe_open(path, "pt") as handle:
            stored = (handle.metadata() or {}).get("sha256")
            vectors = handle.get_tensor(_TENSOR)
    except (SafetensorError, OSError) as error:
        raise RunFolderError(
            f"{path}: no mean contexts can be read ({error}); run the sweep again with --overwrite"
        ) from error
    if stored != _hash(vectors):
        raise RunFolderError(
            f"{path}: the mean contexts do not have the hash they were stored with, so the file "
            "is damaged; run the sweep again with --overwrite"
        )
    return MeanContexts(stored, vectors)
