"""The front page: how [CLS] of one head spreads its attention, with and without other heads (2.4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from qt_bert.encoder.heads import Head, spell
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.state import State
from qt_bert.inspection.views.cls_rows import ClsRows, cls_rows
from qt_bert.inspection.views.focus_figures import (
    cls_bars,
    cls_change,
    cls_tokens,
    grade_bars,
    layer_maps,
)
from qt_bert.inspection.views.phrases import cut_notes, layer_notes
from qt_bert.inspection.views.shifts import Shift, score_shift, shifts
from qt_bert.results import Bars, HeatMap, Text, Tokens


@dataclass(frozen=True)
class Focus:
    """What the page shows.

    `score` is the grade's shift (None for a model that does not classify), `predicted` the likeliest
    grade before and after; `shifts` those of the row; `layer` holds the rows of all heads of the
    layer: `before`, `after`, `change`. Without heads left out there is no after; `draws` random sets
    stand beside it, maybe none.
    """

    head: Head
    out: tuple[Head, ...]
    draws: int
    notes: tuple[Text, ...]
    score: Shift | None
    predicted: tuple[str | None, str | None]
    shifts: tuple[Shift, ...]
    tokens: Tokens
    change: Tokens | None
    bars: Bars
    grades: Bars | None
    layer: dict[str, HeatMap]


def focus(inspected: Inspected, state: State) -> Focus:
    """The state's pair under the state's head, whole and with the state's heads left out."""
    rows, head = cls_rows(inspected, state), state.chosen
    return Focus(
        head=head,
        out=state.out,
        draws=rows.draws,
        notes=tuple(_notes(rows, head, state)),
        score=score_shift(rows.grades) if rows.grades else None,
        predicted=_predicted(rows),
        shifts=shifts(rows, head),
        tokens=cls_tokens(rows, head),
        change=cls_change(rows, head),
        bars=cls_bars(rows, head),
        grades=grade_bars(rows.grades) if rows.grades else None,
        layer=layer_maps(rows, head),
    )


def _predicted(rows: ClsRows) -> tuple[str | None, str | None]:
    def first(names: list[str] | None) -> str | None:
        return names[0] if names else None

    if rows.grades is None:
        return None, None
    before, after = rows.grades.before, rows.grades.after
    return first(before.predicted), first(after.predicted) if after else None


def _notes(rows: ClsRows, head: Head, state: State) -> Iterator[Text]:
    """What a reader must know of this picture before reading it."""
    yield from cut_notes(rows.encoded)
    yield from layer_notes(state.out, head.layer)
    if rows.grades is None:
        yield Text(
            "这个模型还没有微调过，没有档位；注意力照样可看。",
            "This model was not fine-tuned: it has no grades. Its attention can be seen all the same.",
        )
    if not any(rows.matched):
        yield Text(
            "两文本没有共有的词，所以共有词的份额为 0，关注度和分散程度没有定义。",
            "The texts share no term: its share is 0, and focus and scatter are not defined.",
        )
    if state.out and not rows.draws:
        yield Text(
            f"{spell(state.out)} 所在的层里，剩下的头不够抽取同样多的随机头，没有对照。",
            f"No control: beside {spell(state.out)} their layers hold too few heads to draw from.",
        )
