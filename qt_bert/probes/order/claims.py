"""What the article claims of word order: order heads out, a shuffled title is less of a shock."""

from __future__ import annotations

from qt_bert.probes.order.beside import OF_ORDER, beside
from qt_bert.probes.order.changes import GRADES, NO_HEADS, NOTHING, SHARE, against, change, finding
from qt_bert.probes.order.study import Study
from qt_bert.results.probe import Finding, Verdict
from qt_bert.text import Text


def findings(study: Study) -> list[Finding]:
    """Both claims, then what stands beside them."""
    return [_ratio(study), _rise(study), *beside(study)]


def _ratio(study: Study) -> Finding:
    k = len(study.order_heads)
    return finding(
        study,
        "order_ratio",
        Text(
            f"去掉 {k} 个语序头，比去掉同样多的同层随机头更多地降低 S/R（打乱标题的字损失多少档，"
            "以高档与低档之差 R 为单位）",
            f"Leaving out the {k} order heads lowers S/R (what shuffling a title costs, as a share of "
            "the way from high to low grades) more than as many random heads of the same layers",
        ),
        against(study, "ratio", study.masks.claim, "matched", below=True),
        below=True,
        unit=SHARE,
        said="2 → 3",
        conclusions=_RATIO,
        sets=OF_ORDER,
        why=None if study.masks.claim else NO_HEADS,
    )


def _rise(study: Study) -> Finding:
    """The rise over the plain model with its interval, and its rank among layer-matched sets: both
    must hold."""
    k, claim = len(study.order_heads), study.masks.claim
    rise = NOTHING if claim is None else change(study, "shuffled", [claim.target])
    rank = against(study, "shuffled", claim, "matched", below=False).p
    return finding(
        study,
        "order_shuffled_grade",
        Text(
            f"去掉 {k} 个语序头，被打乱的标题的期望等级升高，且比去掉同层随机头时高",
            f"Without the {k} order heads the expected grade of shuffled titles rises, and higher than "
            "without random heads of the same layers",
        ),
        rise._replace(p=rank),
        unit=GRADES,
        said="2 → 3",
        conclusions=_RISE,
        sets=OF_ORDER,
        why=None if claim else NO_HEADS,
    )


_RATIO: dict[Verdict, Text] = {
    "reproduced": Text(
        "模型察觉乱序，有一部分要靠这些头；其余部分走别的路。",
        "Part of how the model notices a shuffled title goes through these heads; the rest goes "
        "elsewhere.",
    ),
    "not reproduced": Text(
        "这些头的注意力虽跟着位置走，模型察觉乱序却不比靠同层别的头更靠它们。",
        "The attention of these heads goes by places, yet the model needs them no more than others of "
        "their layers to notice a shuffled title.",
    ),
    "inconclusive": Text(
        "这个样本分不出语序头与同层随机头；不能由此说它们无用。",
        "This sample cannot tell the order heads from random ones of their layers; it does not show "
        "that they are of no use.",
    ),
}
_RISE: dict[Verdict, Text] = {
    "reproduced": Text(
        "与文章的例子一致：没有这些头，乱序的标题得到更高的档位。",
        "As in the article's case: without these heads a shuffled title is graded higher.",
    ),
    "not reproduced": Text(
        "文章例子里的升高不是普遍现象。", "The rise of the article's case is not general."
    ),
    "inconclusive": Text(
        "文章例子里的升高在这个样本上未得到证实，也未被推翻。",
        "This sample neither confirms nor rules out the rise of the article's case.",
    ),
}
