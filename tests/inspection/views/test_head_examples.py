"""The pairs that a head matters most for."""

from __future__ import annotations

import numpy as np
import pytest

from qt_bert.ablation.interventions import NONE, Variant
from qt_bert.ablation.masks import HeadMask
from qt_bert.inspection.models import Shelf
from qt_bert.inspection.state import State
from qt_bert.inspection.views import all_heads
from qt_bert.inspection.views.all_heads import SHOWN, strongest
from qt_bert.models.heads import Head


def state(model: str, **changes: object) -> State:
    facts = {"query": "京东小哥", "title": "京东小哥最近在干嘛", "layer": 1, "head": 0, "out": ()}
    more = {"mode": "zero", "seed": 0, "language": "zh"}
    return State(model=model, **(facts | more | changes))  # type: ignore[arg-type]


def test_they_are_the_pairs_whose_grades_move_furthest(shelf: Shelf) -> None:
    model = shelf.open("tuned")
    found = strongest(model, state("tuned"))
    assert len(found) == SHOWN
    assert [one.moved for one in found] == sorted((one.moved for one in found), reverse=True)
    texts = [(pair.query, pair.title) for pair in all_heads._pairs()]
    logits = model.run(texts, [NONE, Variant("it", (HeadMask((Head(1, 0),)),))]).logits
    p, q = (model.outputs(one).probabilities for one in logits)
    assert p is not None and q is not None
    kl = (p * np.log(p / q)).sum(-1)
    assert [one.moved for one in found] == pytest.approx(sorted(kl)[::-1][:SHOWN], rel=1e-4)
    row = texts.index((found[0].query, found[0].title))
    before, after = (model.outputs(one).ranking_score[row] for one in logits)
    assert (found[0].before, found[0].after) == (before, after)
    assert f"{before:.2f} → {after:.2f}" in found[0].said.zh


def test_other_heads_left_out_play_no_part(shelf: Shelf) -> None:
    model = shelf.open("tuned")
    found = strongest(model, state("tuned", out=(Head(0, 1),)))
    assert found == strongest(model, state("tuned"))
    assert len(found[0].maps(model, state("tuned", out=(Head(0, 1),))).figures) == 1


def test_a_model_of_one_logit_moves_by_its_score(shelf: Shelf) -> None:
    found = strongest(shelf.open("score"), state("score"))
    assert found[0].moved == pytest.approx(abs(found[0].after - found[0].before))
    assert "KL" not in found[0].said.en


def test_a_model_before_fine_tuning_has_none(shelf: Shelf) -> None:
    assert strongest(shelf.open("before"), state("before")) == ()
