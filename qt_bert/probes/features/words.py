"""The words of the probe `features`: names of kinds, units, and what a reader may conclude."""

from __future__ import annotations

from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Text

ARTICLE, PRIMER = "dark_secrets_of_bert", "primer_in_bertology"
SECTION = "attention to linguistic features"

NAMES = {
    "cls": Text("[CLS]", "[CLS]"),
    "sep": Text("[SEP]", "[SEP]"),
    "punctuation": Text("标点", "punctuation"),
    "noun": Text("名词", "nouns"),
    "verb": Text("动词", "verbs"),
    "pronoun": Text("代词", "pronouns"),
    "number": Text("数词", "numbers"),
    "negation": Text("否定词", "negation"),
    "subject": Text("主语", "subjects"),
    "object": Text("宾语", "objects"),
    "other": Text("其余的词", "other words"),
}
COLLECTIONS = {
    "pairs": Text("查询和标题（词性由 jieba 标注）", "queries and titles, tagged by jieba"),
    "treebank": Text("树库的句子（人工标注）", "sentences of the treebank, tagged by people"),
}
ON = {
    "pairs": Text("在查询和标题里，", "On queries and titles, "),
    "treebank": Text("在树库的句子里，", "On the treebank's sentences, "),
}
"""How a claim about texts of one collection begins."""
ADDED = Text(
    "其中：增加的注意力占 [CLS] 和 [SEP] 所占的比例",
    "of this: what was added, as a share of what [CLS] and [SEP] hold",
)
ADDED_GAINS = Text(
    "其中：只算发现集上增加的头（减少的头不抵扣），这一比例",
    "of this: the same share, counting only the heads that gained on discovery",
)
ADDED_PEAK = Text(
    "按原文的算法（每类只取得到最多的那个词元），这一比例",
    "the same share by the source's measure: of each kind the one token that gets most",
)
BEFORE, AFTER = Text("微调前", "before fine-tuning"), Text("微调后", "after fine-tuning")
MODEL = Text("这个模型", "this model")

PERCENT = 0.01
"""Attention is shown in hundredths of what a token gives."""
ATTENTION = Text("% 的注意力", "% of attention")
POINTS = Text("个百分点的注意力", "points of attention")
ABOVE = Text("% 高于词元占比", "% above base rate")
OF_HEADS = Text("% 的头", "% of heads")

TREND = Source(article=ARTICLE, section=SECTION, value="> 0")
MOSTLY = Source(
    article=PRIMER,
    section="压缩与模型剪枝相关实验",
    value=Text("大多数头", "most heads"),
)
NEGLIGIBLE = Source(article=ARTICLE, section=SECTION, value=Text("可以忽略", "negligible"))
NO_FIGURE = Source(article=ARTICLE, section=SECTION)
LAST_LAYER = Source(article=ARTICLE, section="token-token attention", value="[SEP]")

_UNSURE = Text(
    "这份样本分不清，区间跨过了界线。", "This sample cannot tell: the interval crosses the line."
)

CLS_EARLY: dict[Verdict, Text] = {
    "reproduced": Text(
        "[CLS] 在前面的层里更受注意。", "[CLS] draws more attention in the early layers."
    ),
    "not reproduced": Text(
        "前面的层并不更多地看 [CLS]：原文的趋势在这个模型上不成立。",
        "Early layers do not look at [CLS] more: the source's trend does not hold for this model.",
    ),
    "inconclusive": _UNSURE,
}
SEP_LATE: dict[Verdict, Text] = {
    "reproduced": Text(
        "越往后越多的注意力停在 [SEP] 上。", "Further up, more of the attention rests on [SEP]."
    ),
    "not reproduced": Text(
        "后面的层并不更多地看 [SEP]：原文的趋势在这个模型上不成立。",
        "Later layers do not look at [SEP] more: the source's trend does not hold for this model.",
    ),
    "inconclusive": _UNSURE,
}
OVER_HALF: dict[Verdict, Text] = {
    "reproduced": Text(
        "多数头的注意力主要落在不承载词义的词元上；它们不一定没有用，见“冗余”一节。",
        "Most heads rest mainly on tokens that carry no word's meaning; that does not make them "
        "useless, see the section on redundancy.",
    ),
    "not reproduced": Text(
        "多数头的注意力主要落在文字上，不在 [CLS]、[SEP] 和标点上。",
        "Most heads look mainly at words, not at [CLS], [SEP] and punctuation.",
    ),
    "inconclusive": _UNSURE,
}
LITTLE: dict[Verdict, Text] = {
    "reproduced": Text(
        "按份额算，微调给这些词添的注意力不到 [CLS] 和 [SEP] 所占的十分之一；每类只看一个词元时，见“语言特征”一节。",
        "By shares, what fine-tuning adds on these words is under a tenth of what [CLS] and [SEP] hold; "
        "by the one token that gets most, see the section on linguistic features.",
    ),
    "not reproduced": Text(
        "微调给这些词添的注意力不可忽略：在 [CLS] 和 [SEP] 所占的十分之一以上。",
        "What fine-tuning adds on these words is not negligible: a tenth of what [CLS] and [SEP] hold, "
        "or more.",
    ),
    "inconclusive": _UNSURE,
}
SEP_FIRST: dict[Verdict, Text] = {
    "reproduced": Text(
        "判分所用的 [CLS]，在最后一层看得最多的是 [SEP]。",
        "[CLS], which the grade is read from, looks most at [SEP] in the last layer.",
    ),
    "not reproduced": Text(
        "判分所用的 [CLS]，在最后一层看得最多的不是 [SEP]。",
        "[CLS], which the grade is read from, does not look most at [SEP] in the last layer.",
    ),
    "inconclusive": _UNSURE,
}
