"""A job as plain data, and what of it the bytes of a part depend on."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from qt_bert.cluster.partition import ScoreJob
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.scoring.tables import InputColumns

JOB = ScoreJob(
    model="s3://bucket/model",
    model_sha256="ab",
    facts={"tokenizer": "cd", "offline": ""},
    out="/out",
    columns=InputColumns(True, ("shop", "price")),
    reader=ReaderOptions(columns="query=q", no_header=True, grades="0=1-2", max_rejects=0.5),
    max_length=64,
    title_states="/states",
)


def test_there_and_back_through_json():
    assert ScoreJob.from_json(json.loads(json.dumps(JOB.describe()))) == JOB


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"model_sha256": "other"}, "model"),
        ({"dtype": "bfloat16"}, "--dtype"),
        ({"facts": {"tokenizer": "other"}}, "tokenizer"),
        ({"facts": {"tokenizer": "cd", "offline": "block"}}, "offline"),
        ({"columns": InputColumns(False, ("shop", "price"))}, "columns of the files"),
        ({"reader": replace(JOB.reader, columns="query=r")}, "--columns"),
        ({"reader": replace(JOB.reader, no_header=False)}, "--no-header"),
        ({"reader": replace(JOB.reader, grades="0=1-3")}, "--grades"),
        ({"scorer": "a:b"}, "scorer"),
    ],
)
def test_the_key_names_what_differs(change, named):
    one, other = JOB.key(), replace(JOB, **change).key()
    assert [name for name in one | other if one.get(name) != other.get(name)] == [named]


@pytest.mark.parametrize(
    "change",
    [
        {"out": "elsewhere"},
        {"stall": 5.0},
        {"cache": "/c"},
        {"model": "/the/same/elsewhere"},
        {"reader": replace(JOB.reader, max_rejects=1.0)},
    ],
)
def test_the_key_leaves_out_what_no_byte_depends_on(change):
    assert replace(JOB, **change).key() == JOB.key()


@pytest.mark.parametrize("name", ["", "module", "module:", ":name"])
def test_a_scorer_has_a_module_and_a_name(name):
    with pytest.raises(ArgumentError, match="module:function"):
        replace(JOB, scorer=name)


@pytest.mark.parametrize("stall", [0.0, -1.0, float("nan")])
def test_silence_takes_time(stall):
    with pytest.raises(ArgumentError, match="sign of life"):
        replace(JOB, stall=stall)


@pytest.mark.parametrize("change", [{"columns": None}, {"stall": "long"}, {"model": 3}])
def test_anything_else_is_no_job(change):
    with pytest.raises(RunFolderError, match=f"the job: {next(iter(change))}"):
        ScoreJob.from_json(JOB.describe() | change)
