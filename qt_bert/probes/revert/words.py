"""The words of the section on weights set back: names, claims, what a reader may conclude."""

from __future__ import annotations

from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Text

ARTICLE = "heads_of_query_title_bert"
RETRIEVAL = "retrieval_interpretability"

STRENGTHENED = Source(article=ARTICLE, section="2.4.1", value=None)
RISES = Source(article=ARTICLE, section="2.4.1", value="> 0")
FALLS = Source(article=RETRIEVAL, section="3", value="< 0")
"""Perlman, Nijasure and Allan, of a ranker with 32 layers: from layer 11 on, a word itself included."""
NO_SOURCE = Source(article=ARTICLE, section="2.4", value=None)

QUANTITY_NAMES = {
    "across": Text("另一文本中相同的词（只算两段文本）", "same term, other text (texts alone)"),
    "across_plain": Text("另一文本中相同的词（原始权重）", "same term, other text (as it is)"),
    "same": Text("相同的词（含自身）", "same word, itself included"),
    "itself": Text("自身", "itself"),
    "near": Text("本文本中同词的其他字", "same word, own text"),
    "far": Text("另一文本中的同词", "same word, other text"),
}

PRUNED = Text(
    "这个模型由教师模型缩小而来，与微调前的模型不再一一对应，无法把权重换回去，所以没有测。",
    "This model was made smaller from a teacher, so its weights have no counterparts in the model "
    "before fine-tuning to be set back to; nothing was measured.",
)

SET_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "微调教给这些头的东西有用：收回去，打分比收回同层其他头更差。",
        "What tuning taught these heads is used: taken back, the grades suffer more than where it is "
        "taken from other heads of their layers.",
    ),
    "not reproduced": Text(
        "收回微调对这些头的改动，并不比收回同层其他头损失更大：微调教会的东西不特别在这些头里。",
        "Taking back what tuning changed in these heads costs no more than in other heads of their "
        "layers: what tuning taught does not sit in them in particular.",
    ),
    "inconclusive": Text(
        "这份样本和这些对照组看不出差别。",
        "This sample and these controls do not show a difference.",
    ),
}

_UNSURE = Text(
    "这份样本看不出变化的方向。", "This sample does not show which way the attention goes."
)
ACROSS_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "只看两段文本之间，微调使匹配变强了。",
        "Within the two texts alone, tuning made matching across them stronger.",
    ),
    "not reproduced": Text(
        "只看两段文本之间，全部头平均的匹配并没有变强；变强的若只是少数头，要看逐头的图。",
        "Within the two texts alone, matching across them did not grow on average over all heads; "
        "whether it did in a few, the map by head shows.",
    ),
    "inconclusive": _UNSURE,
}
SAME_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "微调后，各头平均更少看同一个词（含自身），腾出的注意力给了别处。",
        "After tuning heads look less, on average, at their own word wherever it stands; that attention "
        "went elsewhere.",
    ),
    "not reproduced": Text(
        "同词注意力并没有下降：大模型排序器上的这一发现不适用于这个模型。",
        "Same-word attention does not fall: what was found of a large ranker does not hold for this "
        "model.",
    ),
    "inconclusive": _UNSURE,
}
