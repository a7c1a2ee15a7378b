"""What `report`, `probe` and `plan` run on: model, pairs, further files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qt_bert.data.reader import ReaderOptions, for_each
from qt_bert.errors import ArgumentError
from qt_bert.shipped import (
    BASELINES,
    BEHAVIOURS,
    DEV,
    GRADED,
    PRETRAINED,
    TEST,
    TRAIN,
    shipped,
    ships,
)

if TYPE_CHECKING:
    from qt_bert.run.folder import ProbeFiles, RunInputs


# What ships, where nothing else is named.


def pairs_or_test(pairs: Path | None) -> Path:
    """`--pairs`, or the test split that ships."""
    return pairs if pairs is not None else shipped(TEST)


def discovery_of(pairs: Path) -> Path | None:
    """The dev split beside the test split that ships; any other file is halved."""
    return shipped(DEV) if _ships(pairs, TEST) else None


def base_of(model: Path) -> Path | None:
    """The pretrained model beside the graded one that ships; of another the base is not known."""
    return shipped(PRETRAINED) if _ships(model, GRADED) else None


def texts_of(pairs: Path) -> Path | None:
    """The train split beside the test split that ships."""
    return shipped(TRAIN) if _ships(pairs, TEST) else None


def cases_that_ship() -> Path | None:
    """The behaviour cases."""
    return shipped(BEHAVIOURS) if ships(BEHAVIOURS) else None


def baseline_table_of(pairs: Path) -> Path | None:
    """The table of baselines that was measured on the test split that ships."""
    return shipped(BASELINES) if _ships(pairs, TEST) and ships(BASELINES) else None


def _ships(path: Path, name: str) -> bool:
    """Whether `path` is what ships as `name`; an installation without it ships nothing."""
    try:
        return path.resolve() == shipped(name).resolve()
    except ArgumentError:
        return False


# Files that some probes read beside model and pairs: their options, and what they become.


@dataclass(frozen=True, kw_only=True)
class Further:
    """What the options of `probe` and `report` name besides model, base and pairs."""

    treebanks: Sequence[Path] | None = None
    texts: Path | None = None
    held_out: Sequence[Path] | None = None
    held_out_columns: Sequence[str] | None = None
    held_out_grades: Sequence[str] | None = None
    baseline_table: Path | None = None
    heads: str | None = None
    cases: Path | None = None
    band_from: Path | None = None
    corpus: Path | None = None

    def files(self, pairs: Path, reader: ReaderOptions) -> dict[str, Any]:
        """The fields of `ProbeFiles`, what ships filled in where it belongs to `pairs` as `reader` takes
        them: the table of baselines was measured on all of the test split.

        Raises ArgumentError or PairFileError for what cannot be meant or is not there.
        """
        from qt_bert.probes.behaviour_cases import read_cases
        from qt_bert.probes.split import HeldOutFile
        from qt_bert.run.folder import BASELINES as TABLE

        treebanks = tuple(self.treebanks or ())
        for path in treebanks:
            if not path.is_file():
                raise ArgumentError(f"--treebank {path}: there is no such file")
        table = self.baseline_table
        if table is None and reader.limit is None:
            table = baseline_table_of(pairs)
        if table is not None and not (table / TABLE).is_file():
            raise ArgumentError(f"--baseline-table {table}: no {TABLE} in that folder")
        for option in ("cases", "band_from", "corpus"):
            path = getattr(self, option)
            if path is not None and not path.is_file():
                raise ArgumentError(f"--{option.replace('_', '-')} {path}: there is no such file")
        if self.cases is not None:
            read_cases(self.cases)  # every bad row is told now, and not after minutes of other work
        held_out = held_out_files(
            self.held_out, self.held_out_columns, self.held_out_grades, reader.max_rejects
        )
        return {
            "treebanks": treebanks,
            "texts": self.texts or texts_of(pairs),
            "held_out_files": tuple(HeldOutFile(path=p, reader=r) for p, r in held_out),
            "heads": self.heads,
            "cases": self.cases or cases_that_ship(),
            "band_from": self.band_from,
            "corpus": self.corpus,
            "baseline_table": table,
        }


def held_out_files(
    files: Sequence[Path] | None,
    columns: Sequence[str] | None,
    grades: Sequence[str] | None,
    max_rejects: float,
) -> list[tuple[Path, ReaderOptions]]:
    """Each file with the way to read it.

    Raises ArgumentError for options that fit no file, PairFileError for a file that cannot be read.
    """
    paths = list(files or ())
    if not paths and (columns or grades):
        option = "--held-out-columns" if columns else "--held-out-grades"
        raise ArgumentError(f"{option} goes with --held-out FILE, which names no file")
    each = zip(
        paths,
        for_each(columns, paths, "--held-out-columns"),
        for_each(grades, paths, "--held-out-grades"),
        strict=True,
    )
    found = [
        (path, ReaderOptions(columns=one or None, grades=meant or None, max_rejects=max_rejects))
        for path, one, meant in each
    ]
    for path, reader in found:
        reader.open(path)
    return found


# What `report` and `probe` run on: model, pairs, further files, and the inputs that decide the run.


@dataclass(frozen=True)
class Gathered:
    """The folder of the model, the file of pairs, the other files, and the run's inputs."""

    model: Path
    pairs: Path
    files: ProbeFiles
    inputs: RunInputs


def gather(
    *,
    model: str | None,
    pairs: Path | None,
    base: str | None,
    reader: ReaderOptions,
    segmenter: str,
    full: bool,
    dtype: str,
    max_length: int | None,
    model_grades: str | None,
    resamples: int,
    seed: int,
    discovery: Path | None = None,
    second: str | None = None,
    userdict: Path | None = None,
    gold: Path | None = None,
    compared: str | None = None,
    compared_grades: str | None = None,
    further: Further | None = None,
) -> Gathered:
    """Fill in what ships and check what can be checked before the model is opened.

    `discovery` is a file to choose on; without it, dev goes with the test split that ships, and any
    other file is halved. Without `--base`, the pretrained model that ships is the base of the graded one that ships;
    another model, tuned from another one, gets none. Raises ArgumentError, CheckpointError or
    PairFileError for what cannot be meant or is not there.
    """
    path = pairs_or_test(pairs)
    reader.open(path)
    from qt_bert.data.segmenters import check_segmenter
    from qt_bert.models.folder import resolve_folder
    from qt_bert.run.folder import ProbeFiles
    from qt_bert.run.stage import HEADS_GONE, has_pruned_heads, run_inputs

    check_segmenter(segmenter, userdict=userdict)
    folder = resolve_folder(model if model is not None else shipped(GRADED))
    tuned_from = resolve_folder(base) if base is not None else base_of(folder)
    files = ProbeFiles(
        discovery=discovery or discovery_of(path),
        base=tuned_from,
        second=resolve_folder(second) if second is not None else None,
        userdict=userdict,
        gold=gold,
        compared=resolve_folder(compared) if compared is not None else None,
        **({} if further is None else further.files(path, reader)),
    )
    given = {
        "reader": asdict(reader),
        "dtype": dtype,
        "max_length": max_length,
        "model_grades": model_grades,
        "compared_grades": compared_grades,
        "resamples": resamples,
        "seed": seed,
        "profile": "full" if full else "quick",
        HEADS_GONE: has_pruned_heads(folder),
        **files.arguments(),
    }
    return Gathered(folder, path, files, run_inputs(folder, path, given, segmenter))
