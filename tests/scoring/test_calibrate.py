import numpy as np
import pytest
import torch
from sklearn.metrics import precision_score, recall_score

from qt_bert.data.reader import ReaderOptions
from qt_bert.data.splits import half_of
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.files import read_json, write_json
from qt_bert.models.card import ModelLabels, ModelSettings
from qt_bert.models.checkpoint import save_checkpoint
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.calibrate import calibrate_model, worse
from qt_bert.scoring.column import ColumnScorer
from qt_bert.scoring.judge import (
    TextScorer,
    hardly_differ,
    judge_file,
    read_outputs,
    requested_calibration,
)
from tests.conftest import write_pairs

ROWS = [
    (f"查询{n}", f"标题{t}", 1 + (n + t) % 5, "ab"[n % 2]) for n in range(120) for t in range(4)
]
DRAWN = np.random.default_rng(3).normal(size=len(ROWS))


class OneLogit(TextScorer):
    """Scores a row of ROWS by its grade and some noise."""

    name, settings, tokenizer = "one", ModelSettings(ModelLabels(1, None)), None

    def describe(self):
        return {"name": self.name, "sha256": "w1"}

    def logits(self, pairs, shown=None):
        known = {row[:2]: 1.5 * row[2] + x for row, x in zip(ROWS, DRAWN, strict=True)}
        return np.array([[known[pair]] for pair in pairs], np.float32)


@pytest.fixture
def graded(tmp_path):
    return write_pairs(tmp_path / "dev.tsv", ROWS, "field")


def calibrated(path, scorer=None, **requested):
    return calibrate_model(path, ReaderOptions(), scorer or OneLogit(), resamples=60, **requested)


def test_fitted_on_one_half_and_shown_on_the_other(graded):
    result = calibrated(graded, precision=0.9)
    shown = [row for row in ROWS if half_of(row[0]) == "validation"]
    assert result["n_pairs"] == len(shown)
    assert result["pairs"]["fitted"] + len(shown) == len(ROWS)
    scores = OneLogit().logits([row[:2] for row in shown])[:, 0]
    relevant = [row[2] >= 4 for row in shown]
    cut = result["cuts"]["relevant"]
    for name, library in (("precision", precision_score), ("recall", recall_score)):
        change = result["changes"][name]
        assert change["value_a"] == pytest.approx(library(relevant, scores > 0))
        assert change["value_b"] == pytest.approx(library(relevant, scores >= cut["value"]))
    assert result["changes"]["brier"]["ci_high"] < 0 and result["grades"]["qwk"]["value"] > 0.7
    assert cut["ci_low"] < cut["value"] < cut["ci_high"]
    assert list(result["cuts"]) == ["relevant", "2", "3", "4", "5"]
    bins = result["reliability"][1]
    assert sum(row["count"] for row in bins) == len(shown)
    assert bins[-1]["accuracy"] > 0.9


def test_a_missed_target_is_warned_of(graded, monkeypatch):
    monkeypatch.setattr(
        "qt_bert.data.splits.half_of", lambda q: "discovery" if q < "查询2" else "validation"
    )
    report = calibrated(graded, recall=0.99)
    kept = report["changes"]["recall"]["value_b"] >= 0.99
    warnings = report["warnings"]
    assert kept != any("recall is" in line and "the target 0.99" in line for line in warnings)
    assert not any("precision" in line for line in warnings)


def test_a_fall_is_warned_of(graded):
    class Halves(OneLogit):  # log-odds on the queries that are shown, next to nothing on the others
        def logits(self, pairs, shown=None):
            flat = np.array([[0.02 if half_of(q) == "discovery" else 1.0] for q, _ in pairs])
            return (super().logits(pairs) - 5.0) * flat.astype(np.float32)

    result = calibrated(graded, Halves())
    nll = result["changes"]["nll"]
    (message,) = (line for line in result["warnings"] if line.startswith("nll"))
    assert f"{nll['value_a']:.3f} before, {nll['value_b']:.3f} after" in message


def test_log_odds_far_from_0_have_a_finite_loss(graded):
    class Far(OneLogit):
        def logits(self, pairs, shown=None):
            return 60 * (super().logits(pairs) - 5.0)

    shown = [row for row in ROWS if half_of(row[0]) == "validation"]
    scores = Far().logits([row[:2] for row in shown])[:, 0].astype(float)
    lost = np.logaddexp(0, np.where([row[2] >= 4 for row in shown], -scores, scores))
    assert lost.max() > 37  # 1 − expit is 0
    assert calibrated(graded, Far())["changes"]["nll"]["value_a"] == pytest.approx(lost.mean())


def test_a_worse_metric_is_named_but_not_the_price_of_a_cut():
    def changed(name, a, b, **expected):
        return worse({name: {"value_a": a, "value_b": b}}, expected)

    (message,) = changed("qwk", 0.5, 0.4)
    assert "qwk is worse" in message and "0.500 before, 0.400 after" in message
    assert changed("nll", 0.5, 0.6) and changed("f1", 0.5, 0.4)
    assert not changed("nll", 0.6, 0.5) and not changed("qwk", 0.4, 0.5)
    assert not changed("f1", 0.5, 0.4, recall=0.9) and not changed("precision", 0.5, 0.4)


def test_slices_have_cuts_of_their_own(graded):
    result = calibrated(graded, by=["field"])["slices"]["field"]
    assert set(result) == {"a", "b"}
    assert sum(part["n_pairs"] for part in result.values()) < len(ROWS)
    cuts = [part["cuts"]["relevant"] for part in result.values()]
    assert all(cut["ci_low"] <= cut["value"] <= cut["ci_high"] for cut in cuts)


def test_a_saved_file_is_applied_to_its_model_alone(graded, tmp_path):
    out = tmp_path / "c.json"
    result = calibrated(graded, out=out)
    scorer = OneLogit()
    kept = requested_calibration(scorer, out)
    cut, *edges = (cut["value"] for cut in result["cuts"].values())
    logits = np.array([[cut - 1e-3], [cut]])
    columns = read_outputs(logits, scorer.settings.labels, kept).columns()
    assert " ".join(columns) == (
        "score p_relevant relevant p_1 p_2 p_3 p_4 p_5 predicted_grade expected_grade"
    )
    assert columns["relevant"] == ["0", "1"]
    judged = judge_file(graded, ReaderOptions(), scorer, calibration=kept).judgements
    assert judged.mode == "grades" and judged.ranking_score.max() > 5  # still ranked by the score
    assert (judged.predicted == np.searchsorted(edges, judged.ranking_score)).all()
    assert read_json(out)["calibration"] == result["calibration"]

    write_json(tmp_path / "other.json", result | {"model": {"name": "two", "sha256": "w2"}})
    (tmp_path / "bad.json").write_text("{")
    (tmp_path / "five.json").write_text('{"model": {}, "calibration": 5}')
    damaged = result["calibration"] | {"cut": "high"}
    write_json(tmp_path / "cut.json", result | {"calibration": damaged})
    for name, message in (
        ("other", "fitted to two"),
        ("bad", "cannot be read"),
        ("gone", "no such"),
        ("five", "fitted to None"),
        ("cut", "run qt-bert calibrate again.*cut"),
    ):
        with pytest.raises(QtBertError, match=message):
            requested_calibration(scorer, tmp_path / f"{name}.json")
    with pytest.raises(ArgumentError, match="has no calibration"):
        requested_calibration(scorer, True)
    scorer.settings = ModelSettings(ModelLabels(5, None))
    with pytest.raises(QtBertError, match="calibrate again.*'temperature' is missing"):
        requested_calibration(scorer, out)


@pytest.mark.parametrize(
    ("requested", "message"),
    [
        ({"method": "spline"}, "choose from platt"),
        ({"precision": 0.9, "recall": 0.9}, "give one"),
        ({"precision": 1.5}, "ask for less"),
        ({"save": True}, "--save"),
        ({"by": ["nothing"]}, "--by nothing"),
    ],
)
def test_invalid_options_are_refused(graded, requested, message):
    with pytest.raises(ArgumentError, match=message):
        calibrated(graded, **requested)
    with pytest.raises(ArgumentError, match="is there already"):
        calibrated(graded, out=graded)


def test_saving_changes_one_key_of_the_card(fresh_checkpoint, pair_file):
    folder = fresh_checkpoint("bert", labels=3)
    card = {"schema": 1, "grades": None, "max_length": 999, "mine": [1]}
    write_json(folder / "qt_bert.json", card)
    scorer = Scorer(open_checkpoint(folder, model_grades="0=1-2,1=3-4,2=5"))
    result = calibrated(pair_file, scorer, save=True)
    stored = read_json(folder / "qt_bert.json")
    pairs = {name: result["pairs"][name] for name in ("name", "sha256")}
    fitted = result["calibration"] | {"weights": scorer.checkpoint.sha256, "pairs": pairs}
    assert stored.pop("calibration") == fitted and stored == card


def test_a_calibration_is_of_the_weights_it_was_fitted_to(fresh_checkpoint, pair_file, capsys):
    opened = open_checkpoint(folder := fresh_checkpoint())
    calibrated(pair_file, Scorer(opened), save=True)
    half = folder.with_name("half")
    save_checkpoint(half, opened.model, opened.tokenizer, settings=opened.settings)
    assert open_checkpoint(half).settings.calibration["weights"] != opened.sha256
    with torch.no_grad():
        opened.model.classifier.bias += 1
    opened.model.save_pretrained(folder)
    assert open_checkpoint(folder).settings.calibration is None
    assert "fitted to other weights" in capsys.readouterr().err


def test_coarse_labels_fit_no_cutoffs(checkpoint_of, pair_file):
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    options = ReaderOptions(grades="1=1-2,2=1-2,3=3-5,4=3-5,5=3-5")
    result = calibrate_model(pair_file, options, scorer, resamples=20)
    assert result["calibration"]["cutoffs"] == [] and result["calibration"]["temperature"] > 0
    assert result["changes"]["nll"]["n"] == result["n_pairs"]


def test_scores_that_hardly_differ_are_noticed():
    spread = np.linspace(-1, 1, 100)
    assert hardly_differ(spread) is None and hardly_differ(spread[:19] / 100) is None
    report = hardly_differ(0.3 + spread / 50)
    assert report and all(text in report for text in ("nine tenths of 100", "0.282", "0.318"))
    assert hardly_differ(0.3 + spread / 30) is None


def test_scores_from_0_to_1_are_probabilities_before(graded):
    """As a log gives them after a sigmoid: read as log-odds, all would be relevant."""

    class Shares(OneLogit):
        def logits(self, pairs, shown=None):
            return 1 / (1 + np.exp(4.5 - super().logits(pairs)))

    shown = [row for row in ROWS if half_of(row[0]) == "validation"]
    scores = Shares().logits([row[:2] for row in shown])[:, 0]
    relevant = np.array([row[2] >= 4 for row in shown])
    result = calibrated(graded, Shares())
    before = {name: change["value_a"] for name, change in result["changes"].items()}
    assert result["before"] == "a probability" and calibrated(graded)["before"] == "log-odds"
    assert before["brier"] == pytest.approx(2 * np.mean((scores - relevant) ** 2), rel=1e-5)
    assert before["precision"] == pytest.approx(precision_score(relevant, scores >= 0.5))


def test_what_the_fit_rests_on_is_warned_of(graded):
    lines = graded.read_text("utf-8").splitlines()
    few = graded.with_name("few.tsv")
    rows = [f"{lines[0]}\tdrawn_p", *(f"{line}\t0.5" for line in lines[1:81])]
    few.write_text("\n".join(rows) + "\n", encoding="utf-8")
    queries = {line.split("\t")[0] for line in lines[1:81]}
    fitted = sum(half_of(query) == "discovery" for query in queries)
    warnings = calibrated(few)["warnings"]
    assert fitted < 20 and f"fitted on {fitted} queries alone" in warnings
    assert any("drawn_p" in line for line in warnings)


def test_drawn_labels_weigh_alike_before_and_after(write):
    rng = np.random.default_rng(0)
    rows = (
        f"q{n // 3}\tt{n}\t{n % 2 + 1}\t{(0.9, 0.1)[n // 3 % 2]}\t{share}\t{1 - share}"
        for n, share in enumerate(rng.random(180))
    )
    path = write("p.tsv", "query\ttitle\tgrade\tdrawn_p\tp_1\tp_2\n" + "\n".join(rows) + "\n")
    scorer = ColumnScorer(path, "p_1,p_2", ReaderOptions(), model_grades="0=1,1=2")
    changes = calibrated(path, scorer)["changes"]
    judged = judge_file(path, ReaderOptions(), scorer)
    shown = [half_of(pair.query) == "validation" for pair in judged.pairs]
    right = judged.judgements.correct[shown].mean()
    assert changes["accuracy"]["value_a"] == pytest.approx(right)
