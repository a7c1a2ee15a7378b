import csv
import json
import tracemalloc
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qt_bert.data.columns import Columns, parse_columns
from qt_bert.data.pairs import GradeMap, Reason, Reject
from qt_bert.data.quoting import split_csv
from qt_bert.data.reader import PairReader, ReaderOptions, read_pairs, reject_log
from qt_bert.errors import ArgumentError, PairFileError

GOOD = '{"query": "q", "title": "t"}\n'


def test_a_pair_has_all_its_parts(write):
    path = write("f.tsv", "id\tquery\ttitle\tgrade\tfield\nx9\t 查询\t标题 \t4\t旅游\n")
    (pair,) = read_pairs(path, grade_map=GradeMap.identity())
    assert (pair.query, pair.title, pair.grades, pair.id) == (" 查询", "标题 ", (4,), "x9")
    assert (pair.line, pair.label, dict(pair.extra)) == (2, "4", {"field": "旅游"})


@pytest.mark.parametrize("name", ["f.xlsx", "f", "f.gz", "f.tsv.zip", "f.xml"])
def test_an_unknown_suffix_names_the_known_ones(write, name):
    with pytest.raises(PairFileError, match=r"\.tsv, \.txt, \.csv, \.jsonl"):
        PairReader(write(name, "x"))


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("\tt", "empty query"),
        ("\u3000 \tt", "empty query"),
        ("q\t\u2003", "empty title"),
        ("a\0b\tt", "NUL character"),
        ("q\t\0", "NUL character"),
        ("query\ttitle", "the header again"),
        ("\ufeffquery\ttitle", "the header again"),
    ],
)
def test_rows_that_are_no_pairs(write, row, reason):
    reader = PairReader(write("f.tsv", f"query\ttitle\nq\tt\n{row}\nq\tt\n"))
    assert [pair.line for pair in reader] == [2, 4]
    assert (reader.reasons, reader.rows_read, reader.accepted) == ({reason: 1}, 3, 2)


GRADED = "query\ttitle\tgrade\nq\tt\t2\nq\tt\t\nq\tt\tgood\n"


def rows(good: int, bad: int) -> str:
    return "query\ttitle\n" + "q\tt\n" * good + "\n".join(["bad"] * bad)


def test_rejects_are_judged_every_ten_thousand_rows(write):
    body = "bad\n" * 101 + "q\tt\n" * 20_000
    reader = PairReader(write("f.tsv", "query\ttitle\n" + body))
    with pytest.raises(PairFileError, match="101 of the first 10,000 rows"):
        list(reader)
    assert (reader.rows_read, reader.accepted) == (10_000, 9_899)


@pytest.mark.parametrize(
    ("content", "reason"),
    [("query\ttitle\n", "has no rows"), (rows(0, 3), "not one of 3 rows is a pair")],
)
def test_a_file_without_a_pair_is_an_error(write, content, reason):
    with pytest.raises(PairFileError, match=reason):
        read_pairs(write("f.tsv", content), max_rejects=1)


def test_reading_again_counts_anew(write):
    reader = PairReader(write("f.tsv", rows(2, 1)))
    assert list(reader) == list(reader)
    assert (reader.rows_read, reader.accepted, reader.rejected) == (3, 2, 1)


def test_memory_does_not_grow_with_the_file(write):
    def peak(count):
        reader = PairReader(write(f"{count}.tsv", rows(count, 0)))
        tracemalloc.start()
        for _ in reader:
            pass
        used = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return used

    peak(10)
    assert peak(5_000) < peak(500) + 50_000


def test_empty_lines_without_end_are_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("qt_bert.data.lines.MAX_EMPTY_LINES", 100)
    path = tmp_path / "blank.tsv"
    path.write_text("query\ttitle\n" + "\n" * 50 + "a\tb\n" + "\n" * 50 + "c\td\n", "utf-8")
    assert len(list(PairReader(path))) == 2
    path.write_text("query\ttitle\na\tb\n" + "\n" * 200, "utf-8")
    with pytest.raises(PairFileError, match="100 empty lines in a row up to line 103"):
        list(PairReader(path))


def test_ten_rejects_are_tolerated_and_beyond_them_a_share(write):
    assert len(read_pairs(write("f.tsv", rows(1, 10)), max_rejects=0)) == 1
    with pytest.raises(PairFileError, match=r"11 of the first 12 rows.*too few fields: 11"):
        read_pairs(write("f.tsv", rows(1, 11)))
    assert len(read_pairs(write("f.tsv", rows(1089, 11)))) == 1089
    with pytest.raises(PairFileError, match="--max-rejects"):
        read_pairs(write("f.tsv", rows(1088, 11)))


@pytest.mark.parametrize(
    ("name", "content", "options", "error", "reason"),
    [
        ("f.tsv", "甲\t乙\n", {}, PairFileError, "line 1: no column 'query'.*'甲', .*--no-header"),
        ("f.tsv", "query\ttitle\n", {"grade_required": True}, PairFileError, "no column 'grade'"),
        ("f.tsv", "query\ttitle\n", {"max_rejects": float("nan")}, ArgumentError, "--max-rejects"),
        ("f.tsv", "query\ttitle\n", {"max_rejects": -0.1}, ArgumentError, "--max-rejects"),
        ("f.jsonl", GOOD, {"columns": {"query": "q"}}, PairFileError, "key 'q'; .* has 'que"),
        ("f.jsonl", GOOD, {"columns": {"grade": "lable"}}, PairFileError, "the key 'lable'"),
        ("f.jsonl", GOOD, {"columns": {"query": 1}}, ArgumentError, "not positions"),
        ("f.jsonl", GOOD, {"header": False}, ArgumentError, "--no-header is for TSV and CSV"),
        ("f.json", "[\n" + GOOD + "]", {}, PairFileError, r"one JSON array.*jq -c"),
        ("f.jsonl", "\ufeff [" + GOOD + "]", {}, PairFileError, "one JSON array"),
        ("f.csv", "query;title\nq;t\n", {}, PairFileError, "separated by ';'; .tsv has tabs"),
        ("f.tsv", "query,title\nq,t\n", {}, PairFileError, "separated by ','"),
        ("f.csv", 'query,"title\nq,t\n', {}, PairFileError, "line 1: the quote of .* is never"),
    ],
)
def test_what_cannot_be_read_as_asked_is_refused(write, name, content, options, error, reason):
    with pytest.raises(error, match=reason):
        read_pairs(write(name, content), **options)


def test_rejects_never_overwrite_the_pairs(write):
    path = write("f.tsv", rows(1, 1))
    with pytest.raises(ArgumentError, match="overwrite"):
        PairReader(path, rejects_path=path)


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("a,b", ["a", "b"]),
        ("a,", ["a", ""]),
        (",", ["", ""]),
        ('"a,b",c', ["a,b", "c"]),
        ('"say ""hi""",c', ['say "hi"', "c"]),
        ('"",c', ["", "c"]),
        ('c,""', ["c", ""]),
        ('5" 屏幕,b', ['5" 屏幕', "b"]),
        ('"open,b', None),
        ('"a"b,c', ['"a"b', "c"]),
        ('"a" ,c', ['"a" ', "c"]),
        ('a,"b', None),
        ('"a\nb","c\r\n"', ["a\nb", "c\r\n"]),
        ('a,b"', ["a", 'b"']),
        ('""",b', None),
        ('""""', ['"']),
        (' "a,b"', [' "a', 'b"']),
    ],
)
def test_quotes(line, fields):
    assert split_csv(line) == fields


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize(
    ("body", "read", "rejects"),
    [
        (['q,"a', "", 'b, ""c"""', "x,y"], [(2, "q", 'a\n\nb, "c"'), (5, "x", "y")], []),
        (['"a', 'b","c', 'd"', "x,y"], [(2, "a\nb", "c\nd"), (5, "x", "y")], []),
        # A quote that is never closed, or closed by what is none: the rows behind it are read.
        (['q,"a', "x,y", "z,w"], [(3, "x", "y"), (4, "z", "w")], [2]),
        (['q,"a', 'x,"y, z"', '"u', 'v",w'], [(3, "x", "y, z"), (4, "u\nv", "w")], [2]),
        (["x,y", '"'], [(2, "x", "y")], [3]),
        (['q,"a', "x" * 2**20, 'y"', "x,y"], [(5, "x", "y")], [2, 3, 4]),
    ],
)
def test_rows_of_csv_span_lines(write, body, read, rejects, end):
    path = write("f.csv", end.join(("query,title", *body, "")))
    result = list(PairReader(path).rows())
    pairs = [(p.line, p.query, p.title) for p in result if not isinstance(p, Reject)]
    assert pairs == [(line, q.replace("\n", end), t.replace("\n", end)) for line, q, t in read]
    assert [row.line for row in result if isinstance(row, Reject)] == rejects


@given(st.lists(st.tuples(*[st.text(st.sampled_from('a,"\n 中'), max_size=9)] * 3), min_size=1))
def test_a_file_that_the_standard_library_writes_is_read_back(tmp_path_factory, table):
    path = tmp_path_factory.mktemp("csv") / "f.csv"
    with open(path, "w", encoding="utf-8", newline="") as handle:
        csv.writer(handle).writerows(
            [("query", "title", "x"), *(("q" + q, "t" + t, x) for q, t, x in table)]
        )
    read = [(p.query[1:], p.title[1:], p.extra["x"]) for p in read_pairs(path)]
    assert read == table


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (['"27"" 显示器"', "x"], "line 3: a field looks quoted"),
        (["x", '"""引用"" 原文"'], "line 3: a field looks quoted"),
        (['"小米"', '27" x'], ""),
        (['"a', 'b""'], ""),
    ],
)
def test_quotes_in_tsv_are_text_and_quoted_fields_give_a_warning(write, capsys, fields, message):
    path = write("f.tsv", "query\ttitle\nq\tt\n" + "\t".join(fields) + "\n")
    assert (read_pairs(path)[1].query, read_pairs(path)[1].title) == tuple(fields)
    assert message in capsys.readouterr().err and capsys.readouterr().err == ""


def test_lists_of_titles_are_a_row_a_title(write):
    rows = [
        {"query": "q", "pos": ["a", "b"], "neg": ["c"], "neg_scores": [0.5], "type": "x"},
        {"query": "q", "pos": ["d", None, {}, " "], "neg": "e"},
        {"query": "q", "pos": [], "neg": []},
        {"query": "q", "pos": ["d", None, " "]},
    ]
    path = write("f.jsonl", "\n".join(map(json.dumps, rows)))
    reader = PairReader(path, grade_map=GradeMap.identity(), grade_required=True)
    assert [(p.title, p.label, p.grades, p.line, p.id) for p in reader] == [
        ("a", "pos", (4, 5), 1, "1:pos1"),
        ("b", "pos", (4, 5), 1, "1:pos2"),
        ("c", "neg", (1, 2, 3), 1, "1:neg1"),
        ("d", "pos", (4, 5), 4, "4:pos1"),
    ]
    not_lists, of_titles = "pos or neg is not a list of titles", "title is not text"
    assert set(reader.reasons) == {not_lists, of_titles, "missing title", "empty title"}
    assert next(iter(reader)).extra == {"type": "x"}
    pairs = read_pairs(path, grade_map=GradeMap.levels(2), grade_required=True)
    assert [p.grades for p in pairs] == [(2,), (2,), (1,), (2,)]


@pytest.mark.parametrize(
    ("name", "content", "extra"),
    [
        (
            "f.tsv",
            "field\tquery\t\ttitle\ttags\n旅游\tq\t?\tt\t\n",
            [("field", "旅游"), ("column_3", "?"), ("tags", "")],
        ),
        (
            "f.jsonl",
            '{"z": 1.0, "query": "q", "a": null, "title": "t", "m": ["甲", {}]}',
            [("z", "1.0"), ("a", ""), ("m", '["甲", {}]')],
        ),
    ],
)
def test_extra_columns_keep_file_order_and_become_text(write, name, content, extra):
    (pair,) = read_pairs(write(name, content))
    assert list(pair.extra.items()) == extra


def test_texts_survive_escapes_and_odd_separators(write):
    row = {"query": '引"号\\', "title": "a\u2028b\n😀", "id": "x"}
    path = write("f.jsonl", json.dumps(row) + "\n" + json.dumps(row, ensure_ascii=False))
    assert [(p.query, p.title, p.id, p.line) for p in read_pairs(path)] == [
        ('引"号\\', "a\u2028b\n😀", "x", 1),
        ('引"号\\', "a\u2028b\n😀", "x", 2),
    ]


@pytest.mark.parametrize(
    "value", ["NaN", "-Infinity", "1e400", "0.10", "[1.50, NaN]", "1234567890123456789012"]
)
def test_numbers_of_other_columns_cost_no_pair(write, value):
    path = write("f.jsonl", GOOD.replace("}", f', "x": {value}, "n": {{"a": {value}}}}}'))
    (pair,) = read_pairs(path)
    assert pair.extra == {"x": value, "n": f'{{"a": {value}}}'}


def test_a_grade_that_is_nan_is_named_where_it_is_needed(write):
    path = write("f.jsonl", "".join(GOOD.replace("}", f', "grade": {g}}}') for g in ("NaN", 3)))
    assert len(read_pairs(path)) == 2
    reader = PairReader(path, grade_map=GradeMap.identity(), grade_required=True)
    assert [p.line for p in reader] == [2] and reader.reasons == {"NaN is no text and no grade": 1}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('{"query": "q", "title": ', "bad JSON"),
        ('{"query": "q", "title": NaN}', "NaN is no text and no grade"),
        ('{"query": -Infinity, "title": "t"}', "NaN is no text and no grade"),
        ('{"query": "a", "query": "b", "title": "t"}', "bad JSON"),
        ('{"query": "a\tb", "title": "t"}', "bad JSON"),
        ("[" * 100_000, "bad JSON"),
        ('{"query": "q", "title": "t", "x": ' + "[" * 900 + "]" * 900 + "}", "bad JSON"),
        ('["q", "t"]', "not a JSON object"),
        ('"q"', "not a JSON object"),
        ('{"title": "t"}', "missing query"),
        ('{"query": "q"}', "missing title"),
        ('{"query": null, "title": "t"}', "query is not text"),
        ('{"query": "q", "title": ["t"]}', "title is not text"),
        ('{"query": true, "title": "t"}', "query is not text"),
        ('{"query": {}, "title": "t"}', "query is not text"),
        ('{"query": "\\ud83d", "title": "t"}', "lone surrogate"),
        ('{"query": "q", "title": "t", "x": "\\uDE00"}', "lone surrogate"),
        ('{"query": "a\\u0000b", "title": "t"}', "NUL character"),
        ('{"query": " \\u3000", "title": "t"}', "empty query"),
    ],
)
def test_rejects(write, line, reason):
    reader = PairReader(write("f.jsonl", GOOD + line + "\n" + GOOD))
    assert [pair.line for pair in reader] == [1, 3]
    assert reader.reasons == {reason: 1}


def test_each_reject_has_line_reason_and_text(write, tmp_path):
    path = write("f.tsv", "query\ttitle\nq\tt\na\tb\tc\n\tt\n")
    read_pairs(path, rejects_path=tmp_path / "out" / "rejects.tsv")
    assert (tmp_path / "out" / "rejects.tsv").read_text("utf-8") == (
        "line\treason\ttext\n3\ttoo many fields\ta b c\n4\tempty query\t t\n"
    )


def test_texts_are_cut_and_stay_on_one_line(tmp_path):
    with reject_log(tmp_path / "r.tsv") as write_reject:
        write_reject(Reject.of(7, Reason.BAD_JSON, "a\u2028\x85\r\n\ud800" + "长" * 500))
    written = (tmp_path / "r.tsv").read_text("utf-8")
    assert written == "line\treason\ttext\n7\tbad JSON\ta    \\ud800" + "长" * 194 + "\n"


def test_the_default_map_serves_where_no_grades_are_given(write):
    path = write("f.tsv", "query\ttitle\tgrade\nq\tt\t2\n")
    default = GradeMap.identity()
    assert [p.grades for p in ReaderOptions().open(path, default_map=default)] == [(2,)]
    assert [p.grades for p in ReaderOptions(grades="2=5").open(path, default_map=default)] == [(5,)]


@pytest.mark.parametrize(
    ("columns", "header", "reason"),
    [
        ({"label": "x"}, True, "unknown name 'label'"),
        ({"query": "title"}, True, "query and title"),
        ({"query": "a", "grade": "a"}, True, "query and grade"),
        ({"query": "q"}, False, "position"),
        ({"query": "0"}, False, "position"),
        ({"query": -1}, False, "position"),
        ({"query": "²"}, False, "position"),
        ({"query": "9" * 5_000}, False, "position"),
        ({"query": "2"}, False, "query and title"),
    ],
)
def test_invalid_columns_are_refused(columns, header, reason):
    with pytest.raises(ArgumentError, match=reason):
        Columns.resolve(columns, header=header)


@pytest.mark.parametrize(
    ("columns", "header", "names", "places"),
    [
        ({}, True, ["id", "title", "query", "grade", "field"], (2, 1, 3, 0)),
        ({}, False, ["a", "b", "c"], (0, 1, 2, None)),
        # Positions count from one, and push default grade and id aside.
        ({"query": "2", "title": 3}, False, list("abcd"), (1, 2, None, 3)),
        ({"query": "title", "title": "query"}, True, ["query", "title"], (1, 0, None, None)),
    ],
)
def test_where_columns_stand(columns, header, names, places):
    place = Columns.resolve(columns, header=header).place(names, "f")
    assert (place.query, *place.title, place.grade, place.id) == places


@pytest.mark.parametrize(
    ("columns", "names", "reason"),
    [
        ({"query": "q"}, ["q", "t"], r"^f: no column 'title' for the title; .*'q', 't'"),
        ({}, [f"c{i}" for i in range(20)], "and 8 more"),
        ({"title": "grade"}, ["query", "grade"], "for the grade"),
        ({}, ["query", "title", "x", "x"], "2 columns are called 'x'"),
    ],
)
def test_columns_that_are_not_there(columns, names, reason):
    required = ["grade"] if "title" in columns else []
    with pytest.raises(PairFileError, match=reason):
        Columns.resolve(columns, required=required).place(names, "f")


def test_a_specification_maps_names_or_is_refused():
    assert parse_columns("query=q, title = t") == {"query": "q", "title": "t"}
    for spec in ("", "query", "query=", "=q", "query=q,", "query=a,query=b"):
        with pytest.raises(ArgumentError, match="--columns"):
            parse_columns(spec)


@pytest.mark.parametrize(
    ("options", "grades", "bad", "reasons"),
    [
        ({}, [None, None, None], 0, {}),
        ({"grade_map": GradeMap.parse("2=3-4")}, [(3, 4), None, None], 1, {}),
        (
            {"grade_map": GradeMap.identity(), "grade_required": True},
            [(2,)],
            0,
            {"missing grade": 1, "bad grade": 1},
        ),
    ],
)
def test_labels_as_text_as_grades_and_required(write, options, grades, bad, reasons):
    reader = PairReader(write("f.tsv", GRADED), **options)
    read = list(reader)
    assert [p.grades for p in read] == grades
    assert [p.label for p in read] == ["2", None, "good"][: len(read)]
    assert (reader.reasons, reader.bad_grades) == (reasons, bad)


@pytest.mark.parametrize(
    ("name", "content", "read"),
    [
        ("f.csv", "query,title\nNA,null\n1.0,nan\n", [("NA", "null"), ("1.0", "nan")]),
        ("f.jsonl", '{"query": 1.50, "title": 12, "grade": true}\n', [("1.50", "12")]),
    ],
)
def test_text_is_taken_as_written(write, name, content, read):
    assert [(p.query, p.title) for p in read_pairs(write(name, content))] == read


def test_rejects_are_listed_when_reading_stops_and_an_old_list_goes(write, tmp_path):
    listed = tmp_path / "rejects.tsv"
    path = write("f.tsv", "query\ttitle\nq\tt\n" + "bad\n" * 20)
    with pytest.raises(PairFileError, match=r"all are listed in .*rejects\.tsv"):
        read_pairs(path, rejects_path=listed)
    assert len(listed.read_text("utf-8").splitlines()) == 21
    read_pairs(write("f.tsv", "query\ttitle\nq\tt\n"), rejects_path=listed)
    assert not listed.exists()
    path = write("f.tsv", "query\ttitle\nbad\nq\tt\nq\tt\n")
    pairs = iter(PairReader(path, rejects_path=listed))
    next(pairs)
    pairs.close()
    assert listed.exists()
    with pytest.raises(ArgumentError, match="cannot be written"):
        read_pairs(path, rejects_path=path / "rejects.tsv")


@pytest.mark.parametrize("line", ["", "bad\n"])
def test_no_other_file_is_replaced_by_the_rejects(write, tmp_path, line):
    path = write("f.tsv", f"query\ttitle\nq\tt\n{line}")
    mine = write("mine.tsv", "query\ttitle\n")
    with pytest.raises(ArgumentError, match=r"mine\.tsv is there already"):
        read_pairs(path, rejects_path=mine)
    assert mine.read_text() == "query\ttitle\n"
    with pytest.raises(ArgumentError, match="no list of rejects"):
        read_pairs(path, rejects_path=tmp_path)
    mine.write_text("")
    read_pairs(path, rejects_path=mine)
    assert mine.exists() == bool(line)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("f.tsv", "query\ttitle\tabstract\n猫\t标题\t摘要\n猫\t标题\t\n"),
        (
            "f.jsonl",
            '{"query": "猫", "title": "标题", "abstract": "摘要"}\n{"query": "猫", "title": "标题"}\n',
        ),
    ],
)
def test_a_title_may_be_joined_of_two_columns(write, capsys, name, text):
    path = write(name, text)
    for columns, titles in (("title=title+abstract", ["标题 摘要", "标题"]), (None, ["标题"] * 2)):
        options = ReaderOptions(columns)
        pairs = list(options.open(path))
        options.note_abstract(pairs, path)
        assert [pair.title for pair in pairs] == titles
        assert ("abstract is not read" in capsys.readouterr().err) == (columns is None)
    with pytest.raises(PairFileError, match=r"no column 'title\+body'|no object has"):
        read_pairs(path, columns={"title": "title+body"})


def test_a_part_of_a_title_is_a_text(write):
    row = '{"query": "猫", "title": "标题", "abstract": ["甲", "乙"]}\n'
    with pytest.raises(PairFileError, match="title is not text: 1"):
        read_pairs(write("f.jsonl", row), columns={"title": "title+abstract"})


def test_joined_columns_may_be_positions(write):
    path = write("f.csv", "猫,标题,摘要,3\n狗,甲,乙,5\n")
    pairs = read_pairs(path, columns={"title": "2+3", "grade": 4}, header=False)
    found = [(pair.line, pair.query, pair.title, pair.label) for pair in pairs]
    assert found == [(1, "猫", "标题 摘要", "3"), (2, "狗", "甲 乙", "5")]
    with pytest.raises(ArgumentError, match="title=x"):
        read_pairs(path, columns={"title": "2+x", "grade": 4}, header=False)


def test_a_further_file_has_the_same_columns_or_the_usual_ones(write, capsys):
    options = ReaderOptions(columns="query=q,title=t,grade=label")
    own = write("own.tsv", "q\tt\tlabel\na\tb\t1\n")
    assert options.beside(own) == options and not capsys.readouterr().err
    assert options.beside(write("usual.tsv", "query\ttitle\n\tb\n")) == ReaderOptions()
    assert "usual.tsv: read by" in capsys.readouterr().err
    bare = write("bare.tsv", "q\tt\tquery\ttitle\n\tb\tc\td\n")  # its own, whatever its rows
    assert options.beside(bare, labelled=False) == ReaderOptions(columns="query=q,title=t")
    joined = replace(options, columns="query=q,title=t+abstract")
    for reader, path, column in (
        (options, write("x.tsv", "x\ty\na\tb\n"), "q"),
        (joined, bare, "abstract"),
    ):
        with pytest.raises(PairFileError, match=f"no column .*{column}"):
            reader.beside(path)
    with pytest.raises(PairFileError, match="cannot be read"):
        ReaderOptions().beside(own.with_name("missing.tsv"))
