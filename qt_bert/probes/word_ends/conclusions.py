"""What a reader may conclude from the claims on word boundaries, by verdict."""

from __future__ import annotations

from qt_bert.probes.word_ends.words import percent
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


def worth(share: float, chance: float) -> dict[Verdict, Text]:
    """Of the union: `share` of decisions that one head gets right, `chance` by luck alone."""
    found, luck = percent(share), percent(chance)
    return {
        "reproduced": Text(
            f"各头合起来确有词边界信息：有一个头正确的占 {found}，碰巧会有 {luck}。但哪个头正确要对照答案"
            "才知道，所以这个比例不是分词准确率。",
            f"The heads together do know of word ends: one is right on {found}, where luck alone "
            f"gives {luck}. Which one it is only the answer tells, so the share is no accuracy of a "
            "segmentation.",
        ),
        "not reproduced": Text(
            f"“有一个头正确”的比例（{found}）不高于碰巧（{luck}）：头多了，总有一个说对。",
            f"“One head is right” ({found}) is no more than luck ({luck}): of many heads one always "
            "is.",
        ),
    }


def pretraining(draws: int) -> dict[Verdict, Text]:
    """Against the best of so many draws of random weights."""
    zh, en = ("一组随机权重", "one draw of random weights")
    if draws > 1:
        zh, en = f"{draws} 组随机权重中最好的一组", f"the best of {draws} draws of random weights"
    return {
        "reproduced": Text(
            f"词边界信息来自预训练，不是结构本身带来的（对照是{zh}）；是否来自 MLM 这一任务，这里看不出。",
            "What heads know of word ends comes from pretraining, not from the architecture, as far "
            f"as {en} can show; whether masked prediction is what teaches it cannot be seen here.",
        ),
        "not reproduced": Text(
            f"随机权重的头也做得到，所以不能归功于预训练（对照是{zh}）。",
            "Heads of random weights do as well, so that pretraining cannot be credited (judged by "
            f"{en}).",
        ),
    }
