"""What moves one title: each term with fillers in its place, and each head left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.explain_heads import HeadEffect, head_effects
from qt_bert.ablation.families import single
from qt_bert.ablation.masks import HeadMask
from qt_bert.ablation.variant import NONE, Variant, with_plain
from qt_bert.encoder.heads import Head
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.views.phrases import AFTER, BEFORE
from qt_bert.inspection.views.units import score_name, score_unit
from qt_bert.pairs.segmenters import Segmenter
from qt_bert.probes.common.maps import head_map
from qt_bert.results import Bars, HeatMap, Text, Tokens
from qt_bert.results.figures import BarSeries, Token, TokenLine
from qt_bert.scoring.explain import Filler, TermEffect, effects_of, filled_terms, filler_of

MOST_TERMS = 60
HEADS_SHOWN = 10
_WITHOUT = Text("去掉它之后的变化", "change without it")


@dataclass(frozen=True, kw_only=True)
class TermMoves:
    """The change of one title's score with each term filled, by the whole model and without the heads.

    `effects_without` is empty where no head is left out; `passed_over` counts terms beyond 60.
    """

    effects: tuple[TermEffect, ...]
    effects_without: tuple[TermEffect, ...]
    passed_over: int
    figures: tuple[Tokens, ...]


@dataclass(frozen=True, kw_only=True)
class HeadMoves:
    """The change of one title's score without each head, the largest first, of the whole model."""

    effects: tuple[HeadEffect, ...]
    bars: Bars
    map: HeatMap


def term_moves(
    inspected: Inspected, query: str, title: str, out: Sequence[Head], mode: str
) -> TermMoves:
    """Fill the place of each term of query and title, with the whole model and without `out`."""
    key = ("terms", inspected.key, query, title, tuple(out), mode)
    return _kept.get(key, lambda: _term_moves(inspected, query, title, out, mode))


def head_moves(inspected: Inspected, query: str, title: str) -> HeadMoves:
    """Leave out each head alone, its output replaced by 0; the same figures as `explain`."""
    key = ("heads", inspected.key, query, title)
    return _kept.get(key, lambda: _head_moves(inspected, query, title))


_kept = Kept()


def _term_moves(
    inspected: Inspected, query: str, title: str, out: Sequence[Head], mode: str
) -> TermMoves:
    whole, filler = inspected.encode(query, title), filler_of(inspected.scorer.checkpoint)
    filled = filled_terms(query, title, whole, inspected.segmenter, filler)
    kept = filled[:MOST_TERMS]
    part = inspected.part(tuple(out), mode)
    variants = [NONE] if part is None else [NONE, Variant("heads out", (part,))]
    logits = inspected.run_tokens([whole, *(one.encoded for one in kept)], variants).logits
    scores = [inspected.outputs(one).ranking_score for one in logits]
    effects = [tuple(effects_of(kept, one)) for one in scores]
    top = max((abs(one.change) for both in effects for one in both), default=0.0)
    return TermMoves(
        effects=effects[0],
        effects_without=effects[1] if len(effects) > 1 else (),
        passed_over=len(filled) - len(kept),
        figures=tuple(
            _term_tokens(inspected, (query, title), one, word, top, filler)
            for one, word in zip(effects, (BEFORE, AFTER), strict=False)
        ),
    )


def _head_moves(inspected: Inspected, query: str, title: str) -> HeadMoves:
    shape = inspected.shape
    variants = with_plain(single(shape, lambda heads: HeadMask(tuple(heads))))
    seen = inspected.run([(query, title)], variants)
    effects = head_effects(variants, inspected.outputs(seen.logits[:, 0]))
    changes = np.zeros(shape.size)
    for one in effects:
        changes[Head.parse(one.head)] = one.change
    shown = effects[:HEADS_SHOWN]
    unit, name = score_unit(inspected.labels), score_name(inspected.labels)
    return HeadMoves(
        effects=tuple(effects),
        bars=Bars(
            name="head_movers",
            title=Text(
                f"影响最大的 {len(shown)} 个头：单独去掉后{name.zh}的变化",
                f"The {len(shown)} heads that matter most: change of the {name.en} without each",
            ),
            x_label=Text("去掉的头", "head left out"),
            y_label=_WITHOUT,
            unit=unit,
            categories=tuple(Text(f"去掉 {one.head}", f"without {one.head}") for one in shown),
            series=(BarSeries(name=_WITHOUT, values=tuple(one.change for one in shown)),),
            digits=3,
        ),
        map=head_map(
            "head_moves",
            Text(f"每个头单独去掉后{name.zh}的变化", f"Change of the {name.en} without each head"),
            unit,
            changes,
            scale="diverging",
            digits=3,
        ),
    )


def _term_tokens(
    inspected: Inspected,
    pair: tuple[str, str],
    effects: Sequence[TermEffect],
    word: Text,
    top: float,
    filler: Filler,
) -> Tokens:
    """Both texts cut into words, each coloured by the change with fillers in its place."""
    name = score_name(inspected.labels)
    lines = (Text("查询", "query"), Text("标题", "title"))
    sides = zip(("query", "title"), pair, lines, strict=True)
    return Tokens(
        name="term_moves",
        title=Text(
            f"把每个词换成同样长的 {filler.token} 后{name.zh}的变化（{word.zh}）",
            f"Change of the {name.en} with as many {filler.token} for each term ({word.en})",
        ),
        unit=score_unit(inspected.labels),
        lines=tuple(
            TokenLine(name=line, tokens=_words(inspected.segmenter, side, text, effects))
            for side, text, line in sides
        ),
        scale="diverging",
        low=-top,
        high=top,
        digits=3,
    )


def _words(
    segmenter: Segmenter, side: str, text: str, effects: Sequence[TermEffect]
) -> tuple[Token, ...]:
    changes = {one.start: one.change for one in effects if one.side == side}
    return tuple(
        Token(text=text[start:end], value=changes.get(start))
        for start, end in segmenter.spans(text)
    )
