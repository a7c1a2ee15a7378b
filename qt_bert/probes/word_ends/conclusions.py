"""What a reader may conclude from the claims on word boundaries, by verdict."""

from __future__ import annotations

from qt_bert.results import Text
from qt_bert.results.probe import Verdict

ABOVE_MAJORITY: dict[Verdict, Text] = {
    "reproduced": Text(
        "单个头的注意力就带有词边界信息，多于“总猜多数”。多出多少看数值，文章的 70% 须与多数比例对照。",
        "One head's attention tells more of word ends than the majority answer does. The value says "
        "how much; the article's 70 % has to be read beside that rate.",
    ),
    "not reproduced": Text(
        "单个头的准确率不高于总猜多数：它的准确率再高也不说明它会分词。",
        "One head is no more accurate than the majority answer, so that its accuracy, however high, "
        "shows no segmentation.",
    ),
}
BALANCED_HEAD: dict[Verdict, Text] = {
    "reproduced": Text(
        "两类判断合计，这个头明显好于碰巧。它与每个字自身的词尾率相比如何，见图。",
        "Over both answers this head is clearly better than luck. The bars show it beside each "
        "character's own rate of ending words.",
    ),
    "not reproduced": Text(
        "没有单个头达到事先定下的最小效应。", "No single head has the smallest effect that was set."
    ),
}
WORTH: dict[Verdict, Text] = {
    "reproduced": Text(
        "各头合起来确有词边界信息；但“有一个头正确”的比例本身大半是碰巧，不能当作分词准确率。",
        "The heads together do know of word ends; but most of the share itself is luck, and it is "
        "no accuracy of a segmentation.",
    ),
    "not reproduced": Text(
        "“有一个头正确”的比例不高于碰巧：头多了，总有一个说对。",
        "“One head is right” is no more than luck: of many heads one always is.",
    ),
}
PRETRAINING: dict[Verdict, Text] = {
    "reproduced": Text(
        "词边界信息来自预训练，不是结构本身带来的；是否来自 MLM 这一任务，这里看不出。",
        "What heads know of word ends comes from pretraining, not from the architecture; whether "
        "masked prediction is what teaches it cannot be seen here.",
    ),
    "not reproduced": Text(
        "随机权重的头也做得到，所以不能归功于预训练。",
        "Heads of random weights do as well, so that pretraining cannot be credited.",
    ),
}
