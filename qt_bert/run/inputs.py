"""From what somebody asks for to what runs: the model and how it is opened, pairs, further files, a run's inputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from qt_bert.probes.split import HeldOutFile, ProbeFiles
    from qt_bert.run.folder import RunFolder, RunInputs
    from qt_bert.run.stage import StudyContext
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.scoring.judge import PairScorer


# The model, and heads left out.


DTYPES = ("float32", "tf32", "bfloat16", "float16")
"""The names of `models.devices.DTYPES`, which torch would have to be imported for."""


def check_device(device: str) -> None:
    """Raise ArgumentError for what is no device's name; whether it is there, `open_device` says."""
    if not re.fullmatch(r"auto|cpu|mps|cuda(:\d{1,3})?", device):
        raise ArgumentError(f"--device {device!r}: choose from auto, cpu, cuda, cuda:1, mps")


@dataclass(frozen=True)
class ModelOptions:
    """Which model, and how it is opened."""

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
    """How a causal language model is asked, which answers yes or no: qwen3-reranker, or a JSON file of
    the texts; by default as the model's qt_bert.json says."""
    token_types: str | None = None
    """Whether the model is given the types of tokens: yes or no. [default: as transformers does]"""
    allow_unknown: bool = False
    """Open a model whose vocabulary knows few Chinese characters."""

    def __post_init__(self) -> None:  # said before torch is imported, and a folder made
        if self.dtype not in DTYPES:
            raise ArgumentError(f"--dtype {self.dtype!r}: choose from {', '.join(DTYPES)}")
        if self.token_types not in (None, "yes", "no"):
            raise ArgumentError(f"--token-types {self.token_types!r}: choose from yes, no")
        check_device(self.device)

    @property
    def reading(self) -> Reading:
        """How the model reads texts."""
        return Reading(self.template, self.token_types, self.allow_unknown)

    def open(
        self,
        heads_out: HeadsOutOptions | None = None,
        reader: ReaderOptions | None = None,
        *,
        by_head: bool = False,
        notify: Callable[[str], None] = lambda line: None,
    ) -> Scorer:
        """The model, ready to score; `notify` hears what a person may want to know.

        The heads of `heads_out` are left out, its reference pairs read by `reader`. Where nobody asks
        for single heads (`by_head`), a pruned model is opened as small as it is stored. Raises
        ArgumentError for an invalid option, CheckpointError for a folder that cannot be opened.
        """
        asked = heads_out is not None and heads_out.asked
        from qt_bert.models.devices import has_bfloat16
        from qt_bert.models.opening import open_checkpoint
        from qt_bert.scoring.bulk import Scorer

        checkpoint = open_checkpoint(
            self.model if self.model is not None else shipped(GRADED),
            dtype=self.dtype,
            device=self.device,
            model_grades=self.model_grades,
            reading=self.reading,
            compact=not (by_head or asked),
        )
        if self.dtype == "bfloat16" and checkpoint.device.type == "cpu" and not has_bfloat16():
            notify("this processor has no bfloat16 products: float32 will be faster")
        scorer = Scorer(checkpoint, max_length=self.max_length)
        if heads_out is None or not asked:
            return scorer
        without = heads_out.of(scorer, reader or ReaderOptions())
        described = without.describe()
        notify(f"{checkpoint.name} without {described['heads_out']} ({described['mode']})")
        return without

    def open_scorer(
        self,
        heads_out: HeadsOutOptions | None = None,
        reader: ReaderOptions | None = None,
        *,
        notify: Callable[[str], None] = lambda line: None,
    ) -> PairScorer:
        """As `open`, where scores are enough: also what `qt-bert export --onnx` wrote, folder or file."""
        from qt_bert.planning.export_session import OnnxScorer
        from qt_bert.results.plan import EXPORT

        place = Path(self.model or "")
        if self.model is None or not (place.suffix == ".onnx" or (place / EXPORT).is_file()):
            return self.open(heads_out, reader, notify=notify)
        others = replace(self, max_length=None, model_grades=None)
        plain = ModelOptions(self.model, device="cpu" if self.device == "cpu" else "auto")
        asked = heads_out is not None and heads_out.asked
        if others != plain or asked:
            raise ArgumentError(
                f"{self.model}: an ONNX export runs on the CPU as it was exported; only --max-length and "
                "--model-grades go with it"
            )
        return OnnxScorer(self.model, max_length=self.max_length, model_grades=self.model_grades)


@dataclass(frozen=True)
class HeadsOutOptions:
    """Heads to leave out, and what replaces them. Raises ArgumentError for an option without heads."""

    heads_out: str | None = None
    """Leave these heads out: 'L2H1 L3H7', layers and heads from 0."""
    mode: str | None = None
    """What they are replaced by: zero, uniform, mean; or block: in them query and title cannot see
    each other. [default: zero]"""
    reference: Path | None = None
    """Pairs to check --heads-out on and to take mean head outputs from, in the columns of the other
    file. [default: the dev split that ships]"""

    def __post_init__(self) -> None:
        if self.heads_out is None and (self.mode, self.reference) != (None, None):
            option = "--mode" if self.mode is not None else "--reference"
            raise ArgumentError(f"{option} goes with --heads-out 'L2H1 L3H7', which names no head")

    @property
    def asked(self) -> bool:
        """Whether heads are named."""
        return self.heads_out is not None

    def of(self, scorer: Scorer, reader: ReaderOptions) -> Scorer:
        """`scorer` without the heads, proved on the reference pairs."""
        from qt_bert.ablation.request import leave_heads_out

        assert self.heads_out is not None
        asked = reader if self.reference is not None else ReaderOptions()
        pairs = list(asked.open(self.reference or shipped(DEV)))
        return leave_heads_out(scorer, self.heads_out, self.mode or "zero", pairs)


@dataclass(frozen=True, kw_only=True)
class SweepOptions:
    """What `sweep` leaves out at a time, and on which pairs."""

    masks: list[str] | None = None
    """What is left out at a time: single, layers, halves, random, a file in the form of variants.csv, or
    heads, 'L2H1 L3H7' (repeatable). [default: single]"""
    mode: str = "zero"
    """What a head is replaced by: zero, uniform, mean; or block: in it query and title cannot see each
    other."""
    reference: Path | None = None
    """Pairs to take mean head outputs from, in the columns of --pairs. [default: the dev split that
    ships, or the discovery half of --pairs]"""
    draws: int = 20
    """Draws a step of halves and random."""
    limit: int | None = None
    """Take about so many pairs, whole queries drawn by --seed."""
    resamples: int = 2000
    """Bootstrap resamples of queries."""
    seed: int = field(default=0, metadata={"min": 0})
    """Seed of every random draw."""


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

    def held_out_files(self, max_rejects: float) -> tuple[HeldOutFile, ...]:
        """Each held-out file with the way to read it.

        Raises ArgumentError for options that fit no file, PairFileError for a file that cannot be read.
        """
        from qt_bert.probes.split import HeldOutFile

        paths = list(self.held_out or ())
        if not paths and (self.held_out_columns or self.held_out_grades):
            option = "--held-out-columns" if self.held_out_columns else "--held-out-grades"
            raise ArgumentError(f"{option} goes with --held-out FILE, which names no file")
        columns = for_each(self.held_out_columns, paths, "--held-out-columns")
        grades = for_each(self.held_out_grades, paths, "--held-out-grades")
        found = []
        for path, one, meant in zip(paths, columns, grades, strict=True):
            reader = ReaderOptions(
                columns=one or None, grades=meant or None, max_rejects=max_rejects
            )
            reader.open(path)
            found.append(HeldOutFile(path=path, reader=reader))
        return tuple(found)


_PANEL = {"rich_help_panel": "For some probes · 个别探针"}


@dataclass(frozen=True, kw_only=True)
class ProbeOptions(StudyOptions):
    """What probes may read besides."""

    base: str | None = None
    """Model before fine-tuning. [default: what ships, for the model that ships]"""
    second: str | None = field(default=None, metadata=_PANEL)
    """Model tuned from the same base with another seed, for `shift`."""
    heads: str | None = field(default=None, metadata=_PANEL)
    """Heads to take for the matching ones ('L2H1 L3H7') in `patch`, `routes`, `surrogate` and `revert`.
    [default: those that `matching` finds]"""
    segmenter: str = field(default="jieba", metadata=_PANEL)
    """Cuts words: jieba, jieba-search, rjieba."""
    userdict: Path | None = field(default=None, metadata=_PANEL)
    """Further words for the segmenter, one a line."""
    gold: Path | None = field(default=None, metadata=_PANEL)
    """Segmented texts to compare with, for `boundary`."""
    treebank: list[Path] | None = field(default=None, metadata=_PANEL)
    """Universal Dependencies file, CoNLL-U (repeatable), for `relations`, `features`, `layers`."""
    texts: Path | None = field(default=None, metadata=_PANEL)
    """Pairs of other queries, for labels of `layers` that need no grader. [default: the train split
    that ships, with the test split that ships]"""
    baseline_table: Path | None = field(default=None, metadata=_PANEL)
    """What experiments/baselines left, for `baselines`. [default: what ships, with the test split that
    ships]"""
    cases: Path | None = field(default=None, metadata=_PANEL)
    """Queries with two titles each, for `behaviour`. [default: the cases that ship]"""
    band_from: Path | None = field(default=None, metadata=_PANEL)
    """Pairs on which `behaviour` measures the band of a model with one logit. [default: the discovery
    pairs]"""

    def files(self, pairs: Path, reader: ReaderOptions, base: Path | None = None) -> ProbeFiles:
        """What probes read, what ships filled in where it belongs to `pairs` as `reader` takes them: the
        table of baselines was measured on all of the test split.

        Raises ArgumentError or PairFileError for an invalid option or a missing file.
        """
        from qt_bert.models.folder import resolve_folder
        from qt_bert.probes.behaviour_cases import read_cases
        from qt_bert.probes.split import ProbeFiles
        from qt_bert.results.baselines import RECORD

        for option in ("gold", "treebank", "texts", "cases", "band_from"):
            given = getattr(self, option)
            for path in given if isinstance(given, list) else [given]:
                if path is not None and not path.is_file():
                    name = option.replace("_", "-")
                    raise ArgumentError(f"--{name} {path}: there is no such file")
        on_test = _ships(pairs, TEST)
        table = self.baseline_table
        if table is None and reader.limit is None and on_test and ships(BASELINES):
            table = shipped(BASELINES)
        if table is not None and not (table / RECORD).is_file():
            raise ArgumentError(f"--baseline-table {table}: no {RECORD} in that folder")
        if self.cases is not None:
            read_cases(self.cases)  # every bad row is told now, and not after minutes of other work
        return ProbeFiles(
            base=base,
            held_out_files=self.held_out_files(reader.max_rejects),
            second=None if self.second is None else resolve_folder(self.second),
            userdict=self.userdict,
            gold=self.gold,
            treebanks=tuple(self.treebank or ()),
            texts=self.texts or (shipped(TRAIN) if on_test else None),
            baseline_table=table,
            heads=self.heads,
            cases=self.cases or (shipped(BEHAVIOURS) if ships(BEHAVIOURS) else None),
            band_from=self.band_from,
        )


# What `report` and `probe` run on: model, pairs, further files, and the inputs that decide the run.


@dataclass(frozen=True)
class Gathered:
    """The folder of the model, the files of pairs, the other files, and the run's inputs."""

    model: Path
    pairs: Path
    discovery: Path | None
    files: ProbeFiles
    inputs: RunInputs

    def context(self, folder: RunFolder) -> StudyContext:
        """What the stages of the run in `folder` get."""
        from qt_bert.run.stage import StudyContext

        given = {name: value for name, value in vars(self).items() if name != "inputs"}
        return StudyContext(folder=folder, **given)


def gather(
    asked: StudyOptions,
    pairs: Path | None,
    reader: ReaderOptions,
    *,
    discovery: Path | None = None,
) -> Gathered:
    """Fill in what ships and check what can be checked before the model is opened.

    `discovery` is a file to choose on; without it, dev goes with the test split that ships, and any
    other file is halved. Without a base, the pretrained model that ships is the base of the graded one
    that ships; another model, tuned from another one, gets none. Raises ArgumentError, CheckpointError
    or PairFileError for an invalid option or a missing file.
    """
    path = pairs_or_test(pairs)
    reader.open(path)
    from qt_bert.data.segmenters import check_segmenter
    from qt_bert.models.devices import check_dtype, device_name, open_device
    from qt_bert.models.folder import resolve_folder
    from qt_bert.probes.split import ProbeFiles, described
    from qt_bert.run.stage import HEADS_GONE, has_pruned_heads, run_inputs

    # A plan reads no more than every study does, and is cut by no base.
    more = asked if isinstance(asked, ProbeOptions) else ProbeOptions()
    check_segmenter(more.segmenter, userdict=more.userdict)
    folder = resolve_folder(asked.model if asked.model is not None else shipped(GRADED))
    tuned_from = resolve_folder(more.base) if more.base is not None else base_of(folder)
    chosen_on = discovery or discovery_of(path)
    files = (
        asked.files(path, reader, tuned_from)
        if isinstance(asked, ProbeOptions)
        else ProbeFiles(base=tuned_from)
    )
    place = open_device(asked.device)
    check_dtype(asked.dtype, place)
    given = {
        "reader": asdict(reader),
        "dtype": asked.dtype,
        "device": f"{place} {device_name(place)}" if place.type == "cuda" else place.type,
        "max_length": asked.max_length,
        "model_grades": asked.model_grades,
        "reading": asdict(asked.reading),
        "resamples": asked.resamples,
        "seed": asked.seed,
        "profile": "full" if asked.full else "quick",
        HEADS_GONE: has_pruned_heads(folder),
        "discovery": described(chosen_on),
        **files.arguments(),
    }
    return Gathered(folder, path, chosen_on, files, run_inputs(folder, path, given, more.segmenter))
