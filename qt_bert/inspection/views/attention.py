"""Any head's attention map: whole and with heads left out, before and after fine-tuning (2.4.1)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.evaluation.arrays import FloatArray
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.state import State
from qt_bert.inspection.views.excerpt import MOST_TOKENS, Excerpt
from qt_bert.inspection.views.head_maps import head_maps
from qt_bert.inspection.views.map_parts import WHOLE
from qt_bert.inspection.views.phrases import AFTER, BEFORE, CHANGE, cut_notes, layer_notes
from qt_bert.probes.common.maps import token_map
from qt_bert.probes.finetuning.case import Case
from qt_bert.probes.finetuning.case_maps import case_maps
from qt_bert.probes.finetuning.words import AFTER as TUNED
from qt_bert.probes.finetuning.words import BEFORE as UNTUNED
from qt_bert.results import HeatMap, Text


@dataclass(frozen=True)
class Given:
    """What the tokens that look give to those looked at, in % of their attention, on average."""

    way: Text
    value: float | None


@dataclass(frozen=True)
class Maps:
    """One head's maps within a part, and what a reader must know of them."""

    head: Head
    notes: tuple[Text, ...]
    given: tuple[Given, ...]
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
            Given(way, excerpt.given(values))
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
    case = Case(head, excerpt.tokens, before, after)
    about = Text(str(head), str(head))
    return Maps(
        head,
        notes,
        (Given(UNTUNED, excerpt.given(before)), Given(TUNED, excerpt.given(after))),
        tuple(case_maps(case, about, excerpt.rows, excerpt.columns)) if excerpt.drawn else (),
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
