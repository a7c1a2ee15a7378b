"""Words of the probe that stand in more than one place, in both languages."""

from __future__ import annotations

from collections.abc import Mapping

from qt_bert.results import Text
from qt_bert.results.probe import Verdict

DIRECTION_NAMES = {
    "title_to_query": Text("title 看 query", "title → query"),
    "query_to_title": Text("query 看 title", "query → title"),
}
KIND_NAMES = {
    "characters": Text("相同的字", "same character"),
    "sink_free": Text("相同的字（只算两段文本之间）", "same character, texts alone"),
    "terms": Text("整词", "whole terms"),
    "synonyms": Text("同义片段", "spans of one meaning"),
    "stop": Text("虚字", "function characters"),
    "punctuation": Text("标点", "punctuation"),
    "diagonal": Text("相同位置", "same offset"),
}
MATCHING = Text("匹配头", "matching heads")
MATCHED = Text("同层随机的头", "layer-matched heads")
FREE = Text("任意随机的头", "random heads")
_MEASURES = {
    "accuracy": Text("准确率", "accuracy"),
    "pairwise_accuracy": Text("成对准确率", "pairwise accuracy"),
}

CONCLUSIONS: Mapping[str, Mapping[Verdict, Text]] = {
    "found": {
        "reproduced": Text(
            "这个头确实在对应相同的字：不是因为位置固定，也不是因为偏爱某些位置。它是否有用，要看去掉它的结果。",
            "This head does match: no fixed offset explains it. Whether the model uses it is shown "
            "by leaving it out.",
        ),
        "not reproduced": Text(
            "在验证集上没有一个头的匹配超过声明的最小效应；下面去掉的只是分数最高的头。",
            "On validation no head matches beyond the declared minimum; what is left out below are "
            "merely the heads of the highest scores.",
        ),
    },
    "loss": {
        "reproduced": Text(
            "分档依赖这几个头，且超过同层随机的头；这不说明它们只做匹配这一件事。",
            "The grades rest on these heads, beyond what any heads of their layers explain; it does "
            "not show that matching is all they do.",
        ),
        "not reproduced": Text(
            "按匹配分数选出的头并不比同层其他的头更重要：看起来像匹配，不等于模型靠它分档。",
            "Heads chosen for matching matter no more than others of their layers: looking like a "
            "match is not being used for the grade.",
        ),
    },
    "free": {
        "reproduced": Text(
            "平均影响小于 2 个百分点；单独某一组随机的头仍可能影响很大，尤其碰巧抽中匹配头的时候。",
            "The mean effect is under 2 points; a single random set may still matter much, above "
            "all one that happens to hold a matching head.",
        ),
        "not reproduced": Text(
            "随机去掉同样多的头平均也有损失：模型不如文章的冗余，或少数重要的头常被抽中。",
            "Random heads cost something on average too: this model is less redundant than the "
            "article's, or a few heads that matter are often among those drawn.",
        ),
    },
    "kept": {
        "reproduced": Text(
            "低半层中，匹配头单独保住的信息多于同层其他的头；与完整模型的差距见旁边的比例。",
            "In the low half the matching heads alone keep more than others of their layers; how "
            "near that comes to the whole model is the share beside it.",
        ),
        "not reproduced": Text(
            "低半层只留匹配头并不更好：它们要靠同层其他的头一起才起作用。",
            "Keeping the matching heads alone is no better: they work only together with other "
            "heads of the low half.",
        ),
    },
    "cut": {
        "reproduced": Text(
            "不让这几个头看另一段文本，比不让同层其他的头看损失更多。被隔断的头并不是没有输出：它的权重"
            "重新归一，改看同一段里的词，写出别的东西，所以这里的损失可以比去掉这些头还大，不能当作它们的作用。",
            "Keeping these heads from the other text costs more than keeping others of their layers "
            "from it. A head that is cut is not silent: its weights are made to sum to 1 again, it "
            "looks elsewhere in its own text and writes something else. The loss may therefore exceed "
            "that of leaving the heads out, and does not measure what they do.",
        ),
        "not reproduced": Text(
            "隔断这几个头里的两段文本，并不比隔断同层其他的头损失更多。",
            "Cutting the texts apart in these heads costs no more than in others of their layers.",
        ),
    },
}


def measure(metric: str) -> Text:
    """The tested metric's name within a sentence."""
    return _MEASURES.get(metric, Text(metric, metric))


def change_of(metric: str) -> Text:
    """The name of an axis of changes."""
    what = measure(metric)
    return Text(f"{what.zh}变化", f"change of {what.en}")
