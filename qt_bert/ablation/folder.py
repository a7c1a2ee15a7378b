"""The folder of a sweep: logits by variant and pair, tables of both, effects, `run.json`."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from qt_bert.ablation.effects import EffectRow, read_effects
from qt_bert.ablation.interventions import NONE, Intervention, MeanZ, Variant, with_plain
from qt_bert.data.lines import TextSource
from qt_bert.data.pairs import GradeSet, Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import atomic_write
from qt_bert.heads import Head, Shape, format_heads, parse_heads
from qt_bert.results.probe import PairsRef
from qt_bert.resume import read_record

if TYPE_CHECKING:
    import pandas as pd


# `pairs.csv`: the pairs, in the order of the logits.

PAIR_COLUMNS = ("id", "line", "query", "title", "grades")


def write_pairs(path: Path, pairs: Sequence[Pair]) -> None:
    """Write one row a pair, atomically; grades as `format_grades`."""
    import pandas as pd

    rows = [(p.id, p.line, p.query, p.title, format_grades(p.grades)) for p in pairs]
    with atomic_write(path) as temporary:
        # Every text is quoted, so that texts with line breaks of any kind read back unchanged.
        pd.DataFrame(rows, columns=list(PAIR_COLUMNS)).to_csv(
            temporary, index=False, quoting=csv.QUOTE_NONNUMERIC
        )


def read_pairs(path: Path) -> list[Pair]:
    """The pairs of `write_pairs`, without labels. Raises RunFolderError for no valid file."""
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)[list(PAIR_COLUMNS)]
        return [
            Pair(query, title, parse_grades(grades), id_, int(line), None, {})
            for id_, line, query, title, grades in table.itertuples(index=False)
        ]
    except (OSError, ValueError, KeyError) as error:
        raise RunFolderError(f"{path}: not the pairs of a sweep ({error}); {ANEW}") from error


def format_grades(grades: GradeSet | None) -> str:
    """`3`, `1-2` for neighbours, `1+3-4` for others, "" for no label."""
    runs = groupby(enumerate(grades or ()), lambda item: item[1] - item[0])
    spans = [[grade for _, grade in run] for _, run in runs]
    return "+".join(f"{s[0]}-{s[-1]}" if len(s) > 1 else str(s[0]) for s in spans)


def parse_grades(text: str) -> GradeSet | None:
    """The inverse of `format_grades`. Raises ValueError for another text."""
    if not text:
        return None
    grades: list[int] = []
    for part in text.split("+"):
        first, _, last = part.partition("-")
        grades += range(int(first), int(last or first) + 1)
    return tuple(grades)


# `variants.csv`: the variants of a sweep, and the format of a user's own masks.
#
# UTF-8 or GB18030; a variant a line: `name`, `family`, `mode`, `heads` (as `L2H1
# L3H7`), `draw`, `seed`. `none`, without heads, is the plain model.

VARIANT_COLUMNS = ("name", "family", "mode", "heads", "draw", "seed")


def write_variants(path: str | os.PathLike[str], variants: Sequence[Variant]) -> None:
    """Write a line a variant, `none` first. Raises ArgumentError for repeated or unfit names."""
    rows = with_plain(variants)
    for variant in rows:
        if variant.name.strip().splitlines() != [variant.name]:
            raise ArgumentError(f"{variant.name!r} names no variant: one line, no spaces around it")
    with (
        atomic_write(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(VARIANT_COLUMNS)
        for v in rows:
            writer.writerow([v.name, v.family, v.mode, format_heads(v.heads), v.draw, v.seed])


def read_variants(
    path: str | os.PathLike[str],
    shape: Shape,
    part_of: Callable[[str, tuple[Head, ...]], Intervention],
) -> list[Variant]:
    """The variants in a file, without `none`; `part_of` makes an intervention from a mode and heads.

    Columns may be in any order; empty lines are skipped. Raises ArgumentError, with file and line, for
    another header, an invalid row, heads that a model of `shape` lacks, a repeated name, an unknown or
    combined mode, and for a file without a variant; PairFileError for one that is unreadable or no text.
    """
    first_lines: dict[str, int] = {}
    variants = []
    for line, row in _rows(Path(path)):
        name = row["name"]
        try:
            if name in first_lines:
                raise ArgumentError(f"the name {name!r} stands in line {first_lines[name]} already")
            variant = _variant(row, shape, part_of)
        except ArgumentError as error:
            raise ArgumentError(f"{path}: line {line}: {error}") from error
        first_lines[name] = line
        if variant.parts:
            variants.append(variant)
    if not variants:
        raise ArgumentError(f"{path} holds no variant but `{NONE.name}`")
    return variants


def _variant(
    row: dict[str, str], shape: Shape, part_of: Callable[[str, tuple[Head, ...]], Intervention]
) -> Variant:
    name, mode = row["name"], row["mode"]
    if name == NONE.name:
        if row["heads"] or mode:
            raise ArgumentError(f"`{name}` is the plain model, which has no mode and no heads")
        return NONE
    if not name:
        raise ArgumentError("the variant has no name")
    if not mode:
        raise ArgumentError("the mode is empty; write how the heads are left out, as in `zero`")
    if "+" in mode:
        raise ArgumentError(
            f"the mode {mode!r} combines two changes, and one line of heads does not say which head "
            "has which; write one variant a change"
        )
    part = part_of(mode, tuple(parse_heads(row["heads"], shape)))
    return Variant(name, (part,), row["family"], _number(row, "draw"), _number(row, "seed"))


def _number(row: dict[str, str], column: str) -> int | None:
    text = row[column]
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 19):  # fits 64 bits
        raise ArgumentError(
            f"{column} is {text!r}; it must be a whole number from 0, of at most 18 digits, or empty"
        )
    return int(text)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number, and text by column, of every line that is not empty below the header."""
    header: list[str] | None = None
    for line, text in TextSource(path).texts():
        fields = _fields(text, f"{path}: line {line}")
        if not any(fields):
            continue
        if header is None:
            header = fields
            if sorted(header) != sorted(VARIANT_COLUMNS):
                raise ArgumentError(
                    f"{path}: line {line}: the header is {','.join(header)}; "
                    f"it must be {','.join(VARIANT_COLUMNS)}"
                )
        elif len(fields) != len(header):
            raise ArgumentError(
                f"{path}: line {line}: {len(fields)} fields under a header of {len(header)}"
            )
        else:
            yield line, dict(zip(header, fields, strict=True))


def _fields(text: str, where: str) -> list[str]:
    """The fields of one line, parsed alone, so that a stray quote swallows no further line."""
    try:
        rows = list(csv.reader([text], strict=True, skipinitialspace=True))
    except csv.Error as error:
        raise ArgumentError(f"{where}: not a line of CSV ({error})") from error
    return [field.strip() for row in rows for field in row]


# `means.safetensors`: the mean head outputs that replaced heads.

_TENSOR = "mean_contexts"


def means_of(vectors: torch.Tensor) -> MeanZ:
    """Vectors with the SHA-256 of their values as little-endian float32, layer by layer."""
    return MeanZ(hashlib.sha256(vectors.numpy().astype("<f4").tobytes()).hexdigest(), vectors)


def write_means(path: Path, means: MeanZ) -> None:
    """Store mean head outputs with their hash, as safetensors, atomically."""
    tensors = {_TENSOR: means.vectors.contiguous()}
    with atomic_write(path) as temporary:
        # One entry: safetensors orders several at random, but equal sweeps must be equal files.
        save_file(tensors, temporary, metadata={"sha256": means.sha256})


def read_means(path: Path) -> MeanZ:
    """The mean head outputs of `write_means`. Raises RunFolderError for no valid file."""
    try:
        with safe_open(path, "pt") as handle:
            stored = (handle.metadata() or {}).get("sha256")
            means = means_of(handle.get_tensor(_TENSOR))
    except (SafetensorError, OSError) as error:
        raise RunFolderError(
            f"{path}: no mean head outputs can be read ({error}); {ANEW}"
        ) from error
    if stored != means.sha256:
        raise RunFolderError(
            f"{path}: the mean head outputs do not have the hash they were stored with, so the file "
            f"is damaged; {ANEW}"
        )
    return means


# The folder: `logits.npy` (float32 [variant, pair, output], pairs in file order), `variants.csv`,
# `pairs.csv`, `effects.csv`, `run.json`, and `means.safetensors` for the mode `mean`.

LOGITS, MEANS = "logits.npy", "means.safetensors"
VARIANTS, PAIRS, EFFECTS = "variants.csv", "pairs.csv", "effects.csv"
ANEW = "run the sweep again with --overwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """The content of `run.json`.

    `key`: all that the files depend on; `shape`: that of the logits; `means`: hash of the mean head
    outputs; `guards`: figures of the equivalence checks.
    """

    kind: ClassVar[str] = "sweep"
    schema: Literal[1] = 1
    versions: dict[str, str]
    key: dict[str, str]
    model: dict[str, Any]
    pairs: PairsRef
    arguments: dict[str, Any]
    shape: tuple[int, int, int]
    means: str | None
    guards: dict[str, Any]
    truncated_titles: int = 0
    truncated_queries: int = 0
    complete: bool = False


def open_logits(
    path: Path, shape: tuple[int, int, int], mode: Literal["r", "r+"] = "r"
) -> np.ndarray:
    """The stored logits [V, P, K] as a memory map. Raises RunFolderError for a damaged file."""
    try:
        logits = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RunFolderError(f"{path}: the logits cannot be read ({error}); {ANEW}") from error
    if (logits.shape, logits.dtype) != (shape, np.float32):
        raise RunFolderError(
            f"{path}: holds {logits.dtype} {logits.shape}, not float32 {shape}; {ANEW}"
        )
    # Not earlier: "r+" would silently extend a truncated file.
    return logits if mode == "r" else np.load(path, mmap_mode=mode)


@dataclass(frozen=True, eq=False)
class SweepFolder:
    """A finished sweep.

    `logits` [V, P, K] is a read-only memory map; `variants` has V rows (columns of `variants.csv`,
    `heads` as text, `draw` and `seed` may be missing), `pairs` P entries, `effects` the rows of
    `effects.csv`.
    """

    path: Path
    record: SweepRecord
    logits: np.ndarray = field(repr=False)
    variants: pd.DataFrame = field(repr=False)
    pairs: list[Pair] = field(repr=False)
    effects: list[EffectRow] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> SweepFolder:
        """Open the sweep in `path`. Raises RunFolderError for none finished, or a damaged file."""
        record = read_record(SweepRecord, path, "sweep")
        if not record.complete:
            raise RunFolderError(f"{path}: the sweep is unfinished; --resume goes on with it")
        logits = open_logits(path / LOGITS, record.shape)
        variants, pairs = _read_variant_table(path / VARIANTS), read_pairs(path / PAIRS)
        for name, rows, expected in (
            (VARIANTS, len(variants), record.shape[0]),
            (PAIRS, len(pairs), record.shape[1]),
        ):
            if rows != expected:
                raise RunFolderError(f"{path / name}: {rows} rows, not {expected}; {ANEW}")
        effects = read_effects(path / EFFECTS)
        if {row.name for row in effects} - set(variants["name"]):
            raise RunFolderError(f"{path / EFFECTS}: has variants that {VARIANTS} lacks; {ANEW}")
        if record.means is not None and read_means(path / MEANS).sha256 != record.means:
            raise RunFolderError(f"{path / MEANS}: not the mean head outputs of this sweep; {ANEW}")
        return cls(path, record, logits, variants, pairs, effects)

    def row(self, name: str) -> int:
        """The row of the variant called `name`. Raises RunFolderError for an unknown one."""
        rows = np.flatnonzero(self.variants["name"] == name)
        if not len(rows):
            raise RunFolderError(f"{self.path}: no variant is named {name!r}")
        return int(rows[0])


def _read_variant_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)[list(VARIANT_COLUMNS)]
        for name in ("draw", "seed"):
            # Not by way of floats, which round numbers above 2**53.
            numbers = [int(cell) if cell else None for cell in table[name]]
            table[name] = pd.array(numbers, "Int64")
    except (OSError, ValueError, KeyError, OverflowError) as error:
        raise RunFolderError(f"{path}: not the variants of a sweep ({error}); {ANEW}") from error
    return table
