"""What a probe reads: pairs to choose on and to test on, split by query, and further files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import split_halves
from qt_bert.files import sha256_file
from qt_bert.results.baselines import RECORD
from qt_bert.results.probe import PairsRef

if TYPE_CHECKING:
    from qt_bert.models.card import ModelLabels


class Split(NamedTuple):
    """Graded pairs for choosing and for testing, and how many rows were no pairs."""

    discovery: list[Pair]
    validation: list[Pair]
    rejected: int


@dataclass(frozen=True, kw_only=True)
class PairFiles:
    """Where the pairs lie and how they are read.

    `discovery` is a file of its own, as with the splits that ship; without it `pairs` is halved by
    a hash of the query.
    """

    pairs: Path
    reader: ReaderOptions = ReaderOptions()
    discovery: Path | None = None

    def read(self, labels: ModelLabels) -> Split:
        """The graded pairs, their labels read as a model of these `labels` can be judged by.

        Raises PairFileError for rows without a label or with a bad one (above `--max-rejects`), and
        for a file that leaves a half without graded pairs.
        """
        from qt_bert.scoring.judge import graded_pairs

        validation, rejected = graded_pairs(self.pairs, self.reader, labels)
        if self.discovery is None:
            return Split(*split_halves(validation), rejected)
        discovery, more = graded_pairs(self.discovery, self.reader, labels)
        return Split(discovery, validation, rejected + more)


@dataclass(frozen=True, kw_only=True)
class HeldOutFile:
    """A graded file of its own, for figures alone, and how it is read."""

    path: Path
    reader: ReaderOptions = ReaderOptions()

    def read(self, labels: ModelLabels) -> list[Pair]:
        """Its graded pairs, for a model of these `labels`. Raises PairFileError as `PairFiles.read`."""
        from qt_bert.scoring.judge import graded_pairs

        return graded_pairs(self.path, self.reader, labels)[0]


@dataclass(kw_only=True)
class ProbeFiles:
    """What a probe may read besides model and pairs; each may be missing.

    `base`: the folder of the model before fine-tuning. `second`: that of a model tuned from it with
    another seed. `userdict`: further words for the segmenter. `gold`: a segmented file. `treebanks`:
    CoNLL-U files. `texts`: pairs of other queries, for labels that need no grader. `held_out_files`:
    graded pairs for figures alone. `baseline_table`: the folder of what that experiment measured.
    `heads`: those to take for the matching ones, as text. `cases`: queries with two titles each.
    `band_from`: pairs that a one-logit model's band is measured on.
    """

    base: Path | None = None
    second: Path | None = None
    userdict: Path | None = None
    gold: Path | None = None
    treebanks: tuple[Path, ...] = ()
    texts: Path | None = None
    held_out_files: tuple[HeldOutFile, ...] = ()
    baseline_table: Path | None = None
    heads: str | None = None
    cases: Path | None = None
    band_from: Path | None = None

    def arguments(self) -> dict[str, Any]:
        """Name and SHA-256 of each, as arguments of a run.

        Raises CheckpointError where `base` or `second` is no model, and OSError for a file that is not there.
        """
        return {one.name: described(getattr(self, one.name), one.name) for one in fields(self)}


def described(given: Any, name: str = "") -> Any:
    """A file by name and SHA-256, as the input `name` of a run; what is no file stays as it is."""
    if isinstance(given, tuple):
        return [described(one) for one in given]
    if isinstance(given, HeldOutFile):
        return {**described(given.path), "reader": asdict(given.reader)}
    if not isinstance(given, Path):
        return given
    if name in ("model", "base", "second"):
        from qt_bert.models.folder import folder_sha256, verify_folder

        verify_folder(given)
        return {"name": given.name, "sha256": folder_sha256(given)}
    file = given / RECORD if name == "baseline_table" else given
    return {"name": given.name, "sha256": sha256_file(file)}


def distinct_names(names: Iterable[str]) -> list[str]:
    """Each name, with a number behind one that came before."""
    found: list[str] = []
    for name in names:
        own, number = name, 1
        while own in found:
            number += 1
            own = f"{name} ({number})"
        found.append(own)
    return found


def reference(path: Path, pairs: list[Pair]) -> PairsRef:
    """`path` by name and hash, with the number of `pairs` used of it and of their queries."""
    return PairsRef.of(path.name, sha256_file(path), pairs)
