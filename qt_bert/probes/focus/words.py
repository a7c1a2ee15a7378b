"""Words of the study of readers: names, and what may be concluded from its claims."""

from __future__ import annotations

from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Text

UNIT = Text("关注度", "focus")
BEFORE = Text("原模型", "whole model")
AFTER = Text("去掉匹配头", "without the matching heads")
CONTROL = Text("去掉同层其他头", "without others of their layers")
SOURCE = Source(article="heads_of_query_title_bert", section="2.4.3")
OF_READER = ("reader",)
"""The set that claims are about."""

AVERTED = Text(
    "与文章相反：这一层里最要紧的头让 [CLS] 避开共有的词，去看没有匹配上的词。",
    "The reverse of the article: the head of this layer that matters most turns [CLS] away from the "
    "shared terms, to what is not matched.",
)
FOCUS_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "这个头让 [CLS] 偏向共有的词。注意力本身不等于信息的流动，是否依赖低层见下一条。",
        "This head turns [CLS] to the shared terms. Attention alone is no flow of information; "
        "whether it needs the layers below is the next claim.",
    ),
    "not reproduced": Text(
        "这一层里最要紧的头并不偏向共有的词：它读的是别的东西。",
        "The head of this layer that matters most does not favour the shared terms: it reads "
        "something else.",
    ),
    "inconclusive": Text(
        "在这份样本上看不出这个头是否偏向共有的词。",
        "This sample does not show whether the head favours the shared terms.",
    ),
}
STEERED_AWAY = Text(
    "方向与文章相反：没有了匹配头，这个头反而更多地看共有的词，也就是说匹配头使它避开这些词。"
    "与对照相比是否显著，见不论方向的同一比较。",
    "The other way round than the article: without the matching heads this head looks more at the "
    "shared terms, so that they turn it away from these. Whether that is beyond the controls stands "
    "beside it, in the comparison of either sign.",
)
LESS_AVERTED = Text(
    "这个头原本就不偏向共有的词；没有了匹配头，它看这些词更少，降幅超过去掉同层其他头时。"
    "匹配头使它少避开一些共有的词，但谈不上给了它对这些词的关注。",
    "This head does not favour the shared terms to begin with; without the matching heads it looks "
    "at them still less, and by more than without others of their layers. They keep it from avoiding "
    "these terms further; they do not give it a focus on them.",
)
RISES_LESS = Text(
    "去掉匹配头，它的关注度并没有下降，只是没有像去掉同层其他头时那样上升，所以不能说它的关注依赖匹配头。",
    "Its focus does not fall without the matching heads; it only rises less than without others of "
    "their layers. That does not show that its focus rests on the matching heads.",
)
LOSS_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "它对共有词的关注依赖低层的匹配头，而不是去掉任何几个头都会如此。",
        "Its focus on the shared terms rests on the matching heads below, and not on just any "
        "heads there.",
    ),
    "not reproduced": Text(
        "去掉匹配头并不比去掉同层的其他头更削弱它的关注：匹配信息经由别的头，或它不靠匹配信息。",
        "Leaving out the matching heads does not weaken its focus more than leaving out others of "
        "their layers: the matches reach it through other heads, or it does without them.",
    ),
    "inconclusive": Text(
        "在这份样本和这些对照上分不清它依赖的是匹配头，还是低层任何几个头。",
        "This sample and these controls do not tell whether it rests on the matching heads or on "
        "any heads below.",
    ),
}
