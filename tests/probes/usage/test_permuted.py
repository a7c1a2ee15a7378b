"""Permuted labels: within a text, among texts."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from qt_bert.probes.layers_reading import DEPENDENCY, LENGTH, POS, Examples, Places, Task
from qt_bert.probes.usage.permuted import on_dependents, permuted

TEXTS = tuple((str(number), "t") for number in range(4))
TEXT = np.array([0, 0, 0, 1, 1, 3, 3, 3, 3])


def task(about, unit, text, labels, kinds, ends=1) -> Task:
    spans = np.arange(len(text) * ends * 2).reshape(len(text), ends, 2)
    places = Places(unit, TEXTS, text, spans, np.arange(len(TEXTS)))
    examples = Examples(about, places, labels, ("a", "b"), kinds)
    return Task(examples, examples)


def test_characters_change_labels_within_their_text():
    labels = np.arange(len(TEXT))
    drawn = permuted(task(POS, "token", TEXT, labels, labels), 20, seed=0, first=3)
    assert [one.draw for one in drawn] == list(range(3, 23))
    assert drawn[0].name == "pos#3"
    for one in drawn:
        for text in set(TEXT):
            assert sorted(one.fit[text == TEXT]) == sorted(labels[text == TEXT])
    assert any((one.fit != labels).all() for one in drawn)
    assert len({tuple(one.fit) for one in drawn}) > 10


def test_texts_change_labels_among_each_other():
    labels = np.array([10.0, 20.0, 30.0, 40.0])
    (one,) = permuted(task(LENGTH, "text", np.arange(4), labels, None), 1, seed=1)
    assert sorted(one.fit) == labels.tolist() and list(one.fit) != labels.tolist()
    (again,) = permuted(task(LENGTH, "text", np.arange(4), labels, None), 1, seed=1)
    assert list(one.fit) == list(again.fit)


def test_words_of_arcs_stay_within_their_sentence():
    labels = np.arange(len(TEXT))
    asked = on_dependents(task(DEPENDENCY, "edge", TEXT, labels, labels, ends=2))
    assert asked.fit.places.unit == "text"
    assert asked.fit.places.spans[:, 0].tolist() == [[4 * n, 4 * n + 1] for n in range(len(TEXT))]
    (one,) = permuted(asked, 1, seed=0)
    assert sorted(one.fit[TEXT == 3]) == [5, 6, 7, 8]


def test_other_tasks_stay_as_they_are():
    labels = np.arange(len(TEXT))
    one = task(POS, "token", TEXT, labels, labels)
    assert on_dependents(one) is one
    assert on_dependents(replace(one)).fit.places is one.fit.places
