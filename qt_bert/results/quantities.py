"""What a head can be judged by: which score of which probe, in which unit, and what is much."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from qt_bert.figures import Scale
from qt_bert.stats.metrics import METRICS
from qt_bert.text import Label, Text


def metric_name(metric: str) -> Text:
    """Its display name. Raises KeyError for no metric of the registry."""
    return Text(*METRICS[metric].title)


# What a head can be judged by: which score of which probe, in which unit, and what much of it
# means.


POINTS, TIMES = Text("个百分点", "points"), Text("倍", "times")
SIGNIFICANT = 0.05
"""The q below which an effect is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A score of every head, less the score `minus` where there is one, times `factor`.

    `means` says in words what it is and which way is more. `ends` are the scores that hold its 95 %
    interval, `test` the one that holds its q over all heads. `marks` are the named sets to outline;
    without any, heads are outlined whose q is below 0.05. `beside` are further scores that stand on a head's card. `skewed`: a few heads have so much of it that the colours end
    where one head in twenty lies further from 0.
    """

    name: str
    probe: str
    score: str
    title: Text
    unit: Label
    means: Text
    minus: str = ""
    factor: float = 1.0
    scale: Scale = "sequential"
    low: float | None = None
    high: float | None = None
    digits: int = 2
    ends: tuple[str, str] | None = None
    test: str = ""
    marks: tuple[str, ...] = ()
    beside: Mapping[str, Text]
    skewed: bool = False

    @property
    def scores(self) -> tuple[str, ...]:
        """Every score that it reads."""
        named = (self.score, self.minus, self.test, *(self.ends or ()), *self.beside)
        return tuple(name for name in named if name)

    def value(self, scores: Mapping[str, float | None]) -> float | None:
        """The quantity of a head with these scores; None where it is not known."""
        found, less = scores.get(self.score), scores.get(self.minus) if self.minus else 0.0
        return None if found is None or less is None else (found - less) * self.factor

    def interval(self, scores: Mapping[str, float | None]) -> tuple[float, float] | None:
        """Its 95 % interval, where it is known."""
        if self.ends is None:
            return None
        low, high = (scores.get(name) for name in self.ends)
        return None if low is None or high is None else (low * self.factor, high * self.factor)

    def q(self, scores: Mapping[str, float | None]) -> float | None:
        """Its q, where it was tested."""
        return scores.get(self.test) if self.test else None

    def stands_out(self, scores: Mapping[str, float | None]) -> bool:
        """Whether q is below 0.05. Of intervals of single heads one in twenty excludes 0 by chance."""
        q = self.q(scores)
        return q is not None and q < SIGNIFICANT


_DISCOVERY = Text("发现集上的分数", "score on discovery")
_WEIGHT = Text("给所看文本的注意力份额", "share of attention on the texts asked about")

QUANTITIES: tuple[Quantity, ...] = (
    Quantity(
        name="effect",
        probe="redundancy",
        score="change",
        title=Text(
            "单独去掉这个头，标签概率的变化", "Change of the label's probability without this head"
        ),
        unit=POINTS,
        means=Text(
            "去掉后减去去掉前；低于 0 是变差，说明模型用到它。",
            "Without it less with it; below 0 is worse: the model uses the head.",
        ),
        factor=100,
        scale="diverging",
        digits=1,
        ends=("ci_low", "ci_high"),
        test="q",
        low=-10.0,
        high=10.0,
        beside={},
    ),
    Quantity(
        name="kl",
        probe="redundancy",
        score="kl",
        title=Text("单独去掉这个头，分档概率移动多少", "How far the grades move without this head"),
        unit=Text("nat（KL 散度）", "nats (KL divergence)"),
        means=Text(
            "去掉前后分档概率的 KL 散度，越大影响越大；不分变好变坏。",
            "KL divergence of the grades' probabilities, with it and without it; more is a larger "
            "effect, for better or worse.",
        ),
        low=0.0,
        digits=4,
        skewed=True,
        beside={"importance": Text("梯度重要性", "gradient importance")},
    ),
    Quantity(
        name="boundary",
        probe="boundary",
        score="balanced",
        title=Text("认词的边界", "Knowing where words end"),
        unit=Text("平衡准确率", "balanced accuracy"),
        means=Text(
            "只看它的注意力来判断两个字之间是否断词，0.5 等于瞎猜，1 全对。",
            "How often its attention alone tells whether a word ends between two characters: 0.5 is "
            "guessing, 1 always right.",
        ),
        low=0.5,
        digits=3,
        test="q",
        marks=("boundary",),
        beside={
            "discovery_balanced": _DISCOVERY,
            "null_balanced": Text("移位后的对照", "with the reference shifted"),
            "rule_balanced": Text("按文章的规则", "by the article's rule"),
            "weight_on_text": _WEIGHT,
        },
    ),
    Quantity(
        name="order",
        probe="order",
        score="score",
        title=Text("跟着位置看邻字", "Attention that follows places"),
        unit=TIMES,
        means=Text(
            "字序打乱后，给某个固定偏移的邻字的注意力，是给其他字的多少倍；1 为无偏好。",
            "On shuffled characters, the attention to a neighbour at one offset over that to other "
            "characters; 1 is no preference.",
        ),
        low=0.0,
        digits=1,
        test="q",
        marks=("order", "order_named"),
        beside={
            "offset": Text("偏移（字）", "offset (characters)"),
            "identity": Text("身份指数（低于 0：跟着位置）", "identity index (below 0: by places)"),
            "discovery_score": _DISCOVERY,
            "weight": _WEIGHT,
        },
        skewed=True,
    ),
    Quantity(
        name="matching",
        probe="matching",
        score="score",
        title=Text("匹配两边相同的字", "Matching terms of both texts"),
        unit=TIMES,
        means=Text(
            "看对面文本里同一个字的偏好，与换上无关查询时相比是多少倍；1 为不匹配。",
            "Its preference for its own character in the other text, over that with an unrelated "
            "query; 1 is no matching.",
        ),
        low=0.0,
        digits=1,
        test="q",
        marks=("matching", "named"),
        beside={
            "discovery_score": _DISCOVERY,
            "query_to_title": Text("查询看标题", "query to title"),
            "title_to_query": Text("标题看查询", "title to query"),
            "matched_weight": Text("给相同的字的注意力", "attention to the same character"),
            "weight": _WEIGHT,
        },
        skewed=True,
    ),
    Quantity(
        name="focus",
        probe="focus",
        score="focus",
        title=Text("[CLS] 对共有词的关注度", "Focus of [CLS] on shared terms"),
        unit=POINTS,
        means=Text(
            "[CLS] 给字的注意力里，落在两边共有的词上的份额，减去这些词占的字数；高于 0 偏向它们，低于 0 避开它们。",
            "The share of [CLS]'s attention on characters that lies on terms of both texts, less "
            "these characters' share; above 0 it favours them, below 0 it avoids them.",
        ),
        factor=100,
        scale="diverging",
        digits=1,
        test="q",
        marks=("reader", "focused", "averted"),
        beside={
            "within": Text("文本之内的关注度（份额）", "focus within each text (share)"),
            "discovery_focus": Text("发现集上的关注度（份额）", "focus on discovery (share)"),
            "entropy": Text("相对熵（1 为平均）", "entropy (1 is even)"),
            "separator": Text("给 [SEP] 的份额", "share on [SEP]"),
            "itself": Text("给 [CLS] 自己的份额", "share on [CLS] itself"),
        },
    ),
    Quantity(
        name="shift",
        probe="shift",
        score="js_distance",
        title=Text("微调改变了多少注意力", "How far fine-tuning moved its attention"),
        unit=Text("JS 距离", "JS distance"),
        means=Text(
            "微调前后注意力分布的 JS 距离，0 为没变，1 为完全不同。",
            "Jensen–Shannon distance of its attention before and after; 0 is unchanged, 1 is "
            "altogether different.",
        ),
        low=0.0,
        digits=3,
        marks=("strengthened",),
        beside={"cosine": Text("前后注意力图的余弦", "cosine of the maps before and after")},
    ),
    Quantity(
        name="shift_matched",
        probe="shift",
        score="matched_after",
        minus="matched_before",
        title=Text("微调后给相同的词的注意力变化", "Change of its attention to matched terms"),
        unit=POINTS,
        means=Text(
            "微调后减去微调前，以注意力的百分点计；高于 0 是匹配得到加强。",
            "After fine-tuning less before, in points of attention; above 0 matching grew stronger.",
        ),
        factor=100,
        scale="diverging",
        digits=1,
        test="strengthened_q",
        marks=("strengthened",),
        beside={},
    ),
    Quantity(
        name="vertical",
        probe="patterns",
        score="vertical",
        title=Text("注意力图是竖线的份额", "How often its map is vertical"),
        unit=Text("%（图的份额）", "% of its maps"),
        means=Text(
            "多数词元把多数注意力给同样的一到四个词元，这样的图占它全部图的份额；越多越只看固定的几个词元。",
            "The share of its maps in which most tokens give most of their weight to the same one to "
            "four tokens; more is a head that just looks at these.",
        ),
        factor=100,
        low=0.0,
        high=100.0,
        digits=0,
        beside={
            "diagonal": Text("对角线图（份额）", "diagonal maps (share)"),
            "both": Text("竖线加对角线（份额）", "vertical + diagonal (share)"),
            "block": Text("块（份额）", "block (share)"),
            "heterogeneous": Text("混杂（份额）", "heterogeneous (share)"),
        },
    ),
)
"""In the order in which they are offered."""


def kept_scores(probe: str) -> tuple[str, ...] | None:
    """The scores of a probe that some quantity reads; None (all) for a probe without one."""
    found = {name for one in QUANTITIES if one.probe == probe for name in one.scores}
    return tuple(sorted(found)) or None
