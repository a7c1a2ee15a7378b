"""What a label allows a model's outputs to say."""

from __future__ import annotations

import pytest

from qt_bert.models.card import ModelLabels
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.training.batches import training_set
from qt_bert.training.recipes import PairSource

GRADES = ModelLabels(5, ((1,), (2,), (3,), (4,), (5,)))


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "p.tsv"
    rows = [("狗", "1"), ("猫", "3"), ("小哥", "5")]
    text = "".join(f"{title}\t{title}\t{grade}\n" for title, grade in rows)
    path.write_text("query\ttitle\tgrade\n" + text, encoding="utf-8")
    return path


def allowed(checkpoint_of, source, labels):
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(48)
    return [e.allowed.tolist() for e in training_set([source], tokenizer, labels).examples]


def test_a_grade_is_one_output_and_a_coarse_label_several(checkpoint_of, file):
    exact = allowed(checkpoint_of, PairSource(file), GRADES)
    assert exact == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
    coarse = PairSource(file, grades="1=1-2,3=3-4,5=5")
    assert allowed(checkpoint_of, coarse, GRADES)[0] == [1, 1, 0, 0, 0]


def test_outputs_that_stand_for_several_grades(checkpoint_of, file):
    three = ModelLabels(3, ((1, 2), (3, 4), (5,)))
    assert allowed(checkpoint_of, PairSource(file), three) == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
    between = PairSource(file, grades="1=2-3,3=3-4,5=5")
    assert allowed(checkpoint_of, between, three)[0] == [1, 1, 0]


def test_levels_are_outputs_from_the_lowest(checkpoint_of, file):
    assert allowed(checkpoint_of, PairSource(file), ModelLabels(6, None))[2] == [0, 0, 0, 0, 0, 1]


def test_nothing_is_allowed_without_a_label_or_for_a_single_output(checkpoint_of, file):
    bare = PairSource(file, unlabelled=True)
    assert allowed(checkpoint_of, bare, GRADES) == [[0] * 5] * 3
    assert allowed(checkpoint_of, PairSource(file), ModelLabels(1, None)) == [[0]] * 3


def test_the_hash_of_texts_does_not_know_what_is_cut(checkpoint_of, file):
    def hashes(source, length):
        tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(length)
        found = training_set([source], tokenizer, GRADES)
        return found.texts_sha256, found.sha256

    (texts, seen), (same, cut) = hashes(PairSource(file), 48), hashes(PairSource(file), 6)
    assert texts == same and seen != cut
    others = [PairSource(file, weight=2.0), PairSource(file, labels=("1", "3"))]
    assert texts not in {hashes(other, 48)[0] for other in others}
