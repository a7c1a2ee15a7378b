"""The models that visitors share: each is opened once and used by many of them at a time."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.ablation.checks import check_equivalence
from qt_bert.ablation.engine import Reduction, Swept, batch_tokens, sweep
from qt_bert.ablation.interventions import Intervention, MeanZ, Variant
from qt_bert.ablation.masks import MODES, HeadMask, Mode
from qt_bert.ablation.request import mean_z, without_intervention, without_plainly
from qt_bert.data.segmenters import Segmenter, segmenter
from qt_bert.data.tokenise import EncodedPair, PairTokenizer
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, checked_heads
from qt_bert.models.batches import Batch, batches_of
from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.models.devices import open_device
from qt_bert.models.opening import open_checkpoint
from qt_bert.page.folders import Folders
from qt_bert.page.pairs import shipped_rows
from qt_bert.page.work import ModelLock, ResultCache, Worker
from qt_bert.probes.base_model import open_base
from qt_bert.probes.streams import gathered, token_texts
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import Outputs, read_outputs


@dataclass(frozen=True, slots=True)
class ReadPair(EncodedPair):
    """An encoded pair with the character spans of its tokens, and its texts."""

    query: str
    title: str


class LockedTokenizer(PairTokenizer):
    """A tokenizer that one thread at a time uses."""

    def __init__(self, whole: PairTokenizer) -> None:
        vars(self).update(vars(whole))
        self._lock = threading.Lock()

    def encode(
        self, pairs: Sequence[tuple[str, str]], *, offsets: bool = True
    ) -> list[EncodedPair]:
        """As `PairTokenizer.encode`."""
        with self._lock:
            return super().encode(pairs, offsets=offsets)


class SharedScorer(Scorer):
    """A scorer with its own counts that holds the lock for one batch of at most `most` tokens at a time."""

    def __init__(self, scorer: Scorer, lock: ModelLock, most: int) -> None:
        vars(self).update(vars(scorer.fresh()))
        self._model_lock, self._most = lock, most

    def batches(
        self, pairs: Sequence[tuple[str, str]], budget: int, *arguments: Any, **options: Any
    ) -> Iterator[Batch]:
        """As `Scorer.batches`, of at most `most` tokens."""
        for batch in super().batches(pairs, min(budget, self._most), *arguments, **options):
            with self._model_lock:
                yield batch


CHECK_TEXTS = (
    ("紫熨斗", "紫熨斗好用吗"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("怎么去除衣服上的油渍", "衣服沾了油怎么洗掉？三种办法，家里都有的东西就够了"),
)
"""Pairs of different lengths, for the checks of a model that is opened."""

LOCK_TOKENS = 1024
"""Tokens, over all variants, that run under one lock: some 0.2 s with the shipped model."""


@dataclass(frozen=True, eq=False)
class RunOutputs:
    """N pairs under V variants: `logits` float32 [V, N, K]; name of a reduction → [V, N, layers, …]."""

    logits: np.ndarray
    reduced: dict[str, np.ndarray]


class SharedModel:
    """A model that visitors share; no visitor changes it.

    `longest` is the number of tokens at which pairs are cut. `guards` are the figures of the
    equivalence check, which runs here, and again with the mean head outputs. `cache` holds results of
    pages. Raises EquivalenceError where the check fails.
    """

    def __init__(self, name: str, checkpoint: Checkpoint, worker: Worker) -> None:
        self.name = name
        self.worker, self.lock, self.cache = worker, worker.lock, ResultCache()
        self.scorer = Scorer(checkpoint)
        self.longest = self.scorer.tokenizer.max_length
        self.scorer.tokenizer = LockedTokenizer(self.scorer.tokenizer)
        self.shape = checkpoint.shape
        self.labels: ModelLabels = checkpoint.settings.labels
        self.sha256 = checkpoint.sha256
        self.guards: Mapping[str, Any] = self._checked("zero", "uniform")
        self.computing = threading.RLock()
        self._mean_z: MeanZ | None = None

    @cached_property
    def segmenter(self) -> Segmenter:
        """jieba; its dictionary takes a second to load, so only pages that show words load it."""
        return segmenter("jieba")

    def encode(self, query: str, title: str) -> ReadPair:
        """The tokens of a pair, with their spans. Raises ArgumentError for a lone surrogate."""
        (pair,) = self.scorer.tokenizer.encode([(query, title)])
        fields = {name: getattr(pair, name) for name in EncodedPair.__slots__}
        return ReadPair(**fields, query=query, title=title)

    def tokens(self, pair: ReadPair) -> tuple[str, ...]:
        """The text of each token: characters of query or title, `[CLS]`, `[SEP]`."""
        return token_texts(pair, pair.query, pair.title)

    def intervention(self, heads: Iterable[Head], mode: str) -> Intervention | None:
        """Ablation of `heads` by `mode` (zero, uniform, mean); None for no heads.

        The mean head outputs, over the shipped dev pairs, are computed once, by the first call that
        needs them. Raises ArgumentError for another mode, and for heads that the model lacks.
        """
        if mode not in MODES:
            raise ArgumentError(f"mode {mode!r}: choose from {', '.join(MODES)}")
        listed = tuple(checked_heads(heads, self.shape))
        if not listed:
            return None
        return HeadMask(listed, mode, self._mean_outputs() if mode == "mean" else None)

    def run(
        self,
        texts: Sequence[tuple[str, str]],
        variants: Sequence[Variant],
        reductions: Sequence[Reduction] = (),
    ) -> RunOutputs:
        """The masked loop over (query, title) pairs; it releases the lock often, for other visitors.

        Raises ArgumentError for no texts or variants, and as `sweep` does.
        """
        return self.run_tokens(self.scorer.tokenizer.encode(texts), variants, reductions)

    def run_tokens(
        self,
        encoded: Sequence[EncodedPair],
        variants: Sequence[Variant],
        reductions: Sequence[Reduction] = (),
    ) -> RunOutputs:
        """`run` over encoded pairs."""
        if not encoded or not variants:
            raise ArgumentError("nothing to run: no pairs, or no variants")
        batches = batches_of(encoded, batch_tokens(len(variants)), pad=self.scorer.pad)

        def swept() -> Iterator[Swept]:
            for batch in batches:
                most = max(1, LOCK_TOKENS // batch.input_ids.numel())
                parts: list[Swept] = []
                for start in range(0, len(variants), most):
                    with self.lock:
                        some = variants[start : start + most]
                        parts += sweep(self.scorer.encoder, [batch], some, reductions)
                logits = np.concatenate([part.logits for part in parts])
                names = parts[0].reduced
                reduced = {n: np.concatenate([part.reduced[n] for part in parts]) for n in names}
                yield Swept(parts[0].rows, logits, reduced)

        results = gathered(swept(), len(encoded))
        return RunOutputs(results.pop("logits"), results)

    def outputs(self, logits: np.ndarray) -> Outputs:
        """Logits [N, K] as probabilities, expected and predicted grade, or as the score."""
        return read_outputs(logits, self.labels)

    def without(self, heads: Iterable[Head], mode: str) -> Scorer:
        """A scorer without `heads`, with its own counts. Hold the lock while it runs."""
        scorer, heads = self.scorer, list(heads)
        if heads and not scorer.checkpoint.family.fast:
            with self.lock:  # its check runs the shared module with hooks
                return without_plainly(scorer, checked_heads(heads, self.shape), mode, CHECK_TEXTS)
        ablation = self.intervention(heads, mode)
        if ablation is None:
            return scorer.fresh()
        return without_intervention(scorer, ablation, self.guards)

    def graded(self, pair: ReadPair, heads: Iterable[Head], mode: str) -> Outputs:
        """A pair's grades without `heads`, as `qt-bert explain --heads-out` computes them."""
        scorer = self.without(heads, mode)
        with self.lock:
            return self.outputs(scorer.logits([(pair.query, pair.title)]))

    def job_scorer(self, heads: Iterable[Head] = (), mode: str = "zero") -> Scorer:
        """As `without`, for a job's thread: it takes the lock itself, batch by batch."""
        return SharedScorer(self.without(heads, mode), self.lock, LOCK_TOKENS)

    def _mean_outputs(self) -> MeanZ:
        """The mean head outputs of `--mode mean`, computed by the first call."""
        # A thread that holds the lock must not wait for one that waits for the lock.
        with nullcontext() if self.lock.mine else self.computing:
            if self._mean_z is None:
                texts = [(pair.query, pair.title) for pair in shipped_rows("dev")]
                most = batch_tokens()  # as the commands, so that the hash is the same
                scorer = SharedScorer(self.scorer, self.lock, most)
                means = mean_z(scorer.encoder, scorer.batches(texts, most))
                checked = self._checked("mean", means=means)["variants"]
                self.guards = {**self.guards, "variants": {**self.guards["variants"], **checked}}
                self._mean_z = means
            return self._mean_z

    def _checked(self, *modes: Mode, means: MeanZ | None = None) -> dict[str, Any]:
        """The figures of the equivalence check, with a head of every layer left out in each of `modes`."""
        if not self.scorer.checkpoint.family.fast:  # it runs on transformers' own forward
            return {}
        heads = tuple(Head(layer, layer % self.shape.heads) for layer in range(self.shape.layers))
        variants = [Variant(mode, (HeadMask(heads, mode, means),)) for mode in modes]
        encoded = self.scorer.tokenizer.encode(CHECK_TEXTS, offsets=False)
        with self.lock:
            return check_equivalence(self.scorer.checkpoint, self.scorer.encoder, variants, encoded)


# The pool.


MOST_OPEN = 4


class ModelPool:
    """Models by name, with the lock and the worker that they share.

    `models` and `base` as in `Folders`. At most four models stay open, on `device`. Raises what
    `Folders` does, and ArgumentError for a device that is not there.
    """

    def __init__(self, *models: Path, base: Path | None = None, device: str = "auto") -> None:
        self.device = str(open_device(device))
        self.lock = ModelLock()
        self.worker = Worker(self.lock)
        self._folders = Folders(models, base)
        self._open: OrderedDict[tuple[str, str], SharedModel] = OrderedDict()
        self._listed = threading.Lock()
        self._opening = threading.Lock()

    @property
    def names(self) -> tuple[str, ...]:
        """Their names, the default first."""
        return self._folders.names

    def open(self, name: str) -> SharedModel:
        """The model, opened by the first call.

        Raises ArgumentError for an unknown name, CheckpointError and EquivalenceError as opening
        does; RuntimeError where the caller holds the lock, which could wait for ever.
        """
        if name not in self.names:
            raise ArgumentError(f"no model {name[:40]!r}; there is {', '.join(self.names)}")
        return self._shared(name, lambda: open_checkpoint(self._folders[name], device=self.device))

    def base_of(self, name: str) -> SharedModel | None:
        """The model before fine-tuning, if known and of the same shape; raises what `open` raises."""
        tuned, base = self.open(name), self._folders.base_of(name)
        if base is None or base in self.names:
            return None if base is None else self.open(base)
        folder = self._folders[base]
        # It is opened like the tuned model, with its length and tokenizer.
        return self._shared(base, lambda: open_base(folder, tuned.scorer.checkpoint), name)

    def _shared(self, name: str, read: Callable[[], Checkpoint], like: str = "") -> SharedModel:
        model = self._opened(key := (name, like))
        if model is not None:
            return model
        if self.lock.mine:
            raise RuntimeError("a model that is not open yet must not be opened under the lock")
        with self._opening:  # one at a time: opening seeds torch's random numbers
            model = self._opened(key) or SharedModel(name, read(), self.worker)
            with self._listed:
                self._open[key] = model
                while len(self._open) > MOST_OPEN:
                    self._open.popitem(last=False)
            return model

    def _opened(self, key: tuple[str, str]) -> SharedModel | None:
        with self._listed:
            if key in self._open:
                self._open.move_to_end(key)
            return self._open.get(key)
