"""Grades of public pairs, by the scale of our own, joined with the texts that they are of.

python -m experiments.judged_pairs.run --data DATA --out DATA/judged

A sixteenth of the queries, by hash, is kept from training to choose models by.
"""

from __future__ import annotations

import csv
import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.common.command import one_line_faults, parser_of
from qt_bert.data.reader import PairReader
from qt_bert.errors import PairFileError
from qt_bert.files import atomic_folder
from qt_bert.models.checkpoint import check_place

GRADES = Path(__file__).with_name("grades.tsv")
"""Columns `pair` and `grade`: the key of a pair, and a grade or two neighbouring ones, `3-4`."""

SOURCES = (
    "qbqtc_dev_clean_qdisjoint.jsonl",
    "qbqtc_test_unlabelled.jsonl",
    "qbqtc_train_old.jsonl",
    "qbqtc_extra_old.jsonl",
    "kuake_qtr_train.tsv",
)


def key_of(query: str, title: str) -> str:
    """What a pair is known by without its text: 48 bits of the SHA-256 of query, tab, title."""
    return hashlib.sha256(f"{query}\t{title}".encode()).hexdigest()[:12]


def stored_grades(path: Path = GRADES) -> dict[str, str]:
    """Key of a pair → its grade or grades."""
    with open(path, encoding="utf-8", newline="") as file:
        return {row["pair"]: row["grade"] for row in csv.DictReader(file, delimiter="\t")}


def is_for_dev(query: str) -> bool:
    """Whether the pairs of a query judge models and train none."""
    return hashlib.sha256(query.encode()).digest()[2] < 16


def judged(files: list[Path], grades: Mapping[str, str]) -> Iterator[tuple[str, str, str]]:
    """Query, title and grade of every pair of the files that has one, each pair once."""
    left = dict(grades)
    for path in files:
        for pair in PairReader(path):
            grade = left.pop(key_of(pair.query, pair.title), None)
            if grade is not None:
                yield pair.query, pair.title, grade


def write_judged(data: Path, out: Path) -> dict[str, Counter[str]]:
    """Write the judged pairs of `data`/pairs to `out`/train.tsv and dev.tsv; returns each file's grades.

    Raises RunFolderError where `out` is there, PairFileError where a file or a judged pair is not.
    """
    check_place(out, overwrite=False)
    grades = stored_grades()
    parts: dict[str, list[tuple[str, str, str]]] = {"train": [], "dev": []}
    for one in judged([data / "pairs" / name for name in SOURCES], grades):
        parts["dev" if is_for_dev(one[0]) else "train"].append(one)
    if absent := len(grades) - sum(map(len, parts.values())):
        raise PairFileError(
            f"{data / 'pairs'}: {absent:,} of {len(grades):,} judged pairs stand in none of the "
            "files; fetch them as they were published"
        )
    with atomic_folder(out) as folder:
        for name, rows in parts.items():
            lines = ["\t".join(row) for row in (("query", "title", "grade"), *rows)]
            (folder / f"{name}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return {name: Counter(grade for *_, grade in rows) for name, rows in parts.items()}


def main(arguments: list[str] | None = None) -> None:
    """Write the pairs; an input's fault is one line and exit status 2."""
    parser = parser_of(__doc__)
    parser.add_argument("--data", type=Path, required=True, help="the folder of pairs/")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(arguments)
    with one_line_faults():
        counts = write_judged(options.data, options.out)
    for name, one in counts.items():
        listed = ", ".join(f"{count:,} of {grade}" for grade, count in sorted(one.items()))
        print(f"{name}: {one.total():,} pairs, {listed}")


if __name__ == "__main__":
    main()
