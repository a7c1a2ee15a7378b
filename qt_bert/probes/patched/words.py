"""Words of the study of patches, in both languages."""

from __future__ import annotations

from qt_bert.probes.patched.classes import TokenClass
from qt_bert.results import Text
from qt_bert.results.probe import Source, Verdict

SOURCE = Source(article="heads_of_query_title_bert", section="2.4.3")
SHARE = Text("占缺口", "of the gap")
GRADE, LEVEL, SCORE = Text("档", "grades"), Text("级", "levels"), Text("分", "score")
MATCHING = Text("匹配头", "matching heads")
MATCHED = Text("同层其他头（平均）", "layer-matched heads (mean)")
RESTORING = Text("补回", "restored")
BREAKING = Text("破坏", "broken")
LEFT_OUT = Text("去掉", "left out")
PATCHED_AT = Text("换回哪类词元", "tokens that are patched")

NO_TWINS = Text(
    "没有可以做补丁的样本：要有一个词（至少两个字）同时出现在查询和标题里，还要有另一条查询的词可以顶替它。",
    "No pair to patch: a word of at least two characters must stand in query and title, and a word "
    "of another query must be there to take its place.",
)
NO_HEADS = Text(
    "没有可以做补丁的头：matching 没有给任何头打分（样本里没有共有的词）；可用 --heads 指定。",
    "No heads to patch: `matching` scored none, for these pairs share no term; name some with --heads.",
)
QUICK = Text(
    "快速模式只测补回：匹配头整组与同层对照（组数较少），以及按头、按层（只用一部分样本，图下写明）。"
    "反方向的破坏、按词元类别、与去掉头相比、用 [MASK] 顶替和选头，用 --full。",
    "The quick profile only restores: the matching heads beside layer-matched sets, of which there "
    "are fewer, and heads and layers one by one, on some of the pairs, as is said beneath them. "
    "Breaking, token classes, leaving heads out, [MASK] for the term and naming heads come with "
    "--full.",
)

CLASSES = {
    TokenClass.CLS: Text("[CLS]", "[CLS]"),
    TokenClass.TERM: Text("查询里的这个词", "the term in the query"),
    TokenClass.QUERY_REST: Text("查询其余", "rest of the query"),
    TokenClass.SLOT: Text("标题里换掉的位置", "its slot in the title"),
    TokenClass.TITLE_REST: Text("标题其余", "rest of the title"),
    TokenClass.SEPARATOR: Text("分隔符", "separators"),
}

CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "“有没有匹配上”这一信息确实经过这几个头：只把它们的输出换回去，补回的分数就超过同层其他头。"
        "没有补回的部分走的是别的头；它们的输出也不一定只含匹配。",
        "Whether the term matches does pass through these heads: putting back their output alone "
        "restores more of the score than others of their layers do. What is not restored goes "
        "through other heads, and their output need not hold the match alone.",
    ),
    "not reproduced": Text(
        "只换回这几个头的输出，补回的不比同层其他头多：看起来像匹配，不等于匹配经由它们进入分数。",
        "Putting back their output restores no more than others of their layers do: looking like a "
        "match is not carrying it into the score.",
    ),
    "inconclusive": Text(
        "在这些样本和对照上，分不清是这几个头，还是同层任何几个头都能补回这么多。",
        "These pairs and controls do not tell whether these heads, or any of their layers, restore "
        "so much.",
    ),
}
