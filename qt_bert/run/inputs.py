"""What `report`, `probe` and `plan` run on: model, pairs, further files."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qt_bert.data.reader import ReaderOptions, for_each
from qt_bert.errors import ArgumentError
from qt_bert.run.opening import ModelOptions
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
class StudyOptions(ModelOptions):
    """What `plan`, `probe` and `report` take beside the file of pairs; the fields' docs are the help."""

    held_out: list[Path] | None = None
    """Graded file for figures of its own (repeat it for several)."""
    held_out_columns: list[str] | None = None
    """Columns of each --held-out, in the same order."""
    held_out_grades: list[str] | None = None
    """What the labels of each --held-out mean, in the same order."""
    full: bool = False
    """Take every pair and draw, where `quick` takes a sample."""
    resamples: int = 2000
    """Bootstrap resamples of queries."""
    seed: int = field(default=0, metadata={"min": 0})
    """Seed of every random draw."""

    def held_out_files(self, max_rejects: float) -> list[tuple[Path, ReaderOptions]]:
        """Each held-out file with the way to read it.

        Raises ArgumentError for options that fit no file, PairFileError for a file that cannot be read.
        """
        paths = list(self.held_out or ())
        if not paths and (self.held_out_columns or self.held_out_grades):
            option = "--held-out-columns" if self.held_out_columns else "--held-out-grades"
            raise ArgumentError(f"{option} goes with --held-out FILE, which names no file")
        each = zip(
            paths,
            for_each(self.held_out_columns, paths, "--held-out-columns"),
            for_each(self.held_out_grades, paths, "--held-out-grades"),
            strict=True,
        )
        found = [
            (
                path,
                ReaderOptions(columns=one or None, grades=meant or None, max_rejects=max_rejects),
            )
            for path, one, meant in each
        ]
        for path, reader in found:
            reader.open(path)
        return found


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(StudyOptions):
    """What probes may read besides."""

    base: str | None = None
    """Model before fine-tuning. [default: what ships, for the model that ships]"""
    second: str | None = None
    """Model tuned from the same base with another seed, for the probe `shift`."""
    treebank: list[Path] | None = None
    """Universal Dependencies file, CoNLL-U (repeatable), for `relations`, `features`, `layers`."""
    texts: Path | None = None
    """Pairs of other queries, for labels of `layers` that need no grader. [default: the train split
    that ships, with the test split that ships]"""
    baseline_table: Path | None = None
    """What experiments/baselines left, for `baselines`. [default: what ships, with the test split that
    ships]"""
    heads: str | None = None
    """Heads to take for the matching ones ('L2H1 L3H7') in `patch`, `routes`, `surrogate`, `revert` and
    `ladder`. [default: those that `matching` finds]"""
    cases: Path | None = None
    """Queries with two titles each, for `behaviour`. [default: the cases that ship]"""
    band_from: Path | None = None
    """Pairs on which `behaviour` measures the band of a model with one logit. [default: the discovery
    pairs]"""
    segmenter: str = "jieba"
    """Cuts words: jieba, jieba-search, rjieba."""

    def files(self, pairs: Path, reader: ReaderOptions) -> dict[str, Any]:
        """The fields of `ProbeFiles`, what ships filled in where it belongs to `pairs` as `reader` takes
        them: the table of baselines was measured on all of the test split.

        Raises ArgumentError or PairFileError for what cannot be meant or is not there.
        """
        from qt_bert.probes.behaviour_cases import read_cases
        from qt_bert.probes.split import HeldOutFile
        from qt_bert.run.folder import BASELINES as TABLE

        treebanks = tuple(self.treebank or ())
        for path in treebanks:
            if not path.is_file():
                raise ArgumentError(f"--treebank {path}: there is no such file")
        table = self.baseline_table
        if table is None and reader.limit is None:
            table = baseline_table_of(pairs)
        if table is not None and not (table / TABLE).is_file():
            raise ArgumentError(f"--baseline-table {table}: no {TABLE} in that folder")
        for option in ("cases", "band_from"):
            path = getattr(self, option)
            if path is not None and not path.is_file():
                raise ArgumentError(f"--{option.replace('_', '-')} {path}: there is no such file")
        if self.cases is not None:
            read_cases(self.cases)  # every bad row is told now, and not after minutes of other work
        held_out = self.held_out_files(reader.max_rejects)
        return {
            "treebanks": treebanks,
            "texts": self.texts or texts_of(pairs),
            "held_out_files": tuple(HeldOutFile(path=p, reader=r) for p, r in held_out),
            "heads": self.heads,
            "cases": self.cases or cases_that_ship(),
            "band_from": self.band_from,
            "baseline_table": table,
        }


# What `report` and `probe` run on: model, pairs, further files, and the inputs that decide the run.


@dataclass(frozen=True)
class Gathered:
    """The folder of the model, the file of pairs, the other files, and the run's inputs."""

    model: Path
    pairs: Path
    files: ProbeFiles
    inputs: RunInputs


def gather(
    asked: StudyOptions,
    pairs: Path | None,
    reader: ReaderOptions,
    *,
    discovery: Path | None = None,
    userdict: Path | None = None,
    gold: Path | None = None,
    compared: str | None = None,
    compared_grades: str | None = None,
) -> Gathered:
    """Fill in what ships and check what can be checked before the model is opened.

    `discovery` is a file to choose on; without it, dev goes with the test split that ships, and any
    other file is halved. Without a base, the pretrained model that ships is the base of the graded one
    that ships; another model, tuned from another one, gets none. Raises ArgumentError, CheckpointError
    or PairFileError for what cannot be meant or is not there.
    """
    path = pairs_or_test(pairs)
    reader.open(path)
    from qt_bert.data.segmenters import check_segmenter
    from qt_bert.models.folder import resolve_folder
    from qt_bert.run.folder import ProbeFiles
    from qt_bert.run.stage import HEADS_GONE, has_pruned_heads, run_inputs

    # A plan reads no more than every study does, and is cut by no base.
    more = asked if isinstance(asked, ProbeOptions) else ProbeOptions()
    check_segmenter(more.segmenter, userdict=userdict)
    folder = resolve_folder(asked.model if asked.model is not None else shipped(GRADED))
    tuned_from = resolve_folder(more.base) if more.base is not None else base_of(folder)
    files = ProbeFiles(
        discovery=discovery or discovery_of(path),
        base=tuned_from,
        second=resolve_folder(more.second) if more.second is not None else None,
        userdict=userdict,
        gold=gold,
        compared=resolve_folder(compared) if compared is not None else None,
        **(asked.files(path, reader) if isinstance(asked, ProbeOptions) else {}),
    )
    given = {
        "reader": asdict(reader),
        "dtype": asked.dtype,
        "max_length": asked.max_length,
        "model_grades": asked.model_grades,
        "compared_grades": compared_grades,
        "resamples": asked.resamples,
        "seed": asked.seed,
        "profile": "full" if asked.full else "quick",
        HEADS_GONE: has_pruned_heads(folder),
        **files.arguments(),
    }
    return Gathered(folder, path, files, run_inputs(folder, path, given, more.segmenter))
