"""Where training pairs come from: a file, how its columns and labels read, and what it is for."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from qt_bert.errors import ArgumentError
from qt_bert.pairs import GradeMap, Pair, PairReader, ReaderOptions


@dataclass(frozen=True)
class PairSource:
    """One file of pairs as a training command reads it.

    `columns`, `grades` (`0=1-2,1=3-4,2=5`), `no_header` and `max_rejects` are the reader's options;
    `always` is the set of grades (`4-5`) every row of a file without labels stands for; `labels`
    keeps rows of these labels only; `exclude` drops rows whose query stands in one of
    these files; `auxiliary` trains the labels through an output of their own of that name, which
    the finished model drops; `weight` scales the loss; `tenth` keeps a tenth of the queries, by
    hash, `alone` or leaves it `left out` ("" keeps all).
    """

    file: Path
    columns: str = ""
    grades: str = ""
    always: str = ""
    labels: tuple[str, ...] = ()
    exclude: tuple[Path, ...] = ()
    auxiliary: str = ""
    weight: float = 1.0
    tenth: str = ""
    no_header: bool = False
    max_rejects: float = 0.01

    def read(self) -> list[Pair]:
        """The rows this source gives. Raises PairFileError as the reader does."""
        options = ReaderOptions(
            self.columns or None, self.no_header, self.grades or None, self.max_rejects
        )
        reader = options.open(self.file, default_map=GradeMap.identity())
        barred = {q for other in self.exclude for q in _queries(other)}
        fixed = GradeMap.parse(f"any={self.always}").sets["any"] if self.always else None
        return [
            replace(pair, grades=fixed) if fixed else pair
            for pair in reader
            if (not self.labels or pair.label in self.labels)
            and pair.query not in barred
            and (not self.tenth or _in_tenth(pair.query) == (self.tenth == "alone"))
        ]


def _in_tenth(query: str) -> bool:
    """About one query in ten, whatever file it stands in."""
    return hashlib.sha256(query.encode()).digest()[0] < 26


def _queries(path: Path) -> set[str]:
    return {pair.query for pair in PairReader(path)}


def load_recipe(path: Path, data: Path) -> dict[str, Any]:
    """A TOML recipe with its relative file names resolved under `data`.

    `[[pairs]]` tables and `[dev]` become `PairSource` objects, `text` a list of shard paths (globs
    allowed), `forbidden` a list of files; `[settings]` and `[job]` stay as they are.
    Raises ArgumentError naming the key that cannot be meant, or the file that is missing.
    """
    try:
        with open(path, "rb") as handle:
            recipe = tomllib.load(handle)
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ArgumentError(f"{path}: not a readable recipe ({error})") from error
    recipe["pairs"] = [_source(table, path, data) for table in recipe.get("pairs", [])]
    if "dev" in recipe:
        recipe["dev"] = _source(recipe["dev"], path, data)
    shards: list[Path] = []
    for pattern in recipe.get("text", []):
        found = sorted(data.glob(pattern))
        if not found:
            raise ArgumentError(f"{path}: no file matches {pattern!r} under {data}")
        shards += found
    recipe["text"] = shards
    recipe["forbidden"] = [_existing(data / name, path) for name in recipe.get("forbidden", [])]
    return recipe


def _source(table: Mapping[str, Any], recipe: Path, data: Path) -> PairSource:
    known = {f.name for f in fields(PairSource)}
    unknown = sorted(set(table) - known)
    if unknown or "file" not in table:
        what = f"unknown key {unknown[0]!r}" if unknown else "a [[pairs]] table without `file`"
        raise ArgumentError(f"{recipe}: {what}; a table knows {', '.join(sorted(known))}")
    values = dict(table)
    values["file"] = _existing(data / values["file"], recipe)
    values["labels"] = tuple(str(label) for label in values.get("labels", ()))
    values["exclude"] = tuple(_existing(data / name, recipe) for name in values.get("exclude", ()))
    return PairSource(**values)


def _existing(path: Path, recipe: Path) -> Path:
    if not path.exists():
        raise ArgumentError(f"{recipe}: {path} does not exist; give the data's folder with --data")
    return path


def one_for_each(
    files: Sequence[Path] | None,
    grades: Sequence[str] | None,
    columns: Sequence[str] | None,
    *,
    no_header: bool = False,
    max_rejects: float = 0.01,
) -> list[PairSource]:
    """Sources of repeated options: one specification for every file, or one for all.

    Raises ArgumentError where their numbers do not match, or a file is missing.
    """
    names = list(files or ())
    read = [
        _spread(values, names, what)
        for values, what in ((grades, "--grades"), (columns, "--columns"))
    ]
    for name in names:
        if not name.exists():
            raise ArgumentError(f"--pairs {name}: no such file")
    return [
        PairSource(name, grades=grade, columns=column, no_header=no_header, max_rejects=max_rejects)
        for name, grade, column in zip(names, *read, strict=True)
    ]


def _spread(values: Sequence[str] | None, files: Sequence[Path], option: str) -> Sequence[str]:
    given = list(values or [""])
    if len(given) == 1:
        return given * len(files)
    if len(given) != len(files):
        raise ArgumentError(
            f"{option} was given {len(given)} times for {len(files)} files; give it once for each "
            "file, or once for all"
        )
    return given
