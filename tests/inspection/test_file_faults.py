"""What is wrong with a file, in Chinese: every fault that the reader can find in an upload."""

from __future__ import annotations

import re

import pytest

from qt_bert.data.lines import _MAGIC
from qt_bert.data.pairs import Reason
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import PairFileError
from qt_bert.inspection.inputs import REASONS, RefusedFile, in_chinese, rows
from qt_bert.inspection.views.evaluation import FileFault, read_graded
from qt_bert.models.card import ModelLabels

GRADES = ModelLabels(5, tuple((g,) for g in range(1, 6)))
HEAD = b"query\ttitle\tgrade\n"


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (
            b"PK\x03\x04",
            "a.tsv",
            "是zip 压缩包或 Excel 工作簿，不是 UTF-8 或 GB18030 文本；请先转换",
        ),
        (b"\x00" * 5000, "a.tsv", "像是 UTF-16 或二进制数据，不是 UTF-8 或 GB18030 文本；请先转换"),
        (b"\xff\xd8\xff\xe0" * 9, "a.tsv", "第 1 行：表头不是 UTF-8 或 GB18030 文本"),
        (
            b"q\ttitle\n1\t2\n",
            "a.tsv",
            "没有查询列 'query'；文件里有 'q', 'title'。列名不同用 --columns 说明，首行就是数据用 --no-header",
        ),
        (b"query\tquery\ttitle\n1\t2\t3\n", "a.tsv", "有 2 列都叫 'query'；请改名"),
        (
            b'{"q": "1", "title": "2"}\n',
            "a.jsonl",
            "没有一个对象有键 'query'；第一个有 'q', 'title'。键名不同用 --columns 说明",
        ),
        (HEAD, "a.tsv", "文件里没有数据行"),
        (
            HEAD + b"one\n\tt\t1\nq\t\t1\n\tt\t1\n",
            "a.tsv",
            "4 行里没有一行是句对（查询为空 2 行，列太少 1 行，标题为空 1 行；第一处在第 2 行：'one'）",
        ),
    ],
)
def test_every_fault_has_its_words(data: bytes, name: str, said: str) -> None:
    with pytest.raises(RefusedFile) as caught:
        rows(data, name)
    assert caught.value.said.zh == f"{name} 无法读取：{said}"
    assert caught.value.said.en.isascii()


def test_too_many_bad_rows_with_advice() -> None:
    data = HEAD + ("甲\t一\t好\n乙\t二\t5\n" * 11 + "丙\n").encode()
    with pytest.raises(FileFault) as caught:
        read_graded(data, "a.tsv", ReaderOptions(max_rejects=0.01), GRADES)
    assert caught.value.said.zh == (
        "a.tsv 无法读取：前 23 行里有 12 行不是句对，超过 --max-rejects 0.01（标注读不懂 11 行，列太少 1 行；"
        "第一处在第 2 行：'甲 一 好'）；标注不是 1–5 档时，用 --grades 说明含义，如 '0=1-2,1=3-4,2=5'"
    )


def test_every_reason_and_every_kind_of_file_is_known() -> None:
    assert set(REASONS) == {reason.value for reason in Reason}
    for kind in _MAGIC.values():
        said = in_chinese(f"is {kind}, not UTF-8 or GB18030 text; convert it first")
        assert not re.search(r"data|archive|file|name", said), said


def test_an_unknown_fault_stays_as_it_is() -> None:
    assert in_chinese("something else (x)") == "something else (x)"
    assert issubclass(RefusedFile, PairFileError)
