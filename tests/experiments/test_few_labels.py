"""The study on a tiny corpus: what it reads, its scorers, its tables."""

import numpy as np
import pytest

from experiments.few_labels import run
from experiments.few_labels.run import as_levels, bm25, main, shared_bigrams, suspects_found
from tests.conftest import write_pairs

TEXTS = ("北京天气预报", "上海地铁票价", "孕妇能吃什么", "苹果手机关机")


@pytest.fixture
def data(tmp_path):
    rng, judged, corpus = np.random.default_rng(0), [], []
    for n in range(400):
        pair = (f"{TEXTS[n // 2 % 4]}{n // 2}", f"{TEXTS[rng.integers(4)]}{n}")
        grade = int(rng.integers(1, 6))
        judged.append((*pair, grade if n % 9 else "3-4"))
        corpus.append((*pair, min(max(grade - 2, 0), 3)))
    for folder in ("judged", "pairs"):
        (tmp_path / folder).mkdir()
    write_pairs(tmp_path / "judged/train.tsv", judged[:350])
    write_pairs(tmp_path / "judged/dev.tsv", judged[350:])
    write_pairs(tmp_path / "pairs/kuake_qtr_train.tsv", corpus, label="label_0_3")
    return tmp_path


def test_scorers_by_hand():
    pairs = [("北京天气", "北京天气"), ("北京天气", "北京地铁"), ("北京天气", "手机")]
    assert shared_bigrams(pairs) == pytest.approx([1, 1 / 3, 0])
    first, second, none = bm25(pairs)
    assert first > second > none == 0
    assert as_levels(np.array([3.0, 1.0, 2.0]), 3).argmax(axis=1).tolist() == [2, 0, 1]


def test_tables(data, capsys, monkeypatch):
    monkeypatch.setattr(run, "REST", 100)
    arguments = ["--data", str(data), "--labels", "60", "--samples", "10"]
    for more in ([], ["--next"], ["--human", "corpus", "--scorer", "bigrams"]):
        main([*arguments, *more])
        head, _, *rows = capsys.readouterr().out.splitlines()
        assert "400 pairs, 200 queries" in head and len(rows) == 5
    for nothing in ([], ["--data", str(data / "none")]):
        with pytest.raises(SystemExit):
            main(nothing)
        assert "error: " in capsys.readouterr().err


def test_flipped_labels_are_found(tmp_path):
    shares = [[0.9 if g == grade else 0.025 for g in range(5)] for grade in range(5)]
    rows = ((f"q{n}", f"t{n}", n % 5 + 1, *shares[n % 5]) for n in range(200))
    path = write_pairs(tmp_path / "scored.tsv", rows, *(f"p_{grade}" for grade in range(1, 6)))
    assert suspects_found(path) == (10, 10, 10)
