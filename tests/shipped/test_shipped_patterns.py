"""The labelled maps, their labels and the classifier agree with each other."""

import csv
from collections import Counter

import pytest

from experiments.pattern_maps.run import card_figures
from experiments.pattern_maps.stored import DrawnMap, read_maps
from qt_bert.data.reader import read_pairs
from qt_bert.files import sha256_file
from qt_bert.probes.pattern_maps import KINDS, open_classifier
from qt_bert.shipped import DEV, PATTERNS, shipped

FOLDER = shipped(PATTERNS)


@pytest.fixture(scope="module")
def maps() -> list[DrawnMap]:
    return read_maps(FOLDER)


def rows(name: str) -> list[dict[str, str]]:
    with (FOLDER / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_as_many_maps_as_the_card_says_layers_alike_each_of_another_pair(maps):
    models = Counter(one.model for one in maps)
    assert models == {"pretrained": 150, "graded": 150, "student": 150, "random": 30}
    for model in models:
        layers = Counter(one.layer for one in maps if one.model == model)
        assert max(layers.values()) - min(layers.values()) <= 1
        heads = Counter((one.layer, one.head) for one in maps if one.model == model)
        assert max(heads.values()) - min(heads.values()) <= 1
    pairs = {pair.id for pair in read_pairs(shipped(DEV))}
    drawn = [one.pair for one in maps]
    assert len(set(drawn)) == len(drawn) and set(drawn) <= pairs


def test_the_record_counts_what_the_files_hold(maps):
    record = open_classifier(FOLDER).record
    assert record.maps == len(maps)
    for name, sha256 in record.files.items():
        assert sha256_file(FOLDER / name) == sha256, name
    first, second, said = (rows(name) for name in ("labels.csv", "second.csv", "answers.csv"))

    def table(columns):
        met = Counter(zip((one["label"] for one in first), columns, strict=True))
        return [[met[row, column] for column in KINDS] for row in KINDS]

    assert [(one["id"], one["model"]) for one in said] == [(one.id, one.model) for one in maps]
    for column, labels in (("first", first), ("second", second)):
        assert [one[column] for one in said] == [one["label"] for one in labels]
    for name, judged in record.judged.items():
        assert table([one[name] for one in said]) == [list(row) for row in judged.confusion]
    assert record.passes is not None
    assert table([one["label"] for one in second]) == [list(row) for row in record.passes.confusion]
    kinds = {one["id"]: one["label"] for one in first}
    assert {kind: kinds[id] for kind, id in record.examples.items()} == {
        kind: kind for kind in ("vertical", "diagonal", "both", "heterogeneous")
    }
    figures = record.judged
    assert figures[record.chosen].macro_f1.value == max(f.macro_f1.value for f in figures.values())


def test_the_card_holds_the_figures():
    card = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert card_figures(FOLDER, open_classifier(FOLDER).record) in card
