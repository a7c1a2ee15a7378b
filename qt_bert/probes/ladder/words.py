"""Words of the study of ladders that stand in more than one place, in both languages."""

from __future__ import annotations

from collections.abc import Mapping

from qt_bert.ablation.masks import Convention
from qt_bert.models.batches import Direction
from qt_bert.probes.claims import POINTS
from qt_bert.probes.ladder.losses import Loss
from qt_bert.probes.ladder.measures import LEAST_LOSS
from qt_bert.probes.shift.measures import Measure
from qt_bert.results.probe import Source, Verdict
from qt_bert.text import MISSING, Text, interval, number, shortest

ARTICLE = "heads_of_query_title_bert"
RETRIEVAL = "retrieval_interpretability"

CLS_SOURCE = Source(
    article=RETRIEVAL,
    section="3",
    value=Text("63.5 → 63.2（nDCG@10）", "63.5 → 63.2 (nDCG@10)"),
)
"""Vast et al. 2026 (MICE), MiniLM not retrained: [CLS] no longer reads the document."""

DIRECTION_SOURCE = Source(
    article=RETRIEVAL,
    section="3",
    value=Text(
        "T<Q：63.2 → 49.7（nDCG@10）；Zhan 等的结论相反",
        "T<Q: 63.2 → 49.7 (nDCG@10); Zhan et al. say the reverse",
    ),
)
"""MICE, not retrained: the document no longer reads the query, on top of the above. Zhan et al. 2020
find that the document flows into the query's tokens and hardly back, by which Q<T should cost more."""

APART_SOURCE = Source(
    article=RETRIEVAL,
    section="3",
    value=Text(
        "训练后，第 4 层以下分开：62.6，不分开 64.9（nDCG@10）",
        "trained, apart up to layer 4: 62.6 against 64.9 (nDCG@10)",
    ),
)
STEP_SOURCE = Source(article=ARTICLE, section="2.4", value=Text("第 2–4 层", "layers 2–4"))
LADDER_SOURCE = Source(article=RETRIEVAL, section="4", value=None)
"""Where the ladder is asked for: no figure."""

LOSS = Text("下降", "loss")
LAYERS = Text("层", "layers")
LAYER_NUMBER = Text("层号，从 0 数起", "layer, from 0")

VALIDATION, DISCOVERY = Text("验证集", "validation"), Text("发现集", "discovery")

DIRECTION_NAMES: Mapping[Direction, Text] = {
    "all": Text("三种都切（all）", "all three (all)"),
    "T<Q": Text("标题不看查询（T<Q）", "the title does not read the query (T<Q)"),
    "Q<T": Text("查询不看标题（Q<T）", "the query does not read the title (Q<T)"),
    "C<T": Text("[CLS] 不看标题（C<T）", "[CLS] does not read the title (C<T)"),
    "<C": Text("谁也不看 [CLS]（<C）", "nobody reads [CLS] (<C)"),
}
_IDS: Mapping[Direction, str] = {
    "all": "all",
    "T<Q": "title_to_query",
    "Q<T": "query_to_title",
    "C<T": "cls_to_title",
    "<C": "to_cls",
}
CONVENTION_NAMES: Mapping[Convention, Text] = {
    "before": Text("softmax 前屏蔽", "masked before the softmax"),
    "after": Text("softmax 后屏蔽", "masked after the softmax"),
}


def named(direction: Direction, convention: Convention = "before") -> Text:
    """A ladder's name; the convention is said where it is not the usual one."""
    name = DIRECTION_NAMES[direction]
    if convention == "before":
        return name
    how = CONVENTION_NAMES[convention]
    return Text(f"{name.zh}，{how.zh}", f"{name.en}, {how.en}")


def id_of(direction: Direction, convention: Convention) -> str:
    """The same for a name in a file: who no longer looks at whom."""
    return _IDS[direction] + ("" if convention == "before" else f"_{convention}")


def bar_of(measure: Measure) -> Text:
    """The loss that counts as none, in words: `2 points`, or `0.02` of a correlation."""
    size = shortest(LEAST_LOSS / measure.scale)
    if measure.unit == POINTS:
        return Text(f"{size} {POINTS.zh}", f"{size} {POINTS.en}")
    return Text(size, size)


def digits_of(measure: Measure) -> int:
    """Digits after the point that a loss is told with."""
    return 1 if measure.unit == POINTS else 3


def told(loss: Loss | None, measure: Measure) -> Text:
    """`1.2 points [0.3, 2.4]`."""
    if loss is None:
        return Text(MISSING, MISSING)
    size = sized(loss.value, measure)
    ends = interval(loss.low, loss.high, digits_of(measure))
    return Text(f"{size.zh} {ends}".rstrip(), f"{size.en} {ends}".rstrip())


def sized(value: float, measure: Measure) -> Text:
    """`1.2 points`, or `0.012` of a correlation."""
    size = number(value, digits_of(measure))
    unit = POINTS if measure.unit == POINTS else Text("", "")
    return Text(f"{size} {unit.zh}".rstrip(), f"{size} {unit.en}".rstrip())


QUICK = Text(
    "快速模式里 all 逐层切，另外三个方向只切到模型的四分之一、二分之一、四分之三和全部，<C 只切全部；"
    "每个方向逐层切、softmax 后屏蔽和全部文本对用 --full。",
    "In the quick profile *all* climbs layer by layer, the three directions by quarters of the model, and "
    "<C is cut in every layer at once; every rung of every direction, masks after the softmax and all "
    "pairs come with --full.",
)

CLS_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "[CLS] 不必自己读标题：它要的都能从查询的字那里读到。",
        "[CLS] need not read the title itself: what it needs, it reads from the query's tokens.",
    ),
    "not reproduced": Text(
        "这个模型的 [CLS] 要自己读标题，切断它，排序就变差。",
        "This model's [CLS] reads the title itself, and the order suffers where it cannot.",
    ),
}
DIRECTION_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "标题看查询比查询看标题更要紧：要把标题提前算好，得重新训练。",
        "That the title reads the query matters more than that the query reads the title: titles "
        "computed beforehand ask for training.",
    ),
    "not reproduced": Text(
        "标题看查询并不比查询看标题更要紧：信息主要从标题流向查询，与 Zhan 等所见一致。",
        "That the title reads the query matters no more than the other way round: as Zhan et al. saw "
        "it, the title flows into the query rather than back.",
    ),
    "inconclusive": Text(
        "这份样本分不出哪个方向更要紧。",
        "This sample does not tell which direction matters more.",
    ),
}
STEP_CONCLUSIONS: dict[Verdict, Text] = {
    "reproduced": Text(
        "切开两段文本的损失，出在匹配头的中位层附近（相差不超过 1 层）。",
        "Cutting the texts apart hurts near the median layer of the matching heads (within 1 layer).",
    ),
    "not reproduced": Text(
        "切开两段文本的损失，不在匹配头的中位层附近：匹配头之外的层也在把两段文本合到一起。",
        "Cutting the texts apart does not hurt near the median layer of the matching heads: other "
        "layers bring the texts together, too.",
    ),
    "inconclusive": Text(
        "这份样本分不清损失出在哪几层，或者切开两段文本根本没有测得出的损失。",
        "This sample does not tell which layers the loss comes from, or cutting the texts apart costs "
        "nothing that could be measured.",
    ),
}
