"""Drawing, folds and fitting of the rules that tell maps apart."""

import csv
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from experiments.pattern_maps import fitting
from experiments.pattern_maps.drawing import draw_sheets, wanted
from experiments.pattern_maps.run import SEED, card_figures
from experiments.pattern_maps.stored import maps_of, read_maps, save_maps
from qt_bert.errors import ArgumentError
from qt_bert.heads import Head, Shape
from qt_bert.probes.pattern_maps import KINDS, features, open_classifier
from qt_bert.shipped import PATTERNS, shipped
from tests.probes.planted_maps import planted

SHAPES = {"large": Shape(3, 4), "small": Shape(2, 2, frozenset({(1, 0)}))}
COUNTS = {"large": 14, "small": 5}


def test_drawing_is_by_seed_and_balanced():
    draws = wanted(SHAPES, COUNTS, 40, seed=1)
    assert draws == wanted(SHAPES, COUNTS, 40, seed=1) != wanted(SHAPES, COUNTS, 40, seed=2)
    assert Counter(draw.model for draw in draws) == COUNTS
    assert len({draw.row for draw in draws}) == len(draws)
    layers = Counter(draw.head.layer for draw in draws if draw.model == "large")
    assert sorted(layers.values()) == [4, 5, 5]
    heads = Counter(draw.head for draw in draws if draw.model == "large")
    assert set(heads.values()) == {1, 2} and len(heads) == 12
    assert Head(1, 0) not in {draw.head for draw in draws if draw.model == "small"}
    # An order that says nothing: models lie mixed.
    assert len({draw.model for draw in draws[:10]}) == 2
    with pytest.raises(ArgumentError, match="19 maps need as many pairs"):
        wanted(SHAPES, COUNTS, 18, seed=1)


def test_kappa_and_f1_by_hand():
    first, second = np.array([0, 0, 0, 1, 1, 4]), np.array([0, 0, 1, 1, 1, 4])
    table = fitting.table_of(first, second)
    # Agreed 5/6; by chance (3·2 + 2·3 + 1·1)/36 = 13/36.
    assert fitting.kappa(table) == pytest.approx((5 / 6 - 13 / 36) / (1 - 13 / 36))
    np.testing.assert_allclose(fitting.f1(table), [0.8, 0.8, np.nan, np.nan, 1])
    three = ["vertical", "diagonal", "heterogeneous"]
    assert fitting.macro_f1(table, three) == pytest.approx(2.6 / 3)
    assert fitting.macro_f1(table, ["vertical", "both"]) == pytest.approx(0.4)
    assert fitting.kappa(table) == pytest.approx(cohen_kappa_score(first, second))


def test_no_head_stands_on_both_sides_of_a_fold():
    maps = read_maps(shipped(PATTERNS))
    ids = [drawn.id for drawn in maps]
    labels = fitting.places(fitting.read_labels(shipped(PATTERNS) / "labels.csv", ids))
    group = fitting.groups(maps)
    seen = []
    for fitted, judged in fitting.folds(labels, group, seed=0):
        sides = fitted, judged
        heads = [{(maps[row].layer, maps[row].head) for row in side} for side in sides]
        assert not heads[0] & heads[1]
        students = ([maps[row] for row in side if maps[row].model == "student"] for side in sides)
        origins = [{drawn.teacher for drawn in side} for side in students]
        assert not origins[0] & heads[1] and not origins[1] & heads[0]
        seen += judged.tolist()
    assert sorted(seen) == list(range(len(maps)))


def test_judging_counts_kinds_with_maps_enough():
    labels = np.array([0] * 12 + [4] * 20 + [2])
    answers = labels.copy()
    answers[:3] = 4
    group = np.arange(len(labels)) // 3
    every = np.ones(len(labels), bool)
    result = fitting.judge(answers, labels, group, every, seed=0)
    assert fitting.counted(labels) == ("vertical", "heterogeneous")
    assert result.macro_f1.value == pytest.approx((18 / 21 + 40 / 43) / 2)
    assert result.macro_f1.low < result.macro_f1.value < result.macro_f1.high
    assert result.confusion[0] == (9, 0, 0, 0, 3) and result.f1[1] is None
    assert result.macro_f1_trained == result.macro_f1
    passes = fitting.compare_passes(labels, answers, group, every, seed=0)
    assert passes.agreed == pytest.approx(30 / 33)
    # Without ten of the maps that were told rightly.
    trained = every.copy()
    trained[15:25] = False
    harder = fitting.judge(answers, labels, group, trained, seed=0)
    assert harder.macro_f1 == result.macro_f1
    assert harder.macro_f1_trained.value == pytest.approx((18 / 21 + 20 / 23) / 2)
    passes = fitting.compare_passes(labels, answers, group, trained, seed=0)
    assert passes.kappa_trained.value < passes.kappa.value
    # A kind of which hardly a map is of a trained model is no part of their figure.
    trained = labels != 0
    alone = fitting.judge(answers, labels, group, trained, seed=0)
    assert alone.macro_f1_trained.value == pytest.approx(1)


def test_the_rules_that_ship_and_their_answers_come_from_the_labels():
    """Fitted anew on all maps, and over folds on other heads alone, they say what is stored."""
    folder = shipped(PATTERNS)
    maps = read_maps(folder)
    ids = [drawn.id for drawn in maps]
    record = open_classifier(folder).record
    seen = features(maps_of(maps)).double().numpy()
    group = fitting.groups(maps)
    with (folder / "answers.csv").open(encoding="utf-8", newline="") as file:
        stored = list(csv.DictReader(file))
    assert [row["group"] for row in stored] == group.astype(str).tolist()
    for name, column, rules in (
        ("labels.csv", "rules", record.rules),
        ("second.csv", "rules_second", record.rules_second),
    ):
        labels = fitting.places(fitting.read_labels(folder / name, ids))
        assert fitting.fit_rules(seen, labels) == rules
        answers = fitting.rules_held_out(seen, labels, group, SEED)
        assert [KINDS[place] for place in answers] == [row[column] for row in stored]


def test_training_leaves_a_folder_that_the_probe_opens(tmp_path, monkeypatch):
    kinds = ("vertical", "diagonal", "block", "heterogeneous")
    maps = [
        replace(planted(kind, seed), id=f"{kind}-{seed}", layer=seed, head=place)
        for place, kind in enumerate(kinds)
        for seed in range(12)
    ]
    easy = [
        replace(planted("whole", seed), id=f"whole-{seed}", model="random", layer=seed, head=9)
        for seed in range(12)
    ]
    maps[0] = replace(maps[0], teacher=Head(5, 1))
    save_maps(tmp_path, [*maps, *easy], {})
    assert [drawn.teacher for drawn in read_maps(tmp_path)[:2]] == [Head(5, 1), None]
    kinds = {id: id.partition("-")[0] for id in (drawn.id for drawn in (*maps, *easy))}
    rows = "".join(f"{id},{kind},\n" for id, kind in kinds.items()).replace(",whole", ",block")
    (tmp_path / "labels.csv").write_text(f"id,label,note\n{rows}", encoding="utf-8")
    record = fitting.train_classifier(tmp_path, seed=0)
    assert record.chosen == "rules" and record.judged_second is record.rules_second is None
    opened = open_classifier(tmp_path)
    assert opened.record == record
    assert opened.errors.confusion.sum() == len(maps)
    assert np.trace(opened.errors.confusion) > 0.9 * len(maps)
    assert [KINDS[answer] for answer in opened.answers(maps_of(maps[:1]))] == ["vertical"]
    assert "second" not in card_figures(tmp_path, record)
    # With a second pass, to which every vertical map is heterogeneous.
    stricter = rows.replace(",vertical,", ",heterogeneous,")
    (tmp_path / "second.csv").write_text(f"id,label,note\n{stricter}", encoding="utf-8")
    record = fitting.train_classifier(tmp_path, seed=0)
    assert record.rules_second is not None
    (answer,) = record.rules_second.of_features(features(maps_of(maps[:1])).double().numpy())
    assert KINDS[answer] == "heterogeneous"
    assert record.passes is not None and record.passes.confusion[0] == (0, 0, 0, 0, 12)


def test_sheets_show_maps_and_nothing_of_where_they_come_from(tmp_path):
    image = pytest.importorskip("PIL.Image")
    vertical = planted("vertical")
    maps = [replace(vertical, id=f"M{place:02d}", model=f"model-{place}") for place in range(25)]
    written = draw_sheets(maps, tmp_path)
    assert [path.name for path in written] == ["sheet-01.png", "sheet-02.png"]
    first = np.asarray(image.open(written[0]))
    other = [replace(drawn, model="another", layer=7, head=7, pair="9") for drawn in maps]
    again = draw_sheets(other, tmp_path / "other")
    np.testing.assert_array_equal(first, np.asarray(image.open(again[0])))
