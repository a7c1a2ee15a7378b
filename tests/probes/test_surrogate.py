"""What matching heads compute: terms, soft counts and fits by hand, planted truths, odd models."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import LinearRegression

from qt_bert.ablation.engine import View
from qt_bert.data.segmenters import Segmenter
from qt_bert.figures import Bars
from qt_bert.heads import Shape
from qt_bert.models.batches import to_batch
from qt_bert.models.checkpoint import smaller_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.planning.prune import save_smaller
from qt_bert.probes import surrogate
from qt_bert.probes.base import Context, Split
from qt_bert.probes.surrogate import ScoredPairs, SoftCounts, Term, agreement, pearson, predictions
from qt_bert.results.kept import KeptLayer
from qt_bert.results.probe import HeadScores
from qt_bert.scoring.bulk import Scorer
from tests.conftest import pair_of
from tests.probes import planted_tuning
from tests.probes.made_context import context_of
from tests.probes.matching_found import matching_found
from tests.probes.probe_results import result_of

PAIRS = planted_tuning.pairs()
BEST = ("L1H2", "L0H1")


# Terms and their weights.


def _spans(text: str) -> list[tuple[int, int]]:
    found, start = [], 0
    for word in text.split(" "):
        found.append((start, start + len(word)))
        start += len(word) + 1
    return found


BY_SPACES = Segmenter("spaces", _spans)


def cut(text: str) -> list[Term]:
    return surrogate.terms_of(text, BY_SPACES)


def test_terms_have_no_punctuation_and_no_case():
    assert cut("Ab ， 的 ab") == [Term("ab", (0, 2)), Term("的", (5, 6)), Term("ab", (7, 9))]


def test_bm25_by_hand():
    idf = {"a": 1.5, "b": 0.5, "z": 2.0}
    query, title = cut("a b z a"), cut("a a b c")
    # Twice the mean length of 2: k1 (1 − b + b · 2) = 1.2 · 1.75 = 2.1.
    want = 2 * 1.5 * 2 * 2.2 / (2 + 2.1) + 0.5 * 1 * 2.2 / (1 + 2.1)
    assert surrogate.bm25(query, title, idf, 2.0) == pytest.approx(want)
    assert surrogate.bm25(query, cut("x y"), idf, 2.0) == 0
    assert surrogate.bm25(query, [], idf, 0.0) == 0


def test_the_distinct_texts_of_discovery_are_counted(tmp_path):
    pairs = [pair_of("a b", "a c"), pair_of("a b", "b")]
    made = context_of("surrogate", tmp_path, tmp_path, (pairs, pairs))
    made.__dict__["_split"] = Split(pairs, pairs, 0)  # which needs no model
    made.__dict__["segmenter"] = BY_SPACES
    found = surrogate.idf_of(made, {"a", "z"})
    assert found == {  # "a b" is one text of three
        "a": pytest.approx(math.log(1 + 1.5 / 2.5)),
        "z": pytest.approx(math.log(1 + 3.5 / 0.5)),
    }


# Soft counts.

TEXTS = [("上海高铁", "高铁票"), ("去油", "衣服去油渍")]
WEIGHED = [[((0, 2), 2.0), ((2, 4), 0.5)], [((0, 2), 3.0), ((1, 2), 1.0)]]


@pytest.fixture(scope="module")
def scorer(checkpoint_of) -> Scorer:
    return Scorer(open_checkpoint(checkpoint_of(layers=2)))


def test_soft_counts_of_made_attention_by_hand(scorer):
    batch = to_batch(np.arange(2), scorer.tokenizer.encode(TEXTS), pad=0)
    maps = torch.rand(2, 3, *batch.input_ids.shape[1:] * 2, generator=torch.Generator())
    got = SoftCounts(WEIGHED)(View(maps, batch, 0)).numpy()
    assert got.shape == (2, 3, 2)
    titles = {0: (6, 7, 8), 1: (4, 5, 6, 7, 8)}
    weights = {0: {1: 2.0, 2: 2.0, 3: 0.5, 4: 0.5}, 1: {1: 3.0, 2: 4.0}}
    for pair in (0, 1):
        for head in range(3):
            one = maps[pair, head].numpy()
            weights_of_terms = weights[pair].items()
            from_title = sum(w * one[j, i] for i, w in weights_of_terms for j in titles[pair])
            to_title = sum(w * one[i, j] for i, w in weights_of_terms for j in titles[pair])
            np.testing.assert_allclose(got[pair, head], [from_title, to_title], rtol=1e-5)


def test_a_head_is_read_as_matching_scored_it():
    shape = Shape(2, 2)
    found = matching_found(shape, ("L1H0",))("matching")
    assert surrogate.directions_of(found, shape).tolist() == [[0, 0], [1, 0]]
    bare = [HeadScores(head="L0H1", scores={"score": None, "query_to_title": None})]
    bared = replace(found, heads=tuple(bare))
    assert surrogate.directions_of(bared, shape).tolist() == [[0, 0], [0, 0]]


# Fits.

RNG = np.random.default_rng(0)
KNOWN, NEW = RNG.normal(size=(60, 3)), RNG.normal(size=(40, 3))
QUERIES = [f"q{row // 2}" for row in range(40)]


def linear(features: np.ndarray) -> np.ndarray:
    return np.asarray(2 + features @ [1.0, -2.0, 0.5])


def test_fits_and_r_are_those_of_a_library():
    target = linear(KNOWN) + RNG.normal(size=60)
    others = linear(NEW) + RNG.normal(size=40)
    predicted = predictions(KNOWN, target, NEW)
    np.testing.assert_allclose(predicted, LinearRegression().fit(KNOWN, target).predict(NEW))
    found = agreement(predicted[None], others, QUERIES)
    assert found.value == pytest.approx(np.corrcoef(predicted, others)[0, 1])
    without = np.corrcoef(predicted[2:], others[2:])[0, 1]
    assert found.leave_one_out[0] == pytest.approx(without) and found.n_queries == 20
    both = agreement(np.stack([predicted, -predicted]), others, QUERIES)
    assert both.value == pytest.approx(0)


def test_what_does_not_vary():
    constant = predictions(np.ones((60, 1)) * 0.3, linear(KNOWN), np.ones((40, 1)) * 0.3)
    found = agreement(constant[None], linear(NEW), QUERIES)
    assert found.value == 0 and (found.values == 0).all()
    assert math.isnan(agreement(NEW[:, 0][None], np.full(40, 2.5), QUERIES).value)
    features = RNG.normal(size=(2, 3, 40))
    features[1, 2] = 0.25
    of_each = pearson(features, linear(NEW), (features**2).sum(-1))
    assert np.isnan(of_each[1, 2]) and np.isfinite(of_each).sum() == 5


# The probe.


@pytest.fixture
def context(tmp_path) -> Callable[..., Context]:
    def build(model, **facts):
        fit = [replace(one, grades=(1 + at % 5,)) for at, one in enumerate(PAIRS)]
        halves = fit[: len(fit) // 2], fit[len(fit) // 2 :]
        if "result_of" not in facts:
            facts["result_of"] = matching_found(open_checkpoint(model).shape, BEST, BEST)
        return context_of("surrogate", model, tmp_path, halves, **facts)

    return build


def test_a_grade_made_of_the_heads_is_fitted(checkpoint_of, context, monkeypatch):
    """In place of passes over the pairs: features at random, and a grade made of two heads'."""
    rng, halves = np.random.default_rng(0), []
    for half in range(2):
        pairs = [pair_of(f"{half}:{i}", "上海") for i in range(150)]
        soft, lexical = rng.normal(size=(150, 2, 8)), rng.normal(size=150)
        grade = 3 + soft[:, 1, 2] - 0.5 * soft[:, 0, 1]
        halves.append(ScoredPairs(pairs, grade, soft, lexical))
    monkeypatch.setattr(surrogate, "_scored_pairs", lambda *_: halves)
    result = result_of("surrogate", context(checkpoint_of(heads=8)))
    found = {one.id: one for one in result.measurements}
    assert found["surrogate_r"].value == pytest.approx(1)
    for id in ("surrogate_beyond_bm25", "surrogate_beyond_heads"):
        assert (found[id].ci_low or 0) > 0.5
    assert result.facts["sets"] == 49  # seven others in either layer
    best = max(result.heads, key=lambda one: one.scores["r"] or 0)
    assert best.head == "L1H2" and result.claims == ()


def test_files_held_out_stand_beside_validation(checkpoint_of, context, pair_file, tmp_path):
    made = context(
        checkpoint_of(heads=4), held_out=[pair_file, pair_file], heads="L0H0 L1H3", full=True
    )
    result = result_of("surrogate", made)
    drawn = next(one for one in result.figures if one.name == "surrogate_r")
    assert isinstance(drawn, Bars)
    validation, first, second = drawn.series
    assert (first.name, second.name) == (pair_file.name, f"{pair_file.name} (2)")
    assert first.values == second.values != validation.values
    assert (result.facts["heads"], result.facts["status"]) == ("L0H0, L1H3", "option")


def test_controls_are_outside_every_named_head_and_absent_heads_stay_absent(
    checkpoint_of, context, tmp_path
):
    kept = tuple(KeptLayer(layer=number, heads=(0, 2, 3)) for number in range(2))
    small = smaller_checkpoint(open_checkpoint(checkpoint_of(heads=4)), kept)
    made = context(save_smaller(tmp_path / "small", small), result_of=None)
    shape = made.model.checkpoint.shape
    for named, sets in ((("L1H2",), 5), (("L1H2", "L0H0"), 4)):
        made.result_of = matching_found(shape, ("L1H2",), named)
        result = result_of("surrogate", made)
        there = [f"L{layer}H{head}" for layer in (0, 1) for head in (0, 2, 3)]
        assert [one.head for one in result.heads] == there
        assert result.facts["sets"] == sets
