"""Soft counts on made attention, by hand, and the direction in which a head is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from qt_bert.ablation.engine import View
from qt_bert.models.batches import to_batch
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.heads import Shape
from qt_bert.probes.shift.compare import maps_of
from qt_bert.probes.surrogate.directions import directions_of
from qt_bert.probes.surrogate.soft_counts import SoftCounts, soft_counts, token_weights
from qt_bert.probes.surrogate.terms import Idf, Term
from qt_bert.results.probe import HeadScores
from qt_bert.scoring.bulk import Scorer
from tests.probes.matching_found import matching_found

TEXTS = [("上海高铁", "高铁票"), ("去油", "衣服去油渍")]
WEIGHED = [[((0, 2), 2.0), ((2, 4), 0.5)], [((0, 2), 3.0), ((1, 2), 1.0)]]


@pytest.fixture(scope="module")
def scorer(checkpoint_of: Callable[..., Path]) -> Scorer:
    return Scorer(open_checkpoint(checkpoint_of(layers=2)))


def test_a_token_weighs_what_its_terms_do(scorer: Scorer) -> None:
    one, other = scorer.tokenizer.encode(TEXTS)
    assert token_weights(one, WEIGHED[0]).tolist() == [0, 2, 2, 0.5, 0.5, 0, 0, 0, 0, 0]
    assert token_weights(other, WEIGHED[1]).tolist() == [0, 3, 4, 0, 0, 0, 0, 0, 0, 0]


def test_soft_counts_of_made_attention_by_hand(scorer: Scorer) -> None:
    batch = to_batch(np.arange(2), scorer.tokenizer.encode(TEXTS), pad=0)
    maps = torch.rand(2, 3, *batch.input_ids.shape[1:] * 2, generator=torch.Generator())
    got = SoftCounts(WEIGHED)(View(maps, batch, 0)).numpy()
    assert got.shape == (2, 3, 2)
    titles = {0: (6, 7, 8), 1: (4, 5, 6, 7, 8)}
    weights = {0: {1: 2, 2: 2, 3: 0.5, 4: 0.5}, 1: {1: 3, 2: 4}}
    for pair in (0, 1):
        for head in range(3):
            one = maps[pair, head].numpy()
            asked = weights[pair].items()
            from_title = sum(w * one[j, i] for i, w in asked for j in titles[pair])
            to_title = sum(w * one[i, j] for i, w in asked for j in titles[pair])
            np.testing.assert_allclose(got[pair, head], [from_title, to_title], rtol=1e-5)


def test_one_pass_gives_every_layer_and_the_logits(scorer: Scorer) -> None:
    terms = [[Term("上海", (0, 2)), Term("高铁", (2, 4))], [Term("去油", (0, 2))]]
    idf = Idf(2, {"高铁": 1})
    soft, logits = soft_counts(scorer, TEXTS, terms, idf)
    np.testing.assert_allclose(logits, scorer.logits(TEXTS), atol=1e-5)
    weighed = [[(term.span, idf.of(term.word)) for term in one] for one in terms]
    for batch in scorer.batches(TEXTS, 1000, offsets=True):
        maps = maps_of(scorer.encoder, batch)
        for layer in range(2):
            want = SoftCounts(weighed)(View(maps[:, layer], batch, layer))
            np.testing.assert_allclose(soft[batch.rows, layer], want, rtol=1e-4)


def test_a_head_is_read_as_matching_scored_it() -> None:
    shape = Shape(2, 2)
    found = matching_found(shape, ("L1H0",))("matching")
    assert directions_of(found, shape).tolist() == [[0, 0], [1, 0]]
    bare = [HeadScores(head="L0H1", scores={"score": None, "query_to_title": None})]
    assert directions_of(replace(found, heads=tuple(bare)), shape).tolist() == [[0, 0], [0, 0]]
