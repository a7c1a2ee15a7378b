"""`variants.csv`: the variants of a sweep, and the form in which a user hands in masks of their own.

UTF-8, with or without a byte order mark; one line, one variant: `name`, `family`, `mode`, `heads`
(as `L2H1 L3H7`), `draw`, `seed`. `none`, without heads, is the plain model.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from qt_bert.ablation.variant import NONE, Part, Variant, with_plain
from qt_bert.encoder.heads import Head, Shape, parse_heads, spell
from qt_bert.errors import ArgumentError
from qt_bert.files import atomic_write

COLUMNS = ("name", "family", "mode", "heads", "draw", "seed")


def write_variants(path: str | os.PathLike[str], variants: Sequence[Variant]) -> None:
    """Write one line a variant, `none` first, atomically.

    Raises ArgumentError where two variants have one name, or a name cannot stand on one line.
    """
    listed = with_plain(variants)
    for variant in listed:
        if variant.name.strip().splitlines() != [variant.name]:
            raise ArgumentError(f"{variant.name!r} names no variant: one line, no spaces around it")
    with (
        atomic_write(path) as temporary,
        open(temporary, "w", encoding="utf-8", newline="") as handle,
    ):
        writer = csv.writer(handle, lineterminator="\n")
        writer.writerow(COLUMNS)
        for one in listed:
            numbers = ["" if number is None else number for number in (one.draw, one.seed)]
            writer.writerow([one.name, one.family, one.mode, spell(one.heads), *numbers])


def read_variants(
    path: str | os.PathLike[str],
    shape: Shape,
    part_of: Callable[[str, tuple[Head, ...]], Part],
) -> list[Variant]:
    """The variants in a file, without `none`; `part_of` makes a part of a mode and heads.

    Columns may stand in any order; lines without text are skipped. Raises ArgumentError, with file
    and line, for another header, a line that is no row of it, heads that a model of `shape` lacks,
    a name that came before, a mode that is combined or that `part_of` refuses, and for a file that
    cannot be read or holds no variant.
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
    row: dict[str, str], shape: Shape, part_of: Callable[[str, tuple[Head, ...]], Part]
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
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise ArgumentError(f"{column} is {text!r}; it must be a whole number from 0, or empty")
    return int(text)


def _rows(path: Path) -> Iterator[tuple[int, dict[str, str]]]:
    """Line number, and text by column, of every line with text below the header."""
    header: list[str] | None = None
    for line, text in enumerate(_text(path).split("\n"), start=1):
        fields = _fields(text.removesuffix("\r"), f"{path}: line {line}")
        if not any(fields):
            continue
        if header is None:
            header = fields
            if sorted(header) != sorted(COLUMNS):
                raise ArgumentError(
                    f"{path}: line {line}: the header is {','.join(header)}; "
                    f"it must be {','.join(COLUMNS)}"
                )
        elif len(fields) != len(header):
            raise ArgumentError(
                f"{path}: line {line}: {len(fields)} fields under a header of {len(header)}"
            )
        else:
            yield line, dict(zip(header, fields, strict=True))


def _fields(text: str, where: str) -> list[str]:
    """The fields of one line; taken by itself, so that a stray quote swallows no further line."""
    try:
        rows = list(csv.reader([text], strict=True, skipinitialspace=True))
    except csv.Error as error:
        raise ArgumentError(f"{where}: not a line of CSV ({error})") from error
    return [field.strip() for row in rows for field in row]


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise ArgumentError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise ArgumentError(f"{path}: line {line}: not UTF-8 text; save it as UTF-8") from error
