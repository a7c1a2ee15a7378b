"""Run a sweep of variants over pairs into a folder; a killed sweep resumes after its last batch."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from qt_bert.ablation.checks import check_equivalence, eight_of
from qt_bert.ablation.effects import EffectRow, Effects, effect_rows, write_effects
from qt_bert.ablation.engine import Swept, batch_tokens, sweep
from qt_bert.ablation.folder import (
    EFFECTS,
    LOGITS,
    MEANS,
    PAIRS,
    VARIANTS,
    SweepFolder,
    SweepRecord,
    open_logits,
    write_means,
    write_pairs,
    write_variants,
)
from qt_bert.ablation.interventions import MeanZ, Variant, with_plain
from qt_bert.codec import encode, read_result
from qt_bert.data.pairs import Pair
from qt_bert.data.tokenise import Counts, EncodedPair
from qt_bert.errors import ArgumentError
from qt_bert.files import is_vacant, write_json
from qt_bert.models.batches import Batch
from qt_bert.models.devices import device_name
from qt_bert.progress import Progress, progress
from qt_bert.results.probe import PairsRef
from qt_bert.resume import RECORD, begun_otherwise, differing, goes_on, read_record
from qt_bert.scoring.bulk import WINDOW, Scorer
from qt_bert.shipped import installed_versions, source_hash

MARK = ".progress.json"
"""The file of a `Mark` in an unfinished sweep."""


def check_flags(path: Path, *, resume: bool = False, overwrite: bool = False) -> SweepRecord | None:
    """The sweep in `path` to resume; None for a new one. Reads only.

    Raises RunFolderError for a sweep without either flag, and for a folder of anything else.
    """
    if is_vacant(path):
        return None
    record = read_record(SweepRecord, path, "sweep")
    flags = {"resume": resume, "overwrite": overwrite}
    return record if goes_on(path, "sweep", complete=record.complete, **flags) else None


@dataclass(frozen=True, slots=True)
class Mark:
    """The number of stored batches, and of their pairs."""

    batches: int = 0
    pairs: int = 0


@dataclass(eq=False)
class SweepWork:
    """The folder of an unfinished sweep; `done` is its progress."""

    path: Path
    record: SweepRecord
    logits: np.ndarray
    done: Mark

    @classmethod
    def begin(cls, path: Path, record: SweepRecord, inputs: SweepInputs) -> SweepWork:
        """Start in `path`, replacing an earlier sweep's files."""
        (path / MARK).unlink(missing_ok=True)
        write_json(path / RECORD, encode(record))
        for name in (LOGITS, EFFECTS, MEANS):
            (path / name).unlink(missing_ok=True)
        write_variants(path / VARIANTS, inputs.variants)
        write_pairs(path / PAIRS, inputs.pairs)
        if inputs.means is not None:
            write_means(path / MEANS, inputs.means)
        logits = np.lib.format.open_memmap(path / LOGITS, "w+", np.float32, record.shape)
        if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash later
            with open(path / LOGITS, "r+b") as handle:
                os.posix_fallocate(handle.fileno(), 0, (path / LOGITS).stat().st_size)
        work = cls(path, record, logits, Mark())
        work._save()
        return work

    @classmethod
    def resume(cls, path: Path, record: SweepRecord) -> SweepWork | None:
        """The unfinished sweep in `path`; None where nothing is stored yet."""
        if not (path / MARK).exists():
            return None
        done = read_result(Mark, path / MARK)
        logits = open_logits(path / LOGITS, record.shape, "r+")
        write_json(path / RECORD, encode(record))
        return cls(path, record, logits, done)

    def store(self, swept: Swept) -> None:
        """Write a batch's logits, then the mark."""
        self.logits[:, swept.rows] = swept.logits
        self.logits.flush()  # type: ignore[attr-defined]
        self.done = Mark(self.done.batches + 1, self.done.pairs + len(swept.rows))
        self._save()

    def finish(self, counts: Counts) -> None:
        """Record the sweep as complete, with the number of truncated texts."""
        record = replace(
            self.record,
            truncated_titles=counts.truncated_titles,
            truncated_queries=counts.truncated_queries,
            complete=True,
        )
        write_json(self.path / RECORD, encode(record))
        (self.path / MARK).unlink()

    def _save(self) -> None:
        write_json(self.path / MARK, encode(self.done))


def run_sweep(
    scorer: Scorer,
    pairs: Sequence[Pair],
    variants: Sequence[Variant],
    folder: Path,
    *,
    pairs_ref: PairsRef,
    arguments: Mapping[str, Any] | None = None,
    resamples: int | None = 2000,
    seed: int = 0,
    resume: bool = False,
    overwrite: bool = False,
    label: str = "sweep",
    guards: Mapping[str, Any] | None = None,
    shown: Progress | None = None,
) -> SweepFolder:
    """Run every variant on every pair, and write logits and effects into `folder`.

    Equivalence checks run first; where one fails, nothing is written. After a kill, `resume` goes on after
    the last stored batch and ends in the same bytes as an undisturbed run; it does nothing for a
    finished sweep. `overwrite` replaces a sweep. `pairs_ref` is the source of the pairs; `arguments`,
    stored in `run.json`, how they and the variants were chosen. `label` is the name in progress lines.
    Afterwards `scorer.counts` has the truncated texts.

    For a sweep that is a step of something larger: `resamples` None leaves `effects.csv` empty; `guards`
    are the figures of checks that have already run; `shown` counts the runs in place of a progress line.

    Raises ArgumentError for no pairs, repeated variant names, or labels that do not fit the model;
    RunFolderError where the flags do not fit `folder`, or its sweep has another model, pairs or
    settings; EquivalenceError where a check fails.
    """
    inputs = SweepInputs(scorer.fresh(), list(pairs), with_plain(variants), resamples, seed)
    inputs.check()
    stored = check_flags(folder, resume=resume, overwrite=overwrite)
    if stored and (other := differing(stored.key, inputs.key)):
        names = ("version of this program" if name == "source" else name for name in other)
        raise begun_otherwise(folder, names)
    if stored and stored.complete:
        if shown is not None:
            shown.advance(inputs.runs)
    else:
        record = inputs.record(pairs_ref, arguments or {}, guards)
        work = SweepWork.resume(folder, record) if stored else None
        work = work or SweepWork.begin(folder, record, inputs)
        _fill(inputs, work, label, shown)
        rows: list[EffectRow] = []
        if inputs.resamples is not None:
            with progress(len(inputs.variants) - 1, f"{label}: effects", "variants") as counter:
                rows = effect_rows(inputs.effects(work.logits), inputs.variants, shown=counter)
        write_effects(folder / EFFECTS, rows)
        work.finish(inputs.scorer.counts)
    result = SweepFolder.read(folder)
    truncated = result.record.truncated_titles, result.record.truncated_queries
    scorer.counts = Counts(len(result.pairs), *truncated)
    return result


def _fill(inputs: SweepInputs, work: SweepWork, label: str, shown: Progress | None) -> None:
    """Sweep and store the remaining batches. Raises ArgumentError where a logit is not finite."""
    encoder, variants = inputs.scorer.encoder, inputs.variants
    done = len(variants) * work.done.pairs
    if shown is not None:
        shown.advance(done)
    # A resumed run tokenises all pairs again, for the same batches and counts of truncated texts.
    batches = islice(inputs.batches(), work.done.batches, None)
    line = progress(inputs.runs, label, "runs", done=done)
    with line if shown is None else nullcontext(shown) as counter:
        for swept in sweep(encoder, batches, variants, shown=counter):
            invalid = np.argwhere(~np.isfinite(swept.logits).all(2))
            if len(invalid):
                variant, row = invalid[0]
                raise ArgumentError(
                    f"variant {variants[variant].name} gives no finite logits for the pair of line "
                    f"{inputs.pairs[swept.rows[row]].line}; try --dtype float32, or leave it out"
                )
            work.store(swept)


@dataclass(frozen=True, eq=False)
class SweepInputs:
    """All that a sweep's files depend on; `variants` has `none` first."""

    scorer: Scorer
    pairs: list[Pair]
    variants: list[Variant]
    resamples: int | None
    seed: int

    @property
    def runs(self) -> int:
        """Variants × pairs."""
        return len(self.variants) * len(self.pairs)

    @cached_property
    def texts(self) -> list[tuple[str, str]]:
        return [(pair.query, pair.title) for pair in self.pairs]

    def batches(self) -> Iterator[Batch]:
        """The batches of the sweep; the scorer counts truncated texts."""
        return self.scorer.batches(self.texts, batch_tokens(len(self.variants)))

    @property
    def shape(self) -> tuple[int, int, int]:
        """Variants, pairs, logits."""
        return (len(self.variants), len(self.pairs), self.scorer.checkpoint.settings.labels.logits)

    @property
    def means(self) -> MeanZ | None:
        """The variants' mean head outputs, if any. Raises ArgumentError for different ones."""
        parts = [part for variant in self.variants for part in variant.parts]
        means = {part.means for part in parts if part.means is not None}
        if len(means) > 1:
            raise ArgumentError("the variants of one sweep must share their mean head outputs")
        return next(iter(means), None)

    @cached_property
    def key(self) -> dict[str, str]:
        """What must be equal to resume a sweep, by name. Parts are compared by their repr."""
        return {
            **self.scorer.identity(),
            "pairs": _hash((p.id, p.line, p.query, p.title, p.grades) for p in self.pairs),
            "variants": _hash((v.name, v.family, v.draw, v.seed, v.parts) for v in self.variants),
            "device": device_name(self.scorer.checkpoint.device),
            "resamples": str(self.resamples),
            "seed": str(self.seed),
            "source": source_hash(),
            "versions": repr(sorted(installed_versions().items())),
        }

    def check(self) -> None:
        """Raise ArgumentError early for what would fail after the sweep."""
        if self.seed < 0:
            raise ArgumentError(f"--seed {self.seed}: give 0 or more")
        if self.scorer.left_out:
            raise ArgumentError("a sweep takes the whole model, not one that leaves heads out")
        if len(self.variants) == 1:
            raise ArgumentError("a sweep needs at least one variant besides the plain model")
        self.effects(np.zeros((1, *self.shape[1:]), np.float32))

    def effects(self, logits: np.ndarray) -> Effects:
        labels = self.scorer.checkpoint.settings.labels
        return Effects(logits, self.pairs, labels, resamples=self.resamples or 0, seed=self.seed)

    def record(
        self, pairs_ref: PairsRef, arguments: Mapping[str, Any], guards: Mapping[str, Any] | None
    ) -> SweepRecord:
        """The `run.json` before the first batch; without `guards` the equivalence checks run here."""
        checkpoint, means = self.scorer.checkpoint, self.means
        return SweepRecord(
            versions=installed_versions(),
            key=self.key,
            model=checkpoint.describe(),
            pairs=PairsRef.of(pairs_ref.name, pairs_ref.sha256, self.pairs),
            arguments=dict(arguments),
            shape=self.shape,
            means=None if means is None else means.sha256,
            guards=self.run_checks() if guards is None else dict(guards),
        )

    def run_checks(self) -> dict[str, Any]:
        """Run the equivalence checks on eight pairs, encoding a window of pairs at a time."""
        sample: list[EncodedPair] = []
        scorer = self.scorer
        for start in range(0, len(self.texts), WINDOW):
            texts = self.texts[start : start + WINDOW]
            sample = eight_of([*sample, *scorer.tokenizer.encode(texts, offsets=False)])
        model = scorer.checkpoint, scorer.encoder
        return check_equivalence(*model, self.variants, sample, seed=self.seed)


def _hash(rows: Iterable[tuple[Any, ...]]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(f"{row!r}\n".encode())
    return digest.hexdigest()
