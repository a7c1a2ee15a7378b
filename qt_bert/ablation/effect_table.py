"""The table of effects of a sweep folder, `effects.csv`: one row a variant and metric."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeAlias

from qt_bert.ablation.effects import Effects
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.evaluation import q_values
from qt_bert.files import atomic_write
from qt_bert.progress import Progress, silent


class EffectRow(NamedTuple):
    """What leaving heads out did to one metric; None where there is no such number.

    `absolute` is value − base, and `ci_low`, `ci_high` are its 95 % interval; `relative` is
    absolute / base, where base > 0. `q` is by Benjamini–Hochberg over the variants of one family.
    """

    name: str
    metric: str
    base: float | None
    value: float | None
    absolute: float | None
    relative: float | None
    ci_low: float | None
    ci_high: float | None
    p: float | None
    q: float | None
    n_pairs: int
    n_queries: int


Tests: TypeAlias = dict[tuple[int, str], tuple[float | None, float | None]]
"""p and q of a variant's change of a metric."""

_COUNTS = EffectRow._fields[-2:]


def effect_rows(
    effects: Effects,
    names: Sequence[str],
    families: Sequence[str],
    draws: Sequence[int | None],
    *,
    shown: Progress = silent,
) -> list[EffectRow]:
    """A row for every variant but the unmasked one, and every metric of `effects`.

    `names`, `families` and `draws` say of each variant [V], the unmasked one first, what
    `variants.csv` says. A random draw (`draws` not None) gets no p. `shown` counts variants.
    Raises ArgumentError where there is not one entry for each variant.
    """
    if not len(names) == len(families) == len(draws) == effects.n_variants:
        raise ArgumentError(
            f"{len(names)} names, {len(families)} families and {len(draws)} draws for "
            f"{effects.n_variants} variants"
        )
    tests = _tests(effects, families, draws)
    rows = []
    for variant in range(1, effects.n_variants):
        rows += _rows_of(effects, variant, names[variant], tests)
        shown.advance()
    return rows


def write_effects(path: Path, rows: Sequence[EffectRow]) -> None:
    """Write `rows` as UTF-8 CSV, atomically: numbers with nine significant digits, None empty."""
    with (
        atomic_write(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(EffectRow._fields)
        writer.writerows([_written(cell) for cell in row] for row in rows)


def read_effects(path: Path) -> list[EffectRow]:
    """The rows of a file that `write_effects` wrote.

    Raises RunFolderError, naming the line, where it is not such a file.
    """
    try:
        with open(path, encoding="utf-8-sig", newline="") as handle:
            reader = csv.reader(handle)
            if next(reader, None) != list(EffectRow._fields):
                raise RunFolderError(
                    f"{path}: line 1: the columns are not {', '.join(EffectRow._fields)}"
                )
            return [_read_row(cells, f"{path}: line {reader.line_num}") for cells in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise RunFolderError(f"{path}: cannot be read ({error})") from error


def _tests(effects: Effects, families: Sequence[str], draws: Sequence[int | None]) -> Tests:
    members: dict[str, list[int]] = {}
    for variant in range(1, effects.n_variants):
        if draws[variant] is None:
            members.setdefault(families[variant], []).append(variant)
    tests: Tests = {}
    for metric in effects.tested:
        for family in members.values():
            p_values = effects.p_values(family, metric)
            both = zip(p_values, q_values(p_values), strict=True)
            tests |= {(one, metric): pair for one, pair in zip(family, both, strict=True)}
    return tests


def _rows_of(effects: Effects, variant: int, name: str, tests: Tests) -> list[EffectRow]:
    rows = []
    samples = effects.resampled_by(variant, effects.metrics)
    for metric, resampled in zip(effects.metrics, samples, strict=True):
        base, value = effects.base(metric), effects.value(variant, metric)
        change = None if value is None or base is None else value - base
        interval = None if change is None else effects.interval(resampled)
        p, q = tests.get((variant, metric), (None, None))
        rows.append(
            EffectRow(
                name=name,
                metric=metric,
                base=base,
                value=value,
                absolute=change,
                relative=None if change is None or not base or base < 0 else change / base,
                ci_low=interval and interval[0],
                ci_high=interval and interval[1],
                p=p,
                q=q,
                n_pairs=effects.n_pairs,
                n_queries=effects.n_queries,
            )
        )
    return rows


def _written(cell: str | float | None) -> str:
    if cell is None:
        return ""
    return f"{cell:.9g}" if isinstance(cell, float) else str(cell)


def _read_row(cells: list[str], where: str) -> EffectRow:
    if len(cells) != len(EffectRow._fields):
        raise RunFolderError(f"{where}: {len(cells)} cells, not {len(EffectRow._fields)}")
    named = dict(zip(EffectRow._fields, cells, strict=True))
    texts = {key: named.pop(key) for key in ("name", "metric")}
    try:
        counts = {key: int(named.pop(key)) for key in _COUNTS}
        numbers = {key: _number(cell) for key, cell in named.items()}
    except ValueError as error:
        raise RunFolderError(f"{where}: {error}; make the effects anew") from error
    return EffectRow(**texts, **numbers, **counts)  # type: ignore[arg-type]


def _number(cell: str) -> float | None:
    if not cell:
        return None
    number = float(cell)
    if not math.isfinite(number):
        raise ValueError(f"{cell!r} is no number")
    return number
