"""Labels that titles, queries or shared characters alone predict, and twins where none does."""

import json
import random
import subprocess
import sys

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import accuracy_score, cohen_kappa_score, f1_score, log_loss
from sklearn.model_selection import PredefinedSplit, cross_val_predict

from qt_bert.cli.evaluate import _shortcuts_text
from qt_bert.data.reader import ReaderOptions
from qt_bert.scoring.shortcuts import _overlap, find_shortcuts, folds
from tests.conftest import write_pairs

LETTERS = "天地玄黄宇宙洪荒日月盈昃辰宿列张寒来暑往秋收冬藏云腾致雨露结为霜"
ENDINGS = ("百科", "简介", "大全", "价格", "下载")


def write(tmp_path, rows):
    return write_pairs(tmp_path / "pairs.tsv", rows)


def rows_of(kind, n_queries=60):
    """Texts of drawn letters; `kind` is what tells the grade, `clean` for nothing."""
    draw = random.Random(1)

    def text(size):
        return "".join(draw.choices(LETTERS, k=size))

    for number in range(n_queries):
        query = text(6)
        for grade in (1 + number % 5,) if kind == "queries" else (1, 2, 3, 4, 5):
            title = text(10)
            if kind == "titles":
                title += ENDINGS[grade - 1]
            if kind == "shared characters and lengths":
                title = query[: grade + 1] + title[grade + 1 :]
            yield query + (ENDINGS[grade - 1] if kind == "queries" else ""), title, grade


def above(result):
    return [n for n, gains in result["gains"].items() if any(g["above"] for g in gains.values())]


@pytest.mark.parametrize("kind", ["titles", "queries", "shared characters and lengths"])
def test_what_tells_the_grade_is_found_and_nothing_else(tmp_path, kind):
    result = find_shortcuts(write(tmp_path, rows_of(kind, 200)), ReaderOptions())
    assert above(result) == [kind]
    assert bool(result["ngrams"]) == (kind == "titles")


@pytest.mark.parametrize("seed", range(3))
def test_the_undamaged_twin_names_nothing(tmp_path, seed):
    result = find_shortcuts(write(tmp_path, rows_of("clean")), ReaderOptions(), seed=seed)
    assert above(result) == [] and result["ngrams"] == []
    frequent = result["metrics"]["most frequent grade"]
    # One grade of five: accuracy 1/5, F1 of that grade 2 · 60 / (60 + 300) = 1/3, of the others 0.
    assert [frequent[name]["value"] for name in frequent] == pytest.approx([1 / 5, 1 / 15, 0])
    assert result["metrics"]["labels permuted"]["accuracy"]["ci_low"] < 0.2


def test_figures_are_those_of_plain_sklearn(tmp_path):
    rows = list(rows_of("titles"))
    queries, titles, grades = zip(*rows, strict=True)
    result = find_shortcuts(write(tmp_path, rows), ReaderOptions(), seed=3)
    features = TfidfVectorizer(analyzer="char", ngram_range=(1, 3)).fit_transform(titles)
    split = PredefinedSplit(folds(queries, 3))
    assert split.get_n_splits() == 5
    probabilities = cross_val_predict(
        LogisticRegression(solver="newton-cg"), features, grades, cv=split, method="predict_proba"
    )
    predicted = probabilities.argmax(axis=1) + 1
    found = {name: m["value"] for name, m in result["metrics"]["titles"].items()}
    assert found == pytest.approx(
        {
            "accuracy": accuracy_score(grades, predicted),
            "macro_f1": f1_score(grades, predicted, average="macro"),
            "qwk": cohen_kappa_score(grades, predicted, weights="quadratic"),
        }
    )
    # 大全 ends the 60 titles of grade 3 of 300 titles, and no letter of it stands elsewhere.
    blended = 0.99 * probabilities + 0.01 / 5
    gain = result["gains"]["titles"]["log_loss"]["value"]
    assert gain == pytest.approx(np.log(5) - log_loss(grades, blended))
    text = _shortcuts_text(result)
    assert "60 of 60 titles with '大全' have grade 3 (20 % of all titles)" in text
    value = f"accuracy {found['accuracy']:.3f} ["
    assert f"titles alone predict the grade better than the most frequent grade: {value}" in text
    assert "queries alone show no gain over the most frequent grade: accuracy 0.200" in text


def test_what_titles_tell_of_rare_grades_shows_in_the_log_loss(tmp_path):
    # 价 ends three titles of ten, a third of them of the rare grade: it is never the likelier one.
    rows = [
        (query, title + "价了"[place % 10 > 2], 1 if place % 10 == 0 else 5)
        for place, (query, title, _) in enumerate(rows_of("clean", 300))
    ]
    result = find_shortcuts(write(tmp_path, rows), ReaderOptions())
    gains = result["gains"]["titles"]
    assert gains["log_loss"]["above"] and not gains["accuracy"]["above"]
    assert above(result) == ["titles"]
    assert "titles alone predict the odds of the grades" in _shortcuts_text(result)


def test_folds_hold_whole_queries():
    index = folds(["a", "b", "a", "c", "d", "e", "c"], 0)
    assert index[0] == index[2] and index[3] == index[6] and {*index.tolist()} == set(range(5))


def test_features_of_shared_characters():
    # All 4 characters of the query, 4 of the title's 6; 北京 and 天气 of 3 and 5 character pairs.
    expected = (1, 4 / 6, 2 / 3, 2 / 5, 2 / 4, 2, 4, 6)
    assert _overlap("北京 天气", "天气预报北京") == pytest.approx(expected)
    assert _overlap("甲", "乙") == (0, 0, 0, 0, 0, 0, 1, 1)


def test_a_query_spelled_in_several_ways_is_one(tmp_path):
    rows = [
        (spelling + str(number), f"标题{number}", grade)
        for number in range(30)
        for spelling, grade in (("Wi-Fi 密码", 1), ("ｗｉ-ｆｉ密码", 5))
    ]
    assert find_shortcuts(write(tmp_path, rows), ReaderOptions())["n_queries"] == 30


@pytest.mark.parametrize(
    ("labels", "grades", "names"),
    [
        (list("0123456"), None, [str(level) for level in range(7)]),
        (["0", "2"], None, ["0", "1", "2"]),
        (["1-2", "3-4", "5"], None, ["1-2", "3-4", "5"]),
        (["差", "好"], "差=1-3,好=4-5", ["1-3", "4-5"]),
        (["2", "2-3", "3"], None, ["1", "2", "3", "4", "5"]),
    ],
)
def test_any_levels(tmp_path, labels, grades, names):
    rows = [
        (query, f"{title}{chr(0x4E00 + place)}", label)
        for query, title, _ in list(rows_of("clean"))[::5]
        for place, label in enumerate(labels)
    ]
    result = find_shortcuts(write(tmp_path, rows), ReaderOptions(grades=grades))
    assert result["labels"] == names and "titles" in above(result)
    metrics = result["metrics"]["titles"]
    assert metrics["accuracy"]["value"] > 0.9
    assert (metrics["qwk"]["value"] is None) == ("2-3" in labels)  # sets without an order


REFUSED = {
    "no label": ([("q", "t", "")] * 30, "no pair has a label"),
    "one grade": ([(f"q{n}", f"t{n}", 3) for n in range(30)], "all labels are 3"),
    "three queries": (
        [(f"q{n % 3}", f"t{n}", 1 + n % 5) for n in range(30)],
        "3 queries; two labels",
    ),
    "numbers": ([(f"q{n}", f"t{n}", n / 8) for n in range(30)], "neither grades"),
    "words": ([(f"q{n}", f"t{n}", "好") for n in range(30)], "--grades"),
}


@pytest.mark.parametrize("kind", REFUSED)
def test_what_cannot_be_judged_says_what_is_needed(tmp_path, kind):
    rows, reason = REFUSED[kind]
    result = find_shortcuts(write(tmp_path, rows), ReaderOptions())
    assert reason in result["reason"] and "metrics" not in result
    assert _shortcuts_text(result).startswith("shortcuts: not testable here: ")


def test_the_command_is_deterministic_and_imports_no_torch(tmp_path):
    path = write(tmp_path, rows_of("titles"))
    code = (
        "import sys; from qt_bert.cli import main; from contextlib import suppress\n"
        f"sys.argv = ['qt-bert', 'check', {str(path)!r}, '--shortcuts', '--seed', '1', '--json']\n"
        "with suppress(SystemExit): main()\n"
        "assert 'torch' not in sys.modules"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    result = json.loads(out)["shortcuts"]
    assert result == find_shortcuts(path, ReaderOptions(), seed=1)
    assert result != find_shortcuts(path, ReaderOptions(), seed=2)
