"""Kinds of maps: made ones are classified correctly; corrections undo errors."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from experiments.pattern_maps.stored import CLS, QUERY, SEP, TITLE, DrawnMap, maps_of
from qt_bert.errors import ArgumentError
from qt_bert.probes import pattern_maps
from qt_bert.shipped import PATTERNS, shipped
from tests.probes.planted_maps import planted

CALLED = {"whole": "block", "matching": "heterogeneous"}
TABLE = np.array([[40, 0, 0, 0, 10], [0, 45, 0, 0, 5], [0, 0, 2, 0, 0], [0] * 5, [20, 0, 0, 0, 80]])


@pytest.fixture(scope="module")
def classifier() -> pattern_maps.Classifier:
    return pattern_maps.open_classifier(shipped(PATTERNS))


def small(weights: list[list[float]], kinds: list[int]) -> DrawnMap:
    return DrawnMap("M1", "made", 0, 0, "1", np.array(weights), np.array(kinds, np.uint8))


@pytest.mark.parametrize("kind", [*pattern_maps.KINDS, *CALLED])
def test_made_maps_are_classified_correctly(kind, classifier):
    made = maps_of([planted(kind, seed) for seed in range(10)])
    expected = pattern_maps.KINDS.index(CALLED.get(kind, kind))
    assert (classifier.answers(made) == expected).all()


def test_features_of_a_map_by_hand():
    last = [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    weights = [[0.2, 0.2, 0.2, 0.2, 0.2, 0.0], last, last, last, last, [0.1, 0, 0, 0, 0, 0.9]]
    maps = maps_of([small(weights, [CLS, QUERY, SEP, TITLE, TITLE, SEP])])
    found = dict(zip(pattern_maps.FEATURES, pattern_maps.features(maps)[0].tolist(), strict=True))
    # Columns by what they get: 4.9 the last, 0.3 the first, and two of those with 0.2.
    assert found["columns"] == pytest.approx((0.6 + 5) / 6)
    # In the band: 0.6 of the first row, all of two rows, 0.9 of the last.
    assert found["band"] == pytest.approx((0.6 + 2 + 0.9) / 6)
    # The best columns off the band are 5, 3, 4 and 0; off the band they get 0.4 of the first row,
    # two whole rows and 0.1 of the last; in the band 1 and 2 are left, with 0.4 of the first row.
    assert found["stripes"] == pytest.approx((0.4 + 2 + 0.1) / 6)
    assert found["line"] == pytest.approx(0.4 / 6)
    two = np.exp(-0.1 * np.log(0.1) - 0.9 * np.log(0.9))
    assert found["even"] == pytest.approx((5 + 4 * 1 + two) / 6 / 6)
    # Their own segment: the first row 0.6, evenly; of the title's rows one token of three.
    assert found["even_own"] == pytest.approx((0.6 + (1 + 1 + 0.9) / 3) / 6)


def test_padding_changes_nothing():
    short = planted("vertical")
    alone = maps_of([short])
    longer = replace(short, weights=np.full((40, 40), 1 / 40), kinds=np.full(40, TITLE, np.uint8))
    longer.kinds[[0, 20, 39]] = CLS, SEP, SEP
    beside = maps_of([short, longer])
    torch.testing.assert_close(pattern_maps.features(alone)[0], pattern_maps.features(beside)[0])


def test_corrections_undo_known_errors():
    truth = np.array([0.3, 0.2, 0.1, 0.0, 0.4])
    counts = TABLE.astype(float)
    known = pattern_maps.are_known(counts)
    assert known.tolist() == [True, True, False, False, True]
    errors = pattern_maps.rates(counts, known)
    seen = errors.T @ truth
    assert seen[0] == pytest.approx(0.3 * 0.8 + 0.4 * 0.2)
    np.testing.assert_allclose(pattern_maps.corrected(seen, errors), truth, atol=1e-6)
    # More answers of a kind than errors explain: nothing falls below 0.
    extreme = pattern_maps.corrected(np.array([1.0, 0, 0, 0, 0]), errors)
    assert extreme.min() >= 0 and extreme.sum() == pytest.approx(1)
    # A known kind whose maps were not drawn again is always right; unknown ones stay unknown.
    drawn = counts.copy()
    drawn[0], drawn[2] = 0, [12, 0, 0, 0, 0]
    np.testing.assert_array_equal(pattern_maps.rates(drawn, known)[[0, 2]], np.eye(5)[[0, 2]])


def test_errors_are_redrawn_by_groups():
    """Ten heads of ten maps each: of one head all are mistaken, of the others none."""
    tables = np.zeros((10, 5, 5))
    tables[:, 0, 0] = 10
    tables[0, 0, 0], tables[0, 0, 4] = 0, 10
    errors = pattern_maps.Errors(tables)
    assert errors.confusion[0].tolist() == [90, 0, 0, 0, 10]
    rng = np.random.default_rng(0)
    mistaken = np.array([errors.resampled(rng)[0, 4] for _ in range(2000)])
    assert set(mistaken % 10) == {0}
    # As many as a draw of ten heads has, where maps drawn one by one would stray by 3.
    assert mistaken.mean() == pytest.approx(10, abs=1)
    assert mistaken.std() == pytest.approx(10 * np.sqrt(0.9), rel=0.1)


def test_errors_are_those_of_trained_models(tmp_path):
    path = tmp_path / "answers.csv"
    names = "id,model,group,first,rules\n"
    path.write_text(
        names + "M1,a,3,block,block\nM2,b,7,block,vertical\nM3,random,3,block,block\n",
        encoding="utf-8",
    )
    found = pattern_maps.read_errors(path, "rules")
    assert found.tables.shape == (2, 5, 5) and found.confusion.sum() == 2
    assert found.confusion[3].tolist() == [1, 0, 0, 1, 0]
    with pytest.raises(ArgumentError, match="no table of labels and answers"):
        pattern_maps.read_errors(path, "rules_second")
    path.write_text(names + "M1,a,3,blocks,block\n", encoding="utf-8")
    with pytest.raises(ArgumentError, match="no table of labels and answers"):
        pattern_maps.read_errors(path, "rules")


def test_a_broken_classifier_is_refused(tmp_path):
    with pytest.raises(ArgumentError, match="no classifier of patterns"):
        pattern_maps.open_classifier(tmp_path)
    text = (shipped(PATTERNS) / "classifier.json").read_text(encoding="utf-8")
    (tmp_path / "classifier.json").write_text(text.replace('"vertical"', '"upright"'))
    with pytest.raises(ArgumentError, match="its kinds are not"):
        pattern_maps.open_classifier(tmp_path)
    (tmp_path / "classifier.json").write_text(text)
    (tmp_path / "answers.csv").write_text("id,model,group,first,rules\n")
    with pytest.raises(ArgumentError, match=r"answers\.csv: not the file"):
        pattern_maps.open_classifier(tmp_path)
