"""All models of the table, tuned by the recipe, each at the learning rate that suits it.

A rate that suits one architecture may not suit another, so each is tried at the same few in short
runs, and the one that is best on the recipe's dev file is taken.
"""

from __future__ import annotations

import math
import shutil
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.results.baselines import RateTrial
from qt_bert.study.baselines.folder import Arrays, BaselinesFolder
from qt_bert.study.baselines.job import ENTRIES, BaselinesJob, Entry
from qt_bert.study.baselines.pretraining import Said


@dataclass(frozen=True)
class Tuned:
    """A tuned model: the facts of its folder, its learning rate, and the rates tried for it."""

    entry: Entry
    facts: dict[str, Any]
    rate: float
    tried: tuple[RateTrial, ...]


@dataclass(frozen=True)
class Tuning:
    """Tunes the rows of a table into its folder; what is there already is taken as it is."""

    job: BaselinesJob
    folder: BaselinesFolder
    said: Said

    def rows(self) -> dict[str, Tuned]:
        """Every row by its name, from where it was killed."""
        found: dict[str, Tuned] = {}
        for entry in ENTRIES:
            tried = self._tried(entry)
            rate = self._rate(entry, tried, found)
            found[entry.name] = Tuned(entry, self._tune(entry, rate), rate, tried)
        return found

    def _rate(self, entry: Entry, tried: tuple[RateTrial, ...], found: dict[str, Tuned]) -> float:
        """The best of those tried (the first among equals), or another row's, or the recipe's own."""
        if not self.job.trials.rates:
            return self.job.tune_settings(entry).lr
        if entry.rate_of is not None:
            return found[entry.rate_of].rate
        return max(tried, key=self._merit).rate

    def _merit(self, one: RateTrial) -> float:
        from qt_bert.training.judged_on import merit_of

        metric = self.job.train_job(ENTRIES[0], self.job.base).stop_on
        return -math.inf if one.reached is None else merit_of(one.reached, metric)

    def _tune(self, entry: Entry, rate: float) -> dict[str, Any]:
        from qt_bert.training.run_train import run_train

        self.said(f"tuning: {entry.name} at {rate:g}")
        settings = replace(self.job.tune_settings(entry), lr=rate)
        job, out = self.job.train_job(entry, self._base(entry)), self.folder.model(entry.name)
        return run_train(job, out, settings, resume=True)

    def _tried(self, entry: Entry) -> tuple[RateTrial, ...]:
        """What a short run at each rate reaches; none for a row that shares another's rate."""
        if entry.rate_of is not None:
            return ()
        return tuple(self._trial(entry, rate) for rate in self.job.trials.rates)

    def _trial(self, entry: Entry, rate: float) -> RateTrial:
        """A short run, judged at its end; its model is thrown away."""
        from qt_bert.encoder.manifest import weights_sha256
        from qt_bert.training.run_train import run_train
        from qt_bert.training.workspace import workspace_of

        base, name = self._base(entry), f"{entry.name}-{rate:g}"
        settings = replace(
            self.job.tune_settings(entry), lr=rate, max_steps=self.job.trials.steps, evaluations=1
        )
        out = self.folder.trial(name)

        def reached() -> Arrays:
            self.said(f"trial: {entry.name} at {rate:g}")
            best = run_train(self.job.train_job(entry, base), out, settings, resume=True)["best"]
            return {"reached": np.array(math.nan if best is None else best)}

        key = {"settings": asdict(settings), "base": weights_sha256(base)}
        found = float(self.folder.measured(f"trial-{name}", key, reached)["reached"])
        for made in (out, workspace_of(out)):
            shutil.rmtree(made, ignore_errors=True)
        return RateTrial(rate=rate, reached=None if math.isnan(found) else found)

    def _base(self, entry: Entry) -> Path:
        return self.job.base if entry.start is None else self.folder.pretraining(entry.start)
