"""Named sets of heads in words: what they are called, and what the heads of each do."""

from __future__ import annotations

from typing import NamedTuple

from qt_bert.text import Text

PHENOMENA: dict[str, Text] = {
    "direction": Text("方向对调", "direction swapped"),
    "negation": Text("否定或反义", "negation or opposite"),
    "number": Text("数字、型号、年份", "number, model or year"),
    "entity": Text("换了对象", "another place, person or brand"),
    "constraint": Text("条件丢了或换了", "constraint dropped or replaced"),
    "intent": Text("换了意图", "another intent"),
    "common_word": Text("丢了要紧的词", "informative word lost"),
    "stuffing": Text("堆砌或打乱关键词", "keywords stuffed or shuffled"),
    "synonym": Text("同义词与简称", "synonym or abbreviation"),
    "seo_tail": Text("站点名等尾巴", "SEO tail"),
    "order": Text("换语序、不改意思", "another order, same meaning"),
    "filler": Text("语气词与虚词", "fillers and particles"),
    "misspelling": Text("常见错字", "common misspelling"),
    "script": Text("全角与繁体", "full-width or traditional"),
    "distance": Text("共有的词隔得更远", "shared words further apart"),
    "mixed_script": Text("中西文、单位、大小写", "Latin or Chinese name, unit, case"),
}


def phenomenon_name(name: str) -> Text:
    """What a phenomenon is called; one of a file of one's own goes by its name there."""
    return PHENOMENA.get(name, Text(name, name))


# Named sets of heads in words: what they are called, and what the heads of each do.


class SetWords(NamedTuple):
    """A set's name, and one sentence on its heads."""

    name: Text
    does: Text


# Sets of the highest scores are as large where no head matches: they are told by comparison.
_MATCHES = Text(
    "在候选的头里，最常看对面文本里与自己相同的字。",
    "They look at their own character in the other text most, of the heads to choose from.",
)
_MATCHED_BEFORE = Text(
    "微调之前，它们比对照更常看对面文本里相同的字。",
    "Before fine-tuning they looked at their own character in the other text, beyond a null.",
)

_KINDS = {
    "punctuation": Text("标点", "punctuation"),
    "noun": Text("名词", "nouns"),
    "verb": Text("动词", "verbs"),
    "pronoun": Text("代词", "pronouns"),
    "number": Text("数词", "numbers"),
    "negation": Text("否定词", "negation"),
    "subject": Text("主语", "subjects"),
    "object": Text("宾语", "objects"),
}
_TAGGED = {
    "pairs": Text("jieba 标注", "jieba's tags"),
    "treebank": Text("树库标注", "treebank's tags"),
}


def _looks_at(kind: Text, tagged: Text) -> SetWords:
    return SetWords(
        Text(f"看{kind.zh}的头（{tagged.zh}）", f"heads that look at {kind.en} ({tagged.en})"),
        Text(
            f"给{kind.zh}的注意力，远多于{kind.zh}在词元里的占比。",
            f"They give {kind.en} far more attention than their share of the tokens.",
        ),
    )


SETS: dict[str, SetWords] = {
    "matching": SetWords(Text("匹配头", "matching heads"), _MATCHES),
    "matching_below": SetWords(
        Text("阅读头下面的匹配头", "matching heads below the reader"), _MATCHES
    ),
    "named": SetWords(
        Text("达标的匹配头", "named matching heads"),
        Text(
            "看对面文本里相同的字，超过事先定下的倍数，且 q < 0.05。",
            "They look at their own character in the other text, by more than a factor fixed "
            "beforehand, with q < 0.05.",
        ),
    ),
    "named_title_to_query": SetWords(
        Text("标题看查询的匹配头", "matching heads, title to query"),
        Text(
            "标题里的字看查询里相同的字。", "Title characters look at the same ones of the query."
        ),
    ),
    "named_query_to_title": SetWords(
        Text("查询看标题的匹配头", "matching heads, query to title"),
        Text(
            "查询里的字看标题里相同的字。", "Query characters look at the same ones of the title."
        ),
    ),
    "low_half": SetWords(Text("低半层的匹配头", "matching heads of the low half"), _MATCHES),
    "by_weight": SetWords(
        Text("匹配权重最大的头", "heads of the largest matched weight"),
        Text(
            "给对面文本里相同的字的注意力最多，不与无可匹配时相比。",
            "They give their own character in the other text the most attention, no control taken off.",
        ),
    ),
    "boundary": SetWords(
        Text("词边界头", "boundary heads"),
        Text(
            "从它们给下一个字和 [SEP] 的注意力，读得出词在哪里结束。",
            "Their attention to the next character and to [SEP] tells where words end.",
        ),
    ),
    "order": SetWords(
        Text("语序头", "order heads"),
        Text(
            "打乱字序后，注意力图跟着位置走的头里，最偏重某个固定偏移的邻字。",
            "Of the heads whose maps follow places on shuffled characters, they prefer a neighbour at "
            "one offset most.",
        ),
    ),
    "order_named": SetWords(
        Text("达标的语序头", "named order heads"),
        Text(
            "给某个固定偏移的邻字的注意力，至少是给其他字的两倍。",
            "A neighbour at one offset gets at least twice what another character gets.",
        ),
    ),
    "matching_left_out": SetWords(
        Text("与语序头对照的匹配头", "matching heads, beside the order heads"), _MATCHES
    ),
    "reader": SetWords(
        Text("阅读头", "reader"),
        Text(
            "倒数第二层里，去掉后代价最大的头。",
            "The head of the last layer but one whose absence costs most.",
        ),
    ),
    "focused": SetWords(
        Text("[CLS] 偏向共有词的头", "heads that focus on shared terms"),
        Text("[CLS] 在这里偏向两边共有的词。", "Here [CLS] favours the terms of both texts."),
    ),
    "averted": SetWords(
        Text("[CLS] 避开共有词的头", "heads averted from shared terms"),
        Text(
            "[CLS] 在这里避开共有的词，去看没有匹配上的。",
            "Here [CLS] avoids the terms of both texts, and looks at what is not matched.",
        ),
    ),
    "patch_matching": SetWords(Text("做补丁的匹配头", "matching heads that are patched"), _MATCHES),
    "strengthened": SetWords(
        Text("微调加强了匹配的头", "heads whose matching fine-tuning strengthened"),
        Text(
            "微调后，给相同的词的注意力增加了。",
            "After fine-tuning they give matched terms more attention.",
        ),
    ),
    "matching_before": SetWords(
        Text("微调前的匹配头", "matching heads before fine-tuning"), _MATCHED_BEFORE
    ),
    "critical": SetWords(
        Text("单独就要紧的头", "heads that matter alone"),
        Text(
            "单独去掉一个，标签概率就至少损失 2 个百分点。",
            "Without one of them at least 2 points of the label's probability are lost.",
        ),
    ),
    "relations": SetWords(
        Text("看关系的头", "heads that look along links"),
        Text(
            "给某种关系的两个词（或两个同义片段）的注意力，多于给没有关系的。",
            "Two words linked in some way, or two spans of one meaning, get more of their attention "
            "than unlinked ones.",
        ),
    ),
    "relations_words": SetWords(
        Text("看句法关系的头", "heads that look along syntax"),
        Text(
            "给某种依存关系的两个词的注意力，多于给没有关系的。",
            "Two words in some dependency relation get more of their attention than unlinked ones.",
        ),
    ),
    **{
        f"{kind}_{where}": _looks_at(name, tagged)
        for kind, name in _KINDS.items()
        for where, tagged in _TAGGED.items()
    },
    "over_half": SetWords(
        Text("看 [CLS]、[SEP] 和标点的头", "heads that look at [CLS], [SEP] and punctuation"),
        Text(
            "一半以上的注意力给了 [CLS]、[SEP] 和标点。",
            "They give over half of their attention to [CLS], [SEP] and punctuation.",
        ),
    ),
}
"""By their names in result files, in the order in which they are offered."""


_BEHAVIOURS: dict[str, tuple[Text, Text]] = {
    "carries": (
        Text("承载行为的头", "heads that carry"),
        Text(
            "在发现集上，单独去掉后这种行为变差。",
            "On discovery the model does worse on it without one of them.",
        ),
    ),
    "hinders": (
        Text("妨碍行为的头", "heads that hinder"),
        Text(
            "在发现集上，单独去掉后这种行为变好。",
            "On discovery the model does better on it without one of them.",
        ),
    ),
}
"""Of sets such as `carries_negation`: how the name begins, and what the heads do."""


def set_words(name: str) -> SetWords:
    """The words for a set; one without words is called by its name in the file."""
    way, _, phenomenon = name.partition("_")
    if way in _BEHAVIOURS and phenomenon:
        (begins, does), about = _BEHAVIOURS[way], phenomenon_name(phenomenon)
        return SetWords(Text(f"{begins.zh}：{about.zh}", f"{begins.en}: {about.en}"), does)
    plain = Text(name, name)
    return SETS.get(name, SetWords(plain, Text("", "")))
