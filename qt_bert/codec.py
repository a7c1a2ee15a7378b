"""Dataclasses to plain JSON values and back, checked against their type hints.

The class variable `kind` of a dataclass is written, and selects the member of a union. Fields named
in its class variable `omit_none` are left out where they are None. Unknown keys are ignored, so that a
file from a newer version stays readable.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
import types
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.files import read_json

T = TypeVar("T")

_SURROGATE = re.compile("[\ud800-\udfff]")  # cannot be encoded
_TYPE_NAMES = {str: "a text", int: "a whole number", float: "a number", bool: "true or false"}


def encode(value: Any) -> Any:
    """`value` as plain data for JSON. Raises ArgumentError for NaN, infinity, other objects."""
    if value is None or isinstance(value, (str, bool)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kind = getattr(type(value), "kind", None)
        tag = {} if kind is None else {"kind": kind}
        omitted = getattr(type(value), "omit_none", ())
        items = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))
        return tag | {n: encode(v) for n, v in items if v is not None or n not in omitted}
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, Sequence):
        return [encode(item) for item in value]
    if isinstance(value, numbers.Integral):
        return int(value)
    if isinstance(value, numbers.Real) and math.isfinite(value):
        return float(value)
    raise ArgumentError(f"cannot store {value!r} as a result; give plain data and finite numbers")


def decode(kind: Any, value: Any, where: str = "value") -> Any:
    """The object of type `kind` that `encode` turned into `value`.

    Raises RunFolderError, beginning with `where` (such as `probes/order.json`), naming the first key
    that does not fit.
    """
    origin = get_origin(kind)
    if kind is Any:
        return value
    if dataclasses.is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    if origin in _CONTAINERS:
        return _CONTAINERS[origin](get_args(kind), value, where)
    return _decode_scalar(kind, value, where)


def read_result(kind: type[T], path: Path) -> T:
    """Read a result file. Raises RunFolderError where it is missing, no JSON, or not of type `kind`."""
    try:
        value = read_json(path)
    except FileNotFoundError:
        raise RunFolderError(f"{path}: no such result file; run the command again") from None
    except (OSError, ValueError) as error:
        raise RunFolderError(
            f"{path}: cannot be read ({error}); run again with --overwrite"
        ) from error
    return decode(kind, value, str(path))  # type: ignore[no-any-return]


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, dict):
        raise _mismatch("an object", value, where)
    if hasattr(kind, "kind") and value.get("kind") != kind.kind:
        raise _mismatch(f'an object of kind "{kind.kind}"', value, where)
    arguments = {}
    for field, hint in _fields(kind):
        if field.name in value:
            arguments[field.name] = decode(hint, value[field.name], f"{where}: {field.name}")
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise RunFolderError(f"{where}: the key {field.name!r} is missing")
    try:
        return kind(**arguments)
    except ArgumentError as error:
        raise RunFolderError(f"{where}: {error}") from error


@cache
def _fields(kind: Any) -> list[tuple[dataclasses.Field[Any], Any]]:
    hints = get_type_hints(kind)
    return [(field, hints[field.name]) for field in dataclasses.fields(kind) if field.init]


def _decode_tuple(arguments: tuple[Any, ...], value: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise _mismatch("a list", value, where)
    kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
    if len(kinds) != len(value):
        raise _mismatch(f"a list of {len(kinds)}", value, where)
    items = enumerate(zip(kinds, value, strict=True))
    return tuple(decode(kind, item, f"{where}[{i}]") for i, (kind, item) in items)


def _decode_mapping(arguments: tuple[Any, ...], value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _mismatch("an object", value, where)
    return {
        _decode_scalar(str, key, where): decode(arguments[1], item, f"{where}[{key!r}]")
        for key, item in value.items()
    }


def _decode_union(members: tuple[Any, ...], value: Any, where: str) -> Any:
    if value is None and type(None) in members:
        return None
    members = tuple(member for member in members if member is not type(None))
    if isinstance(value, dict):
        tagged = [m for m in members if getattr(m, "kind", None) == value.get("kind", "")]
        members = tuple(tagged) or members
    if len(members) == 1:
        return decode(members[0], value, where)
    for member in members:
        try:
            return decode(member, value, where)
        except RunFolderError:
            continue
    raise _mismatch(" or ".join(_name(member) for member in members), value, where)


def _decode_literal(allowed: tuple[Any, ...], value: Any, where: str) -> Any:
    if value not in allowed or isinstance(value, bool) != isinstance(allowed[0], bool):
        raise _mismatch(" or ".join(repr(item) for item in allowed), value, where)
    return value


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:
            raise _mismatch("a finite number", value, where) from None
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise _mismatch(_name(kind), value, where)
    if isinstance(value, float) and not math.isfinite(value):
        raise _mismatch("a finite number", value, where)
    if isinstance(value, str) and _SURROGATE.search(value):
        raise _mismatch("a text of whole characters", value, where)
    return value


def _mismatch(expected: str, value: Any, where: str) -> RunFolderError:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:57] + "..."
    return RunFolderError(f"{where}: expected {expected}, found {shown}")


def _name(kind: Any) -> str:
    return _TYPE_NAMES[kind] if kind in _TYPE_NAMES else str(getattr(kind, "__name__", kind))


_CONTAINERS: dict[Any, Callable[[tuple[Any, ...], Any, str], Any]] = {
    tuple: _decode_tuple,
    dict: _decode_mapping,
    Mapping: _decode_mapping,
    Union: _decode_union,
    types.UnionType: _decode_union,
    Literal: _decode_literal,
}
