"""What the table is made of: its rows, and what a recipe says of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qt_bert.errors import ArgumentError
from qt_bert.pairs import GRADES
from qt_bert.probes.split import PairFiles, Split
from qt_bert.results.baselines import (
    BERT_LSTM,
    CHARACTERS,
    CROSS_ENCODER,
    LSTM,
    LSTM_WORDS,
    NO_PAIRS,
    TWO_TOWER,
    WORDS,
)

if TYPE_CHECKING:
    from qt_bert.training.finetune import TuneSettings
    from qt_bert.training.pretrain import PretrainSettings
    from qt_bert.training.recipes import Recipe
    from qt_bert.training.run_pretrain import NewShape
    from qt_bert.training.run_train import TrainJob

COMMONEST_WORDS = 20_000
HALVES = ("discovery", "validation")


@dataclass(frozen=True, slots=True)
class Start:
    """A pretraining anew: with a vocabulary of so many words or none, with the pair objective or not."""

    name: str
    words: int | None = None
    pair_objective: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: its architecture, and the pretraining it starts from (or takes its tokenizer from);
    None is the pretrained model of hours."""

    name: str
    architecture: str
    start: str | None = None


STARTS = (
    Start(CHARACTERS),
    Start(WORDS, words=COMMONEST_WORDS),
    Start(NO_PAIRS, pair_objective=False),
)
ENTRIES = (
    Entry(CROSS_ENCODER, CROSS_ENCODER),
    Entry(CHARACTERS, CROSS_ENCODER, CHARACTERS),
    Entry(WORDS, CROSS_ENCODER, WORDS),
    Entry(NO_PAIRS, CROSS_ENCODER, NO_PAIRS),
    Entry(LSTM, LSTM),
    Entry(LSTM_WORDS, LSTM, WORDS),
    Entry(TWO_TOWER, TWO_TOWER),
    Entry(BERT_LSTM, BERT_LSTM),
)
"""All models but the lexical one."""


@dataclass(frozen=True)
class BaselinesJob:
    """One table: the pretrained model that `CROSS_ENCODER` and others start from, the recipe, and the
    pairs that figures are taken of and heads are chosen on, halved as a run halves them.

    `words` is the size of the word model's vocabulary. `shape` of the new models.
    """

    base: Path
    recipe: Recipe
    files: PairFiles
    shape: NewShape
    words: int = COMMONEST_WORDS

    @cached_property
    def halves(self) -> Split:
        """The pairs with five grades: those to choose on, and those that give the figures."""
        from qt_bert.encoder import ModelLabels

        return self.files.read(ModelLabels(len(GRADES), tuple((grade,) for grade in GRADES)))

    @property
    def pretraining(self) -> Recipe:
        """The recipe's table of that name. Raises ArgumentError where it has none."""
        found = self.recipe.pretraining
        if found is None or not found.text:
            raise ArgumentError(
                f"{self.recipe.where}: no [pretraining] with `text`; see "
                "benchmarks/recipes/baselines.toml"
            )
        return found

    def pretrain_settings(self, start: Start) -> PretrainSettings:
        """Settings of a pretraining: the recipe's, and those it has for this one alone."""
        from qt_bert.training.pretrain import PretrainSettings
        from qt_bert.training.pretrain_batches import BatchShape
        from qt_bert.training.recipes import typed

        recipe = self.pretraining
        where = f"{recipe.where} settings"
        values = recipe.settings | recipe.models.get(start.name, {})
        if "steps" not in values:
            raise ArgumentError(f"{where}: how long? give `steps`")
        rows = values.pop("shape", {})
        values["shape"] = typed(BatchShape, rows, f"{where}.shape")
        values["pair_objective"] = start.pair_objective
        return typed(PretrainSettings, values, where)

    def tune_settings(self, entry: Entry) -> TuneSettings:
        """Settings of a tuning: the recipe's, and those it has for this model alone."""
        from qt_bert.training.finetune import TuneSettings
        from qt_bert.training.recipes import typed

        values = self.recipe.settings | self.recipe.models.get(entry.name, {})
        settings = typed(TuneSettings, values, f"{self.recipe.where} [settings]")
        if not settings.max_steps:
            raise ArgumentError(f"{self.recipe.where} [settings]: give `max_steps`, alike for all")
        return settings

    def train_job(self, entry: Entry, base: Path) -> TrainJob:
        """What a model is tuned on."""
        from qt_bert.training.recipes import typed
        from qt_bert.training.run_train import TrainJob

        values: dict[str, Any] = {
            **self.recipe.job,
            "base": base,
            "sources": tuple(self.recipe.pairs),
            "dev": self.recipe.dev,
            "architecture": entry.architecture,
        }
        return typed(TrainJob, values, f"{self.recipe.where} [job]")

    def asked(self) -> dict[str, Any]:
        """All that the table depends on besides the base and the files' content, as plain values."""
        return {
            "starts": {one.name: asdict(self.pretrain_settings(one)) for one in STARTS},
            "entries": {one.name: asdict(self.tune_settings(one)) for one in ENTRIES},
            "job": dict(self.recipe.job),
            "shape": asdict(self.shape),
            "words": self.words,
        }


def check_job(job: BaselinesJob) -> None:
    """Raise ArgumentError for a recipe that cannot be meant, before anything is trained."""
    if not job.recipe.pairs:
        raise ArgumentError(f"{job.recipe.where}: no [[pairs]] to tune on")
    if job.recipe.dev is None:
        raise ArgumentError(f"{job.recipe.where}: no [dev]; checkpoints are chosen on it")
    _known(job.recipe.models, [one.name for one in ENTRIES], f"{job.recipe.where} [models]")
    inner = job.pretraining
    _known(inner.models, [one.name for one in STARTS], f"{inner.where} [models]")
    job.asked()
    _no_shared_query(job)


def _known(tables: Mapping[str, Any], names: list[str], where: str) -> None:
    unknown = [name for name in tables if name not in names]
    if unknown:
        raise ArgumentError(f"{where}: no model {unknown[0]!r}; there are {', '.join(names)}")


def _no_shared_query(job: BaselinesJob) -> None:
    """Queries a model was trained on enter neither half."""
    held = {pair.query for half in HALVES for pair in getattr(job.halves, half)}
    for source in (*job.recipe.pairs, *job.pretraining.pairs):
        shared = sorted(held & {pair.query for pair in source.read()})
        if shared:
            raise ArgumentError(
                f"{source.file}: {len(shared)} of its queries are judged too, such as "
                f"{shared[0]!r}; name the files that are judged in its `exclude`"
            )
