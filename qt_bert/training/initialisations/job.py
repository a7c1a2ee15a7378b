"""What the initialisation study is asked to do."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from qt_bert.encoder import ModelLabels
from qt_bert.encoder.manifest import weights_sha256
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.pairs import GRADES, Pair
from qt_bert.training.finetune import TuneSettings, check_settings
from qt_bert.training.judged_on import check_metric
from qt_bert.training.sources import PairSource

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


def check_job(job: StudyJob) -> None:
    """Raise ArgumentError for what cannot be meant."""
    check_metric(job.metric)
    check_settings(job.tuning)
    for name, values in (("--lr", job.rates), ("seeds", job.seeds)):
        if not values or len(set(values)) < len(values):
            raise ArgumentError(f"{name}: give one or more values, each once; not {list(values)}")
    for rate in (*job.rates, *job.head.rates):
        if not 0 < rate < 1:
            raise ArgumentError(f"--lr {rate}: give rates between 0 and 1, such as 6e-4")
    if min(job.seeds) < 0:
        raise ArgumentError(f"seed {min(job.seeds)}: give 0 or more")
    if min(job.head.passes, job.head.pairs, job.head.readings) < 1:
        raise ArgumentError(f"{job.head}: passes, pairs and readings are 1 or more")
    if bad := next((one for one in job.sources if one.auxiliary or one.unlabelled), None):
        raise ArgumentError(f"{bad.file}: the study trains on graded pairs alone")


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
