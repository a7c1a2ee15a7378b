"""What the initialisation study is asked to do, and what one run leaves."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from experiments.initialisations.record import SPLITS, Try
from qt_bert.codec import encode, read_result
from qt_bert.data.pairs import GRADES, Pair
from qt_bert.errors import PairFileError
from qt_bert.files import atomic_write, write_json
from qt_bert.models.card import ModelLabels
from qt_bert.models.folder import weights_sha256
from qt_bert.training.finetune import TuneSettings
from qt_bert.training.recipes import PairSource

LABELS = ModelLabels(len(GRADES), tuple((grade,) for grade in GRADES))
"""Every arm is a classifier of the five grades."""


@dataclass(frozen=True)
class HeadSettings:
    """How a head is trained on vectors that were computed once: `passes` over the pairs, `pairs` a
    step, the best of `rates` by discovery; judged `readings` times."""

    passes: int = 30
    pairs: int = 128
    rates: tuple[float, ...] = (1e-3, 3e-3, 1e-2)
    readings: int = 15


RATES = (7e-5, 2e-4, 6e-4)
RECIPE = TuneSettings(evaluations=2, patience=0, save_every=50)
"""How both fine-tuned arms are tuned: three passes, as in the source."""


@dataclass(frozen=True)
class StudyJob:
    """The pretrained model, the pairs, and the recipe.

    `rates` are tried on the first seed of each fine-tuned arm; the best one by `metric` on
    `discovery` is run with all `seeds`. `validation` is only scored by final models.
    """

    base: Path
    sources: tuple[PairSource, ...]
    discovery: PairSource
    validation: PairSource
    tuning: TuneSettings = RECIPE
    head: HeadSettings = HeadSettings()
    rates: tuple[float, ...] = RATES
    seeds: tuple[int, ...] = (0, 1, 2)
    max_length: int | None = None
    metric: str = "qwk"

    @property
    def asked(self) -> dict[str, Any]:
        """All that the figures depend on, as plain values."""
        return {
            "base": weights_sha256(self.base),
            "sources": [source.options_key for source in self.sources],
            "discovery": self.discovery.options_key,
            "validation": self.validation.options_key,
            "tuning": asdict(self.tuning),
            "head": asdict(self.head),
            "rates": self.rates,
            "seeds": self.seeds,
            "max_length": self.max_length,
            "metric": self.metric,
        }


def read_splits(job: StudyJob) -> dict[str, list[Pair]]:
    """The graded pairs of discovery and validation.

    Raises PairFileError where a file has no graded pair, or where a query is trained on or stands
    in both.
    """
    read = {
        "discovery": job.discovery.read(labelled=True),
        "validation": job.validation.read(labelled=True),
    }
    for name, pairs in read.items():
        if not pairs:
            raise PairFileError(f"{getattr(job, name).file}: no graded pair to judge the arms on")
    queries = {name: {pair.query for pair in pairs} for name, pairs in read.items()}
    trained = {pair.query for source in job.sources for pair in source.read(labelled=True)}
    _apart(queries["discovery"], queries["validation"], job.validation.file, job.discovery.file)
    for name, found in queries.items():
        _apart(found, trained, getattr(job, name).file, "the training files")
    return read


def _apart(one: set[str], other: set[str], file: Path, of: object) -> None:
    if shared := one & other:
        raise PairFileError(
            f"{file}: {len(shared)} of its queries also stand in {of}; the arms are judged on "
            "queries they never saw, so leave them out of one"
        )


Outputs = dict[str, np.ndarray]
"""Logits [pairs, outputs] by split."""


class RunFiles:
    """The finished runs of a study, two files each in a folder: a run that is there is not run again."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def done(self, name: str) -> Try | None:
        """The facts of a finished run."""
        path = self.folder / f"{name}.json"
        return read_result(Try, path) if path.exists() else None

    def outputs(self, name: str) -> Outputs | None:
        """Its outputs, where they were stored."""
        path = self.folder / f"{name}.npz"
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as stored:
            return {split: stored[split] for split in SPLITS}

    def store(self, name: str, facts: Try) -> Try:
        """Keep the facts of a run."""
        write_json(self.folder / f"{name}.json", encode(facts))
        return facts

    def store_outputs(self, name: str, outputs: Outputs) -> Outputs:
        """Keep the outputs of a run."""
        path = self.folder / f"{name}.npz"
        with atomic_write(path) as temporary, open(temporary, "wb") as handle:
            np.savez_compressed(handle, **outputs)  # type: ignore[arg-type]
        return outputs
