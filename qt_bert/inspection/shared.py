"""What several pages share: words, names of a model's outputs, random heads, heat maps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from qt_bert.ablation.families import DRAWS, MaskOf, layer_matched
from qt_bert.ablation.interventions import NONE, Intervention, Variant
from qt_bert.data.tokenise import EncodedPair
from qt_bert.errors import ArgumentError
from qt_bert.figures import HeatMap, known
from qt_bert.inspection.inspected import Inspected
from qt_bert.models.card import ModelLabels
from qt_bert.models.heads import Head, spell
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Label, Text

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


def score_columns(labels: ModelLabels) -> dict[str, Text]:
    """The columns of a table of titles: their labels and scores, and the scores without heads."""
    score = score_name(labels)
    return {
        "title": Text("标题", "title"),
        "label": Text("标注", "label"),
        "predicted": Text("预测", "predicted"),
        "score": score,
        "without": Text(f"{score.zh}，去掉头", f"{score.en}, heads left out"),
        "change": Text("变化", "change"),
    }


def plain_and_without(inspected: Inspected, out: Sequence[Head], mode: str) -> list[Variant]:
    """The whole model and, where there are heads `out`, the model without them."""
    part = inspected.part(out, mode)
    return [NONE] if part is None else [NONE, Variant("heads out", (part,))]


def mask_of(inspected: Inspected, mode: str) -> MaskOf:
    """How the model does without some heads, one at least, as `mode` says."""

    def mask(heads: Iterable[Head]) -> Intervention:
        part = inspected.part(heads, mode)
        assert part is not None, "a set of heads to leave out holds one"
        return part

    return mask


def random_heads(
    inspected: Inspected, heads: Iterable[Head], mode: str, seed: int
) -> list[Variant]:
    """Layer-matched sets; none for no heads, or where a layer has too few others to draw from."""
    try:
        return layer_matched(inspected.shape, mask_of(inspected, mode), heads, DRAWS, seed)
    except ArgumentError:
        return []


# Heat maps of layers by heads, and of tokens by tokens.

PERCENT = 100.0
HEAD, LAYER = Text("头", "head"), Text("层", "layer")
LOOKING, LOOKED_AT = Text("谁在看", "looking"), Text("看谁", "looked at")
ATTENTION = Text("注意力", "attention")


def head_map(
    name: str,
    title: Text,
    unit: Label,
    values: FloatArray,
    *,
    marked: Iterable[Head] = (),
    **options: Any,
) -> HeatMap:
    """`values` [layers, heads] as a heat map, the heads `marked` outlined; `options` are HeatMap's."""
    layers, heads = values.shape
    return HeatMap(
        name=name,
        title=title,
        x_label=HEAD,
        y_label=LAYER,
        unit=unit,
        columns=tuple(f"H{head}" for head in range(heads)),
        rows=tuple(f"L{layer}" for layer in range(layers)),
        values=cells(values),
        marked=tuple((head.layer, head.head) for head in marked),
        **options,
    )


def token_map(
    name: str,
    title: Text,
    looking: Sequence[str],
    looked_at: Sequence[str],
    values: FloatArray,
    **options: Any,
) -> HeatMap:
    """One head's `values` [looking, looked at] as a heat map; `options` are HeatMap's."""
    return HeatMap(
        name=name,
        title=title,
        x_label=LOOKED_AT,
        y_label=LOOKING,
        unit=ATTENTION,
        columns=tuple(looked_at),
        rows=tuple(looking),
        values=cells(values),
        **options,
    )


def cells(values: FloatArray) -> tuple[tuple[float | None, ...], ...]:
    """A matrix as a figure holds it: None where there is no number."""
    return tuple(tuple(known(value) for value in row) for row in values)
