"""One model, ready to be asked by many visitors at once."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
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
from qt_bert.inspection.work import Kept, SharedScorer, Worker
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.heads import Head, checked_heads
from qt_bert.probes.streams import gathered, spelled
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Outputs, read_outputs

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

LOCK_TOKENS = 1024
"""Tokens, over all variants, that are run under one lock: some 0.2 s with the model that ships."""


@dataclass(frozen=True, eq=False)
class RunOutputs:
    """N pairs under V variants: `logits` float32 [V, N, K]; name of a reduction → [V, N, layers, …]."""

    logits: np.ndarray
    reduced: dict[str, np.ndarray]


class Inspected:
    """A model that visitors share; nothing a visitor asks for changes it.

    `classifies` is False for a model before fine-tuning: its classifier is made up, and grades mean
    nothing. `longest` is the number of tokens at which pairs are cut. `guards` are the figures of
    the check that leaving heads out works, made here, and again with the mean head outputs. Pages keep
    their answers in `kept`. Raises EquivalenceError where a check fails.
    """

    def __init__(
        self, name: str, checkpoint: Checkpoint, worker: Worker, *, classifies: bool = True
    ) -> None:
        self.name = name
        self.worker, self.lock, self.kept = worker, worker.lock, Kept()
        self.classifies = classifies
        self.scorer = Scorer(checkpoint)
        self.longest = self.scorer.tokenizer.max_length
        self.scorer.tokenizer = LockedTokenizer(checkpoint.tokenizer, self.longest)
        self.shape = checkpoint.shape
        self.labels: ModelLabels = checkpoint.settings.labels
        self.sha256 = checkpoint.sha256
        self.segmenter: Segmenter = segmenter("jieba")
        self.guards: Mapping[str, Any] = self._checked("zero", "uniform")
        self.making = threading.RLock()
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
        with self.lock:
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
        with self.lock:
            return self.outputs(scorer.logits([(pair.query, pair.title)]))

    def job_scorer(self, heads: Iterable[Head] = (), mode: str = "zero") -> Scorer:
        """As `without`, for the thread of a job: it takes the lock itself, batch by batch."""
        return SharedScorer(self.without(heads, mode), self.lock, LOCK_TOKENS)

    def _swept(
        self,
        batches: Iterable[Batch],
        variants: Sequence[Variant],
        reductions: Sequence[Reduction],
    ) -> Iterator[Swept]:
        for batch in batches:
            most = max(1, LOCK_TOKENS // batch.input_ids.numel())
            found: list[Swept] = []
            for start in range(0, len(variants), most):
                with self.lock:
                    some = variants[start : start + most]
                    found += sweep(self.scorer.encoder, [batch], some, reductions)
            yield _joined(found)

    def _means(self) -> MeanZ:
        """The mean head outputs that `--mode mean` has, made by the first who asks."""
        # Whoever holds the lock must not wait for somebody who waits for it.
        with nullcontext() if self.lock.mine else self.making:
            if self._made is None:
                texts = [(pair.query, pair.title) for pair in shipped_rows("dev")]
                most = batch_tokens()  # that of the commands, so that the hash is theirs too
                scorer = SharedScorer(self.scorer, self.lock, most)
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
        with self.lock:
            return check_equivalence(self.scorer.checkpoint, self.scorer.encoder, variants, encoded)


def _joined(parts: Sequence[Swept]) -> Swept:
    """One batch whose variants were run a few at a time."""
    return Swept(
        parts[0].rows,
        np.concatenate([part.logits for part in parts]),
        {name: np.concatenate([part.reduced[name] for part in parts]) for name in parts[0].reduced},
    )
