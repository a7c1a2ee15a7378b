import hashlib
from pathlib import Path

import pytest

from qt_bert.data.cases import COLUMNS, Case, read_cases, titles_then_others
from qt_bert.errors import PairFileError
from qt_bert.results.head_sets import PHENOMENA
from qt_bert.shipped import BEHAVIOURS, shipped

HEADER = "\t".join(COLUMNS)
GOOD = [
    "a1\tdirection\tbetter\t苹果多少钱\t苹果的价格\t梨的价格",
    "a2\tdirection\tbetter\t狗追猫\t狗追猫的故事\t猫追狗的故事",
    "b1\tsynonym\talike\t红烧排骨\t红烧排骨做法\t红烧排骨怎么做",
]


def write(path: Path, *rows: str, header: str = HEADER) -> Path:
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return path


def fault(path: Path) -> str:
    with pytest.raises(PairFileError) as error:
        read_cases(path)
    return str(error.value)


def test_a_file_of_cases(tmp_path):
    cases = read_cases(write(tmp_path / "cases.tsv", *GOOD))
    texts = ("苹果多少钱", "苹果的价格", "梨的价格")
    assert cases.listed[0] == Case("a1", "direction", "better", *texts, line=2)
    assert cases.phenomena == {"direction": "better", "synonym": "alike"}
    pairs = titles_then_others(cases.listed)
    assert [pair.title for pair in pairs[:2]] == ["苹果的价格", "狗追猫的故事"]
    assert [(pair.id, pair.title) for pair in pairs[3:4]] == [("a1/other", "梨的价格")]


def test_the_hash_is_of_the_texts_in_their_order(tmp_path):
    cases = read_cases(write(tmp_path / "cases.tsv", *GOOD))
    lines = (row.split("\t")[3:] for row in GOOD)
    text = "".join("\0".join(texts) + "\n" for texts in lines)
    assert cases.texts_sha256 == hashlib.sha256(text.encode()).hexdigest()
    renamed = read_cases(write(tmp_path / "two.tsv", *[f"x{row}" for row in GOOD]))
    assert renamed.texts_sha256 == cases.texts_sha256
    turned = read_cases(write(tmp_path / "three.tsv", *GOOD[::-1]))
    assert turned.texts_sha256 != cases.texts_sha256


def test_columns_go_by_their_names_in_csv_too(tmp_path):
    path = tmp_path / "cases.csv"
    names = "note,other,title,query,relation,phenomenon,id"
    rows = [
        '"a, b",梨,苹果的价格,苹果多少钱, better ,price,a1',
        ",猫追狗,狗追猫,狗追猫呢,better,price,a2",
    ]
    cases = read_cases(write(path, *rows, header=names))
    assert [(case.id, case.title, case.other) for case in cases.listed] == [
        ("a1", "苹果的价格", "梨"),
        ("a2", "狗追猫", "猫追狗"),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("c1\tdirection\tworse\tq\tt\to", "unknown relation 'worse'; it is better or alike"),
        ("c1\tdirection\tbetter\tq\t \to", "title is empty"),
        ("\tdirection\tbetter\tq\tt\t", "id and other are empty"),
        ("a2\tdirection\tbetter\tq\tt\to", "the id 'a2' is already used in line 3"),
        ("c1\tdirection\talike\tq\tt\to", "'direction' is 'alike' here and 'better' in line 2"),
        ("c1\tdirection\tbetter\tq\tt\tt", "title and other are the same"),
        ("c1\tdirection\tbetter\tq\tt", "5 fields, but 6 columns"),
        ("c1\tdirection\tbetter\tq\0\tt\to", "a NUL character in it"),
    ],
)
def test_each_bad_row_is_listed(tmp_path, row, reason):
    path = write(tmp_path / "cases.tsv", *GOOD, row)
    assert fault(path) == f"{path}: 1 of its rows cannot be read as cases: line 5: {reason}"


def test_many_bad_rows_are_counted(tmp_path):
    message = fault(write(tmp_path / "cases.tsv", *["x"] * 13))
    assert "13 of its rows" in message and message.endswith("and 3 more")
    assert message.count("line ") == 10


def test_bytes_that_are_no_text_are_a_bad_row(tmp_path):
    path = write(tmp_path / "cases.tsv", *GOOD)
    path.write_bytes(path.read_bytes() + b"c1\tdirection\tbetter\t\xff\xfe\tt\to\n")
    assert "line 5: undecodable bytes" in fault(path)


def test_files_that_hold_no_cases(tmp_path):
    assert "no case in it" in fault(write(tmp_path / "none.tsv"))
    message = fault(write(tmp_path / "names.tsv", "1\t2", header="query\ttitle"))
    assert "line 1: the header must have each of the columns id, phenomenon" in message
    assert message.endswith("missing or repeated: id, phenomenon, relation, other")
    assert "from TSV and CSV" in fault(write(tmp_path / "cases.jsonl"))
    (tmp_path / "empty.tsv").touch()
    assert "the file is empty" in fault(tmp_path / "empty.tsv")


def test_the_cases_that_ship():
    cases = read_cases(shipped(BEHAVIOURS))
    assert set(cases.phenomena) == set(PHENOMENA)
    sizes = [sum(case.phenomenon == name for case in cases.listed) for name in cases.phenomena]
    assert min(sizes) >= 40
