"""The file of made pairs, read back by the reader of pairs."""

from __future__ import annotations

from pathlib import Path

import pytest

from qt_bert.pairs import GradeMap, PairReader
from qt_bert.training.rules import MADE_GRADES, RULES, MadePair, write_made
from qt_bert.training.rules.catalogue import grade_label

MADE = [
    MadePair("花展", '花展"门票', (2,), "intent"),
    MadePair("花展", "花展时间", (4, 5), "direction:kept"),
]


def test_written_pairs_are_read_back(tmp_path: Path) -> None:
    path = tmp_path / "made.tsv"
    assert write_made(path, MADE) == 2
    read = list(PairReader(path, grade_map=GradeMap.parse(MADE_GRADES)))
    assert [(p.query, p.title, p.grades, p.extra["rule"]) for p in read] == MADE


def test_the_labels_are_plain_text(tmp_path: Path) -> None:
    path = tmp_path / "made.tsv"
    write_made(path, MADE)
    lines = path.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "query\ttitle\tgrade\trule"
    assert lines[2] == "花展\t花展时间\t4-5\tdirection:kept"


def test_a_failure_leaves_no_file(tmp_path: Path) -> None:
    path = tmp_path / "made.tsv"
    with pytest.raises(ZeroDivisionError):
        write_made(path, (MADE[1 // i] for i in (1, 0)))
    assert list(tmp_path.iterdir()) == []


def test_every_label_of_a_rule_has_a_meaning() -> None:
    meaning = GradeMap.parse(MADE_GRADES)
    for rule in RULES.values():
        assert meaning.grades_of(grade_label(rule.grades)) == rule.grades
