"""`qt-bert title-states`: a file of titles in, a folder of their states out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np

from qt_bert.data.lines import PACKED_SUFFIXES, TextSource
from qt_bert.data.pairs import Pair, Reason, Reject
from qt_bert.data.reader import (
    JUDGED_EVERY,
    PairReader,
    ReaderOptions,
    check_share,
    describe,
    reject_log,
    too_many,
)
from qt_bert.errors import PairFileError, RunFolderError
from qt_bert.files import sha256_file
from qt_bert.progress import Progress, progress, silent
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.judge import default_scheme, judge_logits
from qt_bert.scoring.tables import count_rows, windows
from qt_bert.scoring.title_folder import GrowingStates, Manifest, joined, states_of_checkpoint
from qt_bert.scoring.title_states import Format, StatesPart, compute, encode_titles, title_key
from qt_bert.stats.comparison import Difference, compare

# The titles of a file: one a line of a text file, or a column of a file of pairs.


def open_titles(
    path: Path, options: ReaderOptions, rejects_path: Path | None = None
) -> _Lines | _Column:
    """The titles of a file in its order; `rejected` rows held none, and are listed in `rejects_path`.

    A `.txt` (plain, .gz or .xz) has a title a line, unless there is a tab in its first line or
    `options` name its columns; any other file is one of pairs, as `PairReader` reads it. Raises
    PairFileError for a file that cannot be read so, while iterating too.
    """
    packed = path.suffix.lower() in PACKED_SUFFIXES
    text = (Path(path.stem) if packed else path).suffix.lower() == ".txt"
    if text and not options.columns and not options.no_header:
        first = next(iter(TextSource(path).lines()), (0, ""))
        if "\t" not in (first.text if isinstance(first, Reject) else first[1]):
            return _Lines(path, options.max_rejects, rejects_path)
    return _Column(options.open(path, rejects_path=rejects_path))


class _Column:
    """The titles of a file of pairs."""

    def __init__(self, reader: PairReader) -> None:
        self._reader = reader

    @property
    def rejected(self) -> int:
        return self._reader.rejected

    def __iter__(self) -> Iterator[str]:
        return (pair.title for pair in self._reader)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Queries and titles."""
        return ((pair.query, pair.title) for pair in self._reader)


class _Lines:
    """One title a line; a line of blanks, of bytes that are no text or with a NUL is a reject."""

    def __init__(self, path: Path, max_rejects: float, rejects_path: Path | None) -> None:
        self._source = TextSource(path)
        self._max_rejects = check_share(max_rejects)
        self._rejects_path = rejects_path
        self._reasons: Counter[str] = Counter()

    @property
    def rejected(self) -> int:
        return self._reasons.total()

    def __iter__(self) -> Iterator[str]:
        self._reasons = Counter()
        rows, first = 0, None
        with reject_log(self._rejects_path) as log:
            for item in self._source.lines():
                rows += 1
                title = item if isinstance(item, Reject) else _title(*item)
                if isinstance(title, str):
                    yield title
                else:
                    self._reasons[title.reason] += 1
                    first = first or title
                    log(title)
                if rows % JUDGED_EVERY == 0:
                    self._judge(rows, first)
            self._judge(rows, first)

    def pairs(self) -> Iterator[tuple[str, str]]:
        """Each line as a query and as a title."""
        return ((line, line) for line in self)

    def _judge(self, rows: int, first: Reject | None) -> None:
        """Raise PairFileError where all of the lines so far are rejects, or too many."""
        if not rows:
            raise PairFileError(f"{self._source.path}: the file has no titles")
        if rows == self.rejected or too_many(self.rejected, rows, self._max_rejects):
            raise PairFileError(
                f"{self._source.path}: {self.rejected:,} of the first {rows:,} lines hold no title, "
                f"more than --max-rejects {self._max_rejects:g} allows "
                f"({describe(self._reasons, first)})"
            )


def _title(line: int, text: str) -> str | Reject:
    if text.isspace():
        return Reject.of(line, Reason.EMPTY_TITLE, text)
    return Reject.of(line, Reason.NUL, text) if "\0" in text else text


# `qt-bert title-states`: a file of titles in, a folder of their states out, in parts that resume.


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
    rest = islice(titles, begun, None)
    work = _Work(scorer, grown, dtype, part_bytes)
    with progress(count_rows(path), "title states", "titles", done=begun) as shown:
        for window in windows(rest, WINDOW):
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
        self._waiting: list[StatesPart] = []
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


# Two scorers of one model's logits beside each other: what reading title states changes, or a cut vocabulary.


METRICS = ("accuracy", "qwk", "spearman", "ndcg_at_5")

SAMPLE = 512
"""Pairs that the smaller formats are held against the whole model on, where nobody asks for all."""


@dataclass(frozen=True)
class WholeComparison:
    """`largest` difference of a logit over `pairs` pairs.

    `metrics` has some metrics on the `graded` of them, paired as `qt-bert compare` does it, the whole
    model being A; empty where there is no grade.
    """

    pairs: int
    largest: float
    graded: int
    metrics: Mapping[str, Difference]


def compare_whole(
    path: Path, options: ReaderOptions, scorer: Scorer, *, most: int | None = SAMPLE
) -> WholeComparison:
    """The scorer, which reads title states, beside the whole model on the first `most` pairs of a
    file (None: all)."""
    labels = scorer.checkpoint.settings.labels
    with closing(iter(options.open(path, default_map=default_scheme(labels)))) as rows:
        pairs = list(islice(rows, most))
    with progress(2 * len(pairs), "comparing with the whole model", "pairs") as shown:
        return compare_scorers(pairs, scorer.whole(), scorer.fresh(), shown)


def compare_scorers(
    pairs: Sequence[Pair], whole: Scorer, other: Scorer, shown: Progress = silent
) -> WholeComparison:
    """Two scorers on the same pairs. Those without a grade, or with one that is unknown, count for no
    metric."""
    labels = whole.checkpoint.settings.labels
    texts = [(pair.query, pair.title) for pair in pairs]
    first, second = (one.logits(texts, shown) for one in (whole, other))
    graded = [row for row, pair in enumerate(pairs) if pair.grades is not None]
    metrics: Mapping[str, Difference] = {}
    if graded:
        some = [pairs[row] for row in graded]
        judged = [judge_logits(one[graded], some, labels) for one in (first, second)]
        metrics = compare(*judged, metrics=METRICS, most_different=0).metrics
    return WholeComparison(len(pairs), float(np.abs(first - second).max()), len(graded), metrics)
