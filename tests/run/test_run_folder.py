"""Which folders a run takes, and which it leaves alone."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from qt_bert.errors import RunFolderError
from qt_bert.run.folder import RunFolder, read_probes
from tests.results.made_claims import claim
from tests.results.made_heads import matching, redundancy, run_of


def test_a_new_folder_starts_a_run(inputs, tmp_path):
    RunFolder.open(tmp_path / "a" / "run", inputs())
    record = json.loads((tmp_path / "a" / "run" / "run.json").read_text(encoding="utf-8"))
    assert (record["kind"], record["schema"], record["complete"]) == ("study", 1, False)
    assert record["inputs"]["model"] == {"name": "graded", "sha256": "m1"}


def test_a_start_killed_before_its_record_counts_as_empty(inputs, tmp_path):
    (tmp_path / ".run.json.4711.tmp").write_text("{")
    assert RunFolder.open(tmp_path, inputs()).record.stages == {}


def test_a_run_needs_resume_or_overwrite(study, inputs, tmp_path):
    study()
    with pytest.raises(RunFolderError, match=r"a finished run; add --resume .* --overwrite"):
        RunFolder.open(tmp_path / "run", inputs())


def test_an_interrupted_run_is_called_so(inputs, tmp_path):
    RunFolder.open(tmp_path, inputs())
    with pytest.raises(RunFolderError, match="an unfinished run"):
        RunFolder.open(tmp_path, inputs())


def test_overwrite_removes_what_the_stages_wrote_and_no_more(study, inputs, tmp_path):
    study()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    RunFolder.open(tmp_path / "run", inputs(), overwrite=True)
    assert {path.name for path in (tmp_path / "run").iterdir()} == {"run.json", "notes.txt"}


def test_a_page_goes_with_the_results_that_it_shows(study, inputs, tmp_path):
    page = tmp_path / "run" / "report.html"
    study()
    page.write_text("drawn")
    study()
    assert page.exists()
    study(seed=7)
    assert not page.exists()
    page.write_text("drawn")
    RunFolder.open(tmp_path / "run", inputs(), overwrite=True)
    assert not page.exists()


@pytest.mark.parametrize("flags", [{}, {"resume": True}, {"overwrite": True}])
@pytest.mark.parametrize("name", ["thesis.docx", "run.json"])
def test_a_folder_of_something_else_is_refused(inputs, tmp_path, flags, name):
    (tmp_path / name).write_text('{"schema": 1, "sweep": "single"}', encoding="utf-8")
    with pytest.raises(RunFolderError, match="choose another folder"):
        RunFolder.open(tmp_path, inputs(), **flags)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_file_and_a_missing_run_are_no_folders(inputs, tmp_path):
    (tmp_path / "out").write_text("")
    with pytest.raises(RunFolderError, match="is no folder"):
        RunFolder.open(tmp_path / "out", inputs())
    with pytest.raises(RunFolderError, match="is no folder"):
        RunFolder.read(tmp_path / "nowhere")


def test_a_record_cannot_reach_outside_its_folder(study, inputs, tmp_path):
    study()
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    path = tmp_path / "run" / "run.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    record["stages"]["grades"]["files"] = ["../outside.txt"]
    path.write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RunFolderError, match="leads out of the run folder"):
        RunFolder.open(tmp_path / "run", inputs(), overwrite=True)
    assert outside.exists()


@pytest.fixture
def swept(study, stages, tmp_path) -> Path:
    """A run whose stage `heads` left a sweep."""

    def sweep(context):
        sweep = context.folder.work("sweeps/heads")
        sweep.mkdir(parents=True)
        (sweep / "logits.npy").write_text("1")
        stages.heads.run(context)

    study(replace(stages.heads, run=sweep, folders=("sweeps/heads",)))
    (tmp_path / "run" / "sweeps" / "mine").mkdir()
    return tmp_path / "run"


def test_overwrite_removes_the_sweeps_of_its_stages_alone(swept, inputs):
    assert (swept / "sweeps" / "heads" / "logits.npy").exists()
    RunFolder.open(swept, inputs(), overwrite=True)
    assert [path.name for path in (swept / "sweeps").iterdir()] == ["mine"]


def test_sweeps_go_with_the_result_they_belong_to(swept, study, stages):
    study(stages.grades, stages.heads, seed=7)
    assert [path.name for path in (swept / "sweeps").iterdir()] == ["mine"]


@pytest.mark.parametrize(
    "named", [".", "", "sweeps", "sweeps/.", "tables", "sweeps/../tables", "../x"]
)
def test_a_record_cannot_have_another_folder_removed(swept, inputs, named):
    (swept / "tables").mkdir()
    (swept.parent / "x").mkdir()
    record = json.loads((swept / "run.json").read_text(encoding="utf-8"))
    record["stages"]["heads"]["folders"] = [named]
    (swept / "run.json").write_text(json.dumps(record), encoding="utf-8")
    with pytest.raises(RunFolderError, match=r"no folder below|leads out of the run folder"):
        RunFolder.open(swept, inputs(), overwrite=True)
    assert (swept / "sweeps" / "heads").is_dir() and (swept / "tables").is_dir()
    assert (swept.parent / "x").is_dir()


def test_a_link_to_another_folder_is_not_followed(swept, inputs, tmp_path):
    mine = tmp_path / "mine"
    mine.mkdir()
    (swept / "sweeps" / "heads").rename(swept / "sweeps" / "old")
    (swept / "sweeps" / "heads").symlink_to(mine)
    with pytest.raises(RunFolderError, match="leads out of the run folder"):
        RunFolder.open(swept, inputs(), overwrite=True)
    assert mine.is_dir()


def test_q_of_a_run_is_over_all_its_claims(tmp_path, inputs):
    assert read_probes(RunFolder.open(tmp_path / "run", inputs())) == ()
    told = claim("redundancy.one", p=0.000123456, q=0.01)
    run_of(tmp_path / "run", inputs(), matching(), redundancy(claims=(told,)))
    found = read_probes(RunFolder.read(tmp_path / "run"))
    assert [one.probe for one in found] == ["redundancy", "matching"]
    # one claim alone; the probe's own file says .01
    (one,) = (of for result in found for of in result.claims)
    assert (one.p, one.q) == (0.000123456, 0.000123456)
