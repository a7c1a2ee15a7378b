"""The pages there are: their names, their titles, and where their scripts lie.

Their folder is not called `pages`: beside a script, Streamlit takes a folder of that name for its
older kind of navigation, and would show a page without the frame.
"""

from __future__ import annotations

from qt_bert.results.text import Text

FOLDER = "screens"
"""Beside the entry's script: one file a page."""

SCREENS = {
    "focus": (Text("[CLS] 注意力", "CLS focus"), ":material/center_focus_strong:"),
    "attention": (Text("注意力图", "Attention"), ":material/grid_on:"),
    "atlas": (Text("头图谱", "Atlas"), ":material/map:"),
    "words": (Text("分词", "Words"), ":material/text_fields:"),
    "order": (Text("语序", "Order"), ":material/swap_horiz:"),
    "ranking": (Text("排序", "Ranking"), ":material/format_list_numbered:"),
    "behaviour": (Text("行为卡", "Behaviour"), ":material/rule:"),
    "evaluate": (Text("评测", "Evaluate"), ":material/fact_check:"),
}
"""The pages by file name, in the order of the navigation; the first is the front page."""


def script_of(name: str) -> str:
    """The script of a page, from the entry's folder."""
    return f"{FOLDER}/{name}.py"
