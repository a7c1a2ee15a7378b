import json
from dataclasses import replace

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.figures import Tokens
from qt_bert.results.probe import HeadScores, ModelRef, PairsRef, ProbeResult, Source
from qt_bert.text import Text
from tests.results.made_claims import claim, measurement, untestable

RESULT = ProbeResult(
    probe="matching",
    model=ModelRef(name="graded", sha256="ab" * 32),
    pairs=PairsRef(name="test.tsv", sha256="cd" * 32, n_pairs=800, n_queries=160),
    settings={"k": 5, "draws": 99},
    facts={"head": "L2H1", "gap": None},
    summary=Text("五个头", "five heads"),
    claims=(claim("matching.five"), untestable("matching.set")),
    measurements=(measurement(), measurement("p_of_five", value=None, ci_low=None, ci_high=None)),
    heads=(HeadScores(head="L2H1", scores={"matching": 3.5, "order": None}, selected=True),),
    sets={"matching": ("L2H1", "L11H10")},
    figures=(Tokens(name="case", title=Text("例", "case"), unit="", lines=()),),
)


@pytest.fixture
def read(write):
    """`read(stored)`: the result in a file of this JSON."""
    return lambda stored: ProbeResult.read(write("matching.json", json.dumps(stored)))


def test_stored_keys_are_those_of_the_contract():
    stored = RESULT.to_json()
    assert " ".join(stored) == (
        "schema probe title order model pairs settings facts summary claims measurements values heads sets "
        "stability figures tables"
    )
    assert " ".join(stored["claims"][0]) == (
        "id verdict reason value ci_low ci_high p q side margin n_queries needs_queries unit source"
    )
    assert " ".join(stored["measurements"][0]) == "id value ci_low ci_high n_queries unit source"
    assert " ".join(stored["heads"][0]) == "head scores selected shown teacher"
    assert stored["schema"] == 2


def test_a_file_of_the_first_schema_is_still_read(read):
    stored = RESULT.to_json() | {"schema": 1}
    for key in ("title", "order", "facts", "claims", "measurements"):
        del stored[key]
    stored["findings"] = [{"id": "matching.out", "verdict": "reproduced"}]
    assert read(stored) == replace(RESULT, schema=1, facts={}, claims=(), measurements=())


@pytest.mark.parametrize("value", [None, -0.5, "82 %", Text("五成", "a half")])
def test_a_result_survives_its_file_whatever_the_value_of_a_source(tmp_path, value):
    first = claim(source=Source(article="a", section="1", value=value))
    result = replace(RESULT, claims=(first, *RESULT.claims[1:]))
    result.write(tmp_path / "matching.json")
    assert ProbeResult.read(tmp_path / "matching.json") == result


def test_an_unknown_verdict_or_schema_is_refused(read):
    stored = RESULT.to_json()
    with pytest.raises(RunFolderError, match="schema: expected 1 or 2, found 3"):
        read(stored | {"schema": 3})
    stored["claims"][0]["verdict"] = "maybe"
    with pytest.raises(RunFolderError, match="verdict: expected 'reproduced'"):
        read(stored)


def test_a_query_spelled_in_several_ways_is_one():
    pairs = [
        Pair(query, "t", (1,), "1", 1, "1", {})
        for query in ("iPhone 15", "ｉＰＨＯＮＥ１５", "苹果")
    ]
    assert PairsRef.of("a.tsv", "cd", pairs) == PairsRef(
        name="a.tsv", sha256="cd", n_pairs=3, n_queries=2
    )


@pytest.mark.parametrize("head", ["2.1", "L2", "l2h1", "L2H1 "])
def test_a_head_has_one_spelling(head):
    with pytest.raises(ArgumentError, match="L3H7"):
        HeadScores(head=head, scores={})
    with pytest.raises(ArgumentError, match="L3H7"):
        replace(RESULT, sets={"named": (head,)})
