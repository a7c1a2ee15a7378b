"""What a visitor looks at, and where it comes from: links, typed texts and heads, cases, rows, uploads.

Links are checked like typed input. What is invalid is refused in both languages.
"""

from __future__ import annotations

import tempfile
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Literal

from qt_bert.ablation.masks import MODES
from qt_bert.data.formats import FORMAT_OF_SUFFIX
from qt_bert.data.pairs import Pair, Reason, Reject
from qt_bert.data.reader import ReaderOptions, read_pairs
from qt_bert.data.splits import spread_over_queries
from qt_bert.errors import ArgumentError, PairFileError, QtBertError
from qt_bert.models.heads import Head, Shape, parse_heads, spell
from qt_bert.probes.behaviour_cases import Cases, read_cases
from qt_bert.probes.focus import layer_of
from qt_bert.shipped import BEHAVIOURS, CASES, DEV, TEST, shipped
from qt_bert.text import Text

if TYPE_CHECKING:
    from qt_bert.inspection.inspected import Shelf
    from qt_bert.inspection.study import Studied


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


# What a visitor looks at: one value that lives in the address.


LANGUAGES = ("zh", "en")
MOST_SEED = 2**31 - 1
FIRST_CASE = "article-focus"
NO_HEADS = "none"
KEYS = {
    "model": "model",
    "query": "q",
    "title": "t",
    "layer": "layer",
    "head": "head",
    "out": "out",
    "mode": "mode",
    "seed": "seed",
    "language": "lang",
}
"""Field of the state → its key in a link."""


@dataclass(frozen=True, kw_only=True)
class State:
    """Model, pair, the head looked at, the heads left out (`out`) and how, seed and language."""

    model: str
    query: str
    title: str
    layer: int
    head: int
    out: tuple[Head, ...]
    mode: str
    seed: int
    language: str

    @property
    def chosen(self) -> Head:
        """The head looked at."""
        return Head(self.layer, self.head)

    @property
    def empty(self) -> bool:
        """Whether a text says nothing, so that there is no pair to run."""
        return not (self.query.strip() and self.title.strip())

    def to_query(self) -> dict[str, str]:
        """The state as the parameters of a link; `read_state` reads it."""
        values = {field: str(getattr(self, field)) for field in KEYS}
        values["out"] = spell(self.out) or NO_HEADS
        return {KEYS[field]: value for field, value in values.items()}


def first_state(shelf: Shelf, studied: Studied | None) -> State:
    """What a first visit shows: the article's query with the matching heads left out (2.4.3)."""
    model = shelf.names[0]
    pair = next(one for one in cases() if one.id == FIRST_CASE)
    layer = layer_of(shelf.open(model).shape)
    sets = studied.sets if studied else {}
    readers = [head for head in sets.get("reader", ()) if head.layer == layer]
    return State(
        model=model,
        query=pair.query,
        title=pair.title,
        layer=layer,
        head=readers[0].head if readers else 0,
        out=tuple(head for head in sets.get("matching", ()) if head.layer < layer),
        mode="zero",
        seed=0,
        language="zh",
    )


def read_state(query: Mapping[str, str], default: State, shelf: Shelf) -> tuple[State, list[Text]]:
    """The state that a link's parameters name, and what did not fit, where `default` stands.

    Parameters that are no key of a state say nothing. Another model leaves no heads out, and shows
    the layer and head of `default` as far as it has them.
    """
    given = {field: query[key] for field, key in KEYS.items() if key in query}
    faults: list[Text] = []
    start, wanted = default, given.get("model", default.model)
    if wanted != default.model:
        try:
            shape = shelf.open(wanted).shape
        except QtBertError as error:
            faults.append(
                Text(
                    f"模型 {short(wanted)} 打不开，保留原来的模型（{error}）",
                    f"the model {short(wanted)} cannot be opened, the one before stays ({error})",
                )
            )
        else:
            layer = default.layer if default.layer < shape.layers else layer_of(shape)
            head = default.head if default.head < shape.heads else 0
            start = replace(default, model=wanted, layer=layer, head=head, out=())
    shape = shelf.open(start.model).shape

    def refused(field: str, known: str) -> None:
        key, wrong, kept = KEYS[field], short(given[field]), getattr(start, field)
        zh, en = f"{key}={wrong} 不合要求（{known}）", f"{key}={wrong} does not fit ({known})"
        faults.append(Text(f"{zh}；保留 {kept}", f"{en}; {kept} stays"))

    def number(field: str, most: int) -> int:
        kept: int = getattr(start, field)
        text = given.get(field, str(kept))
        if text.isascii() and text.isdigit() and len(text) <= len(str(most)) and int(text) <= most:
            return int(text)
        refused(field, f"0–{most}")
        return kept

    def choice(field: str, choices: tuple[str, ...]) -> str:
        kept: str = getattr(start, field)
        text = given.get(field, kept)
        if text in choices:
            return text
        refused(field, "/".join(choices))
        return kept

    def heads() -> tuple[Head, ...]:
        text = given.get("out")
        if text is None:
            return start.out
        try:
            return () if text == NO_HEADS else typed_heads(text, shape)
        except RefusedInput as error:
            kept = spell(start.out) or NO_HEADS
            faults.append(Text(f"{error.said.zh}；保留 {kept}", f"{error.said.en}; {kept} stays"))
            return start.out

    asked, title, said = clean_texts(
        given.get("query", start.query), given.get("title", start.title)
    )
    faults += said
    found = replace(
        start,
        query=asked,
        title=title,
        layer=number("layer", shape.layers - 1),
        head=number("head", shape.heads - 1),
        seed=number("seed", MOST_SEED),
        out=heads(),
        mode=choice("mode", MODES),
        language=choice("language", LANGUAGES),
    )
    return found, faults


# What visitors type: texts as they can be run and linked, and heads by name.


MOST_CHARACTERS = 2000
"""Of query and title together: what a link can carry."""
_MOST_SHOWN = 24


def typed_heads(text: str, shape: Shape) -> tuple[Head, ...]:
    """The heads in `text`, as in `L3H7 L2H1`, sorted, each once; none where there is no text.

    Commas may part them, also Chinese ones, and small letters do. Raises RefusedInput (an
    ArgumentError) naming what is no head, or none of a model of `shape`.
    """
    plain = unicodedata.normalize("NFKC", text).replace("、", " ").replace(",", " ").upper()
    heads: list[Head] = []
    for name in plain.split():
        try:
            heads += parse_heads(name, shape)
        except ArgumentError as error:
            last = Head(shape.layers - 1, shape.heads - 1)
            raise RefusedInput(
                Text(
                    f"{short(name)} 不是这个模型的注意力头；写法如 L3H7，这里有 L0H0 到 {last}",
                    f"{short(name)} is no head of this model; write it as L3H7, from L0H0 to {last}",
                )
            ) from error
    return tuple(sorted(set(heads)))


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
        Reason.NAN: "NaN 不是文本或标注",
        Reason.NOT_A_LIST: "pos 或 neg 不是标题列表",
        Reason.UNCLOSED_QUOTE: "引号没有闭合",
        Reason.HEADER: "表头重复",
    }.items()
}
"""Why a row is rejected, in words."""


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
