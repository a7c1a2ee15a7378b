"""`--limit`: whole queries of a file of graded pairs."""

from __future__ import annotations

from pathlib import Path

from qt_bert.data.reader import ReaderOptions
from qt_bert.models.card import ModelLabels
from qt_bert.scoring.judge import graded_pairs


def test_a_limit_takes_whole_queries_in_file_order(tmp_path: Path) -> None:
    rows = [(f"查询{n % 10}", f"标题{n}", n % 5 + 1) for n in range(40)]
    path = tmp_path / "pairs.tsv"
    path.write_text(
        "query\ttitle\tgrade\n" + "".join("\t".join(map(str, row)) + "\n" for row in rows),
        encoding="utf-8",
    )
    labels = ModelLabels(5, tuple((grade,) for grade in range(1, 6)))
    every, _ = graded_pairs(path, ReaderOptions(), labels)
    some, _ = graded_pairs(path, ReaderOptions(limit=10), labels)
    assert len(every) == 40 and len(some) == 12, "three queries of four pairs"
    queries = {pair.query for pair in some}
    assert some == [pair for pair in every if pair.query in queries]
