"""What visitors type, upload and link: it comes back as it went, the broken refused in plain words."""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qt_bert.data.pairs import Pair
from qt_bert.data.reader import read_pairs
from qt_bert.errors import ArgumentError, PairFileError
from qt_bert.heads import Head, Shape
from qt_bert.page.model import Shelf
from qt_bert.page.pairs import (
    MOST_BYTES,
    RefusedFile,
    RefusedInput,
    clean_texts,
    default_titles,
    shown_name,
    uploaded,
)
from qt_bert.page.state import KEYS, State, first_state, read_state, typed_heads

TSV = "query\ttitle\tgrade\n紫熨斗\t紫熨斗好用吗\t4\n狗追猫\t猫追狗\t2\n".encode()


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where uploads lie while they are read."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


ROWS = [
    Pair(query, title, None, "1", 1, label, {})
    for query, title, label in (
        ("甲", "一", "5"),
        ("甲", "二", None),
        ("乙", "三", "4"),
        ("丙", "四", "3"),
        ("丙", "五", None),
    )
]


def test_the_titles_that_rows_have_for_a_query() -> None:
    assert [(t.title, t.label) for t in default_titles("甲", "二", ROWS, 0)] == [
        ("一", "5"),
        ("二", None),
    ]
    assert [t.title for t in default_titles("甲", "新", ROWS, 0)] == ["新", "一", "二"]


def test_a_query_of_none_stands_beside_other_titles_without_their_labels() -> None:
    titles = default_titles("丁", "四", ROWS, 0)
    assert titles[0].title == "四" and len({one.title for one in titles}) == len(titles) == 5
    assert {one.label for one in titles} == {None} and {one.query for one in titles} == {"丁"}
    assert [one.title for one in default_titles("丁", "六", [], 0)] == ["六"]


def read(data: bytes, name: str) -> list[Pair]:
    """The pairs of an upload."""
    with uploaded(data, name) as path:
        return read_pairs(path)


def test_an_upload_is_read_and_gone(temporary: Path) -> None:
    assert [(p.query, p.title, p.label, p.line) for p in read(TSV, "../我的 文件.tsv")] == [
        ("紫熨斗", "紫熨斗好用吗", "4", 2),
        ("狗追猫", "猫追狗", "2", 3),
    ]
    assert list(temporary.iterdir()) == []


def test_an_upload_lies_where_nobody_else_can_read() -> None:
    with uploaded(TSV, "a.tsv") as path:
        assert path.parent.stat().st_mode & 0o077 == 0
        assert path.read_bytes() == TSV
    assert not path.exists()


def archive() -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as packed:
        packed.writestr(zipfile.ZipInfo("pairs.tsv"), TSV)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("data", "name", "said"),
    [
        (archive(), "pairs.tsv", "a zip archive"),
        (b"\xff\xd8\xff\xe0" * 999, "b.tsv", "header is neither UTF-8 nor GB18030"),
        (b"\x00" * 5000, "b.tsv", "binary data"),
        (b"", "b.tsv", "the file is empty"),
        (b" \n\n", "b.jsonl", "the file is empty"),
        (b"x" * (MOST_BYTES + 1), "b.tsv", "larger than 10 MB"),
        (b"x\n" * (MOST_BYTES // 2), "b.tsv", "no column 'query'"),
        (b"x" * MOST_BYTES, "b.tsv", "no column 'query'"),
        (TSV, "b.tsv.gz", "plain text files"),
        (TSV, "b.parquet", "plain text files"),
        (TSV, "b", "plain text files"),
        (b"query\ttitle\n", "b.tsv", "no rows"),
        (b"query\ttitle\nonly\n", "b.tsv", "not one of 1 rows is a pair"),
        (b"a\tb\n1\t2\n", "b.csv", "no column 'query'"),
    ],
)
def test_broken_uploads_are_refused_in_plain_words(
    temporary: Path, data: bytes, name: str, said: str
) -> None:
    with pytest.raises(PairFileError) as caught:
        read(data, name)
    error = caught.value
    assert isinstance(error, RefusedFile)
    for words in (error.said.zh, error.said.en):
        assert name in words and str(temporary) not in words
    assert said in error.said.en and error.said.en.count(name) == 1
    assert list(temporary.iterdir()) == []


def test_names_are_safe_to_show() -> None:
    assert shown_name("/etc/<b>\x1b\n.tsv") == "<b>.tsv"
    assert shown_name("") == "upload" and len(shown_name("长" * 300)) == 80
    assert len(read(TSV, "长" * 300 + ".TSV")) == 2


SHAPE = Shape(12, 12)


@pytest.mark.parametrize(
    "text", ["L3H7 L2H1", "L2H1,L3H7", " l2h1 ， Ｌ３Ｈ７ ", "L3H7、L2H1、L2H1", "\tL3H7\nL2H1"]
)
def test_heads_as_people_write_them(text: str) -> None:
    assert typed_heads(text, SHAPE) == (Head(2, 1), Head(3, 7))


@pytest.mark.parametrize("text", ["", "  ", ",", "，、"])
def test_no_text_is_no_head(text: str) -> None:
    assert typed_heads(text, SHAPE) == ()


@pytest.mark.parametrize(
    ("text", "wrong"),
    [("L3H7 L12H0", "L12H0"), ("L3H7 H2", "H2"), ("<b>", "<B>"), ("L1H12", "L1H12")],
)
def test_the_wrong_head_is_named_in_both_languages(text: str, wrong: str) -> None:
    with pytest.raises(ArgumentError) as caught:
        typed_heads(text, SHAPE)
    assert isinstance(caught.value, RefusedInput)
    for said in (caught.value.said.zh, caught.value.said.en):
        assert f"“{wrong}”" in said and "L11H11" in said


def test_control_characters_go_and_breaks_are_spaces() -> None:
    query, title, (fault,) = clean_texts("a\x00b\x1b[1m\ud800", "第一行\n第二行\tc\u2028d")
    assert (query, title) == ("ab[1m", "第一行 第二行 c d")
    assert "控制字符" in fault.zh and "control characters" in fault.en
    kept = ("<img src=x onerror=alert(1)>", "👨‍👩‍👧 “紫熨斗” 好用吗")
    assert clean_texts(*kept) == (*kept, [])


@pytest.mark.parametrize(
    ("lengths", "left"),
    [
        ((1000, 1000), (1000, 1000)),
        ((10, 5000), (10, 1990)),
        ((5000, 10), (1990, 10)),
        ((5000, 5000), (1000, 1000)),
        ((1500, 800), (1200, 800)),
    ],
)
def test_both_together_keep_two_thousand(lengths: tuple[int, int], left: tuple[int, int]) -> None:
    query, title, faults = clean_texts("查" * lengths[0], "题" * lengths[1])
    assert (len(query), len(title)) == left
    assert [("2,000" in fault.en, "2,000" in fault.zh) for fault in faults] == (
        [(True, True)] if lengths != left else []
    )


def test_empty_texts_are_said() -> None:
    assert [fault.en for fault in clean_texts(" ", "")[2]] == [
        "the query is empty: there is no pair to run",
        "the title is empty: there is no pair to run",
    ]


# The state in a link.


DEFAULT = State(
    model="tuned",
    query="紫熨斗",
    title="紫熨斗好用吗",
    layer=1,
    head=1,
    out=(Head(0, 0),),
    mode="zero",
    seed=0,
    language="zh",
)


@pytest.mark.parametrize(
    "state",
    [
        DEFAULT,
        replace(DEFAULT, query="<img src=x onerror=alert(1)>", title="a&t=b#c%20+ 👨‍👩‍👧"),
        replace(DEFAULT, out=(), mode="mean", seed=2**31 - 1, language="en"),
        replace(DEFAULT, model="score", layer=0, head=0, out=(Head(0, 1), Head(1, 1))),
    ],
)
def test_a_link_gives_the_state_back(shelf: Shelf, state: State) -> None:
    assert read_state(state.to_query(), DEFAULT, shelf) == (state, [])


def test_what_a_link_does_not_say_is_the_default(shelf: Shelf) -> None:
    assert read_state({}, DEFAULT, shelf) == (DEFAULT, [])
    assert read_state({"q": "狗", "utm": "x"}, DEFAULT, shelf) == (replace(DEFAULT, query="狗"), [])


def test_another_model_has_its_own_heads(shelf: Shelf) -> None:
    start = replace(DEFAULT, layer=2)
    found, faults = read_state({"model": "score"}, start, shelf)
    assert (found.model, found.layer, found.head, found.out) == ("score", 1, 1, ())
    assert faults == []


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("model", "../../etc/passwd", "no model"),
        ("layer", "3", "layer=“3” does not fit (0–2)"),
        ("layer", "-1", "layer=“-1”"),
        ("layer", "１", "layer=“１”"),
        ("head", "1e9", "head=“1e9”"),
        ("head", "9" * 5000, "head=“999999999999999999999999…”"),
        ("out", "L0H0 L9H9", "“L9H9” is no head of this model"),
        ("out", "<script>", "“<SCRIPT>”"),
        ("mode", "block", "(zero/uniform/mean)"),
        ("seed", "2147483648", "seed="),
        ("lang", "fr", "lang=“fr” does not fit (zh/en); zh stays"),
    ],
)
def test_what_does_not_fit_is_replaced_and_said(
    shelf: Shelf, key: str, value: str, said: str
) -> None:
    found, (fault,) = read_state({key: value}, DEFAULT, shelf)
    assert found == DEFAULT
    assert said in fault.en and len(fault.en) < 200 and len(fault.zh) < 200


values = st.one_of(
    st.text(max_size=40),
    st.sampled_from(["0", "1", "99", "none", "L0H1", "L0H1,L1H0", "tuned", "score", "en", "mean"]),
)


@settings(max_examples=150, deadline=None)
@given(query=st.dictionaries(st.sampled_from(sorted(KEYS.values())), values))
def test_whatever_a_link_says_the_state_is_valid(shelf: Shelf, query: Mapping[str, str]) -> None:
    found, _ = read_state(query, DEFAULT, shelf)
    shape = shelf.open(found.model).shape
    assert found.layer < shape.layers and found.head < shape.heads
    assert set(found.out) <= set(shape.all_heads)
    assert found.mode in ("zero", "uniform", "mean") and found.language in ("zh", "en")
    assert read_state(found.to_query(), DEFAULT, shelf)[0] == found


def test_the_first_visit_shows_the_article(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shelf, "names", property(lambda shelf: ("tuned", "score")))
    studied = SimpleNamespace(
        sets={"reader": (Head(1, 1),), "matching": (Head(2, 0), Head(0, 1), Head(1, 0))}
    )
    assert first_state(shelf, studied) == replace(DEFAULT, out=(Head(0, 1),))
    bare = first_state(shelf, None)
    assert (bare.layer, bare.head, bare.out) == (1, 0, ())
    elsewhere = SimpleNamespace(sets={"reader": (Head(0, 1),)})
    assert first_state(shelf, elsewhere).head == 0
