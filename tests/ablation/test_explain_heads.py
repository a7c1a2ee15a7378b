"""The effect of each head on one pair's grade, against the same head left out by other means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.explain_heads import explain_heads
from qt_bert.ablation.heads_out import leave_heads_out
from qt_bert.encoder import open_checkpoint
from qt_bert.errors import ArgumentError
from qt_bert.pairs import Pair
from qt_bert.scoring.bulk import Scorer

QUERY, TITLE = "京东小哥", "小哥最近在干嘛"
PAIR = Pair(QUERY, TITLE, None, "1", 1, None, {})


@pytest.mark.parametrize(("family", "labels"), [("bert", 5), ("electra", 1), ("xlm-roberta", 3)])
def test_each_head_as_if_it_were_left_out(
    checkpoint_of: Callable[..., Path], family: str, labels: int
) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of(family, labels=labels)))

    def score(of: Scorer) -> float:
        logits = of.logits([(QUERY, TITLE)])[0].astype(np.float64)
        chances = np.exp(logits) / np.exp(logits).sum()
        values = scorer.checkpoint.settings.labels.values
        return float(logits[0]) if labels == 1 else float(chances @ values)

    found = explain_heads(QUERY, TITLE, scorer)
    assert sorted(one.head for one in found) == ["L0H0", "L0H1", "L1H0", "L1H1"]
    sizes = [abs(one.change) for one in found]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > 1e-4
    for one in found:
        without = score(leave_heads_out(scorer, one.head, "zero", [PAIR]))
        assert one.score == pytest.approx(without, abs=1e-5)
        assert one.change == pytest.approx(without - score(scorer), abs=1e-5)


def test_heads_are_left_out_of_the_whole_model_alone(checkpoint_of: Callable[..., Path]) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    with pytest.raises(ArgumentError, match="of the whole model alone"):
        explain_heads(QUERY, TITLE, leave_heads_out(scorer, "L0H0", "zero", [PAIR]))
