"""What is reused, what runs again, and what a kill leaves behind."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from qt_bert import shipped
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.request import Request
from qt_bert.run import folder as run_folder
from qt_bert.run.folder import (
    RunFolder,
    RunRecord,
    Stage,
    StageContext,
    pairs_through_model,
    run_stages,
    select,
    stage_key,
)


class Killed(BaseException):
    """Stands for the end of the process."""


def test_stages_run_in_order_and_then_never_again(study):
    assert study() == ("grades", "heads", "plan")
    assert study() == ()


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"full": True}, ("grades",)),
        ({"seed": 7}, ("heads", "plan")),
        ({"model": "m2"}, ("grades", "heads", "plan")),
        ({"pairs": "p2"}, ("grades", "heads", "plan")),
        ({"unread": 1}, ()),
    ],
)
def test_a_change_reruns_what_depends_on_it(study, change, expected):
    study()
    assert study(**change) == expected


@pytest.mark.parametrize(
    ("name", "value"), [("source_hash", "edited"), ("installed_versions", {"torch": "0"})]
)
def test_other_sources_or_versions_rerun_everything(study, monkeypatch, name, value):
    study()
    monkeypatch.setattr(f"qt_bert.run.folder.{name}", lambda: value)
    assert study() == ("grades", "heads", "plan")


def test_a_result_that_was_removed_is_made_again(study, tmp_path):
    study()
    (tmp_path / "run" / "grades.json").unlink()
    assert study() == ("grades",)


def test_a_kill_between_file_and_mark_reruns_that_stage(study, stages, tmp_path):
    def write_and_die(context):
        stages.heads.run(context)
        raise Killed

    with pytest.raises(Killed):
        study(stages.grades, replace(stages.heads, run=write_and_die), stages.plan)
    record = RunFolder.read(tmp_path / "run").record
    states = {name: stage.status for name, stage in record.stages.items()}
    assert states == {"grades": "done", "heads": "running", "plan": "pending"}
    assert not record.complete
    assert study() == ("heads", "plan")
    assert RunFolder.read(tmp_path / "run").record.complete


def test_unfinished_work_of_the_same_key_is_kept(study, stages, tmp_path):
    def leave_half(context):
        context.folder.file("seed.partial").write_text("half")
        raise Killed

    with pytest.raises(Killed):
        study(replace(stages.heads, run=leave_half))
    study(stages.heads)
    assert (tmp_path / "run" / "seed.partial").read_text() == "half"


def test_a_stale_result_is_gone_before_its_stage_starts(study, stages, tmp_path):
    def die(context):
        raise Killed

    study()
    with pytest.raises(Killed):
        study(replace(stages.grades, run=die), stages.heads, stages.plan, model="m2")
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert left == {"run.json"}


def test_files_beside_the_stages_results_are_never_touched(study, tmp_path):
    study()
    (tmp_path / "run" / "notes.txt").write_text("mine")
    study(model="m2")
    assert (tmp_path / "run" / "notes.txt").read_text() == "mine"


def test_checks_and_seconds_stand_in_the_record(study, stages, tmp_path):
    study()
    record = RunFolder.read(tmp_path / "run").record
    assert record.guards == {"heads": {"difference": 2e-6}}
    assert all(stage.seconds is not None for stage in record.stages.values())


def test_a_stage_that_writes_nothing_is_not_marked_done(study, stages, tmp_path):
    idle = replace(stages.grades, run=lambda context: None)
    with pytest.raises(RunFolderError, match=r"'grades' ended without writing grades\.json"):
        study(idle)
    assert RunFolder.read(tmp_path / "run").record.stages["grades"].status == "running"


def test_what_a_stage_needs_must_be_there(study, stages):
    with pytest.raises(ArgumentError, match="'plan' needs 'heads'"):
        study(replace(stages.plan, order=1), stages.heads)
    with pytest.raises(ArgumentError, match="'heads' needs the argument 'draws'"):
        study(replace(stages.heads, arguments=("draws",)))


def test_a_file_that_ships_and_is_read_is_in_the_key(stages, inputs, tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "_ROOTS", (tmp_path,))
    record = RunRecord(versions={}, source="s", inputs=inputs())
    reading = replace(stages.grades, reads=("spans.tsv",))
    keys = [stage_key(reading, record, {})]
    for text in ("a", "b"):
        (tmp_path / "spans.tsv").write_text(text)
        keys.append(stage_key(reading, record, {}))
    assert len(set(keys)) == 3
    assert stage_key(stages.grades, record, {}) == keys[0]


def test_progress_counts_the_pairs_through_model_stages_that_ran(study, stages, inputs, tmp_path):
    study(stages.grades)
    folder = RunFolder.open(tmp_path / "run", inputs(), resume=True)
    notes: list[tuple[str, int]] = []
    counter = SimpleNamespace(advance=lambda amount=1, note="": notes.append((note, amount)))
    run_stages(stages, StageContext(folder=folder, request=Request()), counter)
    assert notes == [
        (stage.name, pairs_through_model(stage)) for stage in (stages.heads, stages.plan)
    ]


def test_some_stages_alone_bring_what_they_need():
    def stage(name, *needs):
        return Stage(name=name, order=1, run=print, outputs=(), needs=needs, quick_seconds=1)

    there = [stage("evaluation"), stage("probe:matching"), stage("probe:order")]
    there.append(stage("probe:patch", "probe:matching"))
    there.append(stage("plan", "probe:matching", "probe:order", "probe:patch"))

    def chosen(*only):
        return {stage.name: stage.needs for stage in select(there, Request(), only)}

    assert list(chosen("patch")) == ["probe:matching", "probe:patch"]
    assert chosen("order", "plan") == {"probe:order": (), "plan": ("probe:order",)}
    with pytest.raises(ArgumentError, match="matching, order, patch, plan"):
        chosen("patches")
    assert len(select(there, Request())) == 5


def test_a_quick_run_leaves_out_what_only_full_runs_have():
    fast = Stage(name="probe:order", order=1, run=print, outputs=(), quick_seconds=1)
    stages = [fast, replace(fast, name="probe:ladder", only_full=True)]
    assert select(stages, Request()) == stages[:1]
    assert select(stages, Request(full=True)) == stages
    assert select(stages, Request(), ["ladder"]) == stages[1:]


def test_a_forecast_counts_the_fastest_pass_of_two_seconds(monkeypatch):
    monkeypatch.setattr(run_folder, "TIMED_SECONDS", 2.0)
    clock = iter([0, 1.5, 10, 10.25, 20, 20.5])  # a slow start, then two passes; no fourth
    monkeypatch.setattr(run_folder.time, "perf_counter", lambda: next(clock))
    scorer = SimpleNamespace(fresh=lambda: SimpleNamespace(logits=lambda pairs: None))
    assert run_folder._seconds(scorer, [("狗", "猫")]) == 0.25
