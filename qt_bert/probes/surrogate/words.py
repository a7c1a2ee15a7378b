"""The words of the section on what matching heads compute."""

from __future__ import annotations

from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Text

RETRIEVAL = "retrieval_interpretability"
PUBLISHED_HEADS, PUBLISHED_BM25 = 0.816, 0.420
"""Pearson's r of Lu, Chen and Eickhoff 2025 for a MiniLM ranker: soft counts times idf, and BM25."""

HEADS_SOURCE = Source(article=RETRIEVAL, section="3", value=PUBLISHED_HEADS)
BM25_SOURCE = Source(article=RETRIEVAL, section="3", value=PUBLISHED_BM25)
BEYOND_SOURCE = Source(
    article=RETRIEVAL, section="3", value=round(PUBLISHED_HEADS - PUBLISHED_BM25, 3)
)
NO_FIGURE = Source(article=RETRIEVAL, section="3", value=None)

GRADE = Text("模型的期望等级", "the model's expected grade")
SCORE = Text("模型的得分", "the model's score")
"""Of a model with one logit."""

MATCHING = Text("匹配头", "matching heads")
MATCHED = Text("同层其他头（平均）", "others of their layers (mean)")
BM25 = Text("BM25", "BM25")
OVERLAP = Text("词重合", "word overlap")

_UNSURE = Text("这份样本看不出差别。", "This sample does not show a difference.")
BM25_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "这些头的软词频计数，比 BM25 的硬计数更能说明模型的打分。",
        "The soft counts of terms that these heads make tell more of the model's grade than BM25's hard "
        "count does.",
    ),
    "not reproduced": Text(
        "这些头的软计数并不比 BM25 更能说明模型的打分。",
        "The soft counts of these heads tell no more of the model's grade than BM25 does.",
    ),
    "inconclusive": _UNSURE,
}
HEADS_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "匹配头自己的计数最能说明打分：同层其他头同样拟合，说明得更少。",
        "It is the matching heads' own counts that tell the grade: other heads of their layers, "
        "fitted alike, tell less.",
    ),
    "not reproduced": Text(
        "同层其他头同样拟合，说明打分的程度不比匹配头差：这不是匹配头特有的。",
        "Other heads of their layers, fitted alike, tell the grade no worse: it is nothing of the "
        "matching heads' own.",
    ),
    "inconclusive": _UNSURE,
}
