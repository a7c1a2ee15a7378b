"""What visitors type: texts as they can be run and linked, and heads by name."""

from __future__ import annotations

import unicodedata

from qt_bert.encoder.heads import Head, Shape, parse_heads
from qt_bert.errors import ArgumentError
from qt_bert.inspection.refused import RefusedInput
from qt_bert.results import Text

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
