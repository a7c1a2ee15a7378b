"""One partition on a worker: the part that comes of it, its rejects, and what becomes of faults."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch

from qt_bert.cluster import partition as partition_module
from qt_bert.cluster import worker as scorer_module
from qt_bert.cluster.faults import Attempt, Tally
from qt_bert.cluster.partition import Made
from qt_bert.cluster.places import LocalPlace, place_of
from qt_bert.cluster.record import Fault, Line, StatesRead
from qt_bert.cluster.worker import PartitionScorer
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.models.card import store_calibration
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.score import score_file
from qt_bert.scoring.tables import InputColumns
from qt_bert.scoring.title_folder import open_states
from qt_bert.scoring.title_run import store_titles
from qt_bert.stats.calibration import Calibration
from tests.cluster.planted import job_of, parts_of, write_pairs

Models = Callable[..., Path]
TITLES = ["高铁票价", "坏", "时刻表查询", "去除油渍", "红烧排骨的家常做法", "狗追猫", "坏", "票"]


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """As many as before: a worker puts torch on one."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def planted_file(tmp_path: Path) -> Path:
    return write_pairs(tmp_path / "day.tsv", TITLES)


def scored(
    model: Path, path: Path, out: Path, rows: int = 1000, **options: Any
) -> list[Line | Fault]:
    """What a worker says of each partition of a file."""
    job = job_of(model, path, out, **options)
    scorer = PartitionScorer(job)
    return [scorer.score(part) for part in parts_of(path, rows, job.reader)]


def one_line(said: list[Line | Fault]) -> Line:
    (line,) = said
    assert isinstance(line, Line), line
    return line


def one_fault(said: list[Line | Fault]) -> Fault:
    (found,) = said
    assert isinstance(found, Fault), found
    return found


def table_of(out: Path, said: list[Line | Fault]) -> pa.Table:
    """The rows of all parts, in the order of the partitions."""
    names = [line.part.name for line in said if isinstance(line, Line) and line.part]
    return pa.concat_tables([pq.read_table(out / name) for name in names])


def rejects_of(out: Path, line: Line) -> list[list[str]]:
    text = (out / "rejects" / f"{line.partition}.tsv").read_text(encoding="utf-8")
    return [row.split("\t") for row in text.splitlines()]


def files_in(folder: Path) -> list[str]:
    return sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file())


def same_rows(mine: pa.Table, plain: pa.Table) -> None:
    """The columns of plain `score`, with their names, types and order, then file and line."""
    assert mine.schema.names[-2:] == ["file", "line"]
    assert mine.schema.field("line").type == pa.int64()
    rest = mine.drop_columns(["file", "line"])
    assert rest.schema.equals(plain.schema)
    for name in plain.schema.names:
        if pa.types.is_floating(plain.schema.field(name).type):
            np.testing.assert_allclose(rest[name], plain[name], atol=1e-5)
        else:
            assert rest[name].to_pylist() == plain[name].to_pylist()


def plain_table(path: Path, scorer: Scorer, out: Path, **options: Any) -> pa.Table:
    score_file(path, ReaderOptions(), scorer, out, **options)
    return pq.read_table(out)


@pytest.mark.parametrize("labels", [5, 1, 3])
def test_rows_and_columns_are_those_of_plain_score(
    checkpoint_of: Models, pair_file: Path, tmp_path: Path, out: Path, labels: int
) -> None:
    model = checkpoint_of(labels=labels)
    plain = plain_table(pair_file, Scorer(open_checkpoint(model)), tmp_path / "plain.parquet")
    said = scored(model, pair_file, out, rows=3)
    mine = table_of(out, said)
    same_rows(mine, plain)
    assert mine["file"].to_pylist() == [str(pair_file)] * 8
    assert mine["line"].to_pylist() == list(range(2, 10))
    assert len(said) == 3


@pytest.mark.parametrize("suffix", [".parquet", ".csv.gz"])
def test_files_of_other_formats_are_scored_in_parts(
    checkpoint_of: Models, tmp_path: Path, out: Path, suffix: str
) -> None:
    path = tmp_path / f"p{suffix}"
    if suffix == ".parquet":
        made = {"query": ["狗"] * 5, "title": TITLES[:5], "shop": [None, "a", "b", "", "c"]}
        pq.write_table(pa.table(made), path)
    else:
        rows = "".join(f'狗,{title},"a ""b"""\n' for title in TITLES[:5])
        path.write_bytes(gzip.compress(f"query,title,shop\n{rows}".encode()))
    plain = plain_table(path, Scorer(open_checkpoint(checkpoint_of())), tmp_path / "plain.parquet")
    said = scored(checkpoint_of(), path, out, rows=2)
    same_rows(table_of(out, said), plain)
    assert "shop" in plain.schema.names
    assert len(said) == 3


def test_columns_of_the_file_stay_and_make_way_for_ours(
    checkpoint_of: Models, tmp_path: Path, out: Path
) -> None:
    path = tmp_path / "p.tsv"
    head = "query\ttitle\tid\tlabel\tfile\tline\tp_1\tgrade\n"
    path.write_text(head + "狗\t猫\tx7\t3\tF\tL\told\tB\n", encoding="utf-8")
    options = ReaderOptions(columns="grade=label")
    table = table_of(out, scored(checkpoint_of(), path, out, reader=options)).to_pylist()[0]
    assert [table[name] for name in ("id", "grade", "file", "line")] == ["x7", "3", str(path), 2]
    kept = ("input_file", "input_line", "input_p_1", "input_grade")
    assert [table[name] for name in kept] == ["F", "L", "old", "B"]


def test_a_file_without_a_column_of_another_has_it_empty(
    checkpoint_of: Models, tmp_path: Path, out: Path
) -> None:
    path = write_pairs(tmp_path / "p.tsv", ["猫"])
    job = replace(job_of(checkpoint_of(), path, out), columns=InputColumns(True, ("shop",)))
    said: list[Line | Fault] = [PartitionScorer(job).score(parts_of(path)[0])]
    row = table_of(out, said).to_pylist()[0]
    assert (row["grade"], row["shop"]) == ("", "")


def test_the_calibration_beside_the_model_is_used_where_it_is_asked_for(
    fresh_checkpoint: Models, pair_file: Path, tmp_path: Path, out: Path
) -> None:
    model = fresh_checkpoint()
    fitted = Calibration(7.0, (1.5, 2.9, 3.0, 3.1))
    store_calibration(model, fitted.to_json())
    scorer = Scorer(open_checkpoint(model))
    tempered = plain_table(pair_file, scorer, tmp_path / "p.parquet", calibration=fitted)
    same_rows(table_of(out, scored(model, pair_file, out, calibrated=True)), tempered)
    other = table_of(out, scored(model, pair_file, out))
    assert np.abs(np.subtract(other["p_1"], tempered["p_1"])).max() > 0.01


def test_a_calibration_that_is_not_there_is_said_at_once(
    checkpoint_of: Models, pair_file: Path, out: Path
) -> None:
    with pytest.raises(ArgumentError, match="--calibrated.*no calibration"):
        job_of(checkpoint_of(), pair_file, out, calibrated=True)


def test_title_states_are_read_and_counted(
    offline_checkpoint_of: Models, pair_file: Path, tmp_path: Path, out: Path
) -> None:
    model = offline_checkpoint_of()
    titles = tmp_path / "titles.txt"
    titles.write_text("衣服沾了油怎么洗掉\n红烧排骨的家常做法\n猫追狗\n", encoding="utf-8")
    opened = Scorer(open_checkpoint(model))
    store_titles(titles, ReaderOptions(), opened, tmp_path / "states")
    reading = opened.reading(open_states(tmp_path / "states", opened.checkpoint))
    plain = plain_table(pair_file, reading, tmp_path / "plain.parquet")
    said = scored(model, pair_file, out, rows=5, title_states=str(tmp_path / "states"))
    same_rows(table_of(out, said), plain)
    states = [line.states for line in said if isinstance(line, Line)]
    assert states == [
        StatesRead(read=2, long_queries=0, unknown_titles=3),
        StatesRead(read=1, long_queries=0, unknown_titles=2),
    ]


def test_the_line_says_what_there_is(checkpoint_of: Models, tmp_path: Path, out: Path) -> None:
    path = tmp_path / "p.tsv"
    rows = ["狗\t猫\t5", "狗\t\t1", "京东\t小哥\t9", "只有查询", f"短\t{'长' * 80}\t1"]
    path.write_text("query\ttitle\tgrade\n" + "\n".join(rows) + "\n", encoding="utf-8")
    reader = ReaderOptions(grades="1=1,5=5")
    line = one_line(scored(checkpoint_of(), path, out, reader=reader))
    (part,) = parts_of(path, reader=reader)
    assert (line.partition, line.file, line.first, line.rows) == (part.name(), str(path), 2, 5)
    assert (line.input_sha256, line.attempt, line.how) == (part.sha256, 1, "whole")
    assert line.model_sha256 == open_checkpoint(checkpoint_of()).sha256
    assert (line.pairs, line.bad_grades, line.truncated_titles, line.truncated_queries) == (3, 1, 1, 0)  # fmt: skip
    assert line.reasons == {"empty title": 1, "too few fields": 1}
    assert line.part is not None
    data = (out / line.part.name).read_bytes()
    assert (line.part.bytes, line.part.sha256) == (len(data), hashlib.sha256(data).hexdigest())
    assert rejects_of(out, line) == [
        ["file", "line", "reason", "text"],
        [str(path), "3", "empty title", "狗  1"],
        [str(path), "5", "too few fields", "只有查询"],
    ]
    assert files_in(out) == sorted([line.part.name, f"rejects/{line.partition}.tsv"])


def test_bytes_depend_on_the_partition_alone(
    offline_checkpoint_of: Models, pair_file: Path, tmp_path: Path
) -> None:
    model = offline_checkpoint_of()
    opened = Scorer(open_checkpoint(model))
    titles = write_pairs(tmp_path / "t.tsv", ["猫追狗", "苹果手机多少钱"])
    store_titles(titles, ReaderOptions(), opened, tmp_path / "states")
    found = []
    for order, where in ((1, "a"), (-1, "b")):
        states = str(tmp_path / "states")
        scorer = PartitionScorer(job_of(model, pair_file, tmp_path / where, title_states=states))
        for part in parts_of(pair_file, 3)[::order]:
            scorer.score(part)
        found.append({n: (tmp_path / where / n).read_bytes() for n in files_in(tmp_path / where)})
    assert found[0] == found[1]
    assert len(found[0]) == 3


def test_a_partition_of_rejects_has_no_part(
    checkpoint_of: Models, tmp_path: Path, out: Path
) -> None:
    path = write_pairs(tmp_path / "p.tsv", ["猫", " ", " "])
    said = scored(checkpoint_of(), path, out, rows=2)
    assert isinstance(said[1], Line)
    assert (said[1].part, said[1].pairs, said[1].reasons) == (None, 0, {"empty title": 1})
    assert len(list((out / "parts").iterdir())) == 1


def test_what_an_earlier_attempt_left_goes(
    checkpoint_of: Models, planted_file: Path, out: Path
) -> None:
    job = job_of(checkpoint_of(), planted_file, out)
    (part,) = parts_of(planted_file)
    (out / "rejects").mkdir(parents=True)
    (out / "rejects" / f"{part.name()}.tsv").write_text("old")
    line = one_line([PartitionScorer(job).score(part)])
    assert line.part is not None
    assert files_in(out) == [line.part.name]


@pytest.mark.parametrize(
    ("scorer", "reason", "how"),
    [
        ("raising", "raises ValueError: this title is bad", "halved"),
        ("not_finite", "no finite logits", "whole"),
    ],
)
def test_a_row_that_cannot_be_scored_is_rejected_alone(
    checkpoint_of: Models, planted_file: Path, tmp_path: Path, out: Path, scorer, reason, how
) -> None:
    model = checkpoint_of()
    line = one_line(scored(model, planted_file, out, scorer=f"tests.cluster.planted:{scorer}"))
    assert (line.pairs, line.reasons, line.how) == (6, {reason: 2}, how)
    rows = rejects_of(out, line)[1:]
    assert rows == [[str(planted_file), number, reason, "北京到上海 坏"] for number in ("3", "8")]
    mine = table_of(out, [line])
    assert mine["line"].to_pylist() == [2, 4, 5, 6, 7, 9]
    good = write_pairs(tmp_path / "good.tsv", [title for title in TITLES if title != "坏"])
    plain = plain_table(good, Scorer(open_checkpoint(model)), tmp_path / "plain.parquet")
    for name in ("p_1", "p_5", "expected_grade"):
        np.testing.assert_allclose(mine[name], plain[name], atol=1e-5)
    assert mine["title"].to_pylist() == plain["title"].to_pylist()


def test_little_memory_costs_no_row(checkpoint_of: Models, planted_file: Path, out: Path) -> None:
    line = one_line(
        scored(checkpoint_of(), planted_file, out, scorer="tests.cluster.planted:short_of_memory")
    )
    assert (line.pairs, line.rejected, line.how) == (8, 0, "halved")


def test_the_trial_fills_the_models_length(
    checkpoint_of: Models, planted_file: Path, out: Path
) -> None:
    model = PartitionScorer(job_of(checkpoint_of(), planted_file, out)).model
    tokenizer = model._scorer.tokenizer
    (encoded,) = tokenizer.encode([model.trial])
    assert len(encoded.input_ids) == tokenizer.max_length


def test_a_worker_without_memory_says_so_and_rejects_nothing(
    checkpoint_of: Models, planted_file: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = PartitionScorer(job_of(checkpoint_of(), planted_file, out))

    def no_memory(*given: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(scorer.model, "answer", no_memory)
        found = one_fault([scorer.score(parts_of(planted_file)[0])])
    assert (found.kind, found.again, found.attempt) == ("memory", True, 1)
    assert files_in(out) == []
    assert one_line([scorer.score(parts_of(planted_file)[0])]).pairs == 8


def test_a_fault_of_the_program_is_said_too(
    checkpoint_of: Models, planted_file: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = PartitionScorer(job_of(checkpoint_of(), planted_file, out))
    monkeypatch.setattr(partition_module, "rows_of", None)
    found = one_fault([scorer.score(parts_of(planted_file)[0])])
    assert (found.kind, found.again) == ("program", False)
    assert "raises TypeError" in found.message
    assert files_in(out) == []


def full_disk(monkeypatch: pytest.MonkeyPatch, below: str, number: int = errno.ENOSPC) -> None:
    """Writes to names that begin with `below` fail half-way."""
    write = LocalPlace.write

    def fails(place: LocalPlace, name: str, content: Any) -> None:
        if not name.startswith(below):
            write(place, name, content)
            return

        def half(handle: Any) -> None:
            handle.write(content[: len(content) // 2])
            raise OSError(number, "as the system says it")

        write(place, name, half)

    monkeypatch.setattr(LocalPlace, "write", fails)


@pytest.mark.parametrize("below", ["begun/", "rejects/", "parts/"])
def test_a_full_disk_leaves_nothing_half_written(
    checkpoint_of: Models, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch, below: str
) -> None:
    path = write_pairs(tmp_path / "p.tsv", ["猫", " "])
    scorer = PartitionScorer(job_of(checkpoint_of(), path, out))
    with monkeypatch.context() as patch:
        full_disk(patch, below)
        found = one_fault([scorer.score(parts_of(path)[0])])
    assert (found.kind, found.again) == ("disk", True)
    assert found.message == (
        f"{out}: cannot be written (No space left on device); make room there, and go on with "
        "--resume"
    )
    assert files_in(out) == []
    line = one_line([scorer.score(parts_of(path)[0])])
    assert (line.pairs, line.rejected, line.attempt) == (1, 1, 1)


def test_a_folder_that_may_not_be_written_is_not_tried_again(
    checkpoint_of: Models, planted_file: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = PartitionScorer(job_of(checkpoint_of(), planted_file, out))
    full_disk(monkeypatch, "parts/", errno.EACCES)
    found = one_fault([scorer.score(parts_of(planted_file)[0])])
    assert not found.again
    assert "Permission denied" in found.message


def test_a_file_that_is_gone_or_rewritten_is_a_fault_of_the_input(
    checkpoint_of: Models, planted_file: Path, out: Path
) -> None:
    scorer = PartitionScorer(job_of(checkpoint_of(), planted_file, out))
    (part,) = parts_of(planted_file)
    write_pairs(planted_file, [*TITLES[:-1], "猫"])
    found = one_fault([scorer.score(part)])
    assert (found.kind, found.again) == ("input", False)
    assert "changed since it was scanned" in found.message
    assert str(planted_file) in found.message
    planted_file.unlink()
    found = one_fault([scorer.score(part)])
    assert (found.kind, found.again) == ("input", False)
    assert str(planted_file) in found.message
    assert files_in(out) == []


def test_a_reader_that_fails_for_a_moment_may_be_tried_again(
    checkpoint_of: Models, planted_file: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scorer = PartitionScorer(job_of(checkpoint_of(), planted_file, out))

    def fails(*given: object) -> None:
        raise TimeoutError(errno.ETIMEDOUT, "timed out")

    monkeypatch.setattr(partition_module, "read_part", fails)
    found = one_fault([scorer.score(parts_of(planted_file)[0])])
    assert (found.kind, found.again) == ("input", True)
    assert "timed out" in found.message


def test_a_column_that_the_run_does_not_know_is_a_fault_before_anything_is_scored(
    checkpoint_of: Models, tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "p.jsonl"
    rows = [{"query": "狗", "title": "猫"}, {"query": "狗", "title": "猫", "shop": "x"}]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    job = replace(job_of(checkpoint_of(), path, out), columns=InputColumns(False, ()))
    scorer = PartitionScorer(job)
    monkeypatch.setattr(scorer.model, "answer", None)
    found = one_fault([scorer.score(parts_of(path)[0])])
    assert found.kind == "input"
    assert found.message.startswith(f"{path}, line 2: the column 'shop'")


def test_another_model_is_refused_by_name(
    checkpoint_of: Models, fresh_checkpoint: Models, pair_file: Path, out: Path
) -> None:
    job = job_of(checkpoint_of(), pair_file, out)
    with pytest.raises(CheckpointError, match=r"differs in weights\)"):
        PartitionScorer(replace(job, model=str(fresh_checkpoint(seed=1))))
    with pytest.raises(CheckpointError, match=r"differs in --max-length\)"):
        PartitionScorer(replace(job, max_length=20))


def test_another_calibration_is_another_model(
    checkpoint_of: Models, pair_file: Path, tmp_path: Path, out: Path
) -> None:
    model = Path(shutil.copytree(checkpoint_of(), tmp_path / "model"))
    store_calibration(model, {"temperature": 2.0, "cutoffs": []})
    job = job_of(model, pair_file, out, calibrated=True)
    store_calibration(model, {"temperature": 3.0, "cutoffs": []})
    with pytest.raises(CheckpointError, match=r"differs in calibration\)"):
        PartitionScorer(job)


def test_a_model_at_an_address_is_copied_and_opened(
    checkpoint_of: Models, pair_file: Path, tmp_path: Path, out: Path
) -> None:
    job = job_of(checkpoint_of(), pair_file, out)
    there = replace(job, model=checkpoint_of().as_uri(), cache=str(tmp_path / "cache"))
    assert one_line([PartitionScorer(there).score(parts_of(pair_file)[0])]).pairs == 8
    assert len(list((tmp_path / "cache").iterdir())) == 1


def test_a_model_of_damaged_weights_is_refused(
    fresh_checkpoint: Models, pair_file: Path, out: Path
) -> None:
    from safetensors.torch import load_file, save_file

    file = fresh_checkpoint() / "model.safetensors"
    weights = load_file(file)
    weights["classifier.bias"][0] = float("nan")
    save_file(weights, file, {"format": "pt"})
    with pytest.raises(CheckpointError, match="no finite numbers"):
        job_of(file.parent, pair_file, out)


@pytest.mark.parametrize("name", ["tests.cluster.planted:missing", "no.such.module:f"])
def test_a_scorer_that_is_not_there_is_said(
    checkpoint_of: Models, pair_file: Path, out: Path, name: str
) -> None:
    with pytest.raises(ArgumentError, match="cannot be found"):
        job_of(checkpoint_of(), pair_file, out, scorer=name)


def test_attempts_count_the_marks_of_the_dead(tmp_path: Path) -> None:
    place = place_of(str(tmp_path))
    first = Attempt.begin(place, "p")
    second = Attempt.begin(place, "p")  # the first one's worker died
    assert (first.deaths, second.deaths) == (0, 1)
    second.give_up()
    assert files_in(tmp_path) == ["begun/p.1"]
    third = Attempt.begin(place, "p")
    assert third.number == 2
    Attempt.begin(place, "p2").finish()
    third.finish()
    assert files_in(tmp_path) == []


def test_the_attempt_behind_one_death_is_an_ordinary_one(
    checkpoint_of: Models, planted_file: Path, out: Path
) -> None:
    scorer = PartitionScorer(job_of(checkpoint_of(), planted_file, out))
    (part,) = parts_of(planted_file)
    Attempt.begin(place_of(str(out)), part.name())
    line = one_line([scorer.score(part)])
    assert (line.attempt, line.how) == (2, "whole")
    assert not list((out / "begun").iterdir())


def test_the_limit_stands_around_what_this_process_scores_itself(
    checkpoint_of: Models, planted_file: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    @contextmanager
    def limit() -> Iterator[None]:
        said.append("begins")
        yield
        said.append("ends")

    scorer = PartitionScorer(job_of(checkpoint_of(), planted_file, out), limit=limit)
    (part,) = parts_of(planted_file)
    one_line([scorer.score(part)])
    assert said == ["begins", "ends"]
    nothing = Made(None, (), 0, 0, Tally(), halved=False)
    monkeypatch.setattr(scorer_module, "make_alone", lambda part, job, attempt: nothing)
    for _ in range(2):
        Attempt.begin(place_of(str(out)), part.name())
    assert one_line([scorer.score(part)]).how == "alone"
    assert said == ["begins", "ends"]


@pytest.mark.parametrize(("error", "left"), [(KeyboardInterrupt, 0), (SystemExit, 1)])
def test_a_worker_that_is_told_to_stop_has_not_died(
    checkpoint_of: Models, planted_file: Path, out: Path, monkeypatch, error, left
) -> None:
    scorer = PartitionScorer(job_of(checkpoint_of(), planted_file, out))

    def stops(*given: object) -> None:
        raise error

    monkeypatch.setattr(scorer.model, "answer", stops)
    with pytest.raises(error):
        scorer.score(parts_of(planted_file)[0])
    assert len(list((out / "begun").iterdir())) == left
