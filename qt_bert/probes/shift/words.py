"""The claims about fine-tuning in words, and what a reader may conclude."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from qt_bert.results.probe import Source, Verdict
from qt_bert.text import Text

_ARTICLE, _PRIMER = "heads_of_query_title_bert", "primer_in_bertology"
_UP = Source(article=_ARTICLE, section="2.4.1", value="> 0")
_DOWN = Source(article=_ARTICLE, section="2.4.1", value="< 0")
_MORE = Source(article=_PRIMER, section="模型结构与表征分布", value="> 0")


@dataclass(frozen=True)
class Said:
    """One claim: which weight changes which way in some heads, and what follows by verdict.

    `change` says the same without the heads.
    """

    weight: str
    side: Literal["above", "below"]
    source: Source
    claim: Text
    change: Text
    conclusions: dict[Verdict, Text]


_UNSURE = Text(
    "这份样本看不出这一变化的方向；区间半宽以下的变化无法判断。",
    "This sample does not show which way it goes; changes under half the interval cannot be seen.",
)

OF_MATCHING_HEADS = (
    Said(
        "matched",
        "above",
        _UP,
        Text(
            "微调前就匹配词的头，平均来看，微调后给相同的词更多注意力",
            "Heads that match terms before fine-tuning give matched terms more attention after it, "
            "averaged over them",
        ),
        Text("相同的词得到更多注意力", "matched terms get more attention"),
        {"inconclusive": _UNSURE},
    ),
    Said(
        "self",
        "below",
        _DOWN,
        Text(
            "微调前就匹配词的头，平均来看，微调后给自身的注意力减少",
            "Heads that match terms before fine-tuning give a token itself less attention after it, "
            "averaged over them",
        ),
        Text("给自身的注意力减少", "tokens give themselves less attention"),
        {
            "reproduced": Text(
                "平均来看，这些头里的字看自身变少了；减少的部分去了哪里，看其余几行。",
                "On average over these heads tokens look less at themselves; the other rows say where "
                "it went.",
            ),
            "not reproduced": Text(
                "平均来看，这些头里的字看自身并没有变少：匹配的变化不是靠减少对自身的注意力得来的。",
                "On average over these heads tokens do not look less at themselves: whatever matching "
                "gained or lost, it was not taken from there.",
            ),
            "inconclusive": _UNSURE,
        },
    ),
    Said(
        "sep",
        "below",
        _DOWN,
        Text(
            "微调前就匹配词的头，平均来看，微调后给 [SEP] 的注意力减少",
            "Heads that match terms before fine-tuning give [SEP] less attention after it, "
            "averaged over them",
        ),
        Text("给 [SEP] 的注意力减少", "[SEP] gets less attention"),
        {
            "reproduced": Text(
                "这些头平均更少停在 [SEP] 上。这只说这几个头，与全部头的平均不矛盾。",
                "On average these heads rest less on [SEP]. That is said of these few heads, and does not "
                "contradict the mean over all heads.",
            ),
            "not reproduced": Text(
                "这些头平均并没有更少停在 [SEP] 上，文中的个例不能推广到这里。",
                "On average these heads do not rest less on [SEP]; the article's case does not carry "
                "over.",
            ),
            "inconclusive": _UNSURE,
        },
    ),
)


def matched_conclusions(rose: Sequence[str], total: int) -> dict[Verdict, Text]:
    """What follows of the claim about matched terms; they rose in `rose` of the `total` heads."""
    each = Text(
        f"{total} 个头中有 {len(rose)} 个升高" + (f"（{'、'.join(rose)}）" if rose else ""),
        f"{len(rose)} of the {total} rose" + (f" ({', '.join(rose)})" if rose else ""),
    )
    return {
        "reproduced": Text(
            f"平均来看，微调加强了预训练留下的匹配头；{each.zh}。头是在微调前的模型上选的，"
            "所以这不是挑选造成的。",
            "On average fine-tuning strengthened the matching heads that pretraining had left; "
            f"{each.en}. They were chosen before fine-tuning, so the choice did not make the rise.",
        ),
        "not reproduced": Text(
            f"平均来看，微调没有加强预训练留下的匹配头；{each.zh}。选的是微调前得分最高的头，"
            "这样的头本来就更容易下降。匹配也可能改由别的头来做，见被命名为加强的头。",
            "On average fine-tuning did not strengthen the matching heads that pretraining had left; "
            f"{each.en}. Heads picked for being extreme before are more likely to fall. Other heads "
            "may have taken matching over: see those named as strengthened.",
        ),
        "inconclusive": Text(
            f"{_UNSURE.zh}{each.zh}。",
            f"{_UNSURE.en} By their means, {each.en}.",
        ),
    }


OF_ALL_HEADS = tuple(
    Said(
        weight,
        "above",
        _MORE,
        Text(
            f"全部头平均，微调后给 {token} 的注意力增加",
            f"Over all heads, {token} gets more attention after fine-tuning",
        ),
        Text(f"给 {token} 的注意力增加", f"{token} gets more attention"),
        {
            "reproduced": Text(
                f"微调后整个模型更多地看 {token}；这说的是全部头，不是匹配头。",
                f"The whole model looks more at {token} after fine-tuning; this is about all heads, "
                "not the matching ones.",
            ),
            "not reproduced": Text(
                f"这个模型微调后并没有更多地看 {token}：综述里的这一条与模型和任务有关。",
                f"This model does not look more at {token} after fine-tuning: what the survey says "
                "depends on model and task.",
            ),
            "inconclusive": _UNSURE,
        },
    )
    for weight, token in (("cls", "[CLS]"), ("sep", "[SEP]"))
)

WEIGHT_NAMES = {
    "matched": Text("另一文本中相同的词", "the same term in the other text"),
    "self": Text("自身", "itself"),
    "sep": Text("[SEP]", "[SEP]"),
    "cls": Text("[CLS]", "[CLS]"),
}
BEFORE, AFTER = Text("微调前", "before"), Text("微调后", "after")
ATTENTION = Text("% 的注意力", "% of attention")
PERCENT = 0.01
"""Weights and their changes are shown in hundredths of a token's attention."""

CHANGE = Text("个百分点的注意力", "points of attention")
