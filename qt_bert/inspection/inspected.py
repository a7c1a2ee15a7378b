"""One model, ready to be asked by many visitors at once."""

from __future__ import annotations

import threading
import time
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.engine import Reduction, Swept, batch_tokens, sweep
from qt_bert.ablation.explain import check_patches
from qt_bert.ablation.interventions import Intervention, MeanZ, Variant
from qt_bert.ablation.masks import INTERVENTIONS, MODES, HeadMask, Mode
from qt_bert.ablation.patches import donor_batches
from qt_bert.ablation.request import mean_z, without_intervention
from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.data.tokenise import EncodedPair, PairTokenizer
from qt_bert.errors import ArgumentError
from qt_bert.inspection.inputs import shipped_rows
from qt_bert.inspection.turns import SLICE_SECONDS, Job, Turns
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.heads import Head, checked_heads
from qt_bert.probes.streams import gathered, spelled
from qt_bert.progress import Progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Outputs, read_outputs

# Scorers for long work on a shared model: small batches, and other visitors between them.


class SmallBatches(Scorer):
    """A scorer that counts for itself, and whose batches have at most `most` tokens."""

    def __init__(self, scorer: Scorer, most: int) -> None:
        vars(self).update(vars(scorer.fresh()))
        self._most = most

    def batches(
        self, pairs: Sequence[tuple[str, str]], budget: int, *given: Any, **more: Any
    ) -> Iterator[Batch]:
        """As of any scorer, with a lower budget."""
        return super().batches(pairs, min(budget, self._most), *given, **more)


class _InTurns(SmallBatches):
    """Hands out each batch within a visitor's turn, which lasts until the next is asked for."""

    def __init__(self, scorer: Scorer, most: int, turns: Turns, held: ExitStack) -> None:
        super().__init__(scorer, most)
        self._turns, self._held = turns, held

    def batches(
        self, pairs: Sequence[tuple[str, str]], budget: int, *given: Any, **more: Any
    ) -> Iterator[Batch]:
        for batch in super().batches(pairs, budget, *given, **more):
            self._held.enter_context(self._turns.visit())
            yield batch
            self._held.close()


@contextmanager
def in_turns(scorer: Scorer, turns: Turns, most: int) -> Iterator[Scorer]:
    """`scorer`, running each batch of at most `most` tokens as a visitor's turn of its own.

    Whatever happens to the work in the block, it leaves no turn taken. The turns are those of the
    thread, so all of the block belongs to one.
    """
    with ExitStack() as held:
        yield _InTurns(scorer, most, turns, held)


# Pairs as tokens for many threads at once.


@dataclass(frozen=True, slots=True)
class ReadPair(EncodedPair):
    """An encoded pair with spans, and its texts."""

    query: str
    title: str

    @classmethod
    def of(cls, encoded: EncodedPair, query: str, title: str) -> ReadPair:
        """`encoded` with the texts that it was made of."""
        fields = {name: getattr(encoded, name) for name in EncodedPair.__slots__}
        return cls(**fields, query=query, title=title)


class LockedTokenizer(PairTokenizer):
    """A tokenizer that serves one thread at a time."""

    def __init__(self, tokenizer: Any, max_length: int) -> None:
        super().__init__(tokenizer, max_length)
        self._lock = threading.Lock()

    def encode(
        self, pairs: Sequence[tuple[str, str]], *, offsets: bool = True
    ) -> list[EncodedPair]:
        """As `PairTokenizer.encode`."""
        with self._lock:
            return super().encode(pairs, offsets=offsets)


# One model, ready to be asked by many visitors at once.


CHECK_TEXTS = (
    ("紫熨斗", "紫熨斗好用吗"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("怎么去除衣服上的油渍", "衣服沾了油怎么洗掉？三种办法，家里都有的东西就够了"),
)
"""Pairs of different lengths that the checks run on when a model is opened."""

TURN_TOKENS = 1024
"""Tokens, over all variants, that are run in one turn: some 0.2 s with the model that ships."""


@dataclass(frozen=True, eq=False)
class RunOutputs:
    """N pairs under V variants: `logits` float32 [V, N, K]; name of a reduction → [V, N, layers, …]."""

    logits: np.ndarray
    reduced: dict[str, np.ndarray]


class Inspected:
    """A model that visitors share; nothing a visitor asks for changes it.

    `classifies` is False for a model before fine-tuning: its classifier is made up, and grades mean
    nothing. `longest` is the number of tokens at which pairs are cut. `guards` are the figures of
    the check that leaving heads out works, made here, and again with the mean head outputs. What is
    kept of its answers is kept under `key`: models of the same weights may still differ in their
    labels, or in how they read a text. Raises EquivalenceError where a check fails.
    """

    def __init__(
        self, name: str, checkpoint: Checkpoint, turns: Turns, *, classifies: bool = True
    ) -> None:
        self.name = name
        self.turns = turns
        self.classifies = classifies
        self.scorer = Scorer(checkpoint)
        self.longest = self.scorer.tokenizer.max_length
        self.scorer.tokenizer = LockedTokenizer(checkpoint.tokenizer, self.longest)
        self.shape = checkpoint.shape
        self.labels: ModelLabels = checkpoint.settings.labels
        self.sha256 = checkpoint.sha256
        self.key: Hashable = (str(checkpoint.folder), self.sha256, self.labels, self.longest)
        self.segmenter: Segmenter = segmenter("jieba")
        self.guards: Mapping[str, Any] = self._checked("zero", "uniform")
        self._making = threading.Lock()
        self._made: MeanZ | None = None
        self._patched: Mapping[str, Any] | None = None

    def encode(self, query: str, title: str) -> ReadPair:
        """The tokens of a pair, with spans. Raises ArgumentError for a lone surrogate."""
        (one,) = self.scorer.tokenizer.encode([(query, title)])
        return ReadPair.of(one, query, title)

    def tokens(self, pair: ReadPair) -> tuple[str, ...]:
        """What each token spells: characters of its text, `[CLS]`, `[SEP]`."""
        return spelled(pair, pair.query, pair.title)

    def part(self, heads: Iterable[Head], mode: str) -> Intervention | None:
        """These heads left out, replaced as `mode` says (zero, uniform, mean); None for no heads.

        The mean head outputs, over the dev pairs that ship, are made once, when first asked for.
        Raises ArgumentError for another mode, and for heads that the model lacks.
        """
        if mode not in MODES:
            raise ArgumentError(f"mode {mode!r}: choose from {', '.join(MODES)}")
        listed = tuple(checked_heads(heads, self.shape))
        return INTERVENTIONS[mode](listed, self._means) if listed else None

    def run(
        self,
        texts: Sequence[tuple[str, str]],
        variants: Sequence[Variant],
        reductions: Sequence[Reduction] = (),
    ) -> RunOutputs:
        """The masked loop over (query, title) pairs, in turns short enough for other visitors.

        Raises ArgumentError for no texts or variants, and as `sweep` does.
        """
        return self.run_tokens(self.scorer.tokenizer.encode(texts), variants, reductions)

    def run_tokens(
        self,
        encoded: Sequence[EncodedPair],
        variants: Sequence[Variant],
        reductions: Sequence[Reduction] = (),
        *,
        donors: bool = False,
    ) -> RunOutputs:
        """`run` over pairs that are tokens already; `donors`: couples, as `donor_batches` takes them."""
        if not encoded or not variants:
            raise ArgumentError("nothing to run: no pairs, or no variants")
        batched = donor_batches if donors else batches_of
        batches = batched(encoded, batch_tokens(len(variants)), pad=self.scorer.pad)
        found = gathered(self._swept(batches, variants, reductions), len(encoded))
        return RunOutputs(found.pop("logits"), found)

    def checked_patches(self, couple: Sequence[EncodedPair]) -> Mapping[str, Any]:
        """The figures of the check that patches do what they say, made once, on the first `couple`."""
        with self.turns.visit():
            if self._patched is None:
                self._patched = check_patches(self.scorer, couple)
            return self._patched

    def outputs(self, logits: np.ndarray) -> Outputs:
        """What logits [N, K] say: probabilities, expected and predicted grade, or the score."""
        return read_outputs(logits, self.labels)

    def without(self, heads: Iterable[Head], mode: str) -> Scorer:
        """The model's scorer with heads left out, counting for itself; use it within a turn."""
        part = self.part(heads, mode)
        scorer = self.scorer
        return scorer.fresh() if part is None else without_intervention(scorer, part, self.guards)

    def graded(self, pair: ReadPair, heads: Iterable[Head], mode: str) -> Outputs:
        """A pair's grades without `heads`, computed as `qt-bert explain --heads-out` does it."""
        scorer = self.without(heads, mode)
        with self.turns.visit():
            return self.outputs(scorer.logits([(pair.query, pair.title)]))

    def _swept(
        self,
        batches: Iterable[Batch],
        variants: Sequence[Variant],
        reductions: Sequence[Reduction],
    ) -> Iterator[Swept]:
        for batch in batches:
            most = max(1, TURN_TOKENS // batch.input_ids.numel())
            found: list[Swept] = []
            for start in range(0, len(variants), most):
                with self.turns.visit():
                    some = variants[start : start + most]
                    found += sweep(self.scorer.encoder, [batch], some, reductions)
            yield _joined(found)

    def _means(self) -> MeanZ:
        """The mean head outputs that `--mode mean` has, made by the first who asks."""
        # Whoever has the turn must not wait for somebody who waits for the turn.
        with nullcontext() if self.turns.mine else self._making:
            if self._made is None:
                texts = [(pair.query, pair.title) for pair in shipped_rows("dev")]
                most = batch_tokens()  # that of the commands, so that the hash is theirs too
                with in_turns(self.scorer, self.turns, most) as scorer:
                    means = mean_z(scorer.encoder, scorer.batches(texts, most))
                checked = self._checked("mean", means=means)["variants"]
                self.guards = {**self.guards, "variants": {**self.guards["variants"], **checked}}
                self._made = means
            return self._made

    def _checked(self, *modes: Mode, means: MeanZ | None = None) -> dict[str, Any]:
        """The figures of the checks, with a head of every layer left out in each of `modes`."""
        heads = tuple(Head(layer, layer % self.shape.heads) for layer in range(self.shape.layers))
        variants = [Variant(mode, (HeadMask(heads, mode, means),)) for mode in modes]
        encoded = self.scorer.tokenizer.encode(CHECK_TEXTS, offsets=False)
        with self.turns.visit():
            return check_equivalence(self.scorer.checkpoint, self.scorer.encoder, variants, encoded)


def _joined(parts: Sequence[Swept]) -> Swept:
    """One batch whose variants were run a few at a time."""
    return Swept(
        parts[0].rows,
        np.concatenate([part.logits for part in parts]),
        {name: np.concatenate([part.reduced[name] for part in parts]) for name in parts[0].reduced},
    )


# Logits of many pairs in slices, each short enough that no visitor waits long for it.


_AIM = 0.6 * SLICE_SECONDS
"""Seconds by the clock, which is what a visitor waits; slices of the same work differ."""
_LEAST = 0.2 * SLICE_SECONDS
"""Seconds of the thread's own work. Where other programs keep the machine busy a slice takes longer
by the clock, and ever smaller ones would only make the waits between them most of the time."""
_GROWTH = 2


def sliced_logits(
    scorer: Scorer, texts: Sequence[tuple[str, str]], job: Job, shown: Progress = silent
) -> np.ndarray:
    """Float32 logits [pair, output] of (query, title) pairs, in their order.

    The first slice holds one pair, the others as many as fit into their time at the rate of the one
    before. The longest come first, so that pairs of one length share a slice and the rate does not
    fall. `shown` counts pairs. Raises Stopped.
    """
    lengths = np.array([len(query) + len(title) for query, title in texts])
    order = np.argsort(-lengths, kind="stable")
    logits = np.empty((len(texts), scorer.checkpoint.settings.labels.logits), np.float32)
    at, size = 0, 1
    while at < len(order):
        rows = order[at : at + size]
        with job.slice():
            began, worked = time.perf_counter(), time.thread_time()
            logits[rows] = scorer.logits([texts[row] for row in rows])
            seconds, work = time.perf_counter() - began, time.thread_time() - worked
        at += len(rows)
        size = next_size(len(rows), seconds, work)
        shown.advance(len(rows))
    return logits


def next_size(pairs: int, seconds: float, work: float) -> int:
    """Pairs of the next slice, after one of `pairs` took `seconds`, of which the thread worked `work`.

    As many as fit, but enough to be worth a slice; one at least, and at most twice as many as before.
    """
    fit, worth = (
        pairs * most / max(took, 1e-6) for most, took in ((_AIM, seconds), (_LEAST, work))
    )
    return max(1, min(int(max(fit, worth)), _GROWTH * pairs))
