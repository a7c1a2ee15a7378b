"""What visitors type and upload, and the cases and rows that ship; what is refused, in words."""

from __future__ import annotations

import hashlib
import tempfile
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from typing import Literal

from qt_bert.data.formats import FORMAT_OF_SUFFIX
from qt_bert.data.pairs import Pair, Reason, Reject
from qt_bert.data.reader import ReaderOptions, read_pairs
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.models.heads import Head, Shape, parse_heads
from qt_bert.probes.behaviour_cases import Cases, read_cases
from qt_bert.shipped import BEHAVIOURS, CASES, DEV, TEST, shipped
from qt_bert.text import Text


class RefusedInput(ArgumentError):
    """Something typed, or in a link, that cannot be meant; `said` says it in both languages."""

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


def typed_heads(text: str, shape: Shape) -> tuple[Head, ...]:
    """The heads in `text`, as in `L3H7 L2H1`, sorted, each once; none where there is no text.

    Commas may part them, also Chinese ones, and small letters do. Raises RefusedInput (an
    ArgumentError) naming what is no head, or none of a model of `shape`.
    """
    plain = unicodedata.normalize("NFKC", text).replace("、", " ").upper()
    if not plain.replace(",", " ").strip():
        return ()
    try:
        return tuple(parse_heads(plain, shape))
    except ArgumentError as error:
        wrong = next(
            (name for name in plain.replace(",", " ").split() if not _fits(name, shape)), ""
        )
        last = Head(shape.layers - 1, shape.heads - 1)
        raise RefusedInput(
            Text(
                f"{short(wrong)} 不是这个模型的注意力头；写法如 L3H7，这里有 L0H0 到 {last}",
                f"{short(wrong)} is no head of this model; write it as L3H7, from L0H0 to {last}",
            )
        ) from error


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
    for text, name in ((query, Text("查询", "query")), (title, Text("标题", "title"))):
        if not text.strip():
            faults.append(
                Text(
                    f"{name.zh}是空的，没有可运行的句对",
                    f"the {name.en} is empty: there is no pair to run",
                )
            )
    return query, title, faults


def _fits(name: str, shape: Shape) -> bool:
    try:
        return bool(parse_heads(name, shape))
    except ArgumentError:
        return False


def plain_text(text: str) -> str:
    """Without control characters and lone surrogates; breaks and tabs are spaces."""
    return "".join(_plain(c) for c in text)


def _plain(character: str) -> str:
    if character in "\t\n\v\f\r\x85\u2028\u2029":
        return " "
    return "" if unicodedata.category(character) in ("Cc", "Cs") else character


def short(text: str) -> str:
    """The beginning of what was typed, quoted, for a message."""
    shown = plain_text(text)
    return f"“{shown[:_MOST_SHOWN]}…”" if len(shown) > _MOST_SHOWN else f"“{shown}”"


REASONS: dict[str, Text] = {
    reason.value: Text(zh, reason.value)
    for reason, zh in {
        Reason.EMPTY_QUERY: "查询为空",
        Reason.EMPTY_TITLE: "标题为空",
        Reason.MISSING_GRADE: "没有标注",
        Reason.BAD_GRADE: "标注读不懂",
        Reason.TOO_FEW_FIELDS: "列太少",
        Reason.TOO_MANY_FIELDS: "列太多",
        Reason.UNDECODABLE: "不是有效的文本编码",
        Reason.NUL: "含 NUL 字符",
        Reason.SURROGATE: "含不成对的代理字符",
        Reason.BAD_JSON: "不是 JSON",
        Reason.NOT_AN_OBJECT: "不是 JSON 对象",
        Reason.MISSING_QUERY: "没有查询",
        Reason.MISSING_TITLE: "没有标题",
        Reason.QUERY_NOT_TEXT: "查询不是文本",
        Reason.TITLE_NOT_TEXT: "标题不是文本",
    }.items()
}
"""Why a row is rejected, in words."""


# Where a visitor's pairs come from: the cases and rows that ship, and uploaded files.


MOST_BYTES = 10 * 2**20
MOST_ROWS = 2000
MOST_REJECTS = 100
OTHERS = 7
"""Titles of other queries that are ranked beside one of no known query."""
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


@cache
def shipped_behaviours() -> Cases:
    """The contrast cases that ship."""
    return read_cases(shipped(BEHAVIOURS))


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
