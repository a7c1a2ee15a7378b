"""What the page of attention maps says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.views.attention import Given, Maps
from qt_bert.results import Text

TITLE = Text("注意力图", "Attention map")
PART = Text("看哪一部分", "Part")
COMPARE = Text("比较", "Compare")
START = Text("从第几个词元画起", "First token drawn")
ALL_HEADS = Text("所有的头", "All heads")
WAY = Text("画什么", "What is drawn")
SAVE = Text("保存这张图（PNG）", "Save the picture (PNG)")
NO_BASE = Text(
    "没有这个模型微调之前的权重，不能比较微调前后。",
    "The weights before fine-tuning are not known for this model.",
)

Comparison = Literal["out", "tuning"]
COMPARISONS: Mapping[Comparison, Text] = {
    "out": Text("去掉头前后", "heads left out"),
    "tuning": Text("微调前后", "fine-tuning"),
}


def intro(seen: Maps, model: Inspected) -> Text:
    """Which head is shown, and how a map is read."""
    return Text(
        f"{seen.head}（{model.name}）。每行是一个在看的词元，整行（全部列）之和为 1；指着一格可见"
        "两个字和权重。",
        f"{seen.head} of {model.name}. A row is a token that looks; over all columns it adds up to 1. "
        "Point at a cell to see both tokens and the weight.",
    )


def given(one: Given) -> Text:
    """The name of a number: what the tokens that look give to those looked at."""
    return Text(
        f"{one.way.zh}：平均给所看部分的注意力（%）",
        f"{one.way.en}: mean attention given within the part (%)",
    )
