"""What several pages share: words, names of a model's outputs, random heads, attention maps of one pair."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.families import DRAWS, layer_matched
from qt_bert.ablation.interventions import NONE, Intervention, Variant
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.errors import ArgumentError
from qt_bert.figures import HeatMap, Links, cells_of, known
from qt_bert.heads import Head, format_heads
from qt_bert.models.card import ModelLabels
from qt_bert.page.model import SharedModel
from qt_bert.page.state import State
from qt_bert.stats.arrays import FloatArray
from qt_bert.text import Text, counted, sentences

BEFORE = Text("完整模型", "whole model")
AFTER = Text("去掉所选的头", "without the chosen heads")
RANDOM = Text("去掉同样多的随机头（平均）", "without as many random heads (mean)")
MODES: Mapping[str, Text] = {
    "zero": Text("以零代替", "replaced by zero"),
    "uniform": Text("以均匀注意力代替", "replaced by even attention"),
    "mean": Text("以均值代替", "replaced by their mean"),
}
CHANGE = Text("变化（去掉后 − 完整模型）", "change (without − whole)")


def cut_notes(encoded: EncodedPair) -> Iterator[Text]:
    """That a text was cut to what the model can read, where it was."""
    if TITLE not in encoded.side:
        yield Text(
            "查询太长，标题一个词元也没有读到：这个等级没有意义。",
            "The query is so long that no token of the title is read: the grade means nothing.",
        )
        return
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
        f"{counted(count, 'title was', 'titles were')} cut at the model's {longest} tokens.",
    )


def layer_notes(out: Sequence[Head], layer: int) -> Iterator[Text]:
    """That heads of a layer, and of those above, change nothing in what its heads look at."""
    late = [head for head in out if head.layer >= layer]
    if late:
        yield Text(
            f"{format_heads(late)} 不低于第 {layer} 层，不可能改变这一层的注意力；改变的只有最后的档位。",
            f"{format_heads(late)} do not lie below layer {layer}: they cannot change what its heads look "
            "at, only the grade in the end.",
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


def plain_and_without(model: SharedModel, out: Sequence[Head], mode: str) -> list[Variant]:
    """The whole model and, where there are heads `out`, the model without them."""
    part = model.intervention(out, mode)
    return [NONE] if part is None else [NONE, Variant("heads out", (part,))]


def random_heads(
    model: SharedModel,
    heads: Sequence[Head],
    mode: str,
    seed: int,
    named: Collection[Head] = (),
) -> list[Variant]:
    """Layer-matched sets outside `heads` and `named`; none where too few are left."""

    def mask(drawn: Iterable[Head]) -> Intervention:
        part = model.intervention(drawn, mode)
        assert part is not None, "a set of heads to leave out holds one"
        return part

    try:
        within = [head for head in model.shape.all_heads if head not in named]
        return layer_matched(model.shape, mask, heads, DRAWS, seed, within)
    except ArgumentError:
        return []


PERCENT = 100.0
ATTENTION = Text("注意力", "attention")


# Attention maps of one pair: a head's, whole, without heads and before fine-tuning; all heads in small.


BOTH, ALL = (QUERY, TITLE), (QUERY, TITLE, SPECIAL)
WHOLE = "all"
"""The part in which every row adds up to 1."""
PARTS: Mapping[str, tuple[Text, tuple[int, ...], tuple[int, ...]]] = {
    WHOLE: (Text("全部", "all"), ALL, ALL),
    "query_title": (Text("查询看标题", "query → title"), (QUERY,), (TITLE,)),
    "title_query": (Text("标题看查询", "title → query"), (TITLE,), (QUERY,)),
    "query": (Text("查询之内", "within query"), (QUERY,), (QUERY,)),
    "title": (Text("标题之内", "within title"), (TITLE,), (TITLE,)),
    "texts": (Text("不含 [CLS]、[SEP]", "without [CLS], [SEP]"), BOTH, BOTH),
}
"""Part of a map → its name, the sides that look, the sides that are looked at."""

UNTUNED, TUNED = Text("微调前", "before fine-tuning"), Text("微调后", "after fine-tuning")
WHOLE_MODELS = Text(
    "这里比较的是完整的两个模型：去掉的头在此不起作用。",
    "Both models are whole here: the heads left out play no part.",
)
OTHER_TOKENS = Text(
    "两个模型把这一对文本切成不同的词元，不能逐格比较。",
    "The two models read this pair as different tokens: no map can be compared.",
)

MOST_TOKENS = 48
"""Rows and columns of a map that are drawn: 128 of each are slow to draw and too small to read."""
MOST_LINES = 200
"""Lines that are drawn between the tokens of a map, the strongest."""
SMALL = 32
"""Rows and columns of a small map; of a longer pair each cell is the largest of several."""


@dataclass(frozen=True, eq=False)
class Overview:
    """All heads of one pair, whole and (if there are heads left out) without these.

    `small` [ways, layers, heads, ≤ SMALL, ≤ SMALL] are maps, float16; `mean_weights` [ways, layers, heads,
    PARTS] is the mean over the tokens that look of what they give to those looked at, NaN where a
    part has no tokens.
    """

    small: np.ndarray
    mean_weights: np.ndarray


@dataclass(frozen=True)
class Maps:
    """One head's maps within a part, notes, and the mean attention within the part, in %.

    `lines` draw the maps of whole models as lines between tokens.
    """

    head: Head
    notes: tuple[Text, ...]
    mean_weights: tuple[tuple[Text, float | None], ...]
    figures: tuple[HeatMap, ...]
    lines: tuple[Links, ...] = ()


def layer_maps(model: SharedModel, state: State) -> np.ndarray:
    """The maps of the state's layer [ways, heads, tokens, tokens]: whole, and without the heads."""
    key = ("maps", state.query, state.title, state.out, state.mode, state.layer)
    reduction = Reduction("maps", "attention", (state.layer,), lambda view: view.values)
    return model.cache.get(key, lambda: _run(model, state, [reduction])["maps"][:, 0])


def overview(model: SharedModel, state: State) -> Overview:
    """All heads of the state's pair in small."""
    layers = tuple(range(model.shape.layers))
    side = np.array(model.encode(state.query, state.title).side)
    rows, columns = (
        torch.tensor(np.stack([np.isin(side, ids) for ids in sides]), dtype=torch.float)
        for sides in zip(*((part[1], part[2]) for part in PARTS.values()), strict=True)
    )

    def small(view: View) -> torch.Tensor:
        size = min(SMALL, view.values.shape[-1])
        return torch.nn.functional.adaptive_max_pool2d(view.values.float(), size)

    def mean_weights(view: View) -> torch.Tensor:
        sums = torch.einsum("bhij,pi,pj->bhp", view.values.float().cpu(), rows, columns)
        return torch.where(columns.sum(1) > 0, sums / rows.sum(1), torch.nan)

    def compute() -> Overview:
        reductions = [
            Reduction("small", "attention", layers, small),
            Reduction("mean_weights", "attention", layers, mean_weights),
        ]
        arrays = _run(model, state, reductions)
        return Overview(arrays["small"].astype(np.float16), arrays["mean_weights"])

    return model.cache.get(("overview", state.query, state.title, state.out, state.mode), compute)


def last_start(model: SharedModel, state: State, part: str = WHOLE) -> int:
    """The last token that a stretch can start with; 0 where the pair is drawn as a whole."""
    looking, looked_at = _sides(model.encode(state.query, state.title), part)
    return max(len(looking) - MOST_TOKENS, len(looked_at) - MOST_TOKENS, 0)


def attention(
    model: SharedModel,
    state: State,
    part: str = WHOLE,
    start: int = 0,
    *,
    base: SharedModel | None = None,
) -> Maps:
    """The state's head on its pair: one map; before, after and the change where heads are left out.

    With `base` instead the two models as they are, before and after fine-tuning, and what tuning
    strengthened and weakened (heads_of_query_title_bert, 2.4.1). `part` is one of `PARTS`, `start`
    the first token of a stretch.
    """
    encoded, head = model.encode(state.query, state.title), state.chosen
    looking, looked_at = _sides(encoded, part)
    notes = [*_part_notes(len(looking), len(looked_at)), *cut_notes(encoded)]
    if base is None:
        ways = layer_maps(model, state)[:, head.head]
        below = any(left_out.layer < head.layer for left_out in state.out)
        named = dict(zip((BEFORE, AFTER), ways if below else ways[:1], strict=False))
        notes += layer_notes(state.out, head.layer)
    else:
        if state.out:
            notes.append(WHOLE_MODELS)
        if base.encode(state.query, state.title).input_ids != encoded.input_ids:
            return Maps(head, (*notes, OTHER_TOKENS), (), ())
        plain = replace(state, out=())
        named = {
            UNTUNED: layer_maps(base, plain)[0, head.head],
            TUNED: layer_maps(model, plain)[0, head.head],
        }
    maps = [values.astype(np.float64) for values in named.values()]
    shares = [
        known(PERCENT * float(values[np.ix_(looking, looked_at)].sum(axis=1).mean()))
        if looking and looked_at
        else None
        for values in maps
    ]
    weights = tuple(zip(named, shares, strict=True))
    rows, columns = (
        places[max(0, min(start, len(places) - MOST_TOKENS)) :][:MOST_TOKENS]
        for places in (looking, looked_at)
    )
    if not rows or not columns:
        return Maps(head, tuple(notes), weights, ())
    tokens = model.tokens(encoded)
    stretch = Stretch(
        head, tuple(tokens[place] for place in rows), tuple(tokens[place] for place in columns)
    )
    cut = [values[np.ix_(rows, columns)] for values in maps]
    of_ways = list(zip(("before", "after"), named, cut, strict=False))
    top = float(np.max(cut))
    figures = [stretch.map(name, way, values, top) for name, way, values in of_ways]
    if len(cut) > 1 and base is None:
        figures.append(stretch.map("change", CHANGE, cut[1] - cut[0]))
    elif base is not None:
        figures += stretch.tuned(cut[1] - cut[0])
    lines = tuple(stretch.lines(name, way, values, top) for name, way, values in of_ways)
    return Maps(head, tuple(notes), weights, tuple(figures), lines)


def _part_notes(looking: int, looked_at: int) -> Iterator[Text]:
    """That the part has no tokens, or more than are drawn; given how many look and are looked at."""
    longest = max(looking, looked_at)
    if not (looking and looked_at):
        yield Text("这一对文本没有这样的词元。", "This pair has no such tokens.")
    elif longest > MOST_TOKENS:
        yield Text(
            f"每边最多画 {MOST_TOKENS} 个词元（长的一边有 {longest} 个）：画的是一段，数字按全部计算。",
            f"At most {MOST_TOKENS} tokens a side are drawn (the longer side has {longest}): this "
            "is a stretch; numbers are of all.",
        )


class Stretch(NamedTuple):
    """The tokens of a head's map that are drawn: those that look, and those looked at."""

    head: Head
    rows: tuple[str, ...]
    columns: tuple[str, ...]

    def map(self, name: str, way: Text, values: FloatArray, high: float | None = None) -> HeatMap:
        """Weights [rows, columns], or their `change`, as a map."""
        changes = name == "change"
        return HeatMap(
            name=f"map_{name}",
            title=Text(f"{self.head}，{way.zh}", f"{self.head}, {way.en}"),
            x_label=Text("看谁", "looked at"),
            y_label=Text("谁在看", "looking"),
            unit=ATTENTION,
            columns=self.columns,
            rows=self.rows,
            values=cells_of(values),
            scale="diverging" if changes else "sequential",
            low=None if changes else 0.0,
            high=high,
        )

    def tuned(self, rise: FloatArray) -> list[HeatMap]:
        """What tuning strengthened and weakened, from after less before [rows, columns]."""
        top = float(np.abs(rise).max())
        grown = self.map(
            "strengthened", Text("微调后增强", "strengthened"), np.maximum(rise, 0), top
        )
        shrunk = self.map("weakened", Text("微调后减弱", "weakened"), np.maximum(-rise, 0), top)
        return [
            # The article prints this formula as “before − after > 0”, with the sign reversed.
            replace(grown, note=Text("max(后 − 前, 0)", "max(after − before, 0)")),
            replace(shrunk, note=Text("max(前 − 后, 0)", "max(before − after, 0)")),
        ]

    def lines(self, name: str, way: Text, values: FloatArray, high: float) -> Links:
        """The strongest weights [rows, columns] as lines between tokens."""
        order = np.argsort(-values, axis=None, kind="stable")[:MOST_LINES].tolist()
        places = [divmod(place, len(self.columns)) for place in order]
        note = Text(
            "线越浓，权重越大。指着或点一个字，只看它的线。",
            "The stronger a line, the larger its weight. Point at a token or click it to see its lines alone.",
        )
        if values.size > MOST_LINES:
            bound = Text(
                f"只画最强的 {MOST_LINES} 条（共 {values.size:,} 条）。",
                f"The strongest {MOST_LINES} of {values.size:,} lines are drawn.",
            )
            note = sentences([note, bound])
        return Links(
            name=f"lines_{name}",
            title=Text(f"{self.head} 的连线，{way.zh}", f"{self.head} as lines, {way.en}"),
            x_label=Text("谁在看", "looking"),
            y_label=Text("看谁", "looked at"),
            unit=ATTENTION,
            left=self.rows,
            right=self.columns,
            links=tuple((row, column, float(values[row, column])) for row, column in places),
            high=high,
            note=note,
        )


def _run(
    model: SharedModel, state: State, reductions: Sequence[Reduction]
) -> dict[str, np.ndarray]:
    """The reductions of the pair, each [ways, layers, …]."""
    variants = plain_and_without(model, state.out, state.mode)
    outputs = model.run([(state.query, state.title)], variants, reductions)
    return {name: values[:, 0] for name, values in outputs.reduced.items()}


def _sides(encoded: EncodedPair, part: str) -> tuple[list[int], list[int]]:
    """The places of the tokens that look, and of those looked at."""
    _, looking, looked_at = PARTS[part]
    rows, columns = (
        np.flatnonzero(np.isin(encoded.side, np.array(sides))) for sides in (looking, looked_at)
    )
    return rows.tolist(), columns.tolist()
