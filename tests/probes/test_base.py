"""How a probe in the new shape is judged, worded and stored, on one of a few lines."""

import json
import shutil
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest

from qt_bert.errors import ArgumentError
from qt_bert.figures import Bars, BarSeries, Mark, Point, Scatter, curve, head_map
from qt_bert.heads import Head
from qt_bert.probes import texts
from qt_bert.probes.base import Contest, Probe, Result, probes, run_probe
from qt_bert.probes.wording import claims_in_words, measurements_in_words
from qt_bert.results.probe import ProbeResult, instability_note
from qt_bert.stats.estimate import Estimate, over_queries
from qt_bert.stats.verdict import judge_contest, judge_difference
from qt_bert.text import Text
from tests.probes.made_context import context_of
from tests.results.made_stability import LOOSE

TOML = """
order = 3
article = "an_article"
section = "1.2"
summary = { zh = "头 {head}：{share:.1%}，{gap:.2f}，{missing}", en = "Head {head}: {share:.1%}, {gap:.2f}, {missing}" }
nothing.empty = { zh = "没有东西", en = "Nothing there" }
reasons."precondition:gap" = { zh = "没有差距", en = "there is no gap" }

[claims.gap]
side = "above"
margin = 2.0
unit = "points"
zh = "{kind} 头 {head} 更好"
en = "Head {head} is better at {kind}"
reproduced = { zh = "是的", en = "It is" }
source = { section = "9", value = "70 %" }
[claims.set]
side = "above"
margin = 1.0
unit = "points"
zh = "一组头"
en = "A set of heads"

[measurements.share]
unit = "share"
zh = "份额"
en = "Share"
source.value = "96 %"
[measurements.missing]
zh = "没有"
en = "Missing"

[figures.map]
sets = ["named"]
unit = "share"
title = { zh = "图", en = "Map of {head}" }
x_label = { zh = "头", en = "head" }
y_label = { zh = "层", en = "layer" }
note = { zh = "记", en = "Note on {head}" }
[figures.ways]
unit = { zh = "次", en = "times done" }
title = { zh = "方式", en = "Ways" }
y_label = { zh = "份额", en = "share" }
[figures.line]
title = { zh = "线", en = "Line" }
x_unit = "times"
[figures.places]
title = { zh = "点", en = "Places" }

[words]
first = { zh = "第一", en = "the first" }
map = { zh = "字典", en = "a map" }
"""
QUERIES = [f"q{number}" for number in range(40)]


def estimate(mean: float, spread: float = 1.0, seed: int = 0) -> Estimate:
    """Of forty queries."""
    values = np.random.default_rng(seed).normal(0, spread, len(QUERIES))
    return over_queries(mean + values - values.mean(), QUERIES)


@pytest.fixture(autouse=True)
def made(tmp_path, monkeypatch) -> Iterator[None]:
    """The texts of a probe called `made`."""
    folder = tmp_path / "texts"
    folder.mkdir()
    shutil.copy(texts.FOLDERS[0] / f"{texts.COMMON}.toml", folder)
    (folder / "made.toml").write_text(TOML, encoding="utf-8")
    monkeypatch.setattr(texts, "FOLDERS", [folder])
    texts.texts_of.cache_clear()
    yield
    texts.texts_of.cache_clear()


@pytest.fixture
def run(checkpoint_of, pair_file, tmp_path) -> Callable[..., ProbeResult]:
    """What is stored of a `Result` with these fields."""

    def call(**fields):
        context = context_of("made", checkpoint_of(), tmp_path, pairs=pair_file, seed=5)
        facts = {"head": "L1H0", "kind": "first", "share": 0.5, "gap": 0.0, "missing": None}
        options = {"facts": facts, **fields}
        probe = Probe(
            name="made",
            order=3,
            title=Text("做", "Made"),
            question=Text("？", "?"),
            run=lambda _: Result(**options),
            quick_seconds=1,
            shows={"map": ("named",)},
        )
        return run_probe(probe, context)

    return call


def test_a_difference_is_judged_by_the_declared_side_and_margin(run):
    for mean, verdict in ((5.0, "reproduced"), (2.1, "inconclusive"), (0.5, "not reproduced")):
        (one,) = run(claims={"gap": estimate(mean)}).claims
        declared = {"id": "made.gap", "side": "above", "margin": 2.0, "unit": "points"}
        judged = judge_difference(estimate(mean), **declared, resamples=200, seed=5)
        assert one.verdict == judged.verdict == verdict
        for field in ("value", "ci_low", "ci_high", "p", "needs_queries"):
            assert getattr(one, field) == getattr(judged, field)
        assert (one.id, one.side, one.margin, one.unit) == ("made.gap", "above", 2.0, "points")


def test_a_contest_is_judged_by_rank_and_margin(run):
    target, sets = estimate(6.0), tuple(estimate(0.0, seed=1 + number) for number in range(19))
    (one,) = run(claims={"set": Contest(target=target, sets=sets, enumerated=True)}).claims
    declared = {"id": "made.set", "side": "above", "margin": 1.0, "unit": "points"}
    judged = judge_contest(target, sets, **declared, enumerated=True, resamples=200, seed=5)
    assert (one.verdict, one.p, one.value) == ("reproduced", 0.05, judged.value)
    assert Contest(target=target, sets=sets).beyond.value == pytest.approx(judged.value)


def test_a_reason_is_kept_and_shown(run):
    found = run(claims={"gap": "precondition:gap", "set": "few_sets"})
    gap, few = claims_in_words(found)
    (counted,) = claims_in_words(run(claims={"gap": "few_queries:12"}))
    assert "(12)" in counted.reason.en and counted.claim.verdict == "not testable"
    assert [one.claim.verdict for one in (gap, few)] == ["not testable"] * 2
    assert gap.claim.reason == "precondition:gap" and gap.reason.en == "there is no gap"
    assert "fewer than 19 random sets" in few.reason.en
    assert gap.conclusion.en == "The claim cannot be tested on these data: there is no gap."


def test_q_is_over_the_claims_of_the_probe(run):
    alone = run(claims={"gap": estimate(5.0)}).claims[0]
    both = run(claims={"gap": estimate(5.0), "set": estimate(1.2)}).claims
    assert alone.q == alone.p and both[0].p is not None
    assert both[0].q == pytest.approx(2 * both[0].p)
    assert run(claims={"gap": "few_sets"}).claims[0].q is None


def test_measurements_with_and_without_resamples(run):
    value = estimate(0.5, 0.1)
    found = run(measurements={"share": value, "missing": None})
    share, missing = found.measurements
    assert (share.value, (share.ci_low, share.ci_high)) == (0.5, value.interval(200, 5))
    assert (share.n_queries, share.unit) == (40, "share")
    assert (missing.value, missing.ci_low, missing.n_queries, missing.unit) == (None, None, 0, "")
    (plain,) = run(measurements={"share": 0.25}).measurements
    assert (plain.value, plain.ci_low, plain.n_queries) == (0.25, None, 0)
    (undefined,) = run(measurements={"share": float("nan")}).measurements
    assert undefined.value is None
    first, second = measurements_in_words(found)
    assert (first.text.en, first.unit) == ("Share", Text("份额", "share"))
    assert (second.text.en, second.unit) == ("Missing", "")


def test_a_source_is_its_own_or_that_of_the_probe(run):
    found = run(claims={"gap": "few_sets", "set": "few_sets"}, measurements={"share": 1.0})
    gap, other = (one.source for one in found.claims)
    assert (gap.article, gap.section, gap.value) == ("an_article", "9", "70 %")
    assert (other.section, other.value) == ("1.2", None)
    assert found.measurements[0].source.value == "96 %"


def test_facts_and_values_fill_the_summary(run):
    found = run(
        claims={"gap": estimate(5.0)},
        measurements={"share": -0.25},
        facts={"head": "L1H0", "kind": Text("种", "kind"), "missing": float("nan")},
    )
    assert found.summary == Text("头 L1H0：−25.0%，5.00，–", "Head L1H0: −25.0%, 5.00, –")
    assert found.facts["gap"] == pytest.approx(5.0) and found.facts["share"] == -0.25
    assert found.facts["missing"] is None


def test_a_stored_result_is_read_again(run, tmp_path):
    found = run(
        claims={"gap": estimate(5.0), "set": "few_sets"},
        measurements={"share": estimate(0.5, 0.1)},
        heads=pd.DataFrame({"score": [1.0, np.nan]}, index=["L0H0", "L1H0"]),
        sets={"named": [Head(1, 0)]},
        selected="named",
        facts={"head": "L1H0", "kind": Text("种", "kind"), "missing": None, "count": np.int64(3)},
        settings={"draws": 9},
        figures=[head_map("map", [[1.0, 2.0]], marked=["L0H1"])],
    )
    found.write(tmp_path / "made.json")
    stored = json.loads((tmp_path / "made.json").read_text(encoding="utf-8"))
    assert stored["schema"] == 2 and stored["facts"]["count"] == 3
    again = ProbeResult.read(tmp_path / "made.json")
    assert again.to_json() == stored == json.loads(json.dumps(found.to_json()))
    for field in ("claims", "measurements", "heads"):
        assert getattr(again, field) == getattr(found, field)
    assert claims_in_words(again) == claims_in_words(found)
    assert claims_in_words(again)[0].text.zh == "种 头 L1H0 更好"
    assert [(one.head, one.scores, one.selected) for one in again.heads] == [
        ("L0H0", {"score": 1.0}, False),
        ("L1H0", {"score": None}, True),
    ]
    assert (again.settings["draws"], again.settings["profile"]) == (9, "quick")


def test_figures_get_their_texts_and_labels(run):
    first, second, third, fourth = run(
        figures=[
            head_map("map", [[1.0, 2.0]]),
            Bars(
                name="ways",
                categories=("first", "L0H0"),
                series=(BarSeries(name="first", values=(1.0, 2.0)),),
            ),
            curve("line", {"map": [Point(x=1, y=2)]}),
            Scatter(name="places", points=(Mark(x=0, y=0, series="first", label="map"),)),
        ]
    ).figures
    assert first.name == "map"  # a word of the same id names no figure
    assert (first.title.en, first.note and first.note.en) == ("Map of L1H0", "Note on L1H0")
    assert first.unit == Text("份额", "share") and first.columns == ("H0", "H1")
    assert second.unit == Text("次", "times done")
    assert second.categories == (Text("第一", "the first"), "L0H0")
    assert second.series[0].name == Text("第一", "the first")
    assert third.x_unit == Text("倍", "times")
    assert third.series[0].name == Text("字典", "a map")
    (mark,) = fourth.points  # its label is a word of a text, not an id
    assert (mark.series, mark.label) == (Text("第一", "the first"), "map")


def test_sets_that_are_not_stable_are_named_wherever_they_are_shown(run):
    found = run(
        sets={"named": [Head(0, 1)]},
        stability={"named": LOOSE},
        figures=[head_map("map", [[1.0, 2.0]]), Bars(name="ways", categories=(), series=())],
    )
    note = instability_note({"named": LOOSE})
    assert note is not None and found.summary.en.endswith(note.en)
    shown, other = found.figures
    assert shown.note.en == f"Note on L1H0. {note.en}" and other.note is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"claims": {"strange": "few_sets"}}, "declares no claim 'strange'"),
        ({"measurements": {"strange": 1.0}}, "has no measurement 'strange'"),
        ({"figures": [head_map("strange", [[1.0]])]}, "figures.strange.title"),
        ({"nothing": "strange"}, "nothing.strange needs both languages"),
        ({"facts": {}}, "no value for 'head'"),
    ],
)
def test_an_id_without_a_text_is_refused(run, fields, message):
    with pytest.raises(ArgumentError, match=message):
        run(**fields)


@pytest.mark.parametrize(
    ("declared", "message"),
    [
        ("order = '3'\nquick_seconds = 1\n", "order is '3'"),
        ("order = 3\n", "quick_seconds is None"),
        ("order = 3\nquick_seconds = 1\n", "made.py is missing"),
    ],
)
def test_a_declaration_that_lacks_something_is_named(declared, message):
    (texts.FOLDERS[0] / "made.toml").write_text(declared, encoding="utf-8")
    probes.cache_clear()
    with pytest.raises(ArgumentError, match=message):
        probes()
    probes.cache_clear()
