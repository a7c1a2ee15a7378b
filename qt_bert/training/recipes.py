"""Where training pairs come from, and recipes: TOML files for the training commands."""

from __future__ import annotations

import hashlib
import math
import tomllib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from qt_bert.data.pairs import GradeMap, Pair
from qt_bert.data.reader import PairReader, ReaderOptions, for_each
from qt_bert.data.scores import column_of
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.models.card import Reading
from qt_bert.progress import note_once
from qt_bert.request import SEED
from qt_bert.text import counted, query_key


def rejects_file(folder: Path, source: int | str) -> Path:
    """Where the rejects of the Nth source, or of `dev`, are listed."""
    return folder / f"rejects-{source}.tsv"


@dataclass(frozen=True)
class PairSource:
    """One file of pairs as a training command reads it.

    `columns`, `grades` (`0=1-2,1=3-4,2=5`), `no_header` and `max_rejects` are the reader's options;
    `always` is the set of grades (`4-5`) of every row of a file without labels; `labels` keeps rows
    of these labels only; `unlabelled` ignores the labels, for texts that a teacher scores; `exclude`
    drops rows whose query is in one of these files; `auxiliary` names a separate output for the labels,
    which the finished model drops; `weight` scales the loss; `tenth` keeps a tenth of the queries, by
    hash, `alone`, or all but these, `left out` ("" keeps all).
    """

    file: Path
    columns: str = ""
    grades: str = ""
    always: str = ""
    labels: tuple[str, ...] = ()
    unlabelled: bool = False
    exclude: tuple[Path, ...] = ()
    auxiliary: str = ""
    weight: float = 1.0
    tenth: str = ""
    no_header: bool = False
    max_rejects: float = 0.01

    def read(
        self,
        *,
        levels: int | None = None,
        labelled: bool = False,
        rejects_path: Path | None = None,
    ) -> list[Pair]:
        """The rows of this source; `levels` = K reads labels as 0 … K − 1 instead of grades.

        `labelled` rejects rows without a readable label (of an auxiliary source: without a label). A line
        says how many rejects `rejects_path` lists. Raises PairFileError as the reader does, ArgumentError
        where `grades` or `always` name a level beyond K.
        """
        options = ReaderOptions(
            self.columns or None, self.no_header, self.grades or None, self.max_rejects
        )
        scheme: GradeMap = GradeMap.levels(levels) if levels else GradeMap.identity()
        reader = options.open(
            self.file,
            default_map=scheme,
            grade_required=labelled and not (self.always or self.auxiliary or self.unlabelled),
            rejects_path=rejects_path,
        )
        rows = list(reader)
        if reader.rejected and rejects_path:
            note_once(
                f"{self.file}: {counted(reader.rejected, 'row')} rejected, listed in {rejects_path}"
            )
        options.note_abstract(rows, self.file)
        barred = {query for other in self.exclude for query in _queries(other)}
        fixed = GradeMap.parse(f"any={self.always}").sets["any"] if self.always else None
        kept = [
            replace(pair, grades=fixed) if fixed or self.unlabelled else pair
            for pair in rows
            if (not self.labels or pair.label in self.labels)
            and query_key(pair.query) not in barred
            and not (labelled and self.auxiliary and pair.label is None)
            and (not self.tenth or _in_tenth(pair.query) == (self.tenth == "alone"))
        ]
        for pair in kept:
            if levels and pair.grades and pair.grades[-1] > levels:
                raise ArgumentError(
                    f"{self.file}: line {pair.line}: grade {pair.grades[-1]} stands for level {pair.grades[-1] - 1}, "
                    f"and the levels are 0 to {levels - 1}; change `grades` or `always`"
                )
        return kept

    @property
    def options_key(self) -> str:
        """The hashes of the files, and the options."""
        kept = {f.name: getattr(self, f.name) for f in fields(self)}
        files = [sha256_file(path) for path in (self.file, *self.exclude)]
        return repr((files, {k: v for k, v in kept.items() if k not in ("file", "exclude")}))


def _in_tenth(query: str) -> bool:
    """True for about one query in ten, the same in every file and spelling."""
    return hashlib.sha256(str(query_key(query)).encode()).digest()[0] < 26


@cache
def _queries(path: Path) -> frozenset[Hashable]:
    return frozenset(query_key(pair.query) for pair in PairReader(path))


@dataclass(frozen=True)
class TeacherSource:
    """A model's folder, or a file of queries and titles with columns `scores`: a score, or the
    probability of each output; it must hold at least the share `coverage` of the training pairs.

    A model's outputs are stored in the folder `store`, by default in the run's own; `max_length` is its own by
    default, `reading` how it reads texts.
    """

    path: Path
    scores: tuple[str, ...] = ()
    coverage: float = 1.0
    store: Path | None = None
    max_length: int | None = None
    reading: Reading = Reading()


@dataclass(frozen=True, kw_only=True)
class LossOptions:
    """The losses and the teacher; the fields' docs are the commands' help."""

    loss: str | None = None
    """Losses and weights, nll,margin=0.5: nll, ordinal, margin, listwise; of a teacher soft, mse,
    margin_mse. [default: nll, and soft or mse of a teacher]"""
    teacher: Path | None = None
    """Learn the outputs of this model, of any family or tokenizer."""
    teacher_scores: str | None = None
    """FILE:COLUMN[,COLUMN…]: learn a score, or a probability for each grade, of queries and titles."""
    min_coverage: float = 1.0
    """Share of the training pairs that the file must hold."""

    def source(self) -> TeacherSource | None:
        """The source of the teacher's outputs. Raises ArgumentError for invalid options."""
        if self.teacher is not None and self.teacher_scores is not None:
            raise ArgumentError("--teacher and --teacher-scores: give one of them")
        if not 0 <= self.min_coverage <= 1:  # nor a share that is no number
            raise ArgumentError(f"--min-coverage {self.min_coverage}: give a share, from 0 to 1")
        if self.teacher_scores is None:
            return None if self.teacher is None else TeacherSource(self.teacher)
        place = column_of(self.teacher_scores)
        if place is None or not place[1]:
            raise ArgumentError(
                f"--teacher-scores {self.teacher_scores}: write FILE:COLUMN, or a column for each grade, "
                "FILE:p_1,p_2,p_3,p_4,p_5"
            )
        return TeacherSource(place[0], tuple(place[1].split(",")), self.min_coverage)


T = TypeVar("T")

_TABLES = {"pairs", "text", "dev", "settings", "job", "loss"}


@dataclass
class Recipe:
    """A recipe with its files resolved; `settings`, `job` and `loss` are plain tables."""

    where: str = "recipe"
    pairs: list[PairSource] = field(default_factory=list)
    text: list[Path] = field(default_factory=list)
    dev: PairSource | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    loss: dict[str, Any] = field(default_factory=dict)


def load_recipe(path: Path, data: Path) -> Recipe:
    """Read a recipe; relative file names start from `data`, `text` may hold globs.

    Raises ArgumentError naming the invalid table or key, or the missing file.
    """
    try:
        with open(path, "rb") as handle:
            stored = tomllib.load(handle)
    except (OSError, ValueError, RecursionError) as error:
        raise ArgumentError(f"{path}: not a readable recipe ({error})") from error
    where = str(path)
    unknown = sorted(set(stored) - _TABLES)
    if unknown:
        raise ArgumentError(
            f"{where}: unknown {unknown[0]!r}; a recipe has {', '.join(sorted(_TABLES))}"
        )
    tables = {name: table for name, table in stored.items() if name not in ("pairs", "text")}
    for name, value in tables.items():
        if not isinstance(value, dict):
            raise ArgumentError(f"{where}: {name} must be a table, [{name}]")
    return Recipe(
        where=where,
        pairs=[_source(t, where, data) for t in _list_of(dict, stored, "pairs", where)],
        text=[
            f for glob in _list_of(str, stored, "text", where) for f in _shards(glob, where, data)
        ],
        dev=_source(tables.pop("dev"), where, data) if "dev" in stored else None,
        **tables,
    )


def typed(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """The dataclass of a table's values. Raises ArgumentError naming the wrong key."""
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            raise ArgumentError(
                f"{where}: unknown key {name!r}; there are {', '.join(sorted(known))}"
            )
        if not _fits(value, hints[name]):
            hint = getattr(hints[name], "__name__", str(hints[name]))
            raise ArgumentError(f"{where}: {name} = {value!r} is no {hint}")
        values[name] = tuple(value) if isinstance(value, list) else value
    return kind(**values)


def _fits(value: Any, hint: Any) -> bool:
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if hint in (str, bool, Path):
        return isinstance(value, hint)
    if isinstance(hint, UnionType):
        return any(
            value is None if kind is NoneType else _fits(value, kind) for kind in get_args(hint)
        )
    if hint in (tuple[str, ...], tuple[float, ...]):
        inner = get_args(hint)[0]
        return isinstance(value, list | tuple) and all(_fits(v, inner) for v in value)
    return True


def _source(table: Mapping[str, Any], where: str, data: Path) -> PairSource:
    values = dict(table)
    if not isinstance(values.get("file"), str):
        raise ArgumentError(f"{where}: a table of pairs without `file` (a name under --data)")
    values["file"] = _existing(data / values["file"], where)
    if isinstance(values.get("labels"), list):
        values["labels"] = [str(label) for label in values["labels"]]
    exclude = _list_of(str, values, "exclude", where)
    values["exclude"] = tuple(_existing(data / name, where) for name in exclude)
    source = typed(PairSource, values, where)
    if not 0 < source.weight < math.inf:
        raise ArgumentError(f"{where}: weight = {source.weight}; it must be above 0, and finite")
    if source.tenth not in ("", "alone", "left out"):
        raise ArgumentError(f"{where}: tenth = {source.tenth!r}; write 'alone' or 'left out'")
    return source


def _shards(pattern: str, where: str, data: Path) -> list[Path]:
    try:
        paths = sorted(data.glob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise ArgumentError(f"{where}: {pattern!r} is no pattern under --data ({error})") from error
    if not paths:
        raise ArgumentError(f"{where}: no file matches {pattern!r} under {data}")
    return paths


def _existing(path: Path, where: str) -> Path:
    if not path.is_file():
        raise ArgumentError(f"{where}: {path} does not exist; give the data's folder with --data")
    return path


def _list_of(kind: type, stored: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = stored.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise ArgumentError(f"{where}: {name} must be a list of {kind.__name__}")
    return value


@dataclass(frozen=True, kw_only=True)
class TrainingFiles:
    """The files for training and early stopping; the fields' docs are the commands' help."""

    pairs: list[Path] | None = None
    """Graded file (repeat it for several)."""
    grades: list[str] | None = None
    """Grades of the labels of each --pairs, in the same order."""
    columns: list[str] | None = None
    """Columns of each --pairs, in the same order."""
    no_header: bool = False
    """The first line is a pair, not names."""
    max_rejects: float = 0.01
    """Share of rows that may be rejects before the command stops."""
    recipe: Path | None = None
    """TOML file: `text`, [[pairs]], [dev], [job], [settings], [loss]."""
    data: Path = Path(".")
    """Folder of the recipe's files."""
    dev: Path | None = None
    """Graded file for early stopping (default: a tenth of the queries)."""
    dev_grades: str = ""
    """Grades of the labels of --dev."""
    dev_columns: str = ""
    """Columns of --dev."""

    def stored(self) -> Recipe:
        """The recipe in a file, or an empty one."""
        return load_recipe(self.recipe, self.data) if self.recipe else Recipe()

    def sources(self, stored: Recipe, unlabelled: Sequence[Path] | None = None) -> list[PairSource]:
        """The recipe's files, --pairs, and the unlabelled ones.

        Raises ArgumentError where a file is missing, and for --grades or --columns that occur neither
        once nor once for each --pairs.
        """
        for option, files in (("--pairs", self.pairs), ("--unlabelled", unlabelled)):
            for name in files or ():
                if not name.exists():
                    raise ArgumentError(f"{option} {name}: no such file")
        names = list(self.pairs or ())
        grades = for_each(self.grades, names, "--grades")
        columns = for_each(self.columns, names, "--columns")
        labelled = [
            self._source(name, grades=grade, columns=column)
            for name, grade, column in zip(names, grades, columns, strict=True)
        ]
        texts = [self._source(name, unlabelled=True) for name in unlabelled or ()]
        return [*stored.pairs, *labelled, *texts]

    def judge(self, stored: Recipe) -> PairSource | None:
        """The file of `--dev`, else the recipe's."""
        if self.dev is None:
            return stored.dev
        return self._source(self.dev, columns=self.dev_columns, grades=self.dev_grades)

    def _source(self, file: Path, **how: Any) -> PairSource:
        return PairSource(file, no_header=self.no_header, max_rejects=self.max_rejects, **how)


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """The settings of a run; None takes the recipe's, else the default."""

    lr: float | None = None
    """Peak learning rate of AdamW. [default: 3e-4; of a student 5e-4]"""
    dtype: str | None = None
    """Type of matrix products: float32, bfloat16 or, on a CUDA device, tf32. [default: bfloat16]"""
    device: str = "auto"
    """auto, cpu, cuda, cuda:1 or mps; auto takes a CUDA device where there is one."""
    seed: int | None = field(default=None, metadata=SEED)
    """Seed of every random draw. [default: 0]"""
    no_compile: bool = False
    """Do not use torch.compile."""

    def over(self, stored: Mapping[str, Any], **more: Any) -> dict[str, Any]:
        """The recipe's settings, replaced by these options and `more`; without the device."""
        options = {field.name: getattr(self, field.name) for field in fields(self)} | more
        del options["device"]
        options["compile"] = False if options.pop("no_compile") else None
        return {**stored, **{name: value for name, value in options.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class TuningOptions(TrainingOptions):
    """The settings of a run of a classifier."""

    epochs: int | None = None
    """Passes over the pairs. [default: 3]"""
    slots: int | None = None
    """Tokens a batch. [default: 3072]"""
    patience: int | None = None
    """Stop after this many evaluations without a better one; 0: never."""
