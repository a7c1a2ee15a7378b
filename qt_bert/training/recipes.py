"""Recipes: TOML files that say what a training command reads and how it trains."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, TypeVar, get_args, get_type_hints

from qt_bert.errors import ArgumentError
from qt_bert.training.sources import PairSource

T = TypeVar("T")

_TABLES = {"pairs", "text", "forbidden", "dev", "settings", "job", "loss", "models", "trials"}
_INNER = "pretraining"


@dataclass
class Recipe:
    """What a recipe names, with its files resolved. `settings`, `job` and `loss` stay plain tables.

    For `qt-bert baselines`: `models` holds other settings for single models, `trials` how rates are
    chosen, both plain tables, too; `pretraining` is a recipe inside the recipe.
    """

    where: str = "recipe"
    pairs: list[PairSource] = field(default_factory=list)
    text: list[Path] = field(default_factory=list)
    forbidden: list[Path] = field(default_factory=list)
    dev: PairSource | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    job: dict[str, Any] = field(default_factory=dict)
    loss: dict[str, Any] = field(default_factory=dict)
    pretraining: Recipe | None = None
    models: dict[str, dict[str, Any]] = field(default_factory=dict)
    trials: dict[str, Any] = field(default_factory=dict)


def load_recipe(path: Path, data: Path) -> Recipe:
    """Read a recipe; relative file names start from `data`, `text` may hold globs.

    Raises ArgumentError naming the table or key that cannot be meant, or the file that is missing.
    """
    try:
        with open(path, "rb") as handle:
            stored = tomllib.load(handle)
    except (OSError, ValueError) as error:
        raise ArgumentError(f"{path}: not a readable recipe ({error})") from error
    where = str(path)
    inner = _table(stored, _INNER, where) if _INNER in stored else None
    recipe = _recipe({k: v for k, v in stored.items() if k != _INNER}, where, data)
    if inner is not None:
        recipe.pretraining = _recipe(inner, f"{where} [{_INNER}]", data)
    return recipe


def _recipe(stored: Mapping[str, Any], where: str, data: Path) -> Recipe:
    unknown = sorted(set(stored) - _TABLES)
    if unknown:
        raise ArgumentError(f"{where}: unknown {unknown[0]!r}; a recipe knows {_listed(_TABLES)}")
    models = _table(stored, "models", where)
    return Recipe(
        where=where,
        pairs=[_source(t, where, data) for t in _list_of(dict, stored, "pairs", where)],
        text=[
            f for glob in _list_of(str, stored, "text", where) for f in _shards(glob, where, data)
        ],
        forbidden=[
            _existing(data / name, where) for name in _list_of(str, stored, "forbidden", where)
        ],
        dev=_source(_table(stored, "dev", where), where, data) if "dev" in stored else None,
        settings=_table(stored, "settings", where),
        job=_table(stored, "job", where),
        loss=_table(stored, "loss", where),
        models={name: _table(models, name, f"{where} [models]") for name in models},
        trials=_table(stored, "trials", where),
    )


def typed(kind: type[T], table: Mapping[str, Any], where: str) -> T:
    """The dataclass `kind` from a table's values.

    Raises ArgumentError naming the key that is unknown or of another type.
    """
    hints = get_type_hints(kind)
    known = {f.name for f in fields(kind)}  # type: ignore[arg-type]
    values: dict[str, Any] = {}
    for name, value in table.items():
        if name not in known:
            raise ArgumentError(f"{where}: unknown key {name!r}; there are {_listed(known)}")
        if not _fits(value, hints[name]):
            wanted = getattr(hints[name], "__name__", str(hints[name]))
            raise ArgumentError(f"{where}: {name} = {value!r} is no {wanted}")
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
            value is None if one is NoneType else _fits(value, one) for one in get_args(hint)
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
    if not source.weight > 0:
        raise ArgumentError(f"{where}: weight = {source.weight}; it must be above 0")
    return source


def _shards(pattern: str, where: str, data: Path) -> list[Path]:
    try:
        found = sorted(data.glob(pattern))
    except (ValueError, NotImplementedError) as error:
        raise ArgumentError(f"{where}: {pattern!r} is no pattern under --data ({error})") from error
    if not found:
        raise ArgumentError(f"{where}: no file matches {pattern!r} under {data}")
    return found


def _existing(path: Path, where: str) -> Path:
    if not path.is_file():
        raise ArgumentError(f"{where}: {path} does not exist; give the data's folder with --data")
    return path


def _table(stored: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    value = stored.get(name, {})
    if not isinstance(value, dict):
        raise ArgumentError(f"{where}: {name} must be a table, [{name}]")
    return value


def _list_of(kind: type, stored: Mapping[str, Any], name: str, where: str) -> list[Any]:
    value = stored.get(name, [])
    if not isinstance(value, list) or not all(isinstance(item, kind) for item in value):
        raise ArgumentError(f"{where}: {name} must be a list of {kind.__name__}")
    return value


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))
