"""Calibrating on some queries and showing on others: what is fitted, shown, warned of, saved, applied."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import precision_score, recall_score

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import half_of
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.files import read_json, write_json
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.scoring.asked import CalibrateOptions
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.calibrate import calibrate_model, worse
from qt_bert.scoring.judge import asked_calibration, hardly_differ, judge_file, read_outputs

ROWS = [
    (f"查询{n}", f"标题{t}", 1 + (n + t) % 5, "ab"[n % 2]) for n in range(120) for t in range(4)
]
DRAWN = np.random.default_rng(3).normal(size=len(ROWS))


class OneLogit(SimpleNamespace):
    """Scores a row of ROWS by its grade and some noise."""

    def __init__(self, folder, slope=1.5):
        settings = ModelSettings(ModelLabels(1, None))
        super().__init__(name="one", folder=folder, settings=settings, slope=slope)

    def describe(self):
        return {"name": self.name, "sha256": "w1"}

    def facts(self):
        return {"weights": ["w1"]}

    def logits(self, pairs, shown=None):
        known = {row[:2]: self.slope * row[2] + x for row, x in zip(ROWS, DRAWN, strict=True)}
        return np.array([[known[pair]] for pair in pairs], np.float32)


@pytest.fixture
def graded(tmp_path):
    path = tmp_path / "dev.tsv"
    rows = "".join("\t".join(map(str, row)) + "\n" for row in ROWS)
    path.write_text("query\ttitle\tgrade\tfield\n" + rows, encoding="utf-8")
    return path


def calibrated(path, folder, **asked):
    asked = CalibrateOptions(resamples=60, **asked)
    return calibrate_model(path, ReaderOptions(), OneLogit(folder), asked)


def test_fitted_on_one_half_and_shown_on_the_other(graded, tmp_path):
    found = calibrated(graded, tmp_path, precision=0.9)
    shown = [row for row in ROWS if half_of(row[0]) == "validation"]
    assert found["shown"]["n_pairs"] == len(shown)
    assert found["fitted"]["n_pairs"] + len(shown) == len(ROWS)
    scores = OneLogit(tmp_path).logits([row[:2] for row in shown])[:, 0]
    relevant = [row[2] >= 4 for row in shown]
    for name, library in (("precision", precision_score), ("recall", recall_score)):
        one = found["changes"][name]
        assert one["value_a"] == pytest.approx(library(relevant, scores > 0))
        assert one["value_b"] == pytest.approx(library(relevant, scores >= found["cut"]["value"]))
    assert found["changes"]["brier"]["ci_high"] < 0 and found["levels"]["qwk"]["value"] > 0.7
    assert found["cut"]["ci_low"] < found["cut"]["value"] < found["cut"]["ci_high"]
    assert len(found["cutoffs"]) == 4
    bins = found["reliability"]["after"]
    assert sum(one["count"] for one in bins) == len(shown)
    assert bins[-1]["accuracy"] > 0.9 and bins[0]["accuracy"] < 0.1


def test_what_is_asked_for_and_not_met_is_said(graded, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "qt_bert.scoring.calibrate.half_of", lambda q: "discovery" if q < "查询2" else "v"
    )
    told = calibrated(graded, tmp_path, recall=0.99)
    kept = told["changes"]["recall"]["value_b"] >= 0.99
    assert kept != any("recall is" in one and "0.99 was asked" in one for one in told["warnings"])
    assert not any("precision" in one for one in told["warnings"])


def test_a_fall_is_warned_of(graded, tmp_path):
    class Halves(OneLogit):  # log-odds on the queries that are shown, next to nothing on the others
        def logits(self, pairs, shown=None):
            flat = np.array([[0.02 if half_of(q) == "discovery" else 1.0] for q, _ in pairs])
            return (super().logits(pairs) - 5.0) * flat.astype(np.float32)

    asked = CalibrateOptions(resamples=60)
    found = calibrate_model(graded, ReaderOptions(), Halves(tmp_path), asked)
    nll = found["changes"]["nll"]
    (said,) = (one for one in found["warnings"] if one.startswith("nll"))
    assert f"{nll['value_a']:.3f} before, {nll['value_b']:.3f} after" in said


def test_a_fall_within_chance_is_called_so():
    nothing = CalibrateOptions()
    for name, ends, chance in (
        ("qwk", (-0.2, -0.1), False),
        ("qwk", (-0.2, 0.1), True),
        ("nll", (0.1, 0.2), False),
        ("nll", (-0.1, 0.3), True),
    ):
        change = sum(ends) / 2
        one = {"value_a": 0.5, "value_b": 0.5 + change, "difference": change}
        (said,) = worse({name: one | dict(zip(("ci_low", "ci_high"), ends, strict=True))}, nothing)
        assert said.startswith(f"{name} is worse") and ("within chance" in said) == chance
        better = one | {"difference": -change, "ci_low": -ends[1], "ci_high": -ends[0]}
        assert worse({name: better}, nothing) == []


def test_slices_have_cuts_of_their_own(graded, tmp_path):
    found = calibrated(graded, tmp_path, by=["field"])["slices"]["field"]
    assert set(found) == {"a", "b"}
    assert sum(one["n_pairs"] for one in found.values()) < len(ROWS)
    assert all(one["cut"]["ci_low"] <= one["cut"]["value"] for one in found.values())
    with pytest.raises(ArgumentError, match="--by nothing"):
        calibrated(graded, tmp_path, by=["nothing"])


def test_other_queries_can_be_named(graded, tmp_path):
    test = tmp_path / "test.tsv"
    lines = graded.read_text("utf-8").splitlines()
    test.write_text("\n".join(lines[:9]), encoding="utf-8")
    with pytest.raises(ArgumentError, match="name other queries"):
        calibrated(graded, tmp_path, test=test)
    first = tmp_path / "first.tsv"
    first.write_text("\n".join(lines[:241]), encoding="utf-8")
    found = calibrated(first, tmp_path, test=graded)
    assert (found["fitted"]["n_pairs"], found["shown"]["n_pairs"]) == (240, 240)


def test_a_saved_file_is_applied_to_its_model_alone(graded, tmp_path):
    out = tmp_path / "c.json"
    found = calibrated(graded, tmp_path, out=out)
    scorer = OneLogit(tmp_path)
    kept = asked_calibration(scorer, False, out)
    logits = np.array([[found["cut"]["value"] - 1e-3], [found["cut"]["value"]]])
    columns = read_outputs(logits, scorer.settings.labels, kept).columns()
    assert list(columns)[:3] == ["score", "p_relevant", "relevant"]
    assert list(columns)[3:] == [
        *(f"p_{g}" for g in range(1, 6)),
        "predicted_grade",
        "expected_grade",
    ]
    assert columns["relevant"] == ["0", "1"]
    judged = judge_file(graded, ReaderOptions(), scorer, calibration=kept).judgements
    assert judged.mode == "grades" and judged.ranking_score.max() > 5  # still ranked by the score
    edges = [one["value"] for one in found["cutoffs"]]
    assert (judged.predicted == np.searchsorted(edges, judged.ranking_score)).all()
    assert read_json(out)["calibration"] == found["calibration"]

    write_json(tmp_path / "other.json", found | {"model": {"name": "two", "sha256": "w2"}})
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "five.json").write_text('{"model": {}, "calibration": 5}')
    damaged = found["calibration"] | {"cut": "high"}
    write_json(tmp_path / "cut.json", found | {"calibration": damaged})
    for name, said in (
        ("other", "fitted to two"),
        ("bad", "no file of"),
        ("gone", "no file of"),
        ("five", "no file of"),
        ("cut", "run qt-bert calibrate again.*cut"),
    ):
        with pytest.raises(QtBertError, match=said):
            asked_calibration(scorer, False, tmp_path / f"{name}.json")
    with pytest.raises(ArgumentError, match="has no calibration"):
        asked_calibration(scorer, True, None)
    scorer.settings = ModelSettings(ModelLabels(5, None))
    with pytest.raises(ArgumentError, match="not of a model with 5 logits"):
        asked_calibration(scorer, False, out)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"method": "spline"}, "choose from platt"),
        ({"precision": 0.9, "recall": 0.9}, "give one"),
        ({"precision": 1.5}, "--precision 1.5"),
        ({"recall": 0.0}, "--recall 0"),
        ({"save": True}, "--save"),
        ({"relevant": 9}, "no pair to fit on"),
    ],
)
def test_what_cannot_be_meant(graded, tmp_path, asked, said):
    with pytest.raises(ArgumentError, match=said):
        calibrated(graded, tmp_path, **asked)


def test_a_file_that_is_there_or_read_is_not_written(graded, tmp_path):
    with pytest.raises(ArgumentError, match="is there already"):
        calibrated(graded, tmp_path, out=graded)


def test_saving_changes_one_key_of_the_card(fresh_checkpoint, pair_file):
    folder = fresh_checkpoint("bert", labels=3)
    card = {"schema": 1, "grades": None, "max_length": 999, "mine": [1]}
    write_json(folder / "qt_bert.json", card)
    scorer = Scorer(open_checkpoint(folder, model_grades="0=1-2,1=3-4,2=5"))
    asked = CalibrateOptions(save=True, resamples=20)
    found = calibrate_model(pair_file, ReaderOptions(), scorer, asked)
    stored = read_json(folder / "qt_bert.json")
    assert stored.pop("calibration") == found["calibration"] and stored == card


def test_coarse_labels_fit_no_cutoffs(checkpoint_of, pair_file):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    options = ReaderOptions(grades="1=1-2,2=1-2,3=3-5,4=3-5,5=3-5")
    found = calibrate_model(pair_file, options, scorer, CalibrateOptions(resamples=20))
    assert found["calibration"]["cutoffs"] == [] and found["calibration"]["temperature"] > 0
    assert found["changes"]["nll"]["n"] == found["shown"]["n_pairs"]


def test_scores_that_hardly_differ_are_noticed():
    spread = np.linspace(-1, 1, 100)
    assert hardly_differ(spread) is None and hardly_differ(spread[:19] / 100) is None
    told = hardly_differ(0.3 + spread / 50)
    assert told is not None and "nine tenths of 100" in told and "0.282" in told and "0.318" in told
    assert hardly_differ(0.3 + spread / 30) is None
