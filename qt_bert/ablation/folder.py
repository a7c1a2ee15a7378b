"""The folder of a finished sweep: logits by variant and pair, and the tables that name them.

`logits.npy` (float32 [variant, pair, output], pairs in file order), `variants.csv`, `pairs.csv`,
`effects.csv`, `run.json`, and `means.safetensors` where heads were replaced by their mean contexts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from qt_bert.ablation.effect_table import EffectRow, read_effects
from qt_bert.ablation.pair_table import read_pairs
from qt_bert.ablation.variant_table import COLUMNS
from qt_bert.errors import RunFolderError
from qt_bert.pairs import Pair
from qt_bert.results.codec import read_result
from qt_bert.results.probe import PairsRef

if TYPE_CHECKING:
    import pandas as pd

RECORD, LOGITS, MEANS = "run.json", "logits.npy", "means.safetensors"
VARIANTS, PAIRS, EFFECTS = "variants.csv", "pairs.csv", "effects.csv"
ANEW = "run the sweep again with --overwrite"


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepRecord:
    """The content of `run.json`.

    `key` names all that the files depend on, `shape` is that of the logits, `means` the hash of
    the mean contexts, `guards` the figures of the checks before the run.
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


def read_record(path: Path) -> SweepRecord:
    """The `run.json` of a sweep folder. Raises RunFolderError where `path` is none."""
    if not (path / RECORD).is_file():
        what = "holds no sweep" if path.is_dir() else "is no folder"
        raise RunFolderError(f"{path} {what} (no {RECORD} in it); choose another folder")
    try:
        return read_result(SweepRecord, path / RECORD)
    except RunFolderError as error:
        raise RunFolderError(
            f"{path} holds no sweep of this program ({error}); choose another folder"
        ) from error


def open_logits(
    path: Path, shape: tuple[int, int, int], mode: Literal["r", "r+"] = "r"
) -> np.ndarray:
    """The stored logits [V, P, K] as a memory map. Raises RunFolderError where they are damaged."""
    try:
        found = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise RunFolderError(f"{path}: the logits cannot be read ({error}); {ANEW}") from error
    if (found.shape, found.dtype) != (shape, np.float32):
        raise RunFolderError(
            f"{path}: holds {found.dtype} {found.shape}, not float32 {shape}; {ANEW}"
        )
    # Only now: under "r+" a file that was cut short would silently be made longer.
    return found if mode == "r" else np.load(path, mmap_mode=mode)


@dataclass(frozen=True, eq=False)
class SweepFolder:
    """A finished sweep, to be read.

    `logits` [V, P, K] is a read-only memory map; `variants` has a row for each of the V (columns of
    `variants.csv`, `heads` as text, `draw` and `seed` missing where there are none), `pairs` one
    entry for each of the P, `effects` those of `effects.csv`.
    """

    path: Path
    record: SweepRecord
    logits: np.ndarray = field(repr=False)
    variants: pd.DataFrame = field(repr=False)
    pairs: list[Pair] = field(repr=False)
    effects: list[EffectRow] = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> SweepFolder:
        """Open the sweep in `path`.

        Raises RunFolderError where there is none, where it is unfinished, and where a file is
        missing, damaged, or does not belong to the others.
        """
        record = read_record(path)
        if not record.complete:
            raise RunFolderError(f"{path}: the sweep is unfinished; --resume goes on with it")
        logits = open_logits(path / LOGITS, record.shape)
        variants, pairs = _read_variant_table(path / VARIANTS), read_pairs(path / PAIRS)
        for name, rows, wanted in (
            (VARIANTS, len(variants), record.shape[0]),
            (PAIRS, len(pairs), record.shape[1]),
        ):
            if rows != wanted:
                raise RunFolderError(f"{path / name}: {rows} rows, not {wanted}; {ANEW}")
        effects = read_effects(path / EFFECTS)
        if {row.name for row in effects} - set(variants["name"]):
            raise RunFolderError(f"{path / EFFECTS}: has variants that {VARIANTS} lacks; {ANEW}")
        _check_means(path, record)
        return cls(path, record, logits, variants, pairs, effects)

    def row(self, name: str) -> int:
        """The place of the variant called `name`. Raises RunFolderError for an unknown one."""
        places = np.flatnonzero(self.variants["name"] == name)
        if not len(places):
            raise RunFolderError(f"{self.path}: no variant is named {name!r}")
        return int(places[0])


def _check_means(path: Path, record: SweepRecord) -> None:
    if record.means is not None:
        from qt_bert.ablation.means import read_means

        if read_means(path / MEANS).sha256 != record.means:
            raise RunFolderError(f"{path / MEANS}: not the mean contexts of this sweep; {ANEW}")


def _read_variant_table(path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)[list(COLUMNS)]
        for name in ("draw", "seed"):
            table[name] = pd.to_numeric(table[name].replace("", None)).astype("Int64")
    except (OSError, ValueError, KeyError) as error:
        raise RunFolderError(f"{path}: not the variants of a sweep ({error}); {ANEW}") from error
    return table


def differing(stored: Mapping[str, str], wanted: Mapping[str, str]) -> list[str]:
    """The parts of two keys that differ, in the order of `wanted`."""
    return [name for name in wanted if stored.get(name) != wanted[name]]
