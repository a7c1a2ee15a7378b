"""The visitor's language, and the texts that several parts of the page share."""

from __future__ import annotations

import re

import streamlit as st

from qt_bert.text import Label, Text, in_language, printable

LANGUAGE = "qt_bert.language"
"""Where the session keeps the visitor's language."""

# What markdown, its colours (`:red[…]`), icons, links and formulas are made of.
_MARKUP = re.compile(r"([\\`*_{}\[\]()<>#+\-.!|~$:&@/])")


def language() -> str:
    """The visitor's language, `zh` or `en`."""
    return "en" if st.session_state.get(LANGUAGE) == "en" else "zh"


def say(label: Label) -> str:
    """The words of `label` in the visitor's language, as they are.

    Where user text may be in them, show them by `st.text`, or `escaped`.
    """
    return in_language(label, language())


def escaped(text: str) -> str:
    """`text` for a place that Streamlit reads as markdown, so that it stays text."""
    return _MARKUP.sub(r"\\\1", printable(text).replace("\n", " "))


TITLE = Text("注意力头检视", "Attention heads, inspected")
OPENING = Text("正在打开模型…", "Opening the model…")
EMPTY = Text(
    "请在左栏输入查询和标题，两者都不能为空。",
    "Enter a query and a title on the left; neither may be empty.",
)
NO_LINK = Text(
    "这一视图取自上传的文件，文件不在链接里：别人打开链接看不到它。",
    "This view rests on an uploaded file, which no link holds: nobody else sees it by the address.",
)
REFUSED = Text("这一步做不了：", "This cannot be done: ")
UNEXPECTED = Text(
    "出了意外的错误，已记入服务器的日志。换一个输入，或重新载入此页。",
    "Something unexpected went wrong; it is in the server's log. Try another input, or reload the page.",
)
SAVE = Text("保存", "Save")
SAVE_HELP = Text(
    "表格（CSV），图还有矢量图（SVG）；位图（PNG）在图的右上角。",
    "A table (CSV), of charts also a vector picture (SVG); a bitmap (PNG) by the button at the chart's corner.",
)
MISSING = Text("无", "none")
