"""What the study of word boundaries runs: texts, passes of three models, readings of their heads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from qt_bert.encoder import Checkpoint
from qt_bert.evaluation.arrays import BoolArray
from qt_bert.probes.common.base_model import open_base, random_like
from qt_bert.probes.common.other_seed import OtherSeed, other_seed
from qt_bert.probes.context import ProbeContext
from qt_bert.probes.word_ends.calibrate import Calibrated, calibrate
from qt_bert.probes.word_ends.judge import Judged, counts_of
from qt_bert.probes.word_ends.leaving_out import LeftOut, leave_out
from qt_bert.probes.word_ends.readers import Readers, read
from qt_bert.probes.word_ends.references import GOLD, PRECISE, partition_of
from qt_bert.probes.word_ends.texts import Texts, texts_of_gold, texts_of_pairs
from qt_bert.probes.word_ends.union import Union, random_unions, union_of
from qt_bert.probes.word_ends.weights import weights_of
from qt_bert.probes.word_ends.words import GRADED, PRETRAINED, RANDOM
from qt_bert.scoring.bulk import Scorer

QUICK_SHIFTS, FULL_SHIFTS = 20, 100
RANDOM_ORDERS = 20
QUICK_RANDOM, FULL_RANDOM = 1, 3
"""Draws of random weights, of which the best counts."""


@dataclass(frozen=True, eq=False)
class Study:
    """The heads of each model (by name), read on the same texts against one reference.

    `segmenter` is the partition that the reference rests on, where it is no gold file;
    `random_draws` counts the draws of random weights, of which `models` has the best.
    """

    reference: str
    segmenter: str
    texts: Texts
    models: Mapping[str, Readers]
    resamples: int
    seed: int
    shifts: int
    random_draws: int

    @property
    def graded(self) -> Readers:
        return self.models[GRADED]

    @property
    def truth(self) -> BoolArray:
        """Where words end in the validation texts [D]."""
        return self.texts.truth[self.reference]

    def judged(self, said: BoolArray) -> Judged:
        """Decisions on validation [D] against the reference."""
        counts = counts_of(said, self.truth, self.texts.validation)
        return Judged(counts, self.resamples, self.seed)

    def best(self, model: str) -> Judged:
        """The best head of a model."""
        readers = self.models[model]
        return self.judged(readers.said[readers.best])

    @cached_property
    def union(self) -> Union:
        """The union on validation, heads in their order on discovery."""
        return self._union(self.graded.said)

    @cached_property
    def union_by_rule(self) -> Union:
        """The same with the article's rule instead of readings."""
        return self._union(self.graded.by_rule)

    @cached_property
    def k(self) -> int:
        """The number of heads at which the union is furthest above chance on discovery."""
        known, texts = self.graded.known_said, self.texts
        labels = texts.known[self.reference]
        return union_of(known, labels, texts.discovery, self.graded.order, seed=self.seed).best_k

    @cached_property
    def random_union(self) -> list[float]:
        """U(k) by k from 0, of heads in random order."""
        readers, decisions = self.graded, self.texts.validation
        return random_unions(
            readers.said, self.truth, decisions, readers.order, RANDOM_ORDERS, self.seed
        ).tolist()

    def _union(self, said: BoolArray) -> Union:
        decisions, order = self.texts.validation, self.graded.order
        return union_of(said, self.truth, decisions, order, seed=self.seed)


@dataclass(frozen=True, eq=False)
class Studies:
    """The study against the segmenter, that against a gold file, and the effect of the named heads.

    `second`: the heads of a model tuned with another seed, read on discovery, where one was given.
    """

    main: Study
    gold: Study | None
    left_out: LeftOut | None
    second: OtherSeed[Calibrated] | None = None


def studies(context: ProbeContext) -> Studies:
    """Read every head of every model there is, then leave the best named ones out."""
    texts = {PRECISE: texts_of_pairs(context)}
    if context.gold is not None:
        texts[GOLD] = texts_of_gold(context)
    shifts = context.choose(QUICK_SHIFTS, FULL_SHIFTS)
    found = _read_models(context, texts, shifts)
    made = {
        reference: Study(
            reference=reference,
            segmenter=partition_of(context),
            texts=one,
            models=found[reference],
            resamples=context.resamples,
            seed=context.seed,
            shifts=shifts,
            random_draws=_random_draws(context),
        )
        for reference, one in texts.items()
    }
    named = made[PRECISE].graded.calibrated.named.heads()
    return Studies(
        made[PRECISE],
        made.get(GOLD),
        leave_out(named, context) if named else None,
        other_seed(context, lambda scorer: _scored(scorer, texts[PRECISE], context)),
    )


def _scored(scorer: Scorer, texts: Texts, context: ProbeContext) -> Calibrated:
    """Another model's heads on discovery: their scores alone, so that nothing need be shifted."""
    known = texts.discovery
    with context.progress(len(known.pairs), "pairs") as shown:
        weights = weights_of(scorer, known, shown)
    return calibrate(weights, known, texts.known[PRECISE], shifts=0, seed=context.seed)


def _read_models(
    context: ProbeContext, texts: Mapping[str, Texts], shifts: int
) -> dict[str, dict[str, Readers]]:
    """Every model against every reference; of several random ones the best on discovery."""
    found: dict[str, dict[str, Readers]] = {reference: {} for reference in texts}
    for name in (GRADED, PRETRAINED, RANDOM):
        for scorer in _scorers(name, context):
            for reference, one in texts.items():
                passes = len(one.discovery.pairs) + len(one.validation.pairs)
                with context.progress(passes, "pairs") as shown:
                    readers = read(
                        scorer, one, reference, shifts=shifts, seed=context.seed, shown=shown
                    )
                best = found[reference].setdefault(name, readers)
                found[reference][name] = max(best, readers, key=lambda each: each.reached)
    return found


def _scorers(name: str, context: ProbeContext) -> Iterator[Scorer]:
    """The model by its name; several of random weights under --full, none without a base."""
    tuned = context.model
    if name == GRADED:
        yield tuned
    elif name == RANDOM:
        for draw in range(_random_draws(context)):
            yield _like(tuned, random_like(tuned.checkpoint, context.seed + draw))
    elif context.base is not None:
        yield _like(tuned, open_base(context.base, tuned.checkpoint))


def _random_draws(context: ProbeContext) -> int:
    return context.choose(QUICK_RANDOM, FULL_RANDOM)


def _like(tuned: Scorer, other: Checkpoint) -> Scorer:
    return Scorer(other, max_length=tuned.tokenizer.max_length)
