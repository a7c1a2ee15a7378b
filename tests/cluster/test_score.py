"""A run without Ray: partitions in, parts out, and what is missing when it is resumed."""

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from qt_bert.cluster.estimate import estimate
from qt_bert.cluster.ray import RayOptions
from qt_bert.cluster.score import Dispatch, PartScorer, ScoreJob, score_on_ray
from qt_bert.codec import encode
from qt_bert.data.parts import FilePart
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import CheckpointError, PairFileError, RunFolderError
from qt_bert.models.opening import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.score import score_file
from tests.conftest import write_pairs

Run = Callable[..., Any]


@pytest.fixture
def day(tmp_path) -> Path:
    """Two files: 13 pairs with a bad row, and 4 rows of which none is a pair."""
    folder = tmp_path / "day"
    folder.mkdir()
    rows = [(f"查询{row}", f"标题{row}之{'长' * (row % 5)}", 1 + row % 5) for row in range(13)]
    rows.insert(6, ("没有标题", "", 3))
    write_pairs(folder / "a.tsv", rows)
    write_pairs(folder / "b.tsv", [("", "x")] * 4)
    return folder


def here(order: Callable[[Sequence[FilePart]], Sequence[FilePart]] = list) -> Dispatch:
    """All parts in this process, in some order."""

    def dispatch(job: ScoreJob, parts: Sequence[FilePart]) -> Iterator[Mapping[str, Any]]:
        scorer = PartScorer(encode(job))
        for part in order(parts):
            yield scorer(json.dumps(asdict(part)))

    return dispatch


@pytest.fixture
def run(checkpoint_of, day, tmp_path) -> Run:
    def run(out="out", inputs=(day,), **options):
        job = ScoreJob(
            model=str(options.pop("model", checkpoint_of())),
            out=str(tmp_path / out),
            reader=ReaderOptions(max_rejects=options.pop("max_rejects", 0.5)),
        )
        rows = RayOptions(rows_per_partition=options.pop("rows", 4))
        options.setdefault("dispatch", here())
        return score_on_ray([str(path) for path in inputs], job, rows, **options)

    return run


def first_alone(job, parts):
    """Score the first part and stop."""
    yield from here()(job, parts[:1])


def sorted_table(folder: Path) -> pa.Table:
    order = [("file", "ascending"), ("line", "ascending")]
    return pq.read_table(folder / "parts").sort_by(order)


def parts_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "parts").iterdir())}


def test_every_row_is_scored_as_plain_score_does(run, checkpoint_of, day, tmp_path):
    report = run()
    assert report.counts["pairs"] == 13 and report.counts["rejected"] == 5 and not report.failed
    scored = pq.read_table(tmp_path / "out" / "parts").to_pandas().sort_values("line")
    plain = tmp_path / "plain.parquet"
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    score_file(day / "a.tsv", ReaderOptions(max_rejects=0.5), scorer, plain)
    expected = pd.read_parquet(plain)
    assert list(scored.columns) == [*expected.columns, "file", "line"]
    assert scored["line"].tolist() == [line for line in range(2, 16) if line != 8]
    assert scored["predicted_grade"].tolist() == expected["predicted_grade"].tolist()
    np.testing.assert_allclose(scored["p_3"], expected["p_3"], atol=1e-5)
    assert set(scored["file"]) == {str(day / "a.tsv")}


def test_rejects_are_listed_with_their_file(run, day, tmp_path):
    run()
    listed = pd.read_csv(tmp_path / "out" / "rejects.tsv", sep="\t", quoting=3)
    assert listed["line"].tolist() == [8, 2, 3, 4, 5]
    assert listed["file"].tolist() == [str(day / "a.tsv")] + [str(day / "b.tsv")] * 4
    record = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    assert record["complete"] and record["counts"]["pairs"] == 13 and record["rows"] == 18


def test_bytes_depend_on_the_partition_alone(run, tmp_path):
    run("one")
    run("two", dispatch=here(lambda parts: list(reversed(parts))))
    assert parts_of(tmp_path / "one") == parts_of(tmp_path / "two")
    paths = (tmp_path / "one" / "parts").iterdir()
    schemas = {pq.read_schema(path).remove_metadata() for path in paths}
    assert len(parts_of(tmp_path / "one")) == 5 and len(schemas) == 1


def test_resume_scores_what_is_missing(run, tmp_path):
    run("whole")

    def killed(job, parts):
        yield from here()(job, parts[:2])
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(dispatch=killed)
    with pytest.raises(RunFolderError, match="an unfinished run; add --resume"):
        run()
    requested: list[int] = []

    def counting(job, parts):
        requested.append(len(parts))
        yield from here()(job, parts)

    run(resume=True, dispatch=counting)
    assert requested == [3] and parts_of(tmp_path / "out") == parts_of(tmp_path / "whole")
    assert run(resume=True).already
    min((tmp_path / "out" / "parts").iterdir()).unlink()  # of a finished run
    assert not run(resume=True, dispatch=counting).already
    assert requested == [3, 1] and parts_of(tmp_path / "out") == parts_of(tmp_path / "whole")
    (tmp_path / "out" / "run.json").unlink()
    with pytest.raises(RunFolderError, match="something else"):
        run()


def test_a_partition_that_fails_is_named_and_tried_again(run, day, tmp_path):
    first = run(dispatch=first_alone)
    assert len(first.failed) == 4 and set(first.failed.values()) == {
        "its actors died (killed, or out of memory)"
    }
    before = (day / "b.tsv").read_bytes()

    def rewritten(job, parts):
        (day / "b.tsv").write_bytes(before.replace(b"x", b"y"))
        yield from here()(job, parts)

    report = run(resume=True, dispatch=rewritten)
    assert [name.partition(".")[0] for name in report.failed] == ["b"]
    assert "changed since it was scanned" in next(iter(report.failed.values()))
    assert not json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))["complete"]
    (day / "b.tsv").write_bytes(before)
    assert not run(resume=True).failed
    run("whole")
    assert parts_of(tmp_path / "out") == parts_of(tmp_path / "whole")


def test_another_model_or_option_is_refused_by_name(run, fresh_checkpoint):
    run()
    with pytest.raises(RunFolderError, match="another model"):
        run(resume=True, model=fresh_checkpoint(seed=7))
    with pytest.raises(RunFolderError, match="another --rows-per-partition"):
        run(resume=True, rows=5)


@pytest.mark.parametrize("dispatch", [first_alone, here()])
def test_changed_inputs_are_refused_by_name(run, day, tmp_path, dispatch):
    run(dispatch=dispatch)
    parts = parts_of(tmp_path / "out")
    added, changed = day / "c.tsv", day / "a.tsv"
    write_pairs(added, [("新", "文件")])
    with pytest.raises(RunFolderError, match="another content of .*c.tsv"):
        run(resume=True)
    added.unlink()
    before = changed.read_bytes()
    changed.write_bytes(before.replace("查询1".encode(), "查询9".encode()))
    with pytest.raises(RunFolderError, match="another content of .*a.tsv"):
        run(resume=True)
    assert parts_of(tmp_path / "out") == parts
    changed.write_bytes(before)
    assert run(resume=True).counts["pairs"] == 13


def test_another_prompt_in_the_models_card_is_refused(run, fresh_checkpoint):
    model = fresh_checkpoint("qwen3")
    texts = {"prefix": "", "before": "问", "between": "题", "suffix": ""}
    (model / "qt_bert.json").write_text(json.dumps({"schema": 1, "template": texts}), "utf-8")
    run(model=model, dispatch=first_alone)
    texts["before"] = "查"
    (model / "qt_bert.json").write_text(json.dumps({"schema": 1, "template": texts}), "utf-8")
    with pytest.raises(RunFolderError, match="begun with another model, template"):
        run(model=model, resume=True)


def test_an_actor_refuses_another_model(checkpoint_of, fresh_checkpoint, tmp_path):
    job = ScoreJob(model=str(checkpoint_of()), out=str(tmp_path))
    facts = PartScorer(encode(job)).facts()
    other = ScoreJob(model=str(fresh_checkpoint(seed=7)), out=str(tmp_path), facts=facts)
    with pytest.raises(CheckpointError, match="begun with another model"):
        PartScorer(encode(other))


def test_a_run_that_cannot_begin_replaces_none(run, tmp_path):
    run()
    before = parts_of(tmp_path / "out")
    with pytest.raises(PairFileError, match="cannot be read"):
        run(inputs=[tmp_path / "gone"], overwrite=True)
    assert parts_of(tmp_path / "out") == before and run(resume=True).already


def test_overwrite_removes_the_old_run_alone(run, day, tmp_path):
    run()
    (tmp_path / "out" / "mine.txt").write_text("keep")
    run(overwrite=True, inputs=[day / "a.tsv"], rows=20)
    assert len(parts_of(tmp_path / "out")) == 1
    assert (tmp_path / "out" / "mine.txt").read_text() == "keep"


def test_too_many_rejects_stop_the_run_and_nothing_is_lost(run, tmp_path):
    write_pairs(tmp_path / "c.tsv", [("", "x")] * 30 + [("a", "b")] * 30)
    with pytest.raises(PairFileError, match="30 of 60 rows are rejects, more than --max-rejects"):
        run(inputs=[tmp_path / "c.tsv"], max_rejects=0.1)
    assert run(inputs=[tmp_path / "c.tsv"], max_rejects=0.6, resume=True).counts["pairs"] == 30


def test_where_no_row_is_a_pair_the_run_fails(run, day):
    with pytest.raises(PairFileError, match="not one of 4 rows is a pair"):
        run(inputs=[day / "b.tsv"], max_rejects=1.0)


def test_a_damaged_part_is_named(run, tmp_path):
    run(dispatch=first_alone)
    part = next((tmp_path / "out" / "parts").iterdir())
    part.write_bytes(part.read_bytes()[:100])
    with pytest.raises(RunFolderError, match="damaged or gone.*remove it"):
        run(resume=True)
    part.unlink()
    assert not run(resume=True).failed


def test_a_fault_of_the_disk_stops_the_run(run):
    def full(job, parts):
        yield {"fatal": "machine x: out: cannot be written (No space left on device)"}

    with pytest.raises(RunFolderError, match="No space left.*--resume goes on"):
        run(dispatch=full)


def test_parts_that_do_not_arrive_here_are_named(run):
    def elsewhere(job, parts):
        for part in parts:
            yield {"part": part.name(), "node": "x", "counts": {"pairs": 1, "rejected": 0}}

    with pytest.raises(RunFolderError, match="another folder on machine x"):
        run(dispatch=elsewhere)


def test_parts_are_calibrated_by_a_file(checkpoint_of, day, tmp_path):
    model = checkpoint_of(labels=1)
    calibration = {"method": "platt", "grades": [[1, 2, 3], [4, 5]], "relevant": 1}
    calibration |= {"curves": [[[1.0], [0.5]]], "cutoffs": [0.0], "cut": 0.25}
    of = {"name": "m", "sha256": open_checkpoint(model).sha256}
    (tmp_path / "c.json").write_text(json.dumps({"model": of, "calibration": calibration}))
    job = ScoreJob(model=str(model), out="", calibrated=str(tmp_path / "c.json"))
    scorer = PartScorer(encode(job))
    logits = scorer.scorer.logits([("狗", "猫")])
    columns = scorer.outputs(logits).columns()
    score = float(logits[0, 0])
    expected = 1 / (1 + np.exp(-score - 0.5))
    assert columns["p_relevant"][0] == pytest.approx(expected, rel=1e-5)
    assert columns["relevant"] == [str(int(score >= 0.25))]
    assert columns["predicted_level"] == [str(int(score > 0))]
    assert "cut=0.25" in scorer.facts()["calibration"]


def test_the_estimate_counts_and_measures(checkpoint_of, day, monkeypatch):
    monkeypatch.setattr("qt_bert.cluster.estimate.SAMPLE_SECONDS", 0.05)
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    options = RayOptions(rows_per_partition=4, actors=2)
    result = estimate([str(day)], ReaderOptions(), scorer, options)
    scan = result.scan
    assert (len(scan.files), len(scan.parts), scan.rows) == (2, 5, 18)
    assert result.workers == 2 and result.machines == 1 and result.memory > 1e8
    assert result.seconds == pytest.approx(3 * (18 / 5) / result.rate)
    assert result.machine_hours == pytest.approx(result.seconds / 3600)

    many = estimate([str(day)], ReaderOptions(), scorer, options, rows=1_000_001)
    assert (many.rows, many.partitions) == (1_000_001, math.ceil(1_000_001 / 4))
    assert many.seconds == pytest.approx(1_000_001 / 2 / many.rate, rel=1e-4)
    monkeypatch.setattr("qt_bert.cluster.estimate.cluster_size", lambda *_: (3, 2))
    there = replace(options, address="host:1", actors=9)
    assert estimate([str(day)], ReaderOptions(), scorer, there).workers == 2  # no more fit
    local = estimate([str(day)], ReaderOptions(), scorer, rows=1_000_000)
    assert (local.workers, local.seconds) == (1, pytest.approx(1_000_000 / local.rate))


def test_types_of_parquet_stay_and_rows_with_breaks_are_whole(run, write, tmp_path):
    texts = [f"查询{row}" for row in range(6)]
    columns = {"query": texts, "title": texts, "sku": range(6), "tags": [[1], None] * 3}
    for name in ("a", "b"):
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
    run("typed", [tmp_path / "a.parquet", tmp_path / "b.parquet"])
    scored = sorted_table(tmp_path / "typed")
    assert scored["sku"].to_pylist() == [*range(6)] * 2
    assert scored["tags"].to_pylist() == [[1], None] * 6
    rows = "".join(f'查询{i},"标题\n{i},长",{i}\n' for i in range(6))
    breaks = write("c.csv", "query,title,sku\n" + rows)
    run("mixed", [tmp_path / "a.parquet", breaks], rows=2)
    scored = sorted_table(tmp_path / "mixed")
    assert scored["sku"].to_pylist() == [str(i) for i in range(6)] * 2
    assert scored["title"].to_pylist()[6:] == [f"标题\n{i},长" for i in range(6)]
    assert scored["line"].to_pylist()[6:] == [2, 4, 6, 8, 10, 12]


def test_what_a_folder_holds_beside_pairs_is_recorded(run, day, tmp_path):
    for name in ("part-00000", "c.tsv.bz2", "_SUCCESS", ".a.crc"):
        (day / name).write_text("x")
    report = run()
    assert list(report.skipped) == [str(day / "c.tsv.bz2"), str(day / "part-00000")]
    record = json.loads((tmp_path / "out" / "run.json").read_text("utf-8"))
    assert record["skipped"] == list(report.skipped) and record["complete"]
    assert list(run(resume=True).skipped) == record["skipped"]
