"""Words and figures of the study of word boundaries that stand in more than one place."""

from __future__ import annotations

import math

from qt_bert.probes.word_ends.references import FULL, PRECISE, SEARCH
from qt_bert.results import Text
from qt_bert.results.probe import Source

GRADED, PRETRAINED, RANDOM = "graded", "pretrained", "random"
"""The model asked about, the one before fine-tuning, and one that learned nothing."""

MODELS = {
    GRADED: Text("微调后", "tuned"),
    PRETRAINED: Text("预训练后", "pretrained"),
    RANDOM: Text("随机权重", "random weights"),
}
GRANULARITIES = {
    PRECISE: Text("精确", "precise"),
    SEARCH: Text("搜索（最细）", "search (finest)"),
    FULL: Text("全模式（最粗）", "full (coarsest)"),
}
FEATURE_NAMES = {
    "next": Text("给下一个字的权重", "weight on the next character"),
    "sep": Text("给 [SEP] 的权重", "weight on [SEP]"),
    "ratio": Text(
        "给 [SEP] 与给下一个字的权重之比的对数",
        "log of the weight on [SEP] over that on the next character",
    ),
}
CONTROLS = {
    "matched": Text("同层随机头", "random heads of the same layers"),
    "free": Text("任意随机头", "random heads anywhere"),
    "loud": Text("输出一样大的随机头", "random heads as loud"),
}
BALANCED, ACCURACY = Text("平衡准确率", "balanced accuracy"), Text("准确率", "accuracy")
WORD_F1 = Text("词 F1", "word F1")
UNKNOWN = "–"


def percent(share: float) -> str:
    """`67.9%`; a dash where there is no number."""
    return UNKNOWN if math.isnan(share) else f"{share:.1%}"


def decimals(value: float) -> str:
    """`0.679`; a dash where there is no number."""
    return UNKNOWN if math.isnan(value) else f"{value:.3f}"


def source(value: str | Text | None) -> Source:
    """Where the claims come from, with the figure given there."""
    return Source(article="heads_of_query_title_bert", section="2.2", value=value)
