"""One model, ready to be asked by many visitors at once."""

from __future__ import annotations

import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from qt_bert.ablation.explain_heads import guard_patches
from qt_bert.ablation.guards import run_guards
from qt_bert.ablation.heads_out import without_part
from qt_bert.ablation.loop import Swept, batch_tokens, sweep
from qt_bert.ablation.masks import MODES, PARTS, HeadMask, MeanContexts, Mode
from qt_bert.ablation.means import mean_contexts
from qt_bert.ablation.patching import twin_batches
from qt_bert.ablation.reduction import Reduction
from qt_bert.ablation.variant import Part, Variant
from qt_bert.encoder import Checkpoint, ModelLabels
from qt_bert.encoder.batches import Batch, batches_of
from qt_bert.encoder.heads import Head, checked_heads
from qt_bert.errors import ArgumentError
from qt_bert.inspection.batching import in_turns
from qt_bert.inspection.reading import LockedTokenizer, ReadPair
from qt_bert.inspection.sources import shipped_rows
from qt_bert.inspection.turns import Turns
from qt_bert.pairs import segmenter
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.probes.common.characters import spelled
from qt_bert.probes.common.streams import gathered
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.outputs import Outputs, read_outputs

GUARD_TEXTS = (
    ("紫熨斗", "紫熨斗好用吗"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("怎么去除衣服上的油渍", "衣服沾了油怎么洗掉？三种办法，家里都有的东西就够了"),
)
"""Pairs of different lengths that the guards run on when a model is opened."""

TURN_TOKENS = 1024
"""Tokens, over all variants, that are run in one turn: some 0.2 s with the model that ships."""


@dataclass(frozen=True, eq=False)
class Seen:
    """N pairs under V variants: `logits` float32 [V, N, K]; name of a reduction → [V, N, layers, …]."""

    logits: np.ndarray
    reduced: dict[str, np.ndarray]


class Inspected:
    """A model that visitors share; nothing a visitor asks for changes it.

    `classifies` is False for a model before fine-tuning: its classifier is made up, and grades mean
    nothing. `longest` is the number of tokens at which pairs are cut. `guards` are the figures of the
    check that leaving heads out works, made here, and again with the mean contexts. What is kept of
    its answers is kept under `key`: models of the same weights may still differ in their labels, or
    in how they read a text. Raises GuardError where a guard fails.
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
        self.guards: Mapping[str, Any] = self._guarded("zero", "uniform")
        self._making = threading.Lock()
        self._made: MeanContexts | None = None
        self._patched: Mapping[str, Any] | None = None

    def encode(self, query: str, title: str) -> ReadPair:
        """The tokens of a pair, with spans. Raises ArgumentError for a lone surrogate."""
        (one,) = self.scorer.tokenizer.encode([(query, title)])
        return ReadPair.of(one, query, title)

    def tokens(self, pair: ReadPair) -> tuple[str, ...]:
        """What each token spells: characters of its text, `[CLS]`, `[SEP]`."""
        return spelled(pair, pair.query, pair.title)

    def part(self, heads: Iterable[Head], mode: str) -> Part | None:
        """These heads left out, replaced as `mode` says (zero, uniform, mean); None for no heads.

        The mean contexts, over the dev pairs that ship, are made once, when first asked for. Raises
        ArgumentError for another mode, and for heads that the model lacks.
        """
        if mode not in MODES:
            raise ArgumentError(f"mode {mode!r}: choose from {', '.join(MODES)}")
        listed = tuple(checked_heads(heads, self.shape))
        return PARTS[mode](listed, self._means) if listed else None

    def run(
        self,
        texts: Sequence[tuple[str, str]],
        variants: Sequence[Variant],
        reductions: Sequence[Reduction] = (),
    ) -> Seen:
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
        twins: bool = False,
    ) -> Seen:
        """`run` over pairs that are tokens already; `twins`: that stand beside each other (`patching`)."""
        if not encoded or not variants:
            raise ArgumentError("nothing to run: no pairs, or no variants")
        batched = twin_batches if twins else batches_of
        batches = batched(encoded, batch_tokens(len(variants)), pad=self.scorer.pad)
        found = gathered(self._swept(batches, variants, reductions), len(encoded))
        return Seen(found.pop("logits"), found)

    def guarded_patches(self, twins: Sequence[EncodedPair]) -> Mapping[str, Any]:
        """The figures of the check that patches do what they say, made once, on the first `twins`."""
        with self.turns.visit():
            if self._patched is None:
                self._patched = guard_patches(self.scorer, twins)
            return self._patched

    def outputs(self, logits: np.ndarray) -> Outputs:
        """What logits [N, K] say: probabilities, expected and predicted grade, or the score."""
        return read_outputs(logits, self.labels)

    def without(self, heads: Iterable[Head], mode: str) -> Scorer:
        """The model's scorer with heads left out, counting for itself; use it within a turn."""
        part = self.part(heads, mode)
        scorer = self.scorer
        return scorer.fresh() if part is None else without_part(scorer, part, self.guards)

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

    def _means(self) -> MeanContexts:
        """The mean contexts that `--mode mean` has, made by the first who asks."""
        # Whoever has the turn must not wait for somebody who waits for the turn.
        with nullcontext() if self.turns.mine else self._making:
            if self._made is None:
                texts = [(pair.query, pair.title) for pair in shipped_rows("dev")]
                most = batch_tokens()  # that of the commands, so that the hash is theirs too
                with in_turns(self.scorer, self.turns, most) as scorer:
                    means = mean_contexts(scorer.encoder, scorer.batches(texts, most))
                checked = self._guarded("mean", means=means)["variants"]
                self.guards = {**self.guards, "variants": {**self.guards["variants"], **checked}}
                self._made = means
            return self._made

    def _guarded(self, *modes: Mode, means: MeanContexts | None = None) -> dict[str, Any]:
        """The figures of the guards, with a head of every layer left out in each of `modes`."""
        heads = tuple(Head(layer, layer % self.shape.heads) for layer in range(self.shape.layers))
        variants = [Variant(mode, (HeadMask(heads, mode, means),)) for mode in modes]
        encoded = self.scorer.tokenizer.encode(GUARD_TEXTS, offsets=False)
        with self.turns.visit():
            return run_guards(self.scorer.checkpoint, self.scorer.encoder, variants, encoded)


def _joined(parts: Sequence[Swept]) -> Swept:
    """One batch whose variants were run a few at a time."""
    return Swept(
        parts[0].rows,
        np.concatenate([part.logits for part in parts]),
        {name: np.concatenate([part.reduced[name] for part in parts]) for name in parts[0].reduced},
    )
