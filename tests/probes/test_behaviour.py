"""Behaviours: scores by hand, the band, the claim under known truths, heads chosen, odd models."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from qt_bert.data.cases import ALIKE, BETTER, COLUMNS, Case, read_cases
from qt_bert.data.pairs import Pair
from qt_bert.data.splits import half_of
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.models.card import ModelLabels
from qt_bert.probes import behaviour
from qt_bert.probes.base import Context
from qt_bert.results.probe import ProbeResult
from qt_bert.scoring.behaviour import Band, ScoredCases, fixed_band, measured_band, ranked_pairs
from qt_bert.scoring.judge import read_outputs
from qt_bert.shipped import BEHAVIOURS, shipped
from tests.conftest import write_pairs
from tests.probes.made_context import context_of
from tests.probes.probe_results import claim, measured, result_of

Build = Callable[..., Context]
SHIPPED = read_cases(shipped(BEHAVIOURS))
HALF = len(
    {
        case.query
        for case in SHIPPED.listed
        if case.relation == BETTER and half_of(case.query) == "validation"
    }
)
CASES = tuple(
    Case(f"{name}-{n}", name, relation, f"{name}{n}", "t", "o")
    for name, relation in (("negation", BETTER), ("synonym", ALIKE))
    for n in range(4)
)
DELTAS = [0.3, 0.25, -0.2, -0.75, 0.25, -0.5, 0.5, 0.0]


# Cases judged by scores.


def scored(band: float = 0.25) -> ScoredCases:
    return ScoredCases(CASES, np.add(DELTAS, 2.0), np.full(8, 2.0), band)


def test_right_undecided_and_wrong_by_hand():
    assert scored().outcomes.tolist() == [1, 0, 0, -1, 1, -1, -1, 1]
    assert scored(0.0).outcomes.tolist() == [1, 1, -1, -1, -1, -1, -1, 1]
    assert scored(1.0).outcomes.tolist() == [0, 0, 0, 0, 1, 1, 1, 1]


def test_scores_of_phenomena_by_hand():
    found = scored(0.2).by_phenomenon()
    assert list(found) == ["negation", "synonym"]
    assert found["negation"].score.value == 0.25  # two right, one undecided, one wrong
    assert found["synonym"].score.value == -0.5
    assert found["synonym"].score.n_queries == 4


def test_a_query_of_many_cases_counts_once():
    cases = tuple(Case(f"{n}", "a", BETTER, f"q{n % 3 == 0}", "t", "o") for n in range(4))
    assert ScoredCases(cases, np.array([1.0, 0, 0, 1]), np.full(4, 0.5), 0.1).score.value == 0


def test_a_tie_is_a_half():
    assert behaviour.higher(np.array([0.1, 0.0, -3.0])).tolist() == [1, 0.5, 0]


def test_overlap_of_characters_by_hand():
    assert behaviour.character_overlap("PDF转 word", "把pdf打开") == pytest.approx(3 / 7)
    assert behaviour.character_overlap(" ", "甲") == 0


def test_bad_scores_are_refused():
    with pytest.raises(ArgumentError, match="scores of the others have shape"):
        ScoredCases(CASES, np.zeros(8), np.zeros(7), 0.25)
    with pytest.raises(ArgumentError, match="one finite number"):
        ScoredCases(CASES, np.full(8, np.nan), np.zeros(8), 0.25)
    with pytest.raises(ArgumentError, match="0 or more"):
        ScoredCases(CASES, np.zeros(8), np.zeros(8), -1.0)


# The band.


def test_a_band_is_a_share_of_the_scale_or_measured():
    assert fixed_band(ModelLabels(3, ((1, 2), (3,), (4, 5)))) == Band(0.25, "grade")
    assert fixed_band(ModelLabels(3, None)) == Band(0.125, "level")
    assert fixed_band(ModelLabels(1, None)) is None


def test_gaps_lie_between_neighbours_of_one_query():
    scores = np.array([3.0, 10.0, 1.0, 1.5, 10.25, 7.0])  # gaps .5 and 1.5 of a, .25 of b
    found = measured_band(scores, ["a", "b", "a", "a", "b", "c"], "dev.tsv")
    assert found == Band(0.5, "score", "dev.tsv", 3)


def test_queries_of_one_title_rank_nothing():
    texts = [("a", "1"), ("b", "1"), ("a", "2"), ("a", "1"), ("b", "1")]
    pairs = [Pair(query, title, None, "", 1, None, {}) for query, title in texts]
    assert [(one.query, one.title) for one in ranked_pairs(pairs)] == [("a", "1"), ("a", "2")]


def test_spellings_of_a_query_are_ranked_together():
    texts = [("Ab", "1"), ("a b", "2"), ("ａｂ", "2"), ("c", "1")]
    pairs = [Pair(query, title, None, "", 1, None, {}) for query, title in texts]
    found = ranked_pairs(pairs)
    assert [(one.query, one.title) for one in found] == [("Ab", "1"), ("a b", "2")]
    assert measured_band(np.array([1.0, 3.0]), [one.query for one in found], "x") == Band(
        2.0, "score", "x", 1
    )


# The probe.


@pytest.fixture
def cases(tmp_path) -> Path:
    """Two phenomena of sixteen cases, and a case of a team's own in either half: first discovery."""
    rows = [
        "own-1\tfruit\tbetter\t苹果多少钱一斤\t苹果一斤多少钱\t苹果手机多少钱",
        "own-2\tpear\tbetter\t梨多少钱一斤\t一斤梨多少钱\t梨多少钱一台",
    ]
    for n in range(16):
        query = f"北京到上海{n}高铁票价"
        rows.append(f"d{n}\tdirection\tbetter\t{query}\t{query}查询\t上海到北京{n}高铁票价查询")
        rows.append(f"s{n}\tfiller\talike\t红烧排骨{n}做法\t红烧排骨{n}的做法\t红烧排骨{n}家常做法")
    path = tmp_path / "cases.tsv"
    path.write_text("\n".join(["\t".join(COLUMNS), *rows]) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def context(tmp_path, pair_file, cases) -> Build:
    facts = {"pairs": pair_file, "cases": cases, "resamples": 100}
    return lambda model, **changes: context_of("behaviour", model, tmp_path, **facts | changes)


def test_cases_of_ones_own_are_scored_and_not_judged(context, checkpoint_of):
    result = result_of("behaviour", context(checkpoint_of("roberta", labels=3)))
    shared = {"ranked_higher", "ranked_higher_by_characters"}
    assert set(measured(result)) == shared | {"direction", "filler"}
    assert {one.name for one in result.figures} == {"scores_better", "scores_alike"}
    assert [len(one.categories) for one in result.figures] == [3, 1]
    assert (claim(result).verdict, claim(result).reason) == ("not testable", "precondition:cases")
    assert result.settings["band"]["value"] == 0.125


def test_scores_are_those_of_the_model(context, checkpoint_of):
    made = context(checkpoint_of())
    result = result_of("behaviour", made)
    own = [one for one in read_cases(made.request.cases).listed if one.phenomenon == "direction"]
    labels = made.model.checkpoint.settings.labels
    title, other = (
        read_outputs(made.model.logits(texts), labels).ranking_score
        for texts in ([(c.query, c.title) for c in own], [(c.query, c.other) for c in own])
    )
    expected = np.mean((title - other > 0.25).astype(float) - (title - other < -0.25))
    found = measured(result)["direction"]
    assert found.value == pytest.approx(expected) and found.n_queries == 16


def scored_by(
    score: Callable[[Case, bool], float], monkeypatch: pytest.MonkeyPatch, context: Context
) -> ProbeResult:
    """The probe on the cases that ship, in place of a model's the scores of titles and others."""
    scores = [score(case, first) for first in (True, False) for case in SHIPPED.listed]
    monkeypatch.setattr(behaviour, "scores_of", lambda *_: np.array(scores))
    return result_of("behaviour", context)


def test_the_claim_under_known_truths(context, checkpoint_of, monkeypatch):
    made = context(checkpoint_of(), cases=None)
    rng = np.random.default_rng(0)
    knowing = scored_by(lambda case, first: float(first), monkeypatch, made)
    guessing = scored_by(lambda case, first: rng.normal(), monkeypatch, made)
    known, guessed = claim(knowing), claim(guessing)
    by_characters = measured(knowing)["ranked_higher_by_characters"].value
    assert known.verdict == "reproduced" and guessed.value < 2
    assert by_characters is not None
    assert known.value == pytest.approx(100 * (1 - by_characters))
    assert (known.n_queries, known.margin) == (HALF, 2.0)
    assert measured(knowing)["ranked_higher"].value == 1


def test_shipped_texts_with_other_relations_are_not_judged(
    context, checkpoint_of, monkeypatch, tmp_path
):
    other = tmp_path / "cases.tsv"
    rows = shipped(BEHAVIOURS).read_text(encoding="utf-8")
    other.write_text(rows.replace("\tsynonym\talike\t", "\tsynonym\tbetter\t"), encoding="utf-8")
    made = context(checkpoint_of(), cases=other)
    result = scored_by(lambda case, first: float(first), monkeypatch, made)
    assert claim(result).reason == "precondition:cases"


def test_one_logit_takes_the_band_from_its_own_rankings(context, checkpoint_of, tmp_path):
    model = checkpoint_of("bert", labels=1)
    rows = [("狗追猫", "猫追狗", 2), ("苹果", "苹果手机", 3)]
    lone = write_pairs(tmp_path / "lone.tsv", rows)
    with pytest.raises(PairFileError, match=r"lone.tsv: no query has two titles"):
        result_of("behaviour", context(model, band_from=lone))
    titles = ("苹果", "苹果手机", "红烧排骨")
    own = write_pairs(tmp_path / "own.tsv", [("苹果", title) for title in titles])
    made = context(model, band_from=own)
    logits = sorted(float(one) for one in made.model.logits([("苹果", t) for t in titles])[:, 0])
    band = result_of("behaviour", made).settings["band"]
    assert band["value"] == pytest.approx((logits[2] - logits[0]) / 2, abs=1e-6)
    assert (band["gaps"], band["source"]) == (2, "own.tsv")
