"""Scores of term matching: sums by hand, planted heads, directions, random models."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from qt_bert.heads import Head
from qt_bert.models.card import Reading
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes import matching_scores
from qt_bert.probes.matching_cells import QUERY_TO_TITLE
from qt_bert.probes.matching_scores import Sample, Scores, Sums, along, score_heads, stable_matching
from qt_bert.results.kept import KeptLayer
from qt_bert.scoring.bulk import Scorer
from tests.conftest import pair_of


def test_scores_are_the_matched_weight_less_that_of_a_replaced_query(checkpoint_of):
    """The whole score of one pair from the Hugging Face model's own attention."""
    from transformers import AutoModel

    folder = checkpoint_of()
    scorer = Scorer(open_checkpoint(folder))
    found = score_heads(scorer, [pair_of("苹果的", "果的苹手", 5)], ["北京到"])
    model = AutoModel.from_pretrained(folder, attn_implementation="eager").eval()

    def own(query):
        one = scorer.tokenizer.encode([(query, "果的苹手")])[0]
        with torch.no_grad():
            maps = model(
                input_ids=torch.tensor([one.input_ids]),
                token_type_ids=torch.tensor([one.token_type_ids]),
                output_attentions=True,
            ).attentions
        a = maps[1][0, 0]
        return float((a[1, 7] + a[2, 5]) / 2)

    score = found.excess()[1, 0, QUERY_TO_TITLE]
    assert score == pytest.approx(own("苹果的") - own("北京到"), rel=1e-3)
    assert found.by_query()[0, 1, 0, QUERY_TO_TITLE] == pytest.approx(score)


def test_nothing_to_match_scores_nothing(checkpoint_of):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    found = score_heads(scorer, [pair_of("手机", "北京", 1)], ["手机"])
    assert np.isnan(found.score).all() and found.best(3) == [] and found.named() == []
    assert found.sample.nothing_shared == 1
    alone = score_heads(scorer, [pair_of("手机", "手机多少钱", 5)], ["手机"])
    assert alone.best(3) == [] and alone.sample.no_replacement == 1


def test_a_pruned_head_has_no_score(checkpoint_of, context_of, tmp_path):
    """It is zeros, so that it would have one of 0: above a head that looks away."""
    whole = open_checkpoint(checkpoint_of(heads=4, hidden=16))
    kept = tuple(KeptLayer(layer=number, heads=(0, 2)) for number in range(2))
    small = save_smaller(tmp_path / "small", smaller_checkpoint(whole, kept))
    made = context_of(small, [pair_of("苹果的", "果的苹手", 5), pair_of("北京到", "到北", 5)])
    found = matching_scores.discovery_scores(made)
    assert {*found.best(8), *found.eligible} == {Head(n, h) for n in (0, 1) for h in (0, 2)}
    assert matching_scores.chosen_heads(made) == found.best(1)  # a quarter of four


def test_another_reading_is_scored_anew(checkpoint_of, context_of, monkeypatch):
    checkpoint, pairs = open_checkpoint(checkpoint_of()), [pair_of("苹果的", "果的苹手", 5)]
    scored = []
    monkeypatch.setattr(matching_scores, "scores_on", lambda context, sample: scored.append(1))
    for reading in (Reading(), Reading(), Reading(None, "no")):
        scorer = Scorer(replace(checkpoint, reading=reading))
        matching_scores.discovery_scores(
            context_of(checkpoint.folder, pairs, open_model=lambda scorer=scorer: scorer)
        )
    assert len(scored) == 2


def scores_of(original: np.ndarray, replaced: np.ndarray) -> Scores:
    """Of queries with a row and a cell each, from attention [queries, 1, heads, directions, 2]."""
    n = len(original)
    sums = Sums(original, replaced, np.ones((n, 2, 2)), np.ones((n, 2)))
    return Scores(sums, Sample(n, n, n, 0, 0, 1.0, 1.0))


def test_the_direction_is_one_that_gets_enough_weight():
    light = [0.004, 0.0004]
    original = np.array([[[0.3, 0.1], light], [light, [0.005, 0.001]]])
    replaced = np.array([[[0.299, 0.2], [0.002, 0.002]], [[0.002, 0.002], [0.002, 0.002]]])
    found = scores_of(*(np.tile(sums, (12, 1, 1, 1, 1)) for sums in (original, replaced)))
    # Head 0 is better in the second direction, but gives it 0.4 % of its weight; head 1 gives
    # little in both, so that the better one counts.
    assert found.excess()[0, 0].tolist() == pytest.approx([0.001, 0.002])
    assert found.direction.tolist() == [[0, 1]]
    assert found.score[0].tolist() == pytest.approx([0.001, 0.003])
    assert along(found.direction, found.weight)[0].tolist() == pytest.approx([0.4, 0.006])
    own = found.matched_weight[0]  # whichever direction is better
    assert own.tolist() == [pytest.approx([0.3, 0.004]), pytest.approx([0.004, 0.005])]
    assert found.best(2) == [Head(0, 0), Head(0, 1)]
    assert found.eligible == [Head(0, 0)]
    first = stable_matching(found, found.best(1), seed=0)
    assert first is not None and (first.overlap, first.chance_mean) == (1, 1)
    both = stable_matching(found, found.best(2), seed=0)
    assert both is not None and (both.overlap, both.chance_mean) == (1, 1)
    rule = found.rule(np.ones((1, 12)))[0, 0]
    assert rule.tolist() == pytest.approx([0.001, 0.003 - 2])  # too light: behind all others


def test_a_score_is_estimated_without_each_query():
    attention = np.random.default_rng(0).uniform(0.1, 0.9, (6, 1, 1, 2, 2))
    halves = np.full_like(attention, 0.5)
    whole, rest = scores_of(attention, halves), scores_of(attention[1:], halves[1:])
    found = whole.estimate(Head(0, 0), 1)
    assert found.value == pytest.approx(whole.excess()[0, 0, 1])
    assert found.leave_one_out[0] == pytest.approx(rest.excess()[0, 0, 1])
