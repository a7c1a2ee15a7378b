"""What the table is made of: its rows, and what a recipe says of them."""

from __future__ import annotations

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
    """A pretraining anew: with words as tokens or characters, with the pair objective or not."""

    name: str
    of_words: bool = False
    pair_objective: bool = True


@dataclass(frozen=True, slots=True)
class Entry:
    """A row: its architecture, and the pretraining it starts from (or takes its tokenizer from);
    None is the pretrained model of hours. It shares the learning rate of the row `rate_of`, or has
    trials of its own."""

    name: str
    architecture: str
    start: str | None = None
    rate_of: str | None = None


@dataclass(frozen=True, slots=True)
class Growth:
    """A pretraining that begins with so many `layers`, for `steps`, and goes on with these stacked."""

    layers: int
    steps: int


@dataclass(frozen=True)
class Trials:
    """How a learning rate is chosen: short runs of so many `steps` at each of `rates`, the best by the
    recipe's metric on its dev file. Without rates the recipe's own `lr` is taken."""

    rates: tuple[float, ...] = ()
    steps: int = 0


STARTS = (
    Start(CHARACTERS),
    Start(WORDS, of_words=True),
    Start(NO_PAIRS, pair_objective=False),
)
ENTRIES = (
    Entry(CROSS_ENCODER, CROSS_ENCODER),
    Entry(CHARACTERS, CROSS_ENCODER, CHARACTERS, rate_of=CROSS_ENCODER),
    Entry(WORDS, CROSS_ENCODER, WORDS, rate_of=CROSS_ENCODER),
    Entry(NO_PAIRS, CROSS_ENCODER, NO_PAIRS, rate_of=CROSS_ENCODER),
    Entry(LSTM, LSTM),
    Entry(LSTM_WORDS, LSTM, WORDS),
    Entry(TWO_TOWER, TWO_TOWER),
    Entry(BERT_LSTM, BERT_LSTM),
)
"""All models but the lexical one; one whose rate another shares comes before it."""


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

        values, where = self._pretraining_values(start)
        values.pop("grown", None)
        if "steps" not in values:
            raise ArgumentError(f"{where}: how long? give `steps`")
        rows = values.pop("shape", {})
        values["shape"] = typed(BatchShape, rows, f"{where}.shape")
        values["pair_objective"] = start.pair_objective
        return typed(PretrainSettings, values, where)

    def growth(self, start: Start) -> Growth | None:
        """The table `grown` of these settings, where there is one.

        Raises ArgumentError for what cannot be stacked to the shape of the new models.
        """
        from qt_bert.training.recipes import typed

        values, where = self._pretraining_values(start)
        if "grown" not in values:
            return None
        found = typed(Growth, values["grown"], f"{where}.grown")
        if found.layers < 1 or found.steps < 1 or self.shape.layers % found.layers:
            raise ArgumentError(
                f"{where}.grown: {found.layers} layers for {found.steps} steps; at least one step, and "
                f"layers that {self.shape.layers} is a multiple of"
            )
        return found

    def _pretraining_values(self, start: Start) -> tuple[dict[str, Any], str]:
        """The settings of a pretraining as the recipe has them, and where they stand."""
        recipe = self.pretraining
        values = recipe.settings | recipe.models.get(start.name, {})
        return values, f"{recipe.where} settings"

    def tune_settings(self, entry: Entry) -> TuneSettings:
        """Settings of a tuning: the recipe's, and those it has for this model alone."""
        from qt_bert.training.finetune import TuneSettings
        from qt_bert.training.recipes import typed

        values = self.recipe.settings | self.recipe.models.get(entry.name, {})
        return typed(TuneSettings, values, f"{self.recipe.where} [settings]")

    @property
    def trials(self) -> Trials:
        """How rates are chosen. Raises ArgumentError for what cannot be meant."""
        from qt_bert.training.recipes import typed

        where = f"{self.recipe.where} [trials]"
        found = typed(Trials, self.recipe.trials, where)
        if found.rates and found.steps < 1:
            raise ArgumentError(f"{where}: how long is a trial? give `steps`")
        return found

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
            "growth": {
                one.name: None if (grown := self.growth(one)) is None else asdict(grown)
                for one in STARTS
            },
            "entries": {one.name: asdict(self.tune_settings(one)) for one in ENTRIES},
            "trials": asdict(self.trials),
            "job": dict(self.recipe.job),
            "shape": asdict(self.shape),
            "words": self.words,
        }
