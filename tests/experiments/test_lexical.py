"""The lexical baseline: its features, the ordinal regression on them, the command."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit
from sklearn.linear_model import LogisticRegression

from experiments.baselines import lexical
from experiments.baselines.lexical import Labelled, LexicalFeatures, OrdinalRegression
from qt_bert.data.segmenters import segmenter
from qt_bert.files import read_json
from qt_bert.stats.arrays import FloatArray
from tests.conftest import write_pairs

TRAINING = [("狗追猫", "猫追狗"), ("狗追猫", "猫爱鱼"), ("鱼", "狗")]
"""Five distinct texts: 狗 stands in three of them, 追 in two, 猫 in three, 爱 in one, 鱼 in two."""
COEFFICIENTS = np.array([1.5, -0.5])
CUTS = np.array([-2.0, -0.5, 0.5, 2.0])
COARSE = {1: (1, 2), 2: (1, 2), 3: (3,), 4: (4, 5), 5: (4, 5)}
SUBJECTS = ("番茄炒蛋", "护照换发", "猫咪掉毛", "电脑蓝屏", "高考志愿", "车险续保")
TITLES = {
    5: "{0}的完整方法",
    4: "{0}以及更多相关知识",
    3: "{0}要花多久",
    2: "{1}的历史",
    1: "周末看日出",
}


@pytest.fixture(scope="module")
def features() -> LexicalFeatures:
    return LexicalFeatures.fit(TRAINING, segmenter("rjieba"))


def described(features: LexicalFeatures, query: str, title: str) -> dict[str, float]:
    row = features.table([(query, title)])[0]
    return dict(zip(features.names, row.tolist(), strict=True))


def test_a_changed_order_shows_in_bigrams_and_runs_alone(features):
    values = described(features, "狗追猫", "猫追狗")
    assert values["character_of_query"] == values["character_of_title_idf"] == 1
    assert values["bigram_of_query"] == values["bigram_of_title"] == 0
    assert values["substring_of_query"] == values["subsequence_of_title"] == pytest.approx(1 / 3)


def test_coverage_weighs_by_idf_of_the_training_texts(features):
    values = described(features, "狗爱车", "狗")
    dog, love, unseen = (math.log(6 / (1 + n)) + 1 for n in (3, 1, 0))
    assert values["character_of_query"] == pytest.approx(1 / 3)
    assert values["character_of_query_idf"] == pytest.approx(dog / (dog + love + unseen))


@given(st.text("猫狗追a1", max_size=12), st.text("猫狗追a1", max_size=80))
def test_longest_common_lengths_are_those_of_the_textbook_tables(a, b):
    subsequence = np.zeros((len(a) + 1, len(b) + 1), dtype=int)
    run = subsequence.copy()
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            run[i + 1, j + 1] = run[i, j] + 1 if x == y else 0
            longest = max(subsequence[i, j + 1], subsequence[i + 1, j])
            subsequence[i + 1, j + 1] = subsequence[i, j] + 1 if x == y else longest
    assert lexical.longest_common_subsequence(a, b) == subsequence[-1, -1]
    assert lexical.longest_common_substring(a, b) == run.max()


def simulated(n: int, seed: int = 0, *, coarse: float = 0.0) -> Labelled:
    """Grades drawn from a proportional-odds model; a share of the labels said coarsely."""
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(n, 2))
    latent = features @ COEFFICIENTS + generator.logistic(size=n)
    grades = (np.searchsorted(CUTS, latent) + 1).tolist()
    blurred = generator.random(n) < coarse
    sets = [COARSE[g] if blur else (g,) for g, blur in zip(grades, blurred, strict=True)]
    return Labelled(features, sets)


def raw(model: OrdinalRegression) -> tuple[FloatArray, FloatArray]:
    """Coefficients and thresholds for features as they were, not standardised."""
    slopes = model.coefficients / model.scale
    return slopes, model.thresholds + model.mean @ slopes


def test_the_loss_is_minus_log_of_the_sets_probability():
    allowed = np.array([[True, True, False, False, False], [False, False, False, False, True]])
    loss = lexical.LabelSetLoss(np.array([[1.0], [0.0]]), allowed, np.array([0.25, 0.75]), 0.2)
    at = np.array([2.0, -1.0, np.log(2.0), np.log(0.5), np.log(1.5)])  # cuts -1, 1, 1.5, 3
    by_hand = -0.25 * np.log(expit(1.0 - 2.0)) - 0.75 * np.log(1 - expit(3.0)) + 0.1 * 2.0**2
    assert loss(at)[0] == pytest.approx(by_hand)


def test_two_grades_are_scikit_learns_logistic_regression():
    data = simulated(300)
    positive = np.array([grades[0] > 3 for grades in data.grade_sets])
    sets = [(2,) if high else (1,) for high in positive]
    model = OrdinalRegression.fit(Labelled(data.features, sets), l2=0.05, n_grades=2)
    standard = (data.features - model.mean) / model.scale
    reference = LogisticRegression(C=1 / (300 * 0.05), tol=1e-8).fit(standard, positive)
    assert model.coefficients == pytest.approx(reference.coef_[0], abs=1e-4)
    assert model.thresholds == pytest.approx(-reference.intercept_, abs=1e-4)


@pytest.mark.parametrize("coarse", [0.0, 0.7])
def test_exact_and_coarse_labels_recover_what_made_them(coarse):
    slopes, cuts = raw(OrdinalRegression.fit(simulated(8_000, coarse=coarse), l2=0.0))
    assert slopes == pytest.approx(COEFFICIENTS, abs=0.1)
    assert cuts == pytest.approx(CUTS, abs=0.15)


def test_the_command_fits_judges_and_compares(tmp_path, capsys):
    rows = [
        (f"{subject}怎么做", title.format(subject, subject[:2]), grade)
        for subject in SUBJECTS
        for grade, title in TITLES.items()
    ]
    graded = str(write_pairs(tmp_path / "graded.tsv", rows))
    certain = [(*row, *(int(row[2] == g) for g in range(1, 6))) for row in rows]
    columns = (f"p_{grade}" for grade in range(1, 6))
    scored = write_pairs(tmp_path / "scored.tsv", certain, *columns)
    out = tmp_path / "out.json"
    files = ["--train", graded, "--dev", graded, "--test", graded]
    lexical.main([*files, "--scored", str(scored), "--json", str(out)])
    result = read_json(out)
    assert result["metrics"]["qwk"]["value"] > 0.9
    assert result["train"] == [{"file": "graded.tsv", "pairs": 30, "weight": 1.0}]
    assert result["comparison"]["accuracy"]["value_a"] == result["metrics"]["accuracy"]["value"]
    assert result["comparison"]["accuracy"]["value_b"] == 1
    scored.write_text(scored.read_text("utf-8").replace("番茄", "西瓜", 1), encoding="utf-8")
    with pytest.raises(SystemExit, match="2"):
        lexical.main([*files, "--scored", str(scored)])
    assert "line 2: not the test file's line 2" in capsys.readouterr().err
