"""One head at work: the pairs of the shipped dev whose grade moves most without it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from qt_bert.ablation.variant import NONE, Variant
from qt_bert.encoder import ModelLabels
from qt_bert.encoder.heads import Head
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.kept import Kept
from qt_bert.inspection.sources import shipped_rows
from qt_bert.inspection.state import State
from qt_bert.inspection.views.attention import Maps, attention
from qt_bert.inspection.views.units import score_name
from qt_bert.pairs import Pair
from qt_bert.pairs.sample import spread_over_queries
from qt_bert.results import Text
from qt_bert.results.numbers import number, shortest
from qt_bert.scoring.outputs import Outputs

LOOKED_AT = 32
"""Pairs of the shipped dev among which the strongest are sought."""
SHOWN = 3

_BASE = Text(
    f"从自带 dev 的 {LOOKED_AT} 对里，挑出只去掉这个头时输出变化最大的 {SHOWN} 对。",
    f"Of {LOOKED_AT} pairs of the dev that ships, the {SHOWN} whose outputs change most without this "
    "head alone.",
)
_NONE = Text(
    "微调前的模型没有学过分档，没有例子。",
    "A model before fine-tuning gives no grades: there are no examples.",
)


@dataclass(frozen=True)
class Example:
    """A pair and its expected grade, or score, with the head and without it.

    `moved` is the KL divergence of the grades in nats; for one logit the change of the score.
    """

    query: str
    title: str
    before: float
    after: float
    moved: float
    labels: ModelLabels

    @property
    def said(self) -> Text:
        """Grade with it and without it, and how far the outputs move."""
        name = score_name(self.labels)
        ends = f"{number(self.before, 2)} → {number(self.after, 2)}"
        if self.labels.logits == 1:
            return Text(f"{name.zh} {ends}", f"{name.en} {ends}")
        moved = shortest(self.moved)
        return Text(f"{name.zh} {ends}，KL {moved} nat", f"{name.en} {ends}, KL {moved} nats")

    def maps(self, inspected: Inspected, state: State) -> Maps:
        """The head's attention on this pair, with nothing left out."""
        return attention(inspected, replace(state, query=self.query, title=self.title, out=()))


def about(inspected: Inspected) -> Text:
    """How they are sought, or why there are none."""
    return _BASE if inspected.classifies else _NONE


def strongest(inspected: Inspected, state: State) -> tuple[Example, ...]:
    """The pairs whose outputs move most without the state's head, most first.

    Replaced as the state says, and with no other heads left out. Nothing for a model before
    fine-tuning, whose outputs mean nothing.
    """
    if not inspected.classifies:
        return ()
    head = state.chosen
    key = (inspected.key, head, state.mode)
    return _kept.get(key, lambda: _strongest(inspected, head, state.mode))


def _strongest(inspected: Inspected, head: Head, mode: str) -> tuple[Example, ...]:
    texts = [(pair.query, pair.title) for pair in _pairs()]

    def run(head: Head | None) -> Outputs:
        part = None if head is None else inspected.part([head], mode)
        variant = NONE if part is None else Variant("head", (part,))
        return inspected.outputs(inspected.run(texts, [variant]).logits[0])

    plain, without = _kept.get((inspected.key, None), lambda: run(None)), run(head)
    moved = _moved(plain, without)
    return tuple(
        Example(
            query=texts[row][0],
            title=texts[row][1],
            before=float(plain.ranking_score[row]),
            after=float(without.ranking_score[row]),
            moved=float(moved[row]),
            labels=inspected.labels,
        )
        for row in np.argsort(-moved, kind="stable")[:SHOWN]
    )


def _moved(plain: Outputs, without: Outputs) -> np.ndarray:
    if plain.probabilities is None or without.probabilities is None:
        return np.abs(without.ranking_score - plain.ranking_score)
    p, q = (np.asarray(one.probabilities, np.float64) for one in (plain, without))
    return np.asarray((p * (np.log(p.clip(1e-300)) - np.log(q.clip(1e-300)))).sum(axis=-1))


@cache
def _pairs() -> list[Pair]:
    return spread_over_queries(shipped_rows("dev"), LOOKED_AT)


_kept = Kept()
