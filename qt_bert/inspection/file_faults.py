"""What the reader says of a file, in Chinese: the command line speaks English alone."""

from __future__ import annotations

import re

from qt_bert.pairs.pair import Reason
from qt_bert.results import Text

REASONS: dict[str, Text] = {
    reason.value: Text(zh, reason.value)
    for reason, zh in {
        Reason.EMPTY_QUERY: "查询为空",
        Reason.EMPTY_TITLE: "标题为空",
        Reason.MISSING_GRADE: "没有标注",
        Reason.BAD_GRADE: "标注读不懂",
        Reason.TOO_FEW_FIELDS: "列太少",
        Reason.TOO_MANY_FIELDS: "列太多",
        Reason.UNDECODABLE: "不是有效的文本编码",
        Reason.NUL: "含 NUL 字符",
        Reason.SURROGATE: "含不成对的代理字符",
        Reason.BAD_JSON: "不是 JSON",
        Reason.NOT_AN_OBJECT: "不是 JSON 对象",
        Reason.MISSING_QUERY: "没有查询",
        Reason.MISSING_TITLE: "没有标题",
        Reason.QUERY_NOT_TEXT: "查询不是文本",
        Reason.TITLE_NOT_TEXT: "标题不是文本",
    }.items()
}
"""Why a row is rejected, in words."""

_KINDS = {
    "a zip archive or an Excel workbook": "zip 压缩包或 Excel 工作簿",
    "an empty zip archive": "空的 zip 压缩包",
    "an old Excel or Word file": "旧版 Excel 或 Word 文件",
    "gzip data: its name must end in .gz": "gzip 数据",
    "xz data: its name must end in .xz": "xz 数据",
    "bzip2 data": "bzip2 数据",
    "zstandard data": "zstandard 数据",
    "Parquet: its name must end in .parquet": "Parquet 数据",
    "UTF-16": "UTF-16 文本",
}
_COLUMNS = {"query": "查询", "title": "标题", "grade": "标注", "id": "编号"}
_FAULTS = tuple(
    (re.compile(pattern, re.DOTALL), zh)
    for pattern, zh in (
        (
            "is (?P<kind>.+), not UTF-8 or GB18030 text; convert it first",
            "是{kind}，不是 UTF-8 或 GB18030 文本；请先转换",
        ),
        (
            "looks like UTF-16 or binary data.*",
            "像是 UTF-16 或二进制数据，不是 UTF-8 或 GB18030 文本；请先转换",
        ),
        (
            "line (?P<line>[0-9]+): the header is neither.*",
            "第 {line} 行：表头不是 UTF-8 或 GB18030 文本",
        ),
        (
            "(line [0-9]+: )?no column (?P<wanted>.+) for the (?P<column>[a-z]+); "
            "there are (?P<there>.+); (name it|give its position).*",
            "没有{column}列 {wanted}；文件里有 {there}。列名不同用 --columns 说明，首行就是数据用 --no-header",
        ),
        (
            "(line [0-9]+: )?(?P<times>[0-9]+) columns are called (?P<wanted>.+); rename them",
            "有 {times} 列都叫 {wanted}；请改名",
        ),
        (
            "no object has the key (?P<wanted>.+); the first has (?P<there>.+); name the key.*",
            "没有一个对象有键 {wanted}；第一个有 {there}。键名不同用 --columns 说明",
        ),
        (
            "(?P<rejected>[0-9,]+) of the first (?P<rows>[0-9,]+) rows are rejects, more than "
            r"--max-rejects (?P<most>\S+) allows \((?P<why>.+?)\)(; all are listed in [^;]*)?",
            "前 {rows} 行里有 {rejected} 行不是句对，超过 --max-rejects {most}（{why}）",
        ),
        (
            r"not one of (?P<rows>[0-9,]+) rows is a pair \((?P<why>.+)\)",
            "{rows} 行里没有一行是句对（{why}）",
        ),
        ("the file has no rows", "文件里没有数据行"),
    )
)
_ADVICE = "; if the file's labels are no grades 1-5"
_ADVICE_ZH = "；标注不是 1–5 档时，用 --grades 说明含义，如 '0=1-2,1=3-4,2=5'"


def in_chinese(fault: str) -> str:
    """A fault as `qt_bert.pairs` words it, without the file's name; an unknown one as it is."""
    said, advice, _ = fault.partition(_ADVICE)
    for pattern, zh in _FAULTS:
        if found := pattern.fullmatch(said):
            return zh.format(**_parts(found)) + (_ADVICE_ZH if advice else "")
    return fault


def _parts(found: re.Match[str]) -> dict[str, str]:
    parts = {name: value or "" for name, value in found.groupdict().items()}
    for name, words in (("kind", _KINDS), ("column", _COLUMNS)):
        if name in parts:
            parts[name] = words.get(parts[name], parts[name])
    if "why" in parts:
        parts["why"] = _why(parts["why"])
    return parts


def _why(counts: str) -> str:
    """The reasons by frequency, and where the first reject stands."""
    reasons, first, where = counts.partition("; the first is line ")
    for reason, said in REASONS.items():
        reasons = re.sub(
            rf"\b{re.escape(reason)}: ([0-9,]+[0-9]|[0-9])", rf"{said.zh} \1 行", reasons
        )
    reasons = reasons.replace("行, ", "行，")
    return f"{reasons}；第一处在第 {where.replace(', ', ' 行：', 1)}" if first else reasons
