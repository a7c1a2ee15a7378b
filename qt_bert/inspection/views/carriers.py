"""Which heads carry the term that moves one title most: each put back where the term is filled."""

from __future__ import annotations

from dataclasses import dataclass

from qt_bert.ablation.explain_heads import HeadRestores, patches, restoring_of, twins_of
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.views.movers import term_moves
from qt_bert.inspection.views.units import score_name
from qt_bert.results import Bars, Text
from qt_bert.results.figures import BarSeries
from qt_bert.results.numbers import signed
from qt_bert.scoring.explain import TermEffect, filler_of, most_telling

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

    Terms are those of `term_moves`. Every head is patched alone, which takes about as long as leaving
    each out of two titles. The guards come first. Raises GuardError where one fails.
    """
    term = most_telling(term_moves(inspected, query, title, (), "zero").effects)
    if term is None:
        return None
    key = ("carriers", inspected.key, query, title)
    return _kept.get(key, lambda: _carriers(inspected, query, title, term))


_kept = Kept()


def _carriers(inspected: Inspected, query: str, title: str, term: TermEffect) -> Carriers:
    scorer = inspected.scorer
    twins = twins_of(query, title, scorer, term)
    guards = inspected.guarded_patches(twins)
    seen = inspected.run_tokens(twins, patches(inspected.shape), twins=True)
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
