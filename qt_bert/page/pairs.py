"""What a visitor looks at, and where it comes from: links, typed texts and heads, cases, rows, uploads.

Links are checked like typed input. What is invalid is refused in both languages.
"""

from __future__ import annotations

import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal

from qt_bert.data.formats import FORMAT_OF_SUFFIX
from qt_bert.data.pairs import Pair, Reject
from qt_bert.data.reader import ReaderOptions, read_pairs
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.scoring.behaviour_cases import Cases, read_cases
from qt_bert.shipped import BEHAVIOURS, CASES, DEV, TEST, shipped
from qt_bert.text import Text


class RefusedInput(ArgumentError):
    """Something typed, or in a link, that is invalid; `said` is the message in both languages."""

    def __init__(self, said: Text) -> None:
        super().__init__(said.en)
        self.said = said


class RefusedFile(PairFileError):
    """An uploaded file that cannot be read; `said` says it in both languages."""

    def __init__(self, said: Text) -> None:
        super().__init__(said.en)
        self.said = said


# What visitors type: texts as they can be run and linked, and heads by name.


MOST_CHARACTERS = 2000
"""Of query and title together: what a link can carry."""
_MOST_SHOWN = 24


def clean_texts(query: str, title: str) -> tuple[str, str, list[Text]]:
    """Query and title as they can be run and linked, and what was done to them.

    Line breaks and tabs become spaces, other control characters go. Together they keep 2,000
    characters: the title gives way first, down to half.
    """
    faults: list[Text] = []
    plain = plain_text(query), plain_text(title)
    if plain != (query, title):
        faults.append(
            Text("去掉了文本里的控制字符", "control characters were taken out of the texts")
        )
    query, title = plain
    if len(query) + len(title) > MOST_CHARACTERS:
        query = query[: MOST_CHARACTERS - min(len(title), MOST_CHARACTERS // 2)]
        title = title[: MOST_CHARACTERS - len(query)]
        faults.append(
            Text(
                f"查询和标题合计超过 {MOST_CHARACTERS:,} 个字符，已截断",
                f"query and title together have more than {MOST_CHARACTERS:,} characters and were cut",
            )
        )
    for text, zh, en in ((query, "查询", "query"), (title, "标题", "title")):
        if not text.strip():
            none = f"the {en} is empty: there is no pair to run"
            faults.append(Text(f"{zh}是空的，没有可运行的句对", none))
    return query, title, faults


def plain_text(text: str) -> str:
    """Without control characters and lone surrogates; breaks and tabs are spaces."""
    spaced = "".join(" " if c in "\t\n\v\f\r\x85\u2028\u2029" else c for c in text)
    return "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cs"))


def short(text: str) -> str:
    """The beginning of what was typed, quoted, for a message."""
    shown = plain_text(text)
    return f"“{shown[:_MOST_SHOWN]}…”" if len(shown) > _MOST_SHOWN else f"“{shown}”"


# Pairs that ship.


OTHERS = 7
"""Titles of other queries that are ranked beside one of no known query."""


@cache
def cases() -> tuple[Pair, ...]:
    """The single pairs that ship to be looked at. Raises ArgumentError where there are none."""
    return tuple(read_pairs(shipped(CASES)))


@cache
def shipped_rows(split: Literal["dev", "test"]) -> tuple[Pair, ...]:
    """The pairs of a split that ships. Raises ArgumentError where this installation has none."""
    return tuple(ReaderOptions().open(shipped({"dev": DEV, "test": TEST}[split])))


@cache
def shipped_behaviours() -> Cases:
    """The contrast cases that ship."""
    return read_cases(shipped(BEHAVIOURS))


def default_titles(query: str, title: str, rows: Sequence[Pair], seed: int) -> list[Pair]:
    """The titles that `rows` have for `query`, and `title`, before a visitor types any.

    A query of none gets its own title beside others' titles without their labels, drawn by `seed`.
    """
    own = Pair(query, title, None, "", 0, None, {})
    known = list({pair.title: pair for pair in rows if pair.query == query}.values())
    if known:
        return known if any(one.title == title for one in known) else [own, *known]
    others = spread_over_queries(rows, OTHERS, seed) if rows else []
    bare = (replace(pair, query=query, label=None, grades=None) for pair in others)
    return [own, *(pair for pair in bare if pair.title != title)]


# Uploaded files.


MOST_BYTES = 10 * 2**20
UPLOADED_SUFFIXES = tuple(suffix for suffix in FORMAT_OF_SUFFIX if suffix != ".parquet")
"""Formats of uploads: a packed one could unpack to more than the server has."""
_NAME_SHOWN = 80


@contextmanager
def uploaded(data: bytes, name: str) -> Iterator[Path]:
    """The bytes of an upload as a file of this user alone, which is gone when the block ends.

    Raises RefusedFile for an empty, a too large or a packed file and an unknown format, and turns
    what the block says of the file (PairFileError) into one that names the upload.
    """
    shown, suffix, most = shown_name(name), PurePath(name).suffix.lower(), MOST_BYTES >> 20
    if suffix not in UPLOADED_SUFFIXES:
        known = " ".join(UPLOADED_SUFFIXES)
        raise RefusedFile(
            Text(
                f"{shown}：这里只读取未压缩的文本文件，文件名以 {known} 之一结尾；其他格式请用命令行",
                f"{shown}: the page reads plain text files whose names end in one of {known}; "
                "use the command line for others",
            )
        )
    if len(data) > MOST_BYTES:
        raise RefusedFile(
            Text(
                f"{shown} 超过 {most} MB；更大的文件请用命令行 qt-bert evaluate --pairs",
                f"{shown} is larger than {most} MB; use qt-bert evaluate --pairs for it",
            )
        )
    if not data.strip():
        raise RefusedFile(Text(f"{shown} 是空文件", f"{shown}: the file is empty"))
    with tempfile.TemporaryDirectory(prefix="qt_bert-") as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(data)
        try:
            yield path
        except PairFileError as error:
            fault = str(error).replace(str(path), shown).removeprefix(f"{shown}: ")
            raise RefusedFile(Text(f"{shown} 无法读取：{fault}", f"{shown}: {fault}")) from error


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
