"""Words that several views share, and what a model's outputs are called."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from qt_bert.data.tokenise import EncodedPair
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, spell
from qt_bert.text import Text

# Words that several views share.


BEFORE = Text("完整模型", "whole model")
AFTER = Text("去掉所选的头", "without the chosen heads")
RANDOM = Text("去掉同样多的随机头（平均）", "without as many random heads (mean)")
MODES: Mapping[str, Text] = {
    "zero": Text("以零代替", "replaced by zero"),
    "uniform": Text("以均匀注意力代替", "replaced by even attention"),
    "mean": Text("以均值代替", "replaced by their mean"),
}
NO_GRADES = Text(
    "这是微调前的模型，它的分类层没有学过，档位没有意义；请在左栏换一个模型。",
    "This is the model before fine-tuning: its classifier learned nothing, and its grades mean "
    "nothing. Choose another model on the left.",
)
CHANGE = Text("变化（去掉后 − 完整模型）", "change (without − whole)")


def cut_notes(encoded: EncodedPair) -> Iterator[Text]:
    """That a text was cut to what the model can read, where it was."""
    for cut, what in (
        (encoded.query_truncated, Text("查询", "query")),
        (encoded.title_truncated, Text("标题", "title")),
    ):
        if cut:
            yield Text(
                f"{what.zh}超出模型的长度：只读了两文本的前 {len(encoded)} 个词元，其余不参与计算。",
                f"The {what.en} is too long for the model: it reads {len(encoded)} tokens of the "
                "pair, and nothing of the rest.",
            )


def titles_cut(count: int, longest: int) -> Text:
    """That so many titles of a list were cut."""
    return Text(
        f"{count:,} 条标题超过模型的 {longest} 个词元，只读了开头。",
        f"{count:,} titles were cut at the model's {longest} tokens.",
    )


def layer_notes(out: Sequence[Head], layer: int) -> Iterator[Text]:
    """That heads of a layer, and of those above, change nothing in what its heads look at."""
    late = [head for head in out if head.layer >= layer]
    if not late:
        return
    if len(late) == len(out):
        yield Text(
            f"去掉的头（{spell(late)}）都不低于第 {layer} 层，不可能改变这一层的注意力；"
            "改变的只有最后的档位。",
            f"The heads left out ({spell(late)}) do not lie below layer {layer}: they cannot change "
            "what its heads look at, only the grade in the end.",
        )
    else:
        yield Text(
            f"去掉的头里，不低于第 {layer} 层的（{spell(late)}）与这一层注意力的变化无关。",
            f"Of the heads left out, those not below layer {layer} ({spell(late)}) have no part in "
            "what changes there.",
        )


def score_name(labels: ModelLabels) -> Text:
    """What titles are ranked by: the expected grade or level, or the one score."""
    if labels.logits == 1:
        return Text("分数", "score")
    if labels.exact:
        return Text("期望等级", "expected grade")
    return Text("期望级别", "expected level")


def score_unit(labels: ModelLabels) -> Text:
    """The unit of that score, with its scale."""
    if labels.logits == 1:
        return Text("一个 logit", "one logit")
    low, high = f"{min(labels.values):g}", f"{max(labels.values):g}"
    if labels.exact:
        return Text(f"档，{low}–{high}", f"grades, {low}–{high}")
    return Text(f"级，{low}–{high}", f"levels, {low}–{high}")


def level_name(labels: ModelLabels) -> Text:
    """What one output of the model stands for."""
    return Text("档", "grade") if labels.exact else Text("级别", "level")
