"""A sweep from a model, pairs and variants to its folder: guards, logits, effects."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from qt_bert.ablation.effect_table import effect_rows, write_effects
from qt_bert.ablation.effects import Effects
from qt_bert.ablation.folder import EFFECTS, SweepFolder, SweepRecord
from qt_bert.ablation.guards import eight_of, run_guards
from qt_bert.ablation.loop import STACK_TOKENS, Swept, batch_tokens, sweep
from qt_bert.ablation.masks import MeanContexts
from qt_bert.ablation.variant import Variant, with_plain
from qt_bert.ablation.work import SweepWork, judge_folder
from qt_bert.encoder.batches import Batch
from qt_bert.encoder.manifest import folder_sha256
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.progress import Progress, progress
from qt_bert.results.probe import PairsRef
from qt_bert.scoring.bulk import WINDOW, Counts, Scorer
from qt_bert.sources import installed_versions, source_hash


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
    tokens: int | None = None,
    label: str = "sweep",
    guards: Mapping[str, Any] | None = None,
    shown: Progress | None = None,
    filler: Filler | None = None,
) -> SweepFolder:
    """Run every variant on every pair, and leave logits and effects in `folder`.

    The guards come first; a sweep that fails them leaves nothing. Finished batches are kept: after
    a kill, `resume` goes on behind the last one and ends in the same bytes as an undisturbed run,
    and has nothing to do where the sweep is finished. `overwrite` replaces a sweep. `pairs_ref` says
    where the pairs come from; `arguments`, kept in `run.json`, how they and the variants were
    chosen. `tokens` is the budget of the loop, `label` the name in progress lines. Afterwards
    `scorer.counts` says what was cut.

    Sweeps that are one piece of work among several: `resamples` None leaves `effects.csv` empty;
    `guards` are the figures of a check that has passed already, which is not made again; `shown`
    counts the runs instead of a progress line of their own. `filler` computes the logits in place of
    this process; a sweep that one filler began another may go on with.

    Raises ArgumentError for no pairs, two variants of one name, or labels that do not fit the
    model; RunFolderError where the flags do not fit what lies in `folder`, or the sweep there was
    begun with another model, other pairs or settings; GuardError where a guard fails; whatever
    `filler` raises.
    """
    inputs = SweepInputs(scorer.fresh(), list(pairs), with_plain(variants), resamples, seed, tokens)
    inputs.check()
    standing = judge_folder(folder, inputs.key, resume=resume, overwrite=overwrite)
    if standing == "finished":
        if shown is not None:
            shown.advance(inputs.runs)
        return _finished(folder, scorer)
    record = inputs.record(pairs_ref, arguments or {}, guards)
    work = SweepWork.go_on(folder, record) if standing == "begun" else None
    work = work or SweepWork.begin(folder, record, inputs.variants, inputs.pairs, inputs.means)
    _fill(inputs, work, filler or fill_here, label, shown)
    _write_effects(inputs, work, label)
    work.finish(inputs.scorer.counts)
    return _finished(folder, scorer)


def _finished(folder: Path, scorer: Scorer) -> SweepFolder:
    """The folder; `scorer` knows what was cut, whichever run it was that saw it."""
    found = SweepFolder.read(folder)
    cut = found.record.truncated_titles, found.record.truncated_queries
    scorer.counts = Counts(len(found.pairs), *cut)
    return found


class Filler(Protocol):
    """Who computes the logits of a sweep: `fill_here`, or something that hands the batches out."""

    def __call__(self, inputs: SweepInputs, work: SweepWork, shown: Progress) -> None:
        """Store what `work` lacks of the logits of all `inputs.batches()`, as `fill_here` has them.

        `shown` counts the runs, variants × pairs. `inputs.batches()` is gone through whole, so that
        `inputs.scorer.counts` says what was cut.
        """


def fill_here(inputs: SweepInputs, work: SweepWork, shown: Progress) -> None:
    """Sweep the batches that are not stored yet in this process, and store each.

    Raises ArgumentError for logits that are no finite numbers.
    """
    encoder, variants = inputs.scorer.encoder, inputs.variants
    # A resumed run tokenises all pairs again: batches, and counts of what was cut, stay the same.
    batches = islice(inputs.batches(), work.done.batches, None)
    for swept in sweep(encoder, batches, variants, tokens=inputs.budget, shown=shown):
        refuse_overflow(swept, inputs)
        work.store(swept)


def _fill(
    inputs: SweepInputs, work: SweepWork, filler: Filler, label: str, shown: Progress | None
) -> None:
    """Have the logits filled in, with the runs counted by `shown` or a progress line of their own."""
    done = len(inputs.variants) * work.done.pairs
    if shown is not None:
        shown.advance(done)
    own = progress(inputs.runs, label, "runs", done=done)
    with own if shown is None else nullcontext(shown) as counter:
        filler(inputs, work, counter)


def refuse_overflow(swept: Swept, inputs: SweepInputs) -> None:
    """Raise ArgumentError, naming the variant and the pair, for logits that are no finite numbers."""
    broken = np.argwhere(~np.isfinite(swept.logits).all(2))
    if len(broken):
        variant, row = broken[0]
        raise ArgumentError(
            f"variant {inputs.variants[variant].name} gives no finite logits for the pair of line "
            f"{inputs.pairs[swept.rows[row]].line}; try --dtype float32, or leave it out"
        )


def _write_effects(inputs: SweepInputs, work: SweepWork, label: str) -> None:
    if inputs.resamples is None:
        write_effects(work.path / EFFECTS, [])
        return
    variants = inputs.variants
    names, families = [v.name for v in variants], [v.family for v in variants]
    with progress(len(variants) - 1, f"{label}: effects", "variants") as shown:
        rows = effect_rows(
            inputs.effects(work.logits), names, families, [v.draw for v in variants], shown=shown
        )
    write_effects(work.path / EFFECTS, rows)


@dataclass(frozen=True, eq=False)
class SweepInputs:
    """All that a sweep's files depend on; `variants` has `none` first."""

    scorer: Scorer
    pairs: list[Pair]
    variants: list[Variant]
    resamples: int | None
    seed: int
    tokens: int | None

    @property
    def runs(self) -> int:
        """Variants × pairs."""
        return len(self.variants) * len(self.pairs)

    @cached_property
    def texts(self) -> list[tuple[str, str]]:
        return [(pair.query, pair.title) for pair in self.pairs]

    @property
    def budget(self) -> int:
        """Tokens computed at once, over all variants of a stack."""
        return self.tokens or STACK_TOKENS

    def batches(self) -> Iterator[Batch]:
        """The pairs in the batches of the sweep; the scorer counts what is cut."""
        budget = min(self.budget, batch_tokens(len(self.variants)))
        return self.scorer.batches(self.texts, budget)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Variants, pairs, logits."""
        return (len(self.variants), len(self.pairs), self.scorer.checkpoint.settings.labels.logits)

    @property
    def means(self) -> MeanContexts | None:
        """The mean contexts that stand in for heads; ArgumentError where there are several."""
        parts = [part for variant in self.variants for part in variant.parts]
        found = {part.means for part in parts if part.means is not None}
        if len(found) > 1:
            raise ArgumentError("the variants of one sweep must share their mean contexts")
        return next(iter(found), None)

    @cached_property
    def key(self) -> dict[str, str]:
        """What must be the same for a sweep to go on, by name. A part is known by its repr."""
        checkpoint = self.scorer.checkpoint
        return {
            "model": folder_sha256(checkpoint.folder),
            "model_grades": repr(checkpoint.settings.labels.grades),
            "pairs": pairs_sha256(self.pairs),
            "variants": _hash((v.name, v.family, v.draw, v.seed, v.parts) for v in self.variants),
            "dtype": checkpoint.dtype,
            "max_length": str(self.scorer.tokenizer.max_length),
            "tokens": str(self.budget),
            "resamples": str(self.resamples),
            "seed": str(self.seed),
            "source": source_hash(),
            "versions": repr(sorted(installed_versions().items())),
        }

    def check(self) -> None:
        """Raise ArgumentError at once for what would fail after the sweep."""
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
        """What `run.json` says before the first batch; guards that are not given run here."""
        checkpoint, means = self.scorer.checkpoint, self.means
        queries = len({pair.query for pair in self.pairs})
        return SweepRecord(
            versions=installed_versions(),
            key=self.key,
            model=checkpoint.describe(),
            pairs=replace(pairs_ref, n_pairs=len(self.pairs), n_queries=queries),
            arguments=dict(arguments),
            shape=self.shape,
            means=None if means is None else means.sha256,
            guards=self.run_guards() if guards is None else dict(guards),
        )

    def run_guards(self) -> dict[str, Any]:
        """Check the masked loop on this model, its variants and eight of its pairs: `run_guards`."""
        scorer = self.scorer
        return run_guards(
            scorer.checkpoint, scorer.encoder, self.variants, self._guard_pairs(), seed=self.seed
        )

    def _guard_pairs(self) -> list[EncodedPair]:
        """Eight pairs, the shortest and the longest of all among them, a window in memory at a time."""
        kept: list[EncodedPair] = []
        for start in range(0, len(self.texts), WINDOW):
            texts = self.texts[start : start + WINDOW]
            kept = eight_of([*kept, *self.scorer.tokenizer.encode(texts, offsets=False)])
        return kept


def pairs_sha256(pairs: Iterable[Pair]) -> str:
    """One hash for what a sweep depends on of its pairs."""
    return _hash((p.id, p.line, p.query, p.title, p.grades) for p in pairs)


def _hash(rows: Iterable[tuple[Any, ...]]) -> str:
    digest = hashlib.sha256()
    for row in rows:
        digest.update(f"{row!r}\n".encode())
    return digest.hexdigest()
