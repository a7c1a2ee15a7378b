"""The pairs on a page: typed texts, shipped cases and rows, uploaded files; refusals in both languages."""

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

from qt_bert.data.cases import Cases, read_cases
from qt_bert.data.formats import FORMAT_OF_SUFFIX
from qt_bert.data.pairs import Pair, Reject
from qt_bert.data.reader import ReaderOptions, read_pairs
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError, PairFileError, QtBertError
from qt_bert.shipped import BEHAVIOURS, CASES, DEV, TEST, shipped
from qt_bert.text import Text


class _InBothLanguages(QtBertError):
    def __init__(self, message: Text) -> None:
        super().__init__(message.en)
        self.message = message


class RefusedInput(_InBothLanguages, ArgumentError):
    """Typed or linked input is invalid; `message` is in both languages."""


class RefusedFile(_InBothLanguages, PairFileError):
    """An uploaded file cannot be read; `message` is in both languages."""


# Typed texts.


MOST_CHARACTERS = 2000
"""Of query and title together, so that they fit into a link."""
_MOST_SHOWN = 24


def clean_texts(query: str, title: str) -> tuple[str, str, list[Text]]:
    """Query and title as the model runs them and links hold them, and what was changed.

    Line breaks and tabs become spaces, other control characters are removed. Together they keep
    2,000 characters; the title is cut first, down to half of them.
    """
    faults: list[Text] = []
    plain = plain_text(query), plain_text(title)
    if plain != (query, title):
        faults.append(
            Text("已去掉文本里的控制字符", "control characters were removed from the texts")
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
            faults.append(
                Text(f"{zh}为空，无法运行", f"the {en} is empty: there is no pair to run")
            )
    return query, title, faults


def plain_text(text: str) -> str:
    """Without control characters and lone surrogates; line breaks and tabs become spaces."""
    spaced = "".join(" " if c in "\t\n\v\f\r\x85\u2028\u2029" else c for c in text)
    return "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cs"))


def short(text: str) -> str:
    """The beginning of a typed text in quotes, for a message."""
    shown = plain_text(text)
    return f"“{shown[:_MOST_SHOWN]}…”" if len(shown) > _MOST_SHOWN else f"“{shown}”"


# Pairs that ship.


OTHERS = 7
"""Titles of other queries that are ranked beside a title whose query has no rows."""


@cache
def cases() -> tuple[Pair, ...]:
    """The shipped example pairs. Raises ArgumentError where there are none."""
    return tuple(read_pairs(shipped(CASES)))


@cache
def shipped_rows(split: Literal["dev", "test"]) -> tuple[Pair, ...]:
    """The pairs of a shipped split. Raises ArgumentError where this installation has none."""
    return tuple(ReaderOptions().open(shipped({"dev": DEV, "test": TEST}[split])))


@cache
def shipped_behaviours() -> Cases:
    """The shipped contrast cases."""
    return read_cases(shipped(BEHAVIOURS))


def default_titles(query: str, title: str, rows: Sequence[Pair], seed: int) -> list[Pair]:
    """The titles to rank before a visitor types any: `title`, and those that `rows` have for `query`.

    Where `rows` have none, titles of other queries, without labels, drawn by `seed`.
    """
    shown = Pair(query, title, None, "", 0, None, {})
    known = list({pair.title: pair for pair in rows if pair.query == query}.values())
    if known:
        return known if any(pair.title == title for pair in known) else [shown, *known]
    others = spread_over_queries(rows, OTHERS, seed) if rows else []
    bare = (replace(pair, query=query, label=None, grades=None) for pair in others)
    return [shown, *(pair for pair in bare if pair.title != title)]


# Uploaded files.


MOST_BYTES = 10 * 2**20
UPLOADED_SUFFIXES = tuple(suffix for suffix in FORMAT_OF_SUFFIX if suffix != ".parquet")
"""Formats of uploads. A compressed file could unpack to more than the server's memory."""
_NAME_SHOWN, _MOST_REJECTS = 80, 10_000


@contextmanager
def uploaded(data: bytes, name: str) -> Iterator[Path]:
    """The bytes of an upload as a file that only this user can read, deleted when the block ends.

    Raises RefusedFile for an empty, too large or compressed file and an unknown format, and for a
    PairFileError of the block, with the upload's name in place of the path.
    """
    shown, suffix, most = shown_name(name), PurePath(name).suffix.lower(), MOST_BYTES >> 20
    if suffix not in UPLOADED_SUFFIXES:
        known = " ".join(UPLOADED_SUFFIXES)
        raise RefusedFile(
            Text(
                f"{shown}：网页只读未压缩的文本文件（{known}）；其他格式请用命令行",
                f"{shown}: the page reads plain text files ({known}); use the command line for others",
            )
        )
    if len(data) > MOST_BYTES:
        raise RefusedFile(
            Text(
                f"{shown} 超过 {most} MB；请用命令行 qt-bert evaluate --pairs",
                f"{shown} is larger than {most} MB; use qt-bert evaluate --pairs for it",
            )
        )
    if not data.strip():
        raise RefusedFile(Text(f"{shown} 为空", f"{shown}: the file is empty"))
    with tempfile.TemporaryDirectory(prefix="qt_bert-") as folder:
        path = Path(folder) / f"upload{suffix}"
        path.write_bytes(data)
        try:
            yield path
        except PairFileError as error:
            fault = str(error).replace(str(path), shown).removeprefix(f"{shown}: ")
            raise RefusedFile(Text(f"{shown} 无法读取：{fault}", f"{shown}: {fault}")) from error


def listed_rejects(listed: Path | None) -> tuple[Reject, ...]:
    """The first 10,000 rows of a file of rejects; none where the file is missing."""
    if listed is None or not listed.exists():
        return ()
    with open(listed, encoding="utf-8", newline="\n") as handle:
        lines = islice(handle, 1, 1 + _MOST_REJECTS)
        fields = [line.rstrip("\n").split("\t", 2) for line in lines]
    return tuple(Reject(int(line), reason, text) for line, reason, text in fields)


def shown_name(name: str) -> str:
    """The name of an upload without folders and control characters."""
    last = "".join(c for c in PurePath(name).name if c.isprintable())
    return last[-_NAME_SHOWN:] or "upload"
