"""What moves one title: each term filled, each head left out, and which heads carry a term."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.ablation.explain import (
    HeadEffect,
    HeadRestores,
    clean_and_corrupted,
    head_effects,
    patches,
    restoring_of,
)
from qt_bert.ablation.families import single
from qt_bert.ablation.interventions import NONE, Variant, with_plain
from qt_bert.ablation.masks import HeadMask
from qt_bert.data.segmenters import Segmenter
from qt_bert.figures import Bars, BarSeries, HeatMap, Token, TokenLine, Tokens
from qt_bert.inspection.cache import Kept
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.views.phrases import AFTER, BEFORE, score_name, score_unit
from qt_bert.inspection.views.shared import head_map
from qt_bert.models.heads import Head
from qt_bert.scoring.explain import (
    Filler,
    TermEffect,
    effects_of,
    filled_terms,
    filler_of,
    most_telling,
)
from qt_bert.text import Text, signed

# What moves one title: each term with fillers in its place, and each head left out.


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


# Which heads carry the term that moves one title most: each put back where the term is filled.


SHOWN = 3
PERCENT = 100.0
_SHARE = Text("补回变化的百分之几", "share of the change that comes back")


@dataclass(frozen=True, kw_only=True)
class Carriers:
    """The term whose filler changes a title's score most, and the three heads that restore most of it.

    A share of 1 is the whole change; shares do not add up.
    """

    term: TermEffect
    heads: tuple[HeadRestores, ...]
    bars: Bars


def carriers(inspected: Inspected, query: str, title: str) -> Carriers | None:
    """Of the whole model, as `explain` has them; None where no term moves the score by enough.

    Terms are those of `term_moves`. Every head is patched alone, which takes about as long as
    leaving each out of two titles. The checks come first. Raises EquivalenceError where one fails.
    """
    term = most_telling(term_moves(inspected, query, title, (), "zero").effects)
    if term is None:
        return None
    key = ("carriers", inspected.key, query, title)
    return _kept.get(key, lambda: _carriers(inspected, query, title, term))


def _carriers(inspected: Inspected, query: str, title: str, term: TermEffect) -> Carriers:
    scorer = inspected.scorer
    couple = clean_and_corrupted(query, title, scorer, term)
    guards = inspected.checked_patches(couple)
    seen = inspected.run_tokens(couple, patches(inspected.shape), donors=True)
    heads = tuple(restoring_of(seen.logits, scorer.checkpoint, term, guards).heads[:SHOWN])
    return Carriers(term=term, heads=heads, bars=_bars(inspected, term, heads))


def _bars(inspected: Inspected, term: TermEffect, heads: tuple[HeadRestores, ...]) -> Bars:
    filler = filler_of(inspected.scorer.checkpoint).token
    name = score_name(inspected.labels)
    side = {"query": Text("查询", "query"), "title": Text("标题", "title")}[term.side]
    change = signed(term.change, 2)
    return Bars(
        name="carriers",
        title=Text(
            f"最要紧的词“{term.term}”（{side.zh}）：换成 {filler} 后{name.zh}变化 {change}；逐个换回头的输出",
            f"The most telling term, {term.term} ({side.en}): {filler} for it changes the {name.en} by "
            f"{change}; heads put back one at a time",
        ),
        x_label=Text("换回的头", "head put back"),
        y_label=_SHARE,
        unit="%",
        categories=tuple(one.head for one in heads),
        series=(BarSeries(name=_SHARE, values=tuple(PERCENT * one.share for one in heads)),),
        digits=0,
    )
