"""`qt-bert title-states`: a file of titles in, a folder of their states out, in parts that resume."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from qt_bert.errors import RunFolderError
from qt_bert.files import sha256_file
from qt_bert.pairs import ReaderOptions
from qt_bert.progress import progress
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.counting import count_rows
from qt_bert.scoring.title_states.computing import compute, encode_titles
from qt_bert.scoring.title_states.growing import GrowingStates, joined
from qt_bert.scoring.title_states.halves import title_key
from qt_bert.scoring.title_states.manifest import Manifest, states_of_checkpoint
from qt_bert.scoring.title_states.quantising import Format
from qt_bert.scoring.title_states.states import Part
from qt_bert.scoring.title_states.titles import open_titles

WINDOW = 1024
"""Titles that are tokenised and ordered by length at a time."""

PART_BYTES = 50_000_000
"""A part is stored once it has grown to this."""

REJECTS = "rejects.tsv"


@dataclass(frozen=True)
class StoreReport:
    """What a finished run has to say; `already`: all was there and nothing was done."""

    manifest: Manifest
    already: bool = False


def store_titles(
    path: Path,
    options: ReaderOptions,
    scorer: Scorer,
    out: Path,
    *,
    dtype: Format = "float32",
    resume: bool = False,
    overwrite: bool = False,
    part_bytes: int = PART_BYTES,
) -> StoreReport:
    """Store the states of every title of the file at `path` in the folder `out`, equal ones once.

    Rows without a title are listed in `out`/rejects.tsv. `resume` goes on behind the last part that
    was stored, with the same bytes as an undisturbed run. Raises CheckpointError where the scorer's
    model is no offline one, RunFolderError as `GrowingStates.begin` does and where the disk is full,
    PairFileError for the file.
    """
    if out.exists() and not out.is_dir():
        raise RunFolderError(f"{out} is a file; --out names a folder")
    source = {"sha256": sha256_file(path), "reader": repr(options)}
    asked = Manifest(of=states_of_checkpoint(scorer.checkpoint), dtype=dtype, source=source)
    grown = GrowingStates.begin(out, asked, resume=resume, overwrite=overwrite)
    if grown.manifest.complete:
        return StoreReport(grown.manifest, already=True)
    titles = open_titles(path, options, out / REJECTS)
    begun = grown.manifest.rows
    rest = islice(iter(titles), begun, None)
    work = _Work(scorer, grown, dtype, part_bytes)
    with progress(count_rows(path), "title states", "titles", done=begun) as shown:
        for window in _windows(rest):
            work.take(window)
            shown.advance(len(window))
    work.flush()
    grown.finish(work.rows, titles.rejected)
    return StoreReport(grown.manifest)


class _Work:
    """What was read and computed and is not stored yet."""

    def __init__(
        self, scorer: Scorer, grown: GrowingStates, dtype: Format, part_bytes: int
    ) -> None:
        self._scorer, self._grown = scorer, grown
        self._dtype, self._part_bytes = dtype, part_bytes
        self._known = grown.keys()
        self._waiting: list[Part] = []
        self.rows = grown.manifest.rows
        self._truncated = grown.manifest.truncated

    def take(self, titles: list[str]) -> None:
        """Compute the titles that are new; a part ends with them where it is large enough."""
        new = {}
        for one in encode_titles(self._scorer, titles):
            if (key := title_key(one)) not in self._known:
                self._known.add(key)
                new[key] = one
        self.rows += len(titles)
        self._truncated += sum(one.title_truncated for one in new.values())
        if new:
            self._waiting.append(compute(self._scorer, list(new.values()), self._dtype))
        if sum(part.bytes for part in self._waiting) >= self._part_bytes:
            self.flush()

    def flush(self) -> None:
        """Store what is waiting as a part."""
        if self._waiting:
            self._grown.add(joined(self._waiting), self.rows, self._truncated)
            self._waiting = []


def _windows(titles: Iterable[str]) -> Iterator[list[str]]:
    stream = iter(titles)
    while window := list(islice(stream, WINDOW)):
        yield window
