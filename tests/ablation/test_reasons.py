"""Why the examples of an evaluation have their grades."""

from typing import Any

import pytest

from qt_bert.ablation.explain import EXPLAINED, HEADS, WITH_HEADS, with_reasons
from qt_bert.codec import decode
from qt_bert.data.segmenters import segmenter
from qt_bert.models.opening import open_checkpoint
from qt_bert.results.evaluation import GradedPair
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.explain import explain_pair
from tests.conftest import PAIRS


def examples(n: int) -> list[dict[str, Any]]:
    pairs = (PAIRS * n)[:n]
    return [
        {"query": q, "title": t, "grade": str(g), "line": i} for i, (q, t, g) in enumerate(pairs)
    ]


def test_the_first_have_reasons_and_few_of_them_heads(checkpoint_of):
    scorer, jieba = Scorer(open_checkpoint(checkpoint_of())), segmenter("jieba")
    guards: dict[str, Any] = {}
    found = with_reasons(examples(EXPLAINED + 2), scorer, jieba, guards)
    assert scorer.counts.pairs == 0 and guards["examples"]["pairs"] == 2 * WITH_HEADS
    assert [one["line"] for one in found] == list(range(EXPLAINED + 2))
    read = [decode(GradedPair, one) for one in found]
    assert [one.reason is not None for one in read] == [True] * EXPLAINED + [False] * 2
    carried = [one.reason.carried_by for one in read[:EXPLAINED]]
    assert [len(heads) for heads in carried] == [HEADS] * WITH_HEADS + [0] * (EXPLAINED - 3)
    reason = read[1].reason
    expected = explain_pair(*PAIRS[1][:2], scorer, jieba)
    assert [one.change for one in reason.terms] == pytest.approx(
        [one.change for one in expected.terms], abs=1e-6
    )
    assert reason.terms[reason.told_by].term == expected.most_telling.term


def test_a_model_that_nothing_moves_has_no_heads(checkpoint_of, monkeypatch):
    monkeypatch.setattr("qt_bert.scoring.explain.LEAST_TELLING", 99.0)
    guards: dict[str, Any] = {}
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    found = with_reasons(examples(2), scorer, segmenter("jieba"), guards)
    assert all(one["reason"]["told_by"] is None for one in found) and guards == {}
    assert with_reasons([], scorer, segmenter("jieba"), guards) == []
