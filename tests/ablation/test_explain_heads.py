"""The effect of each head on one pair's grade, against the same head left out by other means."""

from dataclasses import replace

import numpy as np
import pytest

from qt_bert.ablation import explain
from qt_bert.ablation.patches import donor_batches
from qt_bert.ablation.reference import PlainModel
from qt_bert.ablation.request import leave_heads_out
from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter
from qt_bert.errors import ArgumentError, EquivalenceError
from qt_bert.heads import Shape
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.explain import TermEffect, explain_pair
from qt_bert.scoring.judge import read_outputs

QUERY, TITLE = "京东小哥", "小哥最近在干嘛"
PAIR = Pair(QUERY, TITLE, None, "1", 1, None, {})


@pytest.mark.parametrize(("family", "labels"), [("bert", 5), ("electra", 1), ("xlm-roberta", 3)])
def test_each_head_as_if_it_were_left_out(checkpoint_of, family, labels):
    scorer = Scorer(open_checkpoint(checkpoint_of(family, labels=labels)))

    def score(of):
        logits = of.logits([(QUERY, TITLE)])[0].astype(np.float64)
        chances = np.exp(logits) / np.exp(logits).sum()
        values = scorer.checkpoint.settings.labels.values
        return float(logits[0]) if labels == 1 else float(chances @ values)

    found = explain.explain_heads(QUERY, TITLE, scorer)
    assert sorted(one.head for one in found) == ["L0H0", "L0H1", "L1H0", "L1H1"]
    sizes = [abs(one.change) for one in found]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 1e-4
    for one in found:
        without = score(leave_heads_out(scorer, one.head, "zero", [PAIR]))
        assert one.score == pytest.approx(without, abs=1e-5)
        assert one.change == pytest.approx(without - score(scorer), abs=1e-5)


def test_heads_are_left_out_of_the_whole_model_alone(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    with pytest.raises(ArgumentError, match="of the whole model alone"):
        explain.explain_heads(QUERY, TITLE, leave_heads_out(scorer, "L0H0", "zero", [PAIR]))


def explained(scorer: Scorer) -> tuple[float, TermEffect]:
    """The score of the pair, and the term of the largest change, taken for one that moves it."""
    found = explain_pair(QUERY, TITLE, scorer, segmenter("jieba"))
    largest = max(found.terms, key=lambda one: abs(one.change))
    return found.score, replace(largest, moved=True)


@pytest.mark.parametrize(("family", "labels"), [("bert", 5), ("electra", 1), ("xlm-roberta", 3)])
def test_each_head_put_back_as_hooks_put_it(checkpoint_of, family, labels):
    checkpoint = open_checkpoint(checkpoint_of(family, labels=labels))
    scorer = Scorer(checkpoint)
    score, term = explained(scorer)
    found, rounding = explain.restoring_heads(QUERY, TITLE, scorer, term), 2e-6 / abs(term.change)
    assert found.term == term and found.all_heads == pytest.approx(1, abs=rounding)
    shares = [one.share for one in found.heads]
    assert shares == sorted(shares, reverse=True)
    couple = explain.clean_and_corrupted(QUERY, TITLE, scorer, term)
    (batch,) = donor_batches(couple, 1000, pad=scorer.pad)
    plain = PlainModel(checkpoint.model, checkpoint.family)
    by_head = {one.head: one for one in found.heads}
    for variant in explain.patches(checkpoint.shape)[1:-1]:
        logits = plain.logits(batch, variant.parts).numpy()[1:]
        alone = float(read_outputs(logits, checkpoint.settings.labels).ranking_score[0])
        one = by_head.pop(str(variant.heads[0]))
        assert one.score == pytest.approx(alone, abs=1e-5)
        assert one.restored == pytest.approx(alone - term.score, abs=1e-5)
        assert one.share == pytest.approx(one.restored / (score - term.score), rel=rounding)
    assert not by_head


def test_shares_by_hand():
    term = TermEffect("title", 0, 2, "票价", 2.0, -2.0, True)
    variants = explain.patches(Shape(1, 2))
    found = explain.restored(variants, np.array([2.0, 2.5, 3.5, 4.0]), 4.0, term)
    assert [(one.head, one.restored, one.share) for one in found.heads] == [
        ("L0H1", 1.5, 0.75),
        ("L0H0", 0.5, 0.25),
    ]
    assert isinstance(found, explain.Restoring) and found.all_heads == 1.0
    names = ["none", "patch:L0H0", "patch:L0H1", "patch:all"]
    assert [variant.name for variant in variants] == names


def test_checks_that_ran_before_are_not_run_again(checkpoint_of, monkeypatch):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    _, term = explained(scorer)
    figures = explain.check_patches(scorer, explain.clean_and_corrupted(QUERY, TITLE, scorer, term))
    assert max(figures["variants"].values()) <= figures["bound"]
    monkeypatch.setattr(explain, "check_equivalence", None)
    assert explain.restoring_heads(QUERY, TITLE, scorer, term, figures).heads
    with pytest.raises(EquivalenceError, match="z of all heads"):
        explain.restoring_heads(QUERY, TITLE, scorer, term, figures | {"bound": -1.0})


def test_a_term_that_moves_nothing_is_asked_of_no_head(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    _, term = explained(scorer)
    with pytest.raises(ArgumentError, match="does not move the grade"):
        explain.restoring_heads(QUERY, TITLE, scorer, replace(term, moved=False))
    with pytest.raises(ArgumentError, match="does not move the grade"):
        explain.restoring_heads(QUERY, TITLE, scorer, replace(term, start=90, end=92))
    with pytest.raises(ArgumentError, match="whole model alone"):
        explain.restoring_heads(QUERY, TITLE, leave_heads_out(scorer, "L0H0", "zero", [PAIR]), term)
