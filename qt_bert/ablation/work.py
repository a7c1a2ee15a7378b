"""A sweep under way: what is done stays done, and a killed run goes on behind its last batch."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from qt_bert.ablation.folder import (
    EFFECTS,
    LOGITS,
    MEANS,
    PAIRS,
    RECORD,
    VARIANTS,
    SweepRecord,
    differing,
    open_logits,
    read_record,
)
from qt_bert.ablation.loop import Swept
from qt_bert.ablation.masks import MeanContexts
from qt_bert.ablation.pair_table import write_pairs
from qt_bert.ablation.shard_folder import clear_shards
from qt_bert.ablation.variant import Variant
from qt_bert.ablation.variant_table import write_variants
from qt_bert.errors import RunFolderError
from qt_bert.files import is_vacant, write_json
from qt_bert.pairs import Pair
from qt_bert.results.codec import encode, read_result
from qt_bert.scoring.bulk import Counts

MARK = ".progress.json"
"""A `Mark`; gone when the sweep is finished."""

Standing = Literal["new", "begun", "finished"]


def check_flags(path: Path, *, resume: bool = False, overwrite: bool = False) -> SweepRecord | None:
    """The sweep in `path` to go on with; None where one is to begin. Nothing is touched.

    Raises RunFolderError for a sweep and neither flag, and for anything but a sweep.
    """
    if is_vacant(path):
        return None
    record = read_record(path)
    if resume and not overwrite:
        return record
    if overwrite:
        return None
    state = "a finished sweep" if record.complete else "an unfinished sweep"
    raise RunFolderError(
        f"{path} holds {state}; add --resume to go on with it, --overwrite to start anew, or "
        "choose another folder"
    )


def judge_folder(
    path: Path, key: Mapping[str, str], *, resume: bool = False, overwrite: bool = False
) -> Standing:
    """What is to be done in `path`, which is not touched here.

    `new`: begin (a sweep that lies there is to be replaced); `begun`: go on; `finished`: nothing.
    Raises RunFolderError where the flags do not fit what lies there: a sweep and neither flag; a
    sweep of another key under `resume`; anything but a sweep, whatever the flags.
    """
    record = check_flags(path, resume=resume, overwrite=overwrite)
    if record is None:
        return "new"
    if other := differing(record.key, key):
        named = ", ".join("version of this program" if n == "source" else n for n in other)
        raise RunFolderError(
            f"{path} was begun with another {named}; resume with the same, start anew "
            "with --overwrite, or choose another folder"
        )
    return "finished" if record.complete else "begun"


@dataclass(frozen=True, slots=True)
class Mark:
    """How many batches are stored, and how many pairs they hold."""

    batches: int = 0
    pairs: int = 0


@dataclass(eq=False)
class SweepWork:
    """The folder of an unfinished sweep; `done` is how far it is."""

    path: Path
    record: SweepRecord
    logits: np.ndarray
    done: Mark

    @classmethod
    def begin(
        cls,
        path: Path,
        record: SweepRecord,
        variants: Sequence[Variant],
        pairs: Sequence[Pair],
        means: MeanContexts | None,
    ) -> SweepWork:
        """Start in `path`; the files of a sweep that lies there are replaced, others stay."""
        (path / MARK).unlink(missing_ok=True)
        clear_shards(path)
        write_json(path / RECORD, encode(record))
        for name in (LOGITS, EFFECTS, MEANS):
            (path / name).unlink(missing_ok=True)
        write_variants(path / VARIANTS, variants)
        write_pairs(path / PAIRS, pairs)
        if means is not None:
            from qt_bert.ablation.means import write_means

            write_means(path / MEANS, means)
        work = cls(path, record, _new_logits(path / LOGITS, record.shape), Mark())
        work._save()
        return work

    @classmethod
    def go_on(cls, path: Path, record: SweepRecord) -> SweepWork | None:
        """The work in `path` as a kill left it; None where it left nothing to go on from."""
        if not (path / MARK).exists():
            return None
        done = read_result(Mark, path / MARK)
        logits = open_logits(path / LOGITS, record.shape, "r+")
        write_json(path / RECORD, encode(record))
        return cls(path, record, logits, done)

    def store(self, swept: Swept) -> None:
        """Write one batch's logits, and then that they are written."""
        self.write(swept.rows, swept.logits)
        self.mark(Mark(self.done.batches + 1, self.done.pairs + len(swept.rows)))

    def write(self, rows: np.ndarray, logits: np.ndarray) -> None:
        """Write logits [V, B, K] of the pairs `rows` [B]; they count only once they are marked."""
        self.logits[:, rows] = logits
        self.logits.flush()  # type: ignore[attr-defined]

    def mark(self, done: Mark) -> None:
        """Write that the first `done.batches` batches are stored."""
        self.done = done
        self._save()

    def finish(self, counts: Counts) -> None:
        """Record the sweep as complete, with how many texts had to be cut."""
        clear_shards(self.path)
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


def _new_logits(path: Path, shape: tuple[int, int, int]) -> np.memmap[Any, Any]:
    logits = np.lib.format.open_memmap(path, "w+", np.float32, shape)
    if hasattr(os, "posix_fallocate"):  # a full disk is an error now, not a crash in the middle
        with open(path, "r+b") as handle:
            os.posix_fallocate(handle.fileno(), 0, path.stat().st_size)
    return logits
