"""What a worker needs to sweep shards as the driver would: handed out with the hashes of it all."""

from __future__ import annotations

import hashlib
import json
import pickle
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch

from qt_bert.ablation.folder import MEANS, PAIRS, differing
from qt_bert.ablation.means import read_means
from qt_bert.ablation.pair_table import read_pairs, spell_grades
from qt_bert.ablation.run_sweep import SweepInputs, pairs_sha256
from qt_bert.ablation.variant import Variant, with_plain
from qt_bert.encoder import open_checkpoint
from qt_bert.encoder.kernel_caches import STREAM, bound_kernel_caches
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.pairs import GradeSet, Pair
from qt_bert.scale.places.copying import cache_of
from qt_bert.scale.places.naming import place_of
from qt_bert.scoring.bulk import Scorer


@dataclass(frozen=True, kw_only=True)
class SweepJob:
    """A sweep as a worker is given it; it can be pickled.

    `model` (a path, an address or a name of the hub) and `folder`, the sweep's, are seen by every
    machine; a model at an address is copied to `cache`, a folder of the machine. `variants` are
    pickled, with their mean contexts inside, whose hash is `means`. `key` is that of the sweep,
    which the worker makes anew from what it has; `pairs_sha256` is the hash of the `pairs.csv` that
    it reads.
    """

    model: str
    folder: str
    dtype: str
    max_length: int
    model_grades: str | None
    variants: bytes = field(repr=False)
    means: str | None
    pairs_sha256: str
    tokens: int
    resamples: int | None
    seed: int
    key: Mapping[str, str]
    cache: str | None = None

    @classmethod
    def of(
        cls,
        inputs: SweepInputs,
        folder: Path,
        *,
        model: str | None = None,
        cache: str | None = None,
    ) -> SweepJob:
        """The job of a sweep begun in `folder`.

        `model` is where every machine finds the checkpoint (default: where it was opened from).
        Raises ArgumentError for a model that was opened as small as it is stored; RunFolderError
        where `pairs.csv` does not hold the pairs.
        """
        checkpoint, means = inputs.scorer.checkpoint, inputs.means
        if checkpoint.compact:
            raise ArgumentError(
                f"{checkpoint.name}: shards are swept with heads of zeros where heads were pruned"
            )
        path = folder / PAIRS
        if pairs_sha256(read_pairs(path)) != inputs.key["pairs"]:
            raise RunFolderError(
                f"{path}: not the pairs of this sweep any more; start anew with --overwrite"
            )
        return cls(
            model=_for_all(model or str(checkpoint.folder)),
            folder=str(folder.resolve()),
            dtype=checkpoint.dtype,
            max_length=inputs.scorer.tokenizer.max_length,
            model_grades=_spelled(checkpoint.settings.labels.grades),
            variants=pickle.dumps(inputs.variants),
            means=None if means is None else means.sha256,
            pairs_sha256=sha256_file(path),
            tokens=inputs.budget,
            resamples=inputs.resamples,
            seed=inputs.seed,
            key=inputs.key,
            cache=cache,
        )

    @property
    def identity(self) -> str:
        """One hash for all that the logits depend on."""
        return hashlib.sha256(json.dumps(dict(self.key), sort_keys=True).encode()).hexdigest()

    def opened(self) -> SweepInputs:
        """The model, pairs and variants on this machine, torch on one thread for the whole process.

        Raises CheckpointError and OSError as opening the model does, and RunFolderError, naming what
        differs, where they are not those of the driver.
        """
        torch.set_num_threads(1)
        bound_kernel_caches(STREAM)
        checkpoint = open_checkpoint(
            self._model(), dtype=self.dtype, model_grades=self.model_grades, compact=False
        )
        scorer = Scorer(checkpoint, max_length=self.max_length)
        # Pickled by the driver of this very run, as everything is that reaches a worker.
        variants: list[Variant] = with_plain(pickle.loads(self.variants))
        inputs = SweepInputs(
            scorer, self._pairs(), variants, self.resamples, self.seed, self.tokens
        )
        self._check(inputs)
        return inputs

    def _model(self) -> str | Path:
        """The model's folder on this machine, or its name on the hub."""
        if "://" not in self.model:
            return self.model
        return place_of(self.model).local_copy(cache_of(self.cache))

    def _pairs(self) -> list[Pair]:
        path = Path(self.folder) / PAIRS
        if not path.is_file():
            raise RunFolderError(
                f"{platform.node()} does not see {path}; put the sweep's folder where every machine "
                "sees it under the same name"
            )
        if sha256_file(path) != self.pairs_sha256:
            raise RunFolderError(
                f"{path}: changed since the sweep was begun; start anew with --overwrite"
            )
        return read_pairs(path)

    def _check(self, inputs: SweepInputs) -> None:
        """Raise RunFolderError where this machine has something else than the driver."""
        other = differing(inputs.key, self.key)
        if other:
            named = ", ".join("version of this program" if n == "source" else n for n in other)
            raise RunFolderError(
                f"{platform.node()} has another {named} than the machine that began the sweep; "
                "give every machine the same, and go on with --resume"
            )
        if self.means is not None:
            self._check_means(inputs.variants)

    def _check_means(self, variants: list[Variant]) -> None:
        """The mean contexts that came with the variants are those that lie in the folder."""
        stored = read_means(Path(self.folder) / MEANS)
        came = [part.means for variant in variants for part in variant.parts]
        whole = all(m is None or torch.equal(m.vectors, stored.vectors) for m in came)
        if stored.sha256 != self.means or not whole:
            raise RunFolderError(
                f"{Path(self.folder) / MEANS}: not the mean contexts of this sweep; start anew with "
                "--overwrite"
            )


def _spelled(grades: tuple[GradeSet, ...] | None) -> str | None:
    """What the logits mean, as `--model-grades` says it."""
    if grades is None:
        return None
    return ",".join(f"{logit}={spell_grades(one)}" for logit, one in enumerate(grades))


def _for_all(model: str) -> str:
    """A local path from the root, for workers start in other folders; anything else as it is."""
    return str(Path(model).resolve()) if Path(model).exists() else model
