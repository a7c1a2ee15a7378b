"""Options of commands and of the Python API, each declared once: a field's docstring is its help.

A `Request` holds the options of a study. `resolve` fills in what ships, `run.folder.run_inputs` replaces files
by name and SHA-256, `run.folder.stage_key` hashes what a stage declares, and a stage or probe sees only that.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeGuard, TypeVar, get_type_hints

from qt_bert.data.columns import parse_columns
from qt_bert.data.reader import ReaderOptions, for_each
from qt_bert.errors import ArgumentError
from qt_bert.models.card import Reading
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

# The model, and heads left out.


SEED = {"min": 0, "max": 2**32 - 1}
"""What numpy, torch and scikit-learn all take."""
DTYPES = ("float32", "tf32", "bfloat16", "float16")
"""The names of `models.devices.DTYPES`, which would import torch."""


def check_device(device: str) -> None:
    """Raise ArgumentError for an invalid device name; `open_device` checks that the device exists."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,3})?", device):
        raise ArgumentError(f"--device {device!r}: choose from auto, cpu, cuda, cuda:1, mps")


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and how it is opened. Raises ArgumentError for an invalid option."""

    model: str | None = None
    """Model folder (or hub name). [default: the graded checkpoint that ships]"""
    dtype: str = "float32"
    """Number type: float32; bfloat16 where the processor has it; on a GPU also float16, and tf32,
    float32 with TF32 matrix products."""
    max_length: int | None = None
    """Tokens a pair may take; the title is cut first."""
    model_grades: str | None = None
    """Which grades each logit means: '0=1-2,1=3-4,2=5'."""
    device: str = "auto"
    """Where the model runs: auto (a CUDA GPU where there is one), cpu, cuda, cuda:1, mps."""
    template: str | None = None
    """Prompt of a causal language model that answers yes or no: qwen3-reranker, or a JSON file of the
    texts; by default as the model's qt_bert.json says."""
    token_types: str | None = None
    """Whether the model gets token types: yes or no. [default: as transformers does]"""
    allow_unknown: bool = False
    """Open a model whose vocabulary knows few Chinese characters."""

    def __post_init__(self) -> None:  # before torch is imported or a folder is made
        if self.dtype not in DTYPES:
            raise ArgumentError(f"--dtype {self.dtype!r}: choose from {', '.join(DTYPES)}")
        if self.token_types not in (None, "yes", "no"):
            raise ArgumentError(f"--token-types {self.token_types!r}: choose from yes, no")
        check_device(self.device)

    @property
    def reading(self) -> Reading:
        """How the model reads texts."""
        return Reading(self.template, self.token_types, self.allow_unknown)


@dataclass(frozen=True)
class HeadsOutOptions:
    """Heads to leave out, and what replaces them. Raises ArgumentError for an option without heads."""

    heads_out: str | None = None
    """Leave these heads out: 'L2H1 L3H7', layers and heads from 0."""
    mode: str | None = None
    """What they are replaced by: zero, uniform, mean, resample; or block: in them query and title
    cannot see each other. [default: zero]"""
    reference: Path | None = None
    """Pairs to check --heads-out on and to take other head outputs from, in the columns of the other
    file. [default: the dev split that ships]"""

    def __post_init__(self) -> None:
        if self.heads_out is None and (self.mode, self.reference) != (None, None):
            option = "--mode" if self.mode is not None else "--reference"
            raise ArgumentError(f"{option} goes with --heads-out 'L2H1 L3H7', which names no head")


@dataclass(frozen=True, kw_only=True)
class LabelOptions:
    """Which labels judge, and what counts. Raises ArgumentError for a judge without other labels beside it."""

    labels: str | None = None
    """Column with people's labels of some of the pairs."""
    judge: str | None = None
    """Column (or FILE:COLUMN) with an LLM's labels, which narrow the intervals of --labels."""
    weights: str | None = None
    """Column with the weight of a query, such as its traffic."""
    unjudged: bool = False
    """Rank titles without a label too, as not relevant."""
    relevant: float | None = None
    """Least relevant grade, of MRR, MAP, recall and AUC. [default: 4, or labels above the middle]"""

    def __post_init__(self) -> None:
        if self.judge is not None and self.labels is None:
            raise ArgumentError(f"--judge {self.judge} goes with --labels COLUMN, people's labels")
        if self.judge is not None and self.judge == self.labels:
            raise ArgumentError(f"--labels and --judge are the same column, {self.judge}")

    def read_by(self, reader: ReaderOptions) -> ReaderOptions:
        """The reader, of these labels in place of its own."""
        if self.labels is None:
            return reader
        columns = parse_columns(reader.columns) if reader.columns is not None else {}
        columns["grade"] = self.labels
        return replace(reader, columns=",".join(f"{name}={of}" for name, of in columns.items()))


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What `sweep` leaves out at a time, and on which pairs."""

    pairs: Path | None = None
    """File of pairs, graded or not. [default: the test split that ships]"""
    masks: list[str] | None = None
    """What is left out at a time: single, layers, sublayers (a layer's feed-forward block, also with its
    heads), halves, random, a file in the form of variants.csv, or heads, 'L2H1 L3H7' (repeatable).
    [default: single]"""
    mode: str = "zero"
    """What a head is replaced by: zero, uniform, mean, resample; or block: in it query and title cannot
    see each other."""
    reference: Path | None = None
    """Pairs to take other head outputs from (mean, resample), in the columns of --pairs. [default: the dev split that
    ships, or the discovery half of --pairs]"""
    draws: int = 20
    """Draws a step of halves and random."""
    limit: int | None = None
    """Take about so many pairs, whole queries drawn by --seed."""
    resamples: int = 2000
    """Bootstrap resamples of queries."""
    seed: int = field(default=0, metadata=SEED)
    """Seed of every random draw."""
    reader: ReaderOptions = ReaderOptions()


# A study: `probe`, `report` and `plan`.


_PANEL = {"rich_help_panel": "For some probes · 个别探针"}


@dataclass(frozen=True, kw_only=True)
class Request(ModelOptions):
    """The options of a study; `None` or `[]` means the default."""

    pairs: Path | None = None
    """File of graded pairs. [default: the test split that ships]"""
    discovery: Path | None = None
    """Graded pairs to choose on, in the columns of --pairs. [default: the dev split that ships, or the
    discovery half of --pairs]"""
    held_out: list[Path] = field(default_factory=list)
    """Graded file for figures of its own (repeatable); of `plan`, with --budget."""
    held_out_columns: list[str] = field(default_factory=list)
    """Columns of each --held-out, in the same order."""
    held_out_grades: list[str] = field(default_factory=list)
    """What the labels of each --held-out mean, in the same order."""
    full: bool = False
    """Use all pairs and random draws, where `quick` uses a sample."""
    resamples: int = 2000
    """Bootstrap resamples of queries."""
    seed: int = field(default=0, metadata=SEED)
    """Seed of every random draw."""
    base: Path | None = None
    """Model before fine-tuning. [default: what ships, for the model that ships]"""
    second: Path | None = field(default=None, metadata=_PANEL)
    """Model tuned from the same base with another seed, for `boundary`, `order`, `matching`, `tuning`."""
    heads: str | None = field(default=None, metadata=_PANEL)
    """Heads to take for the matching ones ('L2H1 L3H7') in `patch` and `routes`. [default: those that
    `matching` finds]"""
    segmenter: str = field(default="jieba", metadata=_PANEL)
    """Word segmenter: jieba, jieba-full, jieba-search, rjieba, rjieba-search. `boundary` and `layers` need
    words without overlap: beside a segmenter that has them they take jieba."""
    userdict: Path | None = field(default=None, metadata=_PANEL)
    """Further words for the segmenter, one a line."""
    gold: Path | None = field(default=None, metadata=_PANEL)
    """Gold-standard word segmentation for `boundary`: a text a line, words separated by spaces. It adds
    measurements; the claim keeps the segmenter."""
    treebank: list[Path] = field(default_factory=list, metadata=_PANEL)
    """Universal Dependencies file, CoNLL-U (repeatable), for `relations`, `features`, `layers`, `usage`: such
    as UD_Chinese-GSDSimp or UD_Chinese-PUD (CC BY-SA) of universaldependencies.org."""
    texts: Path | None = field(default=None, metadata=_PANEL)
    """Pairs of other queries, for labels of `layers` and `usage` that need no grader. [default: the train
    split that ships, with the test split that ships]"""
    baseline_table: Path | None = field(default=None, metadata=_PANEL)
    """What experiments/baselines left, for `baselines`. [default: what ships, with the test split that
    ships]"""
    cases: Path | None = field(default=None, metadata=_PANEL)
    """Queries with two titles each, for `behaviour` and `tuning`. [default: the cases that ship]"""
    band_from: Path | None = field(default=None, metadata=_PANEL)
    """Pairs on which `behaviour` and `tuning` measure the band of a model with one logit. [default: the
    discovery pairs]"""
    reader: ReaderOptions = ReaderOptions()

    @property
    def validation_file(self) -> Path:
        """The file of pairs to test on."""
        return pairs_or_test(self.pairs)

    @property
    def discovery_file(self) -> Path:
        """The file of pairs to choose on: that of the pairs to test on where it is halved by query."""
        return self.discovery or self.validation_file

    def held_out_files(self) -> list[tuple[Path, ReaderOptions]]:
        """Each held-out file with the way to read it. Raises ArgumentError for options without a file."""
        for option in ("held_out_columns", "held_out_grades"):
            if getattr(self, option) and not self.held_out:
                name = option.replace("_", "-")
                raise ArgumentError(f"--{name} goes with --held-out FILE, which names no file")
        columns = for_each(self.held_out_columns, self.held_out, "--held-out-columns")
        grades = for_each(self.held_out_grades, self.held_out, "--held-out-grades")
        readers = (
            ReaderOptions(
                names or None, grades=meaning or None, max_rejects=self.reader.max_rejects
            )
            for names, meaning in zip(columns, grades, strict=True)
        )
        return list(zip(self.held_out, readers, strict=True))

    def only(self, names: Iterable[str]) -> Request:
        """A copy that keeps model, pairs and `names`, and resets every other field."""
        known = {option.name for option in fields(self)} & {"model", "pairs", *names}
        return replace(Request(), **{name: getattr(self, name) for name in known})


EVALUATION_FIELDS = (
    *(option.name for option in fields(ModelOptions) if option.name != "model"),
    "reader",
    "segmenter",
    "userdict",
    "resamples",
    "seed",
)
"""Fields that every stage of a study depends on, beside model and pairs."""

SELECTION_FIELDS = (*EVALUATION_FIELDS, "discovery", "full")
"""Fields that every stage depends on that selects on discovery and tests on validation."""

PROBE_FIELDS = frozenset(option.name for option in fields(Request)) - {
    "model",
    "pairs",
    *SELECTION_FIELDS,
}
"""Fields that a probe sees only where its TOML names them in `uses`."""

NOT_OF_A_PLAN = (
    "base",
    *(option.name for option in fields(Request) if option.metadata == _PANEL),
    "limit",
)
"""Options that `plan` does not have; its own `--limit` also bounds discovery."""


# What ships, where no file or folder is named; a request with all of it filled in.


def pairs_or_test(pairs: Path | None) -> Path:
    """`--pairs`, or the test split that ships."""
    return pairs if pairs is not None else shipped(TEST)


def discovery_of(pairs: Path) -> Path | None:
    """The dev split, for the test split that ships; any other file is halved."""
    return shipped(DEV) if is_shipped(pairs, TEST) else None


def is_shipped(path: Path, name: str) -> bool:
    """Whether `path` is what ships as `name`."""
    try:
        return path.resolve() == shipped(name).resolve()
    except ArgumentError:  # an installation without data
        return False


def resolve(request: Request) -> Request:
    """The request with what ships filled in, checked as far as it can be before the model is opened.

    Dev goes with the test split that ships, and so does the table of baselines, which was measured on all of
    it; the pretrained model, where it is installed, is the base of the graded one. Raises ArgumentError,
    CheckpointError or PairFileError for an invalid option or a missing file.
    """
    pairs = request.validation_file
    _read_files(request)
    from qt_bert.data.segmenters import check_segmenter
    from qt_bert.models.devices import check_dtype, open_device
    from qt_bert.models.folder import resolve_folder

    check_segmenter(request.segmenter, userdict=request.userdict)
    model = resolve_folder(shipped(GRADED) if request.model is None else request.model)
    base = None if request.base is None else resolve_folder(request.base)
    if base is None and is_shipped(model, GRADED) and ships(PRETRAINED):
        base = shipped(PRETRAINED)
    on_test = is_shipped(pairs, TEST)
    table = request.baseline_table
    if table is None and request.reader.limit is None and on_test and ships(BASELINES):
        table = shipped(BASELINES)
    device = open_device(request.device)
    check_dtype(request.dtype, device)
    return replace(
        request,
        model=str(model),
        device=str(device),
        pairs=pairs,
        discovery=request.discovery or discovery_of(pairs),
        base=base,
        second=None if request.second is None else resolve_folder(request.second),
        texts=request.texts or (shipped(TRAIN) if on_test else None),
        baseline_table=table,
        cases=request.cases or (shipped(BEHAVIOURS) if ships(BEHAVIOURS) else None),
    )


def _read_files(request: Request) -> None:
    """Read each named file now, not after minutes of work; the split's are only opened."""
    from qt_bert.data.cases import read_cases
    from qt_bert.data.segmenters import read_segmented
    from qt_bert.data.treebank import read_treebank
    from qt_bert.results.baselines import read_baselines

    request.reader.open(request.validation_file)
    if request.discovery is not None:
        request.reader.open(request.discovery)
    for path, reader in request.held_out_files():
        list(reader.open(path, grade_required=True))
    read: dict[str, Callable[[Path], Any]] = {
        "texts": lambda path: list(request.reader.open(path)),
        "band_from": lambda path: list(request.reader.open(path)),
        "gold": read_segmented,
        "treebank": read_treebank,
        "cases": read_cases,
        "baseline_table": read_baselines,
    }
    for option, read_one in read.items():
        value = getattr(request, option)
        for path in value if isinstance(value, list) else [value]:
            if path is not None and not path.exists():
                raise ArgumentError(f"--{option.replace('_', '-')} {path}: there is no such file")
            if path is not None:
                read_one(path)


# Options by name, of the command line or of a Python call.


Options = TypeVar("Options")


def options_of(family: type) -> dict[str, type]:
    """Each option of a dataclass, with the class that declares it: a nested dataclass contributes its fields;
    on a name clash the outer field wins."""
    hints = get_type_hints(family)
    kinds = {option.name: hints[option.name] for option in fields(family)}
    direct = {name: family for name, kind in kinds.items() if not _is_family(kind)}
    nested = [options_of(kind) for kind in kinds.values() if _is_family(kind)]
    return direct | {
        name: kind for options in nested for name, kind in options.items() if name not in direct
    }


def _is_family(kind: Any) -> TypeGuard[type]:
    return isinstance(kind, type) and is_dataclass(kind)


def from_options(
    family: type[Options], values: Mapping[str, Any], without: Collection[str] = ()
) -> Options:
    """`family` of options by name, as `options_of` lists them; a text becomes a path where one is needed.

    Raises ArgumentError for a name that is no option, or one of `without`.
    """
    known = {name: kind for name, kind in options_of(family).items() if name not in without}
    if unknown := values.keys() - known.keys():
        raise ArgumentError(f"no option {min(unknown)!r}; there are {', '.join(sorted(known))}")
    hints, chosen = get_type_hints(family), dict[str, Any]()
    for option in fields(family):  # type: ignore[arg-type]
        kind = hints[option.name]
        if _is_family(kind):
            nested = {name: value for name, value in values.items() if known[name] is kind}
            chosen[option.name] = from_options(kind, nested)
        elif option.name in values:
            chosen[option.name] = _typed(values[option.name], str(kind))
    return family(**chosen)


def _typed(value: Any, hint: str) -> Any:
    """An option's value: a list where the option is repeatable, paths for texts."""
    if hint.startswith("list"):
        values = [value] if isinstance(value, str | Path) else list(value or ())
        return [_typed(item, hint.removeprefix("list")) for item in values]
    return Path(value) if "Path" in hint and value is not None else value
