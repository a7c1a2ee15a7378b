"""Reading title states gives the logits of the offline model run whole."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.models.forward import Encoder
from qt_bert.scoring.bulk import LeftOut, Scorer
from qt_bert.scoring.title_states import QueryHalves, SplitForward, StateCounts, states_of

TITLES = ["猫", "狗追猫", "苹果手机多少钱一斤", "\u200b", "[SEP]猫[SEP]", "红烧排骨的家常做法" * 4]
"""Among them one without a token (for WordPiece), one that spells separators, and one that is cut."""
QUERIES = ["狗追"[n % 2] * n for n in range(1, 15)]


def closest(first: np.ndarray, second: np.ndarray) -> float:
    return float(np.abs(first - second).max())


@pytest.mark.parametrize("family", ["bert", "roberta", "xlm-roberta", "electra"])
def test_equal_to_the_whole_model_for_every_length_of_a_query(offline_scorer, family):
    scorer = offline_scorer(family)
    reading = scorer.reading(states_of(scorer, TITLES))
    specials = 3 if family == "xlm-roberta" else 2  # its words begin with a mark
    for query in QUERIES:
        texts = [(query, title) for title in TITLES]
        before = reading.split.counts
        np.testing.assert_allclose(reading.logits(texts), scorer.logits(texts), atol=1e-5)
        counts, fits = reading.split.counts, len(query) + specials <= 12
        assert counts.read - before.read == len(TITLES) * fits
        assert counts.long_queries - before.long_queries == len(TITLES) * (not fits)
    assert reading.split.counts.unknown_titles == 0
    texts = [(query, title) for query in QUERIES for title in TITLES]
    np.testing.assert_allclose(reading.logits(texts), scorer.logits(texts), atol=1e-5)


@pytest.mark.parametrize(("dtype", "bound"), [("float16", 0.02), ("int8", 0.2)])
def test_smaller_formats_are_near(offline_scorer, dtype, bound):
    scorer = offline_scorer()
    texts = [(query, title) for query in QUERIES[:8] for title in TITLES]
    reading = scorer.reading(states_of(scorer, TITLES, dtype))
    assert 0 < closest(reading.logits(texts), scorer.logits(texts)) < bound


def test_unknown_titles_are_computed_whole_in_their_places(offline_scorer):
    scorer = offline_scorer()
    texts = [("狗" * (1 + n % 11), TITLES[n % 5]) for n in range(40)]
    reading = scorer.reading(states_of(scorer, TITLES[:3]))
    np.testing.assert_allclose(reading.logits(texts), scorer.logits(texts), atol=1e-5)
    long = sum(len(query) == 11 for query, _ in texts)
    unknown = sum(len(query) < 11 and title in TITLES[3:5] for query, title in texts)
    assert reading.split.counts == StateCounts(40 - long - unknown, long, unknown)
    assert reading.fresh().split.counts == StateCounts()
    without = scorer.reading(states_of(scorer, []))
    np.testing.assert_allclose(without.logits(texts), scorer.logits(texts), atol=1e-5)
    assert without.split.counts == StateCounts(0, long, 40 - long)


def test_a_query_is_computed_once_for_all_its_titles(offline_scorer, monkeypatch):
    scorer = offline_scorer()
    reading, below, asked = scorer.reading(states_of(scorer, TITLES)), Encoder.below, []

    def counted(encoder, batch, layers):
        asked.extend(batch.encoded)
        return below(encoder, batch, layers)

    monkeypatch.setattr(Encoder, "below", counted)
    texts = [(query, title) for title in TITLES * 6 for query in ("狗追猫", "苹果")]
    reading.logits(texts)
    assert sorted(map(len, asked)) == [4, 5]  # in several batches of titles
    first = reading.logits(texts)
    assert len(asked) == 4  # each call for itself: no logit rests on what was scored before
    reading.logits([("狗追猫", "苹果"), ("猫", "狗")])
    assert (reading.logits(texts) == first).all()


def test_only_the_last_queries_are_kept(offline_scorer):
    scorer = offline_scorer()
    bytes_each = 5 * 16 * 4  # [CLS], three tokens, [SEP]
    kept = QueryHalves(scorer.encoder, 2, kept_bytes=2 * bytes_each)
    pairs = scorer.tokenizer.encode([(text, "猫") for text in ("狗追猫", "猫追狗", "苹果手")])
    with torch.inference_mode():
        first = kept.of(pairs)
        again = kept.of(pairs[1:])
        new = kept.of(pairs[:1])
    assert [one is other for one, other in zip(first[1:], again, strict=True)] == [True, True]
    assert new[0] is not first[0]
    torch.testing.assert_close(new[0], first[0])


def test_bfloat16_stays_near(offline_scorer):
    scorer = offline_scorer()
    short = Scorer(open_checkpoint(scorer.checkpoint.folder, dtype="bfloat16"))
    texts = [("狗追猫", title) for title in TITLES]
    got = short.reading(states_of(scorer, TITLES)).logits(texts)
    assert 0 < closest(got, scorer.logits(texts)) < 0.3


def test_what_cannot_be_read_with_is_refused(checkpoint_of, offline_scorer):
    scorer = offline_scorer()
    states = states_of(scorer, TITLES)
    plain = Scorer(open_checkpoint(checkpoint_of("bert", layers=3)))
    with pytest.raises(CheckpointError, match="is no offline model: query and title meet"):
        states_of(plain, TITLES)
    other = replace(states, offline=replace(states.offline, title_start=13))
    for encoder, given in ((plain.encoder, states), (scorer.encoder, other)):
        with pytest.raises(ArgumentError, match="another block"):
            SplitForward(encoder, given)
    masked = scorer.without(LeftOut("L0H0", "zero", scorer.encoder.logits_of))
    with pytest.raises(ArgumentError, match="leave none out"):
        masked.reading(states)
