"""Any head's attention map: whole and with heads left out, before and after fine-tuning."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import torch

from qt_bert.ablation.engine import Reduction, View
from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.data.tokenise import QUERY, SPECIAL, EncodedPair
from qt_bert.data.tokenise import TITLE as TOKENISE_TITLE
from qt_bert.figures import HeatMap, known
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.state import State
from qt_bert.inspection.views.phrases import AFTER, BEFORE, CHANGE, cut_notes, layer_notes
from qt_bert.inspection.views.shared import PERCENT, token_map
from qt_bert.models.heads import Head
from qt_bert.stats.arrays import BoolArray, FloatArray
from qt_bert.text import Text

# Parts of an attention map: who looks at whom, in one text or from one to the other.


BOTH = (QUERY, TOKENISE_TITLE)
ALL = (QUERY, TOKENISE_TITLE, SPECIAL)


@dataclass(frozen=True)
class MapPart:
    """Rows of the sides `looking` and columns of the sides `looked_at`."""

    name: Text
    looking: tuple[int, ...]
    looked_at: tuple[int, ...]

    def rows(self, encoded: EncodedPair) -> tuple[int, ...]:
        """The places of the tokens that look."""
        return _places(encoded, self.looking)

    def columns(self, encoded: EncodedPair) -> tuple[int, ...]:
        """The places of the tokens that are looked at."""
        return _places(encoded, self.looked_at)


WHOLE = "all"
"""The part in which every row adds up to 1."""

PARTS: Mapping[str, MapPart] = {
    WHOLE: MapPart(Text("全部", "all"), ALL, ALL),
    "query_title": MapPart(Text("查询看标题", "query → title"), (QUERY,), (TOKENISE_TITLE,)),
    "title_query": MapPart(Text("标题看查询", "title → query"), (TOKENISE_TITLE,), (QUERY,)),
    "query": MapPart(Text("查询之内", "within query"), (QUERY,), (QUERY,)),
    "title": MapPart(Text("标题之内", "within title"), (TOKENISE_TITLE,), (TOKENISE_TITLE,)),
    "texts": MapPart(Text("不含 [CLS]、[SEP]", "without [CLS], [SEP]"), BOTH, BOTH),
}


def masks(encoded: EncodedPair, parts: Sequence[MapPart]) -> tuple[BoolArray, BoolArray]:
    """Which tokens look, and which are looked at, in each part: two matrices [parts, tokens]."""
    side = np.array(encoded.side)
    rows = [np.isin(side, part.looking) for part in parts]
    columns = [np.isin(side, part.looked_at) for part in parts]
    return np.stack(rows), np.stack(columns)


def _places(encoded: EncodedPair, sides: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(np.isin(encoded.side, sides)).tolist())


# Attention maps of one pair: of a layer in full, of all heads in small; kept for the next look.


SMALL = 32
"""Rows and columns of a small map at most; of a longer pair each cell is the largest of several."""
KEPT_BYTES = 16 << 20
MAPS, SMALLS, SUMS = "maps", "small", "sums"


@dataclass(frozen=True, eq=False)
class Overview:
    """All heads of one pair, whole and (if there are heads left out) without these.

    `small` [ways, layers, heads, ≤ SMALL, ≤ SMALL] are maps, float16; `given` [ways, layers, heads,
    PARTS] is the mean over the tokens that look of what they give to those looked at, NaN where a
    part has no tokens.
    """

    small: np.ndarray
    given: np.ndarray


def layer_maps(inspected: Inspected, state: State) -> np.ndarray:
    """The maps of the state's layer [ways, heads, tokens, tokens]: whole, and without the heads."""
    layer, key = state.layer, (*_key(inspected, state), state.layer)

    def made() -> np.ndarray:
        return _run(inspected, state, [Reduction(MAPS, "attention", (layer,), _values)])[MAPS][:, 0]

    return _kept.get((MAPS, *key), made)


def head_maps(inspected: Inspected, state: State) -> tuple[np.ndarray, np.ndarray | None]:
    """One head's map [tokens, tokens]: whole, and without the heads left out, where there are any."""
    ways = layer_maps(inspected, state)[:, state.head].astype(np.float64)
    return ways[0], ways[1] if len(ways) > 1 else None


def overview(inspected: Inspected, state: State) -> Overview:
    """All heads of the state's pair in small."""

    def made() -> Overview:
        layers = tuple(range(inspected.shape.layers))
        rows, columns = (
            torch.from_numpy(one.astype(np.float32))
            for one in masks(inspected.encode(state.query, state.title), list(PARTS.values()))
        )

        def given(view: View) -> torch.Tensor:
            sums = torch.einsum("bhij,pi,pj->bhp", view.values.float(), rows, columns)
            return torch.where(columns.sum(1) > 0, sums / rows.sum(1), torch.nan)

        found = _run(
            inspected,
            state,
            [
                Reduction(SMALLS, "attention", layers, _small),
                Reduction(SUMS, "attention", layers, given),
            ],
        )
        return Overview(found[SMALLS].astype(np.float16), found[SUMS])

    return _kept.get((SMALLS, *_key(inspected, state)), made)


def _run(inspected: Inspected, state: State, reductions: list[Reduction]) -> dict[str, np.ndarray]:
    """Each reduction of the pair [ways, layers, …]."""
    part = inspected.part(state.out, state.mode)
    variants = [NONE, *([Variant("heads out", (part,))] if part else [])]
    seen = inspected.run([(state.query, state.title)], variants, reductions)
    return {name: values[:, 0] for name, values in seen.reduced.items()}


def _key(inspected: Inspected, state: State) -> tuple[object, ...]:
    return inspected.key, state.query, state.title, state.out, state.mode


def _values(view: View) -> torch.Tensor:
    return view.values


def _small(view: View) -> torch.Tensor:
    size = min(SMALL, view.values.shape[-1])
    return torch.nn.functional.adaptive_max_pool2d(view.values.float(), size)


_kept = Kept(most_bytes=KEPT_BYTES)


# What of a map is drawn: a part of it, and of a long pair a stretch.


MOST_TOKENS = 48
"""Rows and columns of a map that are drawn: 128 of each are slow to draw and too small to read."""


@dataclass(frozen=True)
class Excerpt:
    """The tokens of a part that look and are looked at, and the stretch of them from `start` on."""

    encoded: EncodedPair
    tokens: tuple[str, ...]
    looking: tuple[int, ...]
    looked_at: tuple[int, ...]
    start: int

    @classmethod
    def of(cls, inspected: Inspected, state: State, part: str, start: int) -> Excerpt:
        """That of one of PARTS, of the state's pair."""
        encoded, chosen = inspected.encode(state.query, state.title), PARTS[part]
        tokens = inspected.tokens(encoded)
        return cls(encoded, tokens, chosen.rows(encoded), chosen.columns(encoded), start)

    @property
    def rows(self) -> tuple[int, ...]:
        """The tokens whose rows are drawn."""
        return self._stretch(self.looking)

    @property
    def columns(self) -> tuple[int, ...]:
        """The tokens whose columns are drawn."""
        return self._stretch(self.looked_at)

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self.looking and self.looked_at)

    @property
    def longest(self) -> int:
        """Tokens of the longer side."""
        return max(len(self.looking), len(self.looked_at))

    def cut(self, values: FloatArray) -> FloatArray:
        """The drawn cells of a map [tokens, tokens]."""
        return values[list(self.rows)][:, list(self.columns)]

    def given(self, values: FloatArray) -> float | None:
        """What the tokens that look give to those looked at, on average, in %; all, drawn or not.

        None where there are none.
        """
        if not self.drawn:
            return None
        sums = values[list(self.looking)][:, list(self.looked_at)].sum(axis=1)
        return known(PERCENT * float(np.mean(sums)))

    def notes(self) -> Iterator[Text]:
        """That there is nothing to draw, or more than is drawn."""
        if not self.drawn:
            yield Text("这一对文本没有这样的词元。", "This pair has no such tokens.")
        elif self.longest > MOST_TOKENS:
            yield Text(
                f"每边最多画 {MOST_TOKENS} 个词元（这里长的一边有 {self.longest} 个）：画的是一段，"
                "数字按全部计算。",
                f"At most {MOST_TOKENS} tokens a side are drawn (the longer side has {self.longest}): "
                "this is a stretch; numbers are of all.",
            )

    def _stretch(self, places: tuple[int, ...]) -> tuple[int, ...]:
        start = min(self.start, max(len(places) - MOST_TOKENS, 0))
        return places[start : start + MOST_TOKENS]


# Any head's attention map: whole and with heads left out, before and after fine-tuning (2.4.1).


@dataclass(frozen=True)
class AttentionShare:
    """What the tokens that look give to those looked at, in % of their attention, on average."""

    way: Text
    value: float | None


@dataclass(frozen=True)
class Maps:
    """One head's maps within a part, and what a reader must know of them."""

    head: Head
    notes: tuple[Text, ...]
    given: tuple[AttentionShare, ...]
    figures: tuple[HeatMap, ...]


def last_start(inspected: Inspected, state: State, part: str = WHOLE) -> int:
    """The last token that a stretch can start with; 0 where the pair is drawn as a whole."""
    return max(Excerpt.of(inspected, state, part, 0).longest - MOST_TOKENS, 0)


def attention(inspected: Inspected, state: State, part: str = WHOLE, start: int = 0) -> Maps:
    """The state's head on its pair: one map; or before, after, and the change, where heads are out.

    `part` names one of `map_parts.PARTS`; `start` is the first token of a stretch.
    """
    excerpt = Excerpt.of(inspected, state, part, start)
    head = state.chosen
    before, after = head_maps(inspected, state)
    below = [one for one in state.out if one.layer < state.layer]
    if after is None or not below:
        figures, ways = _whole(head, before, excerpt), [before]
    else:
        figures = _without(head, before, after, excerpt)
        ways = [before, after]
    return Maps(
        head,
        (*excerpt.notes(), *cut_notes(excerpt.encoded), *layer_notes(state.out, state.layer)),
        tuple(
            AttentionShare(way, excerpt.given(values))
            for way, values in zip((BEFORE, AFTER), ways, strict=False)
        ),
        figures if excerpt.drawn else (),
    )


def tuning(
    inspected: Inspected, base: Inspected, state: State, part: str = WHOLE, start: int = 0
) -> Maps:
    """The state's head before and after fine-tuning, and what that strengthened and weakened.

    No heads are left out of either model. Models that read the pair as different tokens cannot be
    compared: no figures, and a note.
    """
    excerpt = Excerpt.of(inspected, state, part, start)
    head, plain = state.chosen, replace(state, out=())
    notes = (*_plain_notes(state), *excerpt.notes(), *cut_notes(excerpt.encoded))
    if base.encode(state.query, state.title).input_ids != excerpt.encoded.input_ids:
        return Maps(head, (*notes, _OTHER_TOKENS), (), ())
    before, after = (head_maps(model, plain)[0] for model in (base, inspected))
    return Maps(
        head,
        notes,
        (
            AttentionShare(UNTUNED, excerpt.given(before)),
            AttentionShare(TUNED, excerpt.given(after)),
        ),
        _tuned(head, before, after, excerpt) if excerpt.drawn else (),
    )


UNTUNED, TUNED = Text("微调前", "before"), Text("微调后", "after")
_STRENGTHENED = Text("微调后增强", "strengthened")
_WEAKENED = Text("微调后减弱", "weakened")
_GREW = Text(
    "增强 = max(微调后 − 微调前, 0)。原文的式子写作“微调前 − 微调后 > 0”，符号反了。",
    "Strengthened = max(after − before, 0). The article prints “before − after > 0”, with the sign "
    "reversed.",
)
_SHRANK = Text("减弱 = max(微调前 − 微调后, 0)。", "Weakened = max(before − after, 0).")


def _tuned(
    head: Head, before: FloatArray, after: FloatArray, excerpt: Excerpt
) -> tuple[HeatMap, ...]:
    """Both maps in one range of colours, and in another what grew and what shrank (2.4.1)."""
    one, other = excerpt.cut(before), excerpt.cut(after)
    grew, shrank = np.maximum(other - one, 0), np.maximum(one - other, 0)
    whole = float(np.maximum(one, other).max(initial=0.0))
    changed = float(np.maximum(grew, shrank).max(initial=0.0))
    return (
        _map(head, "before", UNTUNED, one, excerpt, whole),
        _map(head, "after", TUNED, other, excerpt, whole),
        replace(_map(head, "strengthened", _STRENGTHENED, grew, excerpt, changed), note=_GREW),
        replace(_map(head, "weakened", _WEAKENED, shrank, excerpt, changed), note=_SHRANK),
    )


_OTHER_TOKENS = Text(
    "两个模型把这一对文本切成不同的词元，不能逐格比较。",
    "The two models read this pair as different tokens: their maps cannot be compared.",
)


def _plain_notes(state: State) -> Iterator[Text]:
    if state.out:
        yield Text(
            "这里比较的是完整的两个模型：去掉的头在此不起作用。",
            "Both models are whole here: the heads left out play no part.",
        )


def _whole(head: Head, values: FloatArray, excerpt: Excerpt) -> tuple[HeatMap, ...]:
    return (_map(head, "before", BEFORE, excerpt.cut(values), excerpt),)


def _without(
    head: Head, before: FloatArray, after: FloatArray, excerpt: Excerpt
) -> tuple[HeatMap, ...]:
    """Before and after in one range of colours, and the change."""
    one, other = excerpt.cut(before), excerpt.cut(after)
    high = float(np.maximum(one, other).max(initial=0.0))
    return (
        _map(head, "before", BEFORE, one, excerpt, high),
        _map(head, "after", AFTER, other, excerpt, high),
        _map(head, "change", CHANGE, other - one, excerpt),
    )


def _map(
    head: Head,
    name: str,
    way: Text,
    values: FloatArray,
    excerpt: Excerpt,
    high: float | None = None,
) -> HeatMap:
    change = name == "change"
    return token_map(
        f"map_{name}",
        Text(f"{head}，{way.zh}", f"{head}, {way.en}"),
        [excerpt.tokens[place] for place in excerpt.rows],
        [excerpt.tokens[place] for place in excerpt.columns],
        values,
        scale="diverging" if change else "sequential",
        low=None if change else 0.0,
        high=high,
    )


# What the page of attention maps says.


TITLE = Text("注意力图", "Attention map")
PART = Text("看哪一部分", "Part")
COMPARE = Text("比较", "Compare")
START = Text("从第几个词元画起", "First token drawn")
ALL_HEADS = Text("所有的头", "All heads")
WAY = Text("画什么", "What is drawn")
SAVE = Text("保存这张图（PNG）", "Save the picture (PNG)")
NO_BASE = Text(
    "没有这个模型微调之前的权重，不能比较微调前后。",
    "The weights before fine-tuning are not known for this model.",
)

Comparison = Literal["out", "tuning"]
COMPARISONS: Mapping[Comparison, Text] = {
    "out": Text("去掉头前后", "heads left out"),
    "tuning": Text("微调前后", "fine-tuning"),
}


def intro(seen: Maps, model: Inspected) -> Text:
    """Which head is shown, and how a map is read."""
    return Text(
        f"{seen.head}（{model.name}）。每行是一个在看的词元，整行（全部列）之和为 1；指着一格可见"
        "两个字和权重。",
        f"{seen.head} of {model.name}. A row is a token that looks; over all columns it adds up to 1. "
        "Point at a cell to see both tokens and the weight.",
    )


def given(one: AttentionShare) -> Text:
    """The name of a number: what the tokens that look give to those looked at."""
    return Text(
        f"{one.way.zh}：平均给所看部分的注意力（%）",
        f"{one.way.en}: mean attention given within the part (%)",
    )
