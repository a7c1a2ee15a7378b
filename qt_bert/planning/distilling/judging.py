"""Finished students, judged: logits kept beside the runs, metrics from them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from qt_bert.encoder import open_checkpoint
from qt_bert.evaluation import METRICS, Judgements
from qt_bert.files import atomic_write, sha256_file
from qt_bert.pairs import Pair
from qt_bert.planning.distilling.paired import JUDGED
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import judge_logits
from qt_bert.training.sources import PairSource

SHOWN = (*JUDGED, "accuracy")
"""The metrics that are told of every run."""


@dataclass(frozen=True)
class JudgedOn:
    """Graded pairs that all students are judged on; `name` is `dev` or `validation`."""

    name: str
    file: Path
    pairs: list[Pair]

    @classmethod
    def read(cls, name: str, source: PairSource, levels: int | None) -> JudgedOn:
        """The pairs of `source`. Raises PairFileError as it does."""
        return cls(name, source.file, source.read(levels=levels, labelled=True))

    @property
    def ref(self) -> PairsRef:
        """The file's name and hash."""
        return PairsRef(name=self.file.name, sha256=sha256_file(self.file))

    def judge(self, model: Path, kept_in: Path | None = None) -> Judgements:
        """What the model in the folder `model` gives in float32; its logits go to `kept_in`."""
        checkpoint = open_checkpoint(model, compact=True)
        logits = Scorer(checkpoint).logits([(p.query, p.title) for p in self.pairs])
        if kept_in is not None:
            with atomic_write(kept_in) as temporary, open(temporary, "wb") as handle:
                np.save(handle, logits)
        return judge_logits(logits, self.pairs, checkpoint.settings.labels)


def metrics_of(judged: Judgements) -> dict[str, float | None]:
    """Metric → its value; None where it is not defined."""
    return {name: METRICS[name].value(judged) for name in SHOWN}
