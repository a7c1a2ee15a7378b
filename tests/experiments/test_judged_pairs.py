"""Joining grades with public texts: keys, each pair once, what is missing."""

import json

import pytest

from experiments.judged_pairs import run
from experiments.judged_pairs.run import is_for_dev, key_of, main, stored_grades, write_judged
from qt_bert.errors import PairFileError, RunFolderError
from tests.conftest import write_pairs

PAIRS = [("狗能吃葡萄吗", "狗吃了葡萄怎么办"), ("北京", "北京大学"), ("北京", "北京市")]


@pytest.fixture
def data(tmp_path, monkeypatch):
    folder = tmp_path / "pairs"
    folder.mkdir()
    for name in run.SOURCES:
        if name.endswith("jsonl"):
            text = "".join(json.dumps({"query": q, "title": t}) + "\n" for q, t in PAIRS)
            (folder / name).write_text(text, encoding="utf-8")
        else:
            write_pairs(folder / name, PAIRS[:1])
    grades = tmp_path / "grades.tsv"
    rows = [(key_of(*PAIRS[0]), "3"), (key_of(*PAIRS[2]), "4-5")]
    grades.write_text("pair\tgrade\n" + "".join(f"{k}\t{g}\n" for k, g in rows), encoding="utf-8")
    monkeypatch.setattr(run, "stored_grades", lambda: stored_grades(grades))
    return tmp_path


def test_a_key_needs_both_texts_in_their_order():
    assert key_of("a", "b") == "894891f8b78a"
    assert len({key_of("a", "b"), key_of("b", "a"), key_of("a\tb", ""), key_of("a", "bb")}) == 4


def test_judged_pairs_are_written_once(data, monkeypatch, capsys):
    out = data / "judged"
    monkeypatch.setattr(run, "is_for_dev", lambda query: query == "北京")
    main(["--data", str(data), "--out", str(out)])
    header = "query\ttitle\tgrade"
    lines = {
        name: (out / f"{name}.tsv").read_text("utf-8").splitlines() for name in ("train", "dev")
    }
    assert lines["train"] == [header, "狗能吃葡萄吗\t狗吃了葡萄怎么办\t3"]
    assert lines["dev"] == [header, "北京\t北京市\t4-5"]
    assert "train: 1 pairs, 1 of 3" in capsys.readouterr().out


def test_a_sixteenth_of_the_queries_is_for_dev():
    share = sum(is_for_dev(str(number)) for number in range(4_000)) / 4_000
    assert 0.05 < share < 0.075


def test_the_stored_grades_are_grades():
    grades = stored_grades()
    assert len(grades) > 10_000 and all(len(key) == 12 for key in grades)
    assert set(grades.values()) == {"1", "2", "3", "4", "5", "1-2", "2-3", "3-4", "4-5"}


def test_what_is_refused(data):
    out = data / "judged"
    (data / "pairs" / run.SOURCES[-1]).unlink()
    with pytest.raises(PairFileError):
        write_judged(data, out)
    assert not out.exists()
    out.touch()
    with pytest.raises(RunFolderError):
        write_judged(data, out)
    with pytest.raises(SystemExit, match="2"):
        main(["--data", str(data), "--out", str(out)])


def test_a_judged_pair_that_is_nowhere_is_said(data):
    for name in run.SOURCES:
        if name.endswith("jsonl"):
            (data / "pairs" / name).write_text(
                json.dumps({"query": "北京", "title": "北京市"}) + "\n", encoding="utf-8"
            )
    write_pairs(data / "pairs" / run.SOURCES[-1], [PAIRS[1]])
    with pytest.raises(PairFileError, match="1 of 2"):
        write_judged(data, data / "judged")
