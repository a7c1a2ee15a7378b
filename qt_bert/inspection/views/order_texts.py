"""What the page of word order says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from qt_bert.encoder.heads import spell
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.views.order import Order
from qt_bert.inspection.views.shuffling import TYPED
from qt_bert.inspection.views.units import score_name, score_unit
from qt_bert.probes.word_order.texts import KINDS, SIDES
from qt_bert.probes.word_order.training import Trained, trained_on_shuffled
from qt_bert.results import Text

TITLE = Text("语序：打乱之后", "Order: after a shuffle")
INTRO = Text(
    "文章（2.3）：把标题打乱，档位从 4 降到 2；再去掉 7 个语序头，模型较难察觉乱序，回到 3；随机去掉 7 个头"
    "则仍是 2。",
    "The article (2.3): a shuffled title falls from grade 4 to 2; without 7 order heads the model "
    "notices less, and gives 3; without 7 random heads it stays at 2.",
)
ARTICLE = Text("看文章的例子", "The article's case")
SIDE, KIND = Text("打乱哪一个", "Which text"), Text("怎样打乱", "How")
SIDE_NAMES = SIDES
KIND_NAMES: Mapping[str, Text] = {
    **KINDS,
    TYPED: Text("自己写的顺序", "an order of your own"),
}
OWN_TEXT = Text("另一种顺序的文本", "The text in another order")
AGAIN = Text("换一次", "Another draw")
AGAIN_HELP = Text("种子加 1", "The next seed")
NO_ORDER = Text(
    "这段文本没有别的排列：它太短，或怎样打乱都是同一段文本。",
    "This text has no other arrangement: it is too short, or every one of them is the same text.",
)
NO_STUDY = Text(
    "这个模型还没有研究结果，不知道哪些是语序头和匹配头；可在“头图谱”页计算。",
    "There are no results on this model yet, so its order and matching heads are unknown; the page "
    "Head atlas computes them.",
)
DELTA = Text(
    "箭头：乱序减去原样，两者去掉同样的头",
    "Arrow: reordered less as it was, with the same heads left out",
)
SEVERAL = Text("不只一次：同样打乱多次", "Not one draw alone: the same shuffle several times")
EVERY = Text("每次打乱的数", "Every draw in numbers")
COLUMNS: Mapping[str, Text] = {
    "name": Text("去掉的头", "heads out"),
    "heads": Text("头数", "heads"),
    "before": Text("原样", "as it was"),
    "after": Text("乱序", "reordered"),
    "change": Text("变化", "change"),
    "range": Text("变化的范围", "range of the change"),
    "predicted": Text("预测", "predicted"),
}

_TRAINED: Mapping[Trained, Text] = {
    "yes": Text(
        "这个检查点训练时见过打乱的标题，因此它的反应里也有学来的部分。",
        "This checkpoint saw shuffled titles in training, so part of what it does was taught.",
    ),
    "unknown": Text(
        "检查点的文件没有说明训练时是否见过打乱的标题。",
        "The checkpoint's files do not say whether it saw shuffled titles in training.",
    ),
}


def trained(inspected: Inspected) -> Text:
    """Whether this checkpoint saw shuffled titles in training, as far as its folder says."""
    return _TRAINED[trained_on_shuffled(inspected.scorer.checkpoint.folder)]


def score_line(found: Order) -> Text:
    """What the numbers above the pictures are, with their unit."""
    name, unit = score_name(found.labels), score_unit(found.labels)
    return Text(f"{name.zh}（{unit.zh}）", f"{name.en} ({unit.en})")


def notes(found: Order) -> Iterator[Text]:
    """Which heads the sets are, what was not read, and which sets have nothing random beside them."""
    for way in found.ways:
        if way.heads:
            listed = spell(way.heads)
            yield Text(f"{way.name.zh}：{listed}", f"{way.name.en}: {listed}")
    yield from found.notes
    for name in found.without_random:
        yield Text(
            f"{name.zh}：同层剩下的头不够，没有随机头可比。",
            f"{name.en}: too few other heads in these layers, so there are no random ones beside.",
        )
