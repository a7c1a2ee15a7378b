"""Where a visitor's pairs come from: the cases and rows that ship, and uploaded files."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal

from qt_bert.errors import PairFileError
from qt_bert.inspection.file_faults import in_chinese
from qt_bert.inspection.refused import RefusedFile
from qt_bert.pairs import Pair, ReaderOptions, read_pairs
from qt_bert.pairs.formats import FORMAT_OF_SUFFIX
from qt_bert.pairs.pair import Reject
from qt_bert.results import Text
from qt_bert.shipped import CASES, DEV, TEST, shipped

MOST_BYTES = 10 * 2**20
MOST_ROWS = 2000
MOST_REJECTS = 100
UPLOADED_SUFFIXES = tuple(suffix for suffix in FORMAT_OF_SUFFIX if suffix != ".parquet")
"""Formats of uploads: a packed one could unpack to more than the server has."""

_NAME_SHOWN = 80
_SPLITS = {"dev": DEV, "test": TEST}


@dataclass(frozen=True, slots=True)
class Case:
    """A pair that ships to be looked at; `about` says what it is, or where it comes from."""

    id: str
    query: str
    title: str
    grade: str | None
    about: str


@dataclass(frozen=True, slots=True)
class UploadedPairs:
    """The pairs of an uploaded file.

    `pairs` are the first 2,000 of `total`, in file order; `rejects` the first 100 of the `rejected`
    rows, with line and reason. `sha256` is that of the file.
    """

    name: str
    sha256: str
    pairs: tuple[Pair, ...]
    total: int
    rejects: tuple[Reject, ...]
    rejected: int


def cases() -> list[Case]:
    """The single pairs that ship, in their order. Raises ArgumentError where there are none."""
    return list(_cases())


def case(name: str) -> Case:
    """The case of that id. Raises KeyError for another."""
    return {one.id: one for one in _cases()}[name]


@cache
def shipped_rows(split: Literal["dev", "test"]) -> tuple[Pair, ...]:
    """The pairs of a split that ships. Raises ArgumentError where this installation has none."""
    return tuple(ReaderOptions().open(shipped(_SPLITS[split])))


def rows(data: bytes, name: str) -> UploadedPairs:
    """Read an uploaded file of pairs, called `name`; every bad row is a reject, and none is lost.

    Raises RefusedFile as `uploaded` does.
    """
    with uploaded(data, name) as path:
        listed = path.with_name("rejects.tsv")
        reader = ReaderOptions(max_rejects=1.0).open(path, rejects_path=listed)
        stream = iter(reader)
        pairs = tuple(islice(stream, MOST_ROWS))
        for _ in stream:  # the rest is counted, not held
            pass
        return UploadedPairs(
            shown_name(name),
            hashlib.sha256(data).hexdigest(),
            pairs,
            reader.accepted,
            listed_rejects(listed, MOST_REJECTS),
            reader.rejected,
        )


@contextmanager
def uploaded(data: bytes, name: str) -> Iterator[Path]:
    """The bytes of an upload as a file of this user alone, which is gone when the block ends.

    Raises RefusedFile for an empty, a too large or a packed file and an unknown format, and turns
    what the block says of the file (PairFileError) into one that names the upload.
    """
    shown = shown_name(name)
    _check(data, name)
    with tempfile.TemporaryDirectory(prefix="qt_bert-") as folder:
        path = Path(folder) / f"upload{_suffix(name)}"
        path.write_bytes(data)
        try:
            yield path
        except PairFileError as error:
            fault = str(error).replace(str(path), shown).removeprefix(f"{shown}: ")
            raise RefusedFile(
                Text(f"{shown} 无法读取：{in_chinese(fault)}", f"{shown}: {fault}")
            ) from error


def listed_rejects(listed: Path | None, most: int) -> tuple[Reject, ...]:
    """The first rows of a file of rejects, where there is one."""
    if listed is None or not listed.exists():
        return ()
    with open(listed, encoding="utf-8", newline="\n") as handle:
        lines = islice(handle, 1, 1 + most)
        fields = [line.rstrip("\n").split("\t", 2) for line in lines]
    return tuple(Reject(int(line), reason, text) for line, reason, text in fields)


def shown_name(name: str) -> str:
    """The name of an upload as it is safe to show: without folders and control characters."""
    last = "".join(c for c in PurePath(name).name if c.isprintable())
    return last[-_NAME_SHOWN:] or "upload"


@cache
def _cases() -> tuple[Case, ...]:
    return tuple(
        Case(pair.id, pair.query, pair.title, pair.label, pair.extra.get("source", ""))
        for pair in read_pairs(shipped(CASES))
    )


def _suffix(name: str) -> str:
    return PurePath(name).suffix.lower()


def _check(data: bytes, name: str) -> None:
    shown = shown_name(name)
    if _suffix(name) not in UPLOADED_SUFFIXES:
        known = " ".join(UPLOADED_SUFFIXES)
        raise RefusedFile(
            Text(
                f"{shown}：这里只读取未压缩的文本文件，文件名以 {known} 之一结尾；其他格式请用命令行",
                f"{shown}: the page reads plain text files whose names end in one of {known}; "
                "use the command line for others",
            )
        )
    if len(data) > MOST_BYTES:
        most = MOST_BYTES >> 20
        raise RefusedFile(
            Text(
                f"{shown} 超过 {most} MB；更大的文件请用命令行 qt-bert evaluate --pairs",
                f"{shown} is larger than {most} MB; use qt-bert evaluate --pairs for it",
            )
        )
    if not data.strip():
        raise RefusedFile(Text(f"{shown} 是空文件", f"{shown}: the file is empty"))
