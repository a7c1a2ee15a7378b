import gzip
import itertools
import json
import lzma
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from qt_bert.ablation.request import leave_heads_out
from qt_bert.data.reader import ReaderOptions
from qt_bert.data.templates import Template
from qt_bert.errors import ArgumentError, CheckpointError, PairFileError, RunFolderError
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring import score as work_module
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.score import score_file
from qt_bert.scoring.tables import growing_table


@pytest.fixture
def scorer(checkpoint_of):
    return Scorer(open_checkpoint(checkpoint_of()))


def run(path, scorer, out, **options):
    return score_file(path, ReaderOptions(), scorer, out, **options)


def read_tsv(path: Path) -> list[dict[str, str]]:
    head, *rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    return [dict(zip(head, row, strict=True)) for row in rows]


@pytest.fixture
def scored(scorer, write, tmp_path):
    """`scored(content)`: the rows of `o.tsv`, scored from a file of this content."""

    def score(content, name="p.tsv", **reader):
        path, out = write(name, content), tmp_path / "o.tsv"
        score_file(path, ReaderOptions(**reader), scorer, out, overwrite=True)
        return read_tsv(out)

    return score


def test_rows_keep_their_order_and_columns(scorer, pair_file, tmp_path):
    out = tmp_path / "scored.tsv"
    report = run(pair_file, scorer, out)
    rows = read_tsv(out)
    assert " ".join(rows[0]) == (
        "id query title grade p_1 p_2 p_3 p_4 p_5 predicted_grade expected_grade"
    )
    assert [row["id"] for row in rows] == [str(line) for line in range(2, 10)]
    assert rows[5]["title"] == "京东小哥最近在干嘛"
    assert report.pairs == 8
    for row in rows:
        p = [float(row[f"p_{g}"]) for g in range(1, 6)]
        assert sum(p) == pytest.approx(1, abs=1e-5)
        assert row["predicted_grade"] == str(1 + int(np.argmax(p)))
        expected = sum(g * x for g, x in zip(range(1, 6), p, strict=True))
        assert float(row["expected_grade"]) == pytest.approx(expected, abs=1e-5)


def test_digits_restore_the_float32(scorer, pair_file, tmp_path):
    import pyarrow.parquet as pq

    run(pair_file, scorer, tmp_path / "a.tsv")
    run(pair_file, scorer, tmp_path / "a.parquet")
    exact = pq.read_table(tmp_path / "a.parquet")["p_3"].to_numpy()
    rows = read_tsv(tmp_path / "a.tsv")
    assert exact.dtype == np.float32
    assert (np.array([row["p_3"] for row in rows], np.float32) == exact).all()


@pytest.mark.parametrize(
    ("suffix", "open_"),
    [(".tsv", open), (".tsv.gz", gzip.open), (".csv.xz", lzma.open), (".jsonl", open)],
)
def test_every_text_format_is_read_back_by_the_reader(scorer, pair_file, tmp_path, suffix, open_):
    out = tmp_path / f"scored{suffix}"
    run(pair_file, scorer, out, window=3)
    pairs = list(ReaderOptions().open(out))
    assert len(pairs) == 8
    assert float(pairs[0].extra["expected_grade"]) > 0
    with open_(out, "rb") as handle:
        assert handle.read().endswith(b"\n")


def test_hostile_texts_stay_one_row(scorer, write, tmp_path):
    rows = [
        {"query": 'a"b', "title": "x\ty\nz", "note": "1,2"},
        {"query": "=cmd", "title": '"q"', "note": "\r"},
    ]
    path = write("pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    for suffix in (".tsv", ".csv"):
        out = tmp_path / f"out{suffix}"
        run(path, scorer, out)
        pairs = list(ReaderOptions().open(out))
        formula = "'=cmd" if suffix == ".csv" else "=cmd"  # a spreadsheet would run it
        title = "x\ty\nz" if suffix == ".csv" else "x y z"
        assert [(p.query, p.title) for p in pairs] == [('a"b', title), (formula, '"q"')]
        assert pairs[0].extra["note"] == "1,2"


def test_columns_of_the_file_are_kept_beside_the_outputs(scored):
    """A bad grade costs no row; one named like an output, and one that is no label, stay apart."""
    first, second = scored("query\ttitle\tgrade\tp_1\n狗\t猫\t9\told\n狗\t狗\t\t\n")
    assert (first["grade"], first["input_p_1"], second["grade"]) == ("9", "old", "")
    (row,) = scored("query\ttitle\tlabel\tgrade\n狗\t猫\t4\tB\n", columns="grade=label")
    assert (row["label"], row["grade"]) == ("4", "B")
    assert "grade" not in scored("query\ttitle\n狗\t猫\n")[0]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "gb18030"])
@pytest.mark.parametrize("suffix", [".csv", ".tsv.gz"])
def test_columns_and_encoding_are_the_files(scorer, write, tmp_path, encoding, suffix):
    rows = "".join(f"北京到上海高铁{n},上海高铁票价,{n % 5 + 1},旅行\n" for n in range(6))
    path = write("p.csv", f"搜索词,标题,档位,领域\n{rows}".encode(encoding))
    out = tmp_path / f"o{suffix}"
    reader = ReaderOptions(columns="query=搜索词,title=标题,grade=档位")
    score_file(path, reader, scorer, out, window=2)
    data = gzip.decompress(out.read_bytes()) if suffix.endswith("gz") else out.read_bytes()
    assert data.startswith(b"\xef\xbb\xbf") == (encoding == "utf-8-sig")
    assert data.count(b"\xef\xbb\xbf") <= 1
    head, *lines = data.decode(encoding).splitlines()
    names = head.split("," if suffix == ".csv" else "\t")
    assert names[:6] == ["id", "搜索词", "标题", "档位", "领域", "p_1"] and len(lines) == 6
    assert [pair.extra["领域"] for pair in reader.open(out)] == ["旅行"] * 6


def test_without_a_header_columns_have_our_names(scored):
    (row,) = scored("猫\t狗\t4\n", columns="title=1,query=2,grade=3", no_header=True)
    assert (row["query"], row["title"], row["grade"]) == ("狗", "猫", "4")


@pytest.mark.parametrize("labels", [("", "5"), ("", "")])
def test_a_grade_column_no_row_of_the_first_window_fills_is_kept(scorer, write, tmp_path, labels):
    rows = "".join(f"狗\t猫\t{label}\n" for label in labels)
    run(write("p.tsv", "query\ttitle\tgrade\n" + rows), scorer, tmp_path / "o.tsv", window=1)
    assert tuple(row["grade"] for row in read_tsv(tmp_path / "o.tsv")) == labels


@pytest.mark.parametrize("name", ["grade", "late"])
def test_a_column_that_comes_late_is_not_lost_silently(scorer, write, tmp_path, name):
    rows = ({"query": "狗", "title": "猫"} | more for more in ({}, {name: 1}))
    path = write("p.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(PairFileError, match=f"line 2: the column '{name}'"):
        run(path, scorer, tmp_path / "o.tsv", window=1)


def test_rejects_are_listed_beside_the_output(scorer, write, tmp_path):
    path = write("p.tsv", "query\ttitle\n狗\t猫\n只有一个\n")
    assert run(path, scorer, tmp_path / "o.tsv").rejected == 1
    assert "too few fields" in (tmp_path / "o.tsv.rejects.tsv").read_text(encoding="utf-8")


def test_one_logit_is_a_raw_score(checkpoint_of, pair_file, tmp_path):
    scorer = Scorer(open_checkpoint(checkpoint_of("xlm-roberta", labels=1)))
    run(pair_file, scorer, tmp_path / "o.tsv")
    rows = read_tsv(tmp_path / "o.tsv")
    scores = np.array([row["score"] for row in rows], np.float32)
    texts = [(row["query"], row["title"]) for row in rows]
    np.testing.assert_array_equal(scores, scorer.logits(texts)[:, 0])


class Killed(BaseException):
    pass


def hidden(folder):
    return {path.name for path in folder.iterdir() if path.name.startswith(".")}


def test_a_finished_output_is_complete_for_its_own_inputs_alone(scorer, pair_file, tmp_path):
    out = tmp_path / "o.tsv"
    run(pair_file, scorer, out)
    done = out.read_bytes()
    assert run(pair_file, scorer, out, resume=True).already
    with pytest.raises(RunFolderError, match="a finished run; add --resume"):
        run(pair_file, scorer, out)
    pair_file.write_text("query\ttitle\n狗\t猫\n", encoding="utf-8")
    with pytest.raises(RunFolderError, match="another model, file, option or version"):
        run(pair_file, scorer, out, resume=True)
    assert out.read_bytes() == done
    assert run(pair_file, scorer, out, overwrite=True).pairs == 1
    out.unlink()
    assert not run(pair_file, scorer, out).already  # its state alone is no output


def stop_in_window(monkeypatch, scorer, number):
    calls, logits = itertools.count(1), scorer.logits

    def stopping(*args):
        if next(calls) == number:
            raise Killed
        return logits(*args)

    monkeypatch.setattr(scorer, "logits", stopping)


@pytest.mark.parametrize("suffix", [".tsv", ".tsv.gz", ".parquet"])
def test_a_run_stopped_between_windows_ends_in_the_same_bytes(
    scorer, pair_file, tmp_path, monkeypatch, suffix
):
    whole, stopped = tmp_path / f"whole{suffix}", tmp_path / f"stopped{suffix}"
    run(pair_file, scorer, whole, window=3)
    stop_in_window(monkeypatch, scorer, 2)
    with pytest.raises(Killed):
        run(pair_file, scorer, stopped, window=3)
    assert not stopped.exists()
    with pytest.raises(RunFolderError, match="an unfinished run; add --resume"):
        run(pair_file, scorer, stopped, window=3)
    report = run(pair_file, scorer, stopped, window=3, resume=True)
    assert report.resumed_at == 3
    assert stopped.read_bytes() == whole.read_bytes()
    assert hidden(tmp_path) == {f".{path.name}.progress.json" for path in (whole, stopped)}


def test_half_a_window_on_disk_is_dropped_at_resume(scorer, pair_file, tmp_path, monkeypatch):
    whole, out = tmp_path / "whole.tsv", tmp_path / "out.tsv"
    run(pair_file, scorer, whole, window=3)
    write = work_module.write_json

    def killed_before_the_mark(path, value):
        if value["standing"]["pairs"] == 6:
            raise Killed
        write(path, value)

    monkeypatch.setattr(work_module, "write_json", killed_before_the_mark)
    with pytest.raises(Killed):
        run(pair_file, scorer, out, window=3)
    monkeypatch.undo()
    run(pair_file, scorer, out, window=3, resume=True)
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("suffix", [".tsv", ".parquet"])
@pytest.mark.parametrize("window", [1, 2])
def test_a_killed_overwrite_goes_on(scorer, pair_file, tmp_path, monkeypatch, suffix, window):
    whole, out = tmp_path / f"whole{suffix}", tmp_path / f"out{suffix}"
    run(pair_file, scorer, whole, window=3)
    out.write_text("of an earlier run")
    stop_in_window(monkeypatch, scorer, window)
    with pytest.raises(Killed):
        run(pair_file, scorer, out, window=3, overwrite=True)
    assert out.read_text() == "of an earlier run"
    report = run(pair_file, scorer, out, window=3, resume=True)
    assert (report.resumed_at, report.pairs) == (3 * (window - 1), 8)
    assert out.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize("suffix", [".tsv", ".parquet"])
def test_a_run_killed_as_it_ends_reports_the_whole(
    scorer, pair_file, tmp_path, monkeypatch, suffix
):
    def killed(_):
        raise Killed

    pair_file.write_text(pair_file.read_text(encoding="utf-8") + "只有一个\n", encoding="utf-8")
    out = tmp_path / f"out{suffix}"
    monkeypatch.setattr(work_module.Work, "end", killed)
    with pytest.raises(Killed):
        run(pair_file, scorer, out, window=3)
    monkeypatch.undo()
    done = out.read_bytes()
    report = run(pair_file, scorer, out, window=3, resume=True)
    assert (report.pairs, report.rejected, report.already) == (8, 1, False)
    assert out.read_bytes() == done
    assert hidden(tmp_path) == {f".{out.name}.progress.json"}


def test_a_run_that_failed_before_its_first_window_may_be_begun_again(
    scorer, pair_file, tmp_path, monkeypatch
):
    out = tmp_path / "o.tsv"
    stop_in_window(monkeypatch, scorer, 1)
    with pytest.raises(Killed):
        run(pair_file, scorer, out)
    assert run(pair_file, scorer, out).pairs == 8


def test_an_error_in_a_resumed_run_keeps_what_was_scored_before(
    scorer, pair_file, tmp_path, monkeypatch
):
    whole, out = tmp_path / "whole.tsv", tmp_path / "out.tsv"
    run(pair_file, scorer, whole, window=3)
    stop_in_window(monkeypatch, scorer, 2)
    with pytest.raises(Killed):
        run(pair_file, scorer, out, window=3)

    def fail(*_):
        raise CheckpointError("no finite logits")

    monkeypatch.setattr(scorer, "logits", fail)
    with pytest.raises(CheckpointError):
        run(pair_file, scorer, out, window=3, resume=True)
    monkeypatch.undo()
    assert run(pair_file, scorer, out, window=3, resume=True).resumed_at == 3
    assert out.read_bytes() == whole.read_bytes()


def test_unfinished_work_of_other_inputs_is_refused(scorer, pair_file, tmp_path, monkeypatch):
    out = tmp_path / "o.tsv"
    monkeypatch.setattr(growing_table(out).__class__, "finish", lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        run(pair_file, scorer, out, window=3)

    def refused(given):
        with pytest.raises(RunFolderError, match="another model, file, option or version"):
            run(pair_file, given, out, window=3, resume=True)

    settings = replace(scorer.settings, template=Template("", "查询：", "标题：", ""))
    refused(Scorer(replace(scorer.checkpoint, settings=settings)))
    with monkeypatch.context() as edited:
        edited.setattr(work_module, "source_hash", lambda: "edited")
        refused(scorer)
    pair_file.write_text("query\ttitle\n狗\t猫\n", encoding="utf-8")
    refused(scorer)


def test_unfinished_work_of_equal_weights_in_another_shape_is_refused(
    fresh_checkpoint, pair_file, tmp_path, monkeypatch
):
    folder, out = fresh_checkpoint(), tmp_path / "o.tsv"
    scorer = Scorer(open_checkpoint(folder))
    stop_in_window(monkeypatch, scorer, 2)
    with pytest.raises(Killed):
        run(pair_file, scorer, out, window=3)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    (folder / "config.json").write_text(json.dumps(config | {"hidden_act": "relu"}), "utf-8")
    other = Scorer(open_checkpoint(folder))
    assert other.checkpoint.sha256 == scorer.checkpoint.sha256
    with pytest.raises(RunFolderError, match="another model, file, option or version"):
        run(pair_file, other, out, window=3, resume=True)


def test_heads_that_get_other_pairs_outputs_are_another_model(scorer, pair_file):
    pairs = list(ReaderOptions().open(pair_file))
    first, again, other = (
        leave_heads_out(scorer, "L0H1", "resample", of) for of in (pairs[:4], pairs[:4], pairs[4:])
    )
    assert first.describe() == other.describe()
    assert first.identity() == again.identity() != other.identity()


def test_what_was_left_out_of_an_output_goes_with_it(scorer, pair_file, tmp_path):
    out, record = tmp_path / "o.tsv", tmp_path / "o.tsv.run.json"
    pairs = list(ReaderOptions().open(pair_file))
    run(pair_file, leave_heads_out(scorer, "L0H1", "zero", pairs), out)
    assert record.exists()
    run(pair_file, scorer, out, overwrite=True)
    assert not record.exists()


def test_an_output_that_is_there_is_kept(scorer, pair_file, tmp_path):
    out = tmp_path / "o.tsv"
    out.write_text("mine")
    for resume in (False, True):
        with pytest.raises(RunFolderError, match="--overwrite replaces it"):
            run(pair_file, scorer, out, resume=resume)
    assert out.read_text() == "mine"
    assert run(pair_file, scorer, out, overwrite=True).pairs == 8


@pytest.mark.parametrize("name", ["o", "o.parquet.gz"])
def test_an_unknown_output_format_is_refused(scorer, pair_file, tmp_path, name):
    with pytest.raises(ArgumentError, match="unknown format"):
        run(pair_file, scorer, tmp_path / name)


@pytest.mark.parametrize("name", [".", "..", "/", "o.tsv"])
def test_a_folder_as_output_is_refused(scorer, pair_file, tmp_path, monkeypatch, name):
    (tmp_path / "o.tsv").mkdir()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ArgumentError, match="is a folder"):
        run(pair_file, scorer, Path(name))


def test_the_pairs_themselves_are_never_the_output(scorer, pair_file):
    before = pair_file.read_bytes()
    with pytest.raises(ArgumentError, match="which is read"):
        run(pair_file, scorer, pair_file, overwrite=True)
    assert pair_file.read_bytes() == before


def test_a_damaged_progress_file_is_refused(scorer, pair_file, tmp_path, monkeypatch):
    out = tmp_path / "out.tsv"
    monkeypatch.setattr(work_module.Work, "end", lambda self: None)
    run(pair_file, scorer, out)
    monkeypatch.undo()
    (tmp_path / ".out.tsv.progress.json").write_text("[" * 100_000, encoding="utf-8")
    with pytest.raises(RunFolderError, match="damaged.*--overwrite"):
        run(pair_file, scorer, out, resume=True)


def test_a_refused_file_leaves_nothing_behind(scorer, write, tmp_path):
    with pytest.raises(PairFileError):
        run(write("bad.tsv", "query\ttitle\n" + "one field\n" * 40), scorer, tmp_path / "out.tsv")
    left = {path.name for path in tmp_path.iterdir() if "model" not in path.name}
    assert left <= {"bad.tsv", "out.tsv.rejects.tsv"}


def test_other_columns_of_json_lines_stay_as_they_are(scorer, write, tmp_path):
    out = tmp_path / "o.jsonl"
    other = '"z": 1.50, "n": null, "ok": true, "big": 12345678901234567890123, "x": NaN, "t": "1"'
    other += ', "m": {"b": [1, null, {"价": "a\\nb"}], "a": -0.0}'
    row = f'{{"query": "狗", "title": "猫", "id": 7, "grade": 2, {other}}}\n'
    path = write("p.jsonl", row + '{"query": "狗", "title": "狗", "z": "文"}\n')
    run(path, scorer, out)
    first, second = out.read_text("utf-8").splitlines()
    assert first.startswith(
        f'{{"id": 7, "query": "狗", "title": "猫", "grade": 2, {other}, "p_1": '
    )
    row = json.loads(second)
    assert row["z"] == "文" and not {"n", "m"} & set(row) and row["id"] == "2"
    run(path, scorer, tmp_path / "o.tsv")
    row = read_tsv(tmp_path / "o.tsv")[0]
    assert (row["z"], row["n"], row["ok"], row["x"]) == ("1.50", "", "true", "NaN")


def test_other_columns_of_parquet_keep_their_types(scorer, tmp_path):
    import datetime

    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {
        "price": pa.array([1.5, None, float("nan"), -2, 3], pa.float32()),
        "sku": pa.array([2**60 + 1, None, 3, 4, 5], pa.int64()),
        "seen": pa.array([datetime.datetime(2024, 5, 1, 1, 2, 3, 4), None] * 2 + [None], pa.timestamp("ns", "Asia/Shanghai")),
        "tags": pa.array([["a", None], None, [], ["b"], ["c"]]),
        "of": pa.array([{"a": 1}, None, {"a": None}, {"a": 2}, None]),
        "kind": pa.array(["甲", None, "乙", "甲", "丙"]).dictionary_encode(),
        "note": pa.array(["x", None, "", None, "NaN"]),
        "long": pa.array(["x", None, "", "y", "z"], pa.large_string()),
        "raw": pa.array([b"\xff\xfe", None, b"", b"a", b"b"]),
        "none": pa.nulls(5),
    }  # fmt: skip
    path, out = tmp_path / "p.parquet", tmp_path / "o.parquet"
    texts = {"query": ["狗"] * 5, "title": ["猫", "", "狗", "猫", "狗"]}
    pq.write_table(pa.table(texts | columns), path)
    run(path, scorer, out, window=2)
    written, read, kept = pq.read_table(out), pq.read_table(path), [0, 2, 3, 4]
    for name in columns:
        column, result = read[name].combine_chunks(), written[name].combine_chunks()
        assert str(result.type) == str(column.type), name
        assert str(result.to_pylist()) == str(column.take(pa.array(kept)).to_pylist()), name
    run(path, scorer, tmp_path / "o.tsv")
    assert read_tsv(tmp_path / "o.tsv")[0]["sku"] == str(2**60 + 1)


def test_a_cell_with_line_breaks_comes_back_quoted(scorer, write, tmp_path):
    out = tmp_path / "o.csv"
    path = write("p.csv", 'query,title,x\n狗,"猫\n狗, ""狗""","a\n\nb"\n猫,狗,-1.5e3\n')
    run(path, scorer, out, window=1)
    read = [(p.query, p.title, p.extra["x"], p.id) for p in ReaderOptions().open(out)]
    assert read == [("狗", '猫\n狗, "狗"', "a\n\nb", "2"), ("猫", "狗", "-1.5e3", "6")]
