"""Files that some probes read beside model and pairs: their options, and what they become."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from qt_bert.cli import opening
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions, for_each


@dataclass(frozen=True, kw_only=True)
class Further:
    """What the options of `probe` and `report` name besides model, base and pairs."""

    treebanks: Sequence[Path] | None = None
    texts: Path | None = None
    held_out: Sequence[Path] | None = None
    held_out_columns: Sequence[str] | None = None
    held_out_grades: Sequence[str] | None = None
    initialisations: Path | None = None
    baseline_table: Path | None = None
    heads: str | None = None
    cases: Path | None = None
    band_from: Path | None = None
    corpus: Path | None = None

    def files(self, pairs: Path, base: Path | None, max_rejects: float) -> dict[str, Any]:
        """The fields of `ProbeFiles`, what ships filled in where it belongs to `pairs` and `base`.

        Raises ArgumentError or PairFileError for what cannot be meant or is not there.
        """
        from qt_bert.probes.behaving.reading import read_cases
        from qt_bert.probes.split import HeldOutFile
        from qt_bert.study.probe_files import RECORDS

        treebanks = tuple(self.treebanks or ())
        for path in treebanks:
            if not path.is_file():
                raise ArgumentError(f"--treebank {path}: there is no such file")
        records = {
            "initialisations": self.initialisations or opening.initialisations_of(base),
            "baseline_table": self.baseline_table or opening.baseline_table_of(pairs),
        }
        for name, folder in records.items():
            if folder is not None and not (folder / RECORDS[name]).is_file():
                option = name.replace("_", "-")
                raise ArgumentError(f"--{option} {folder}: no {RECORDS[name]} in that folder")
        for option in ("cases", "band_from", "corpus"):
            path = getattr(self, option)
            if path is not None and not path.is_file():
                raise ArgumentError(f"--{option.replace('_', '-')} {path}: there is no such file")
        if self.cases is not None:
            read_cases(self.cases)  # every bad row is told now, and not after minutes of other work
        held_out = held_out_files(
            self.held_out, self.held_out_columns, self.held_out_grades, max_rejects
        )
        return {
            "treebanks": treebanks,
            "texts": self.texts or opening.texts_of(pairs),
            "held_out_files": tuple(HeldOutFile(path=p, reader=r) for p, r in held_out),
            "heads": self.heads,
            "cases": self.cases or opening.cases_that_ship(),
            "band_from": self.band_from,
            "corpus": self.corpus,
            **records,
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
