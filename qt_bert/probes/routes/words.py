"""Words of the study of routes that stand in more than one place, in both languages."""

from __future__ import annotations

from collections.abc import Mapping

from qt_bert.ablation.patches import Entry
from qt_bert.models.card import ModelLabels
from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Label, Text

SOURCE = Source(article="heads_of_query_title_bert", section="2.4.3")
SHARE_OF_SET = Text("占去掉整组时总变化的份额", "of what leaving the set out changes")
SHARE_OF_OWN = Text("占各自总变化的份额", "of what leaving it out changes")
FOCUS = Text("关注度", "focus")

ENTRY_NAMES: Mapping[Entry, Label] = {
    "q": Text("查询 q", "query q"),
    "k": Text("键 k", "key k"),
    "qk": "q + k",
    "v": Text("值 v", "value v"),
}
ROW_ENTRIES: tuple[Entry, ...] = ("q", "k", "qk")
"""What can move a head's attention: its value cannot."""
GRADE_ENTRIES: tuple[Entry, ...] = ("q", "k", "qk", "v")

THE_SET = Text("匹配头整组", "the matching heads")
CONTROLS = Text("同层其他头（平均）", "others of their layers (mean)")

OTHERWISE: Mapping[str, Text] = {
    "feed_forward": Text("前馈的输出也保持不变", "what feed-forward blocks add is held too"),
    "mean": Text("以均值代替置零", "mean contexts for zeros"),
}

CONCLUSIONS: Mapping[Verdict, Text] = {
    "reproduced": Text(
        "匹配头的一部分作用不经过任何别的头，直接进入阅读头的查询和键，多于同层其他头；这部分占多少，看旁边的份额。",
        "Part of what the matching heads do enters the reader's query and key without passing "
        "through any other head, more than what others of their layers send that way; how much of "
        "the whole it is, the share beside it says.",
    ),
    "not reproduced": Text(
        "匹配头直接送进阅读头的并不比同层其他头多：它们的作用经由中间的头到达。",
        "The matching heads send no more to the reader directly than others of their layers: what "
        "they do arrives through heads in between.",
    ),
    "inconclusive": Text(
        "在这份样本和这些对照上分不清匹配头是直接被读取，还是经由中间的头。",
        "This sample and these controls do not tell whether the matching heads are read directly or "
        "through heads in between.",
    ),
}
NOTHING_TO_SHARE = Text(
    "去掉匹配头对阅读头的关注度没有测得出的影响（区间含 0），所以没有份额可言。",
    "Leaving the matching heads out changes the reader's focus by nothing that could be measured "
    "(the interval holds 0), so there is no share of it.",
)
NO_CONTROLS = Text(
    "匹配头所在的层没有足够的其他头作对照。",
    "The layers of the matching heads have too few other heads to compare with.",
)


def grade_name(labels: ModelLabels) -> Text:
    """What the second outcome is called: the expected grade or level, or the one score."""
    if labels.logits == 1:
        return Text("分数", "score")
    if labels.grades is None:
        return Text("期望档次", "expected level")
    return Text("期望等级", "expected grade")


def grade_sign(labels: ModelLabels) -> str:
    """The same as the name of a node, which has one for both languages."""
    return "score" if labels.logits == 1 else "E[g]"
