"""The two arms that leave the pretrained encoder as it is: head untrained, and head trained."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from qt_bert.encoder import open_tokenizer
from qt_bert.pairs import Pair, PairTokenizer
from qt_bert.results.initialisations import SPLITS, Try
from qt_bert.training.finetune_batches import BatchLayout
from qt_bert.training.initialisations.frozen import Seen, TrainedHead, head_logits, see, train_head
from qt_bert.training.initialisations.job import LABELS, StudyJob
from qt_bert.training.initialisations.outputs import Outputs
from qt_bert.training.judged_on import reading
from qt_bert.training.labelled import training_set
from qt_bert.training.tuning_model import TuningModel


@dataclass
class FrozenArms:
    """Heads over one pretrained encoder, which sees every pair once, when first asked for it."""

    job: StudyJob
    splits: dict[str, list[Pair]]
    max_length: int
    rejects: Path
    _heads: dict[tuple[int, float | None], TrainedHead] = field(default_factory=dict)

    def run(self, seed: int, rate: float | None) -> Try:
        """The head trained from `seed` at `rate`, judged on discovery.

        Without a rate, the classifier stays as drawn from `seed`; the pooler too, where pretraining
        left none.
        """
        started = time.monotonic()
        head = self._head(seed, rate)
        found = reading(
            head_logits(head.opened, self._seen["discovery"].vectors),
            self.splits["discovery"],
            LABELS,
            self.job.metric,
        )
        return Try(
            arm="untrained" if rate is None else "frozen",
            seed=seed,
            rate=rate,
            discovery=None if found is None else found[0],
            step=head.step,
            steps=head.steps,
            seconds=round(time.monotonic() - started, 1),
        )

    def outputs(self, one: Try) -> Outputs:
        """Logits of a run on both splits; a head of an earlier process is trained again."""
        head = self._head(one.seed, one.rate)
        return {split: head_logits(head.opened, self._seen[split].vectors) for split in SPLITS}

    def _head(self, seed: int, rate: float | None) -> TrainedHead:
        if (seed, rate) not in self._heads:
            opened = TuningModel.open(self.job.base, LABELS.logits, {}, seed).eval()
            self._heads[seed, rate] = (
                TrainedHead(opened, 0, 0) if rate is None else self._trained(opened, seed, rate)
            )
        return self._heads[seed, rate]

    def _trained(self, opened: TuningModel, seed: int, rate: float) -> TrainedHead:
        return train_head(
            opened,
            self._seen["train"],
            self._seen["discovery"],
            self.splits["discovery"],
            rate=rate,
            seed=seed,
            metric=self.job.metric,
            settings=self.job.head,
        )

    @cached_property
    def _seen(self) -> dict[str, Seen]:
        opened = TuningModel.open(self.job.base, LABELS.logits, {}, 0).eval()
        tokenizer = open_tokenizer(self.job.base)
        layout = BatchLayout.of(
            opened.family, int(tokenizer.pad_token_id), self.max_length, self.job.tuning.slots
        )
        sources = {
            "train": list(self.job.sources),
            "discovery": [self.job.discovery],
            "validation": [self.job.validation],
        }
        return {
            name: see(
                opened,
                training_set(
                    read, PairTokenizer(tokenizer, self.max_length), LABELS, self.rejects
                ).examples,
                layout,
            )
            for name, read in sources.items()
        }
