"""The stages of a report: probes, the plan; what each depends on, and what stays."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.heads import Head
from qt_bert.planning.task import Effort
from qt_bert.probes.base import Context, Probe, Result, probe_named
from qt_bert.report.render import sections
from qt_bert.report.stored import Stored
from qt_bert.request import PROBE_FIELDS, Request, resolve
from qt_bert.results.plan import Plan
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import RunFolder, StageContext, run_inputs, run_stages
from qt_bert.run.study import FrontierOptions, PlanOptions, plan_stage, probe_stage, stages
from qt_bert.shipped import BASELINES, BEHAVIOURS, TEST, TRAIN, shipped
from qt_bert.text import Text
from qt_bert.training.recipes import PairSource

FAKE = ("probe:fake",)
Run = Callable[..., tuple[str, ...]]


@pytest.fixture
def run(fake_probe, checkpoint_of, pair_file, tmp_path) -> Run:
    """Run stages on a tiny model in one folder, always going on; returns the names of those that ran."""

    def go(*chosen, beside=(), **changes):
        request = Request(
            **{"model": str(checkpoint_of()), "pairs": pair_file, "resamples": 20} | changes
        )
        folder = RunFolder.open(tmp_path / "run", run_inputs(request), resume=True)
        stages = chosen or (probe_stage(probe_named("fake")),)
        return run_stages(stages, StageContext(folder=folder, request=request), beside=beside)

    return go


def fake(**changes: Any) -> Probe:
    return replace(probe_named("fake"), **changes)


def sweeps_run(tmp_path: Path) -> int:
    """How often the probe added to its sweeps since they were last removed."""
    return (tmp_path / "run" / "sweeps" / "fake" / "runs.txt").read_text().count("run")


# The evaluation.


def test_a_card_in_another_encoding_stops_no_report(run, fresh_checkpoint, tmp_path):
    folder = fresh_checkpoint("bert")
    (folder / "README.md").write_bytes("模型 bert".encode("gb18030"))
    evaluation = next(stage for stage in stages() if stage.name == "evaluation")
    assert run(evaluation, model=str(folder)) == ("evaluation",)
    stored = json.loads((tmp_path / "run" / "evaluation.json").read_text(encoding="utf-8"))
    assert "\ufffd" in stored["card"] and stored["card"].endswith(" bert")


# A probe.


def test_its_result_and_guards_stand_in_the_run(run, tmp_path):
    assert (run(), run()) == (FAKE, ())
    assert ProbeResult.read(tmp_path / "run" / "probes" / "fake.json").probe == "fake"
    record = RunFolder.read(tmp_path / "run").record
    assert record.guards == {"probe:fake": {"difference": 1e-6}}
    assert record.stages["probe:fake"].folders == ("sweeps/fake",)


@pytest.mark.parametrize("change", [{"full": True}, {"seed": 1}, {"resamples": 30}])
def test_a_changed_argument_starts_its_sweeps_anew(run, tmp_path, change):
    run()
    assert run(**change) == FAKE
    assert sweeps_run(tmp_path) == 1


def test_other_discovery_pairs_change_the_result(run, more_pairs, tmp_path):
    dev = more_pairs
    assert (run(), run(discovery=dev), run(discovery=dev)) == (FAKE, FAKE, ())
    dev.write_text("query\ttitle\tgrade\n狗\t猫\t1\n", encoding="utf-8")
    assert run(discovery=dev) == FAKE
    settings = json.loads((tmp_path / "run" / "probes" / "fake.json").read_text())["settings"]
    assert settings["discovery"]["n_pairs"] == 1


def test_a_base_counts_only_where_it_is_needed(run, checkpoint_of, tmp_path):
    base, needing = checkpoint_of(labels=3), fake(needs_base=True)
    assert (run(), run(base=base)) == (FAKE, ())
    assert run(probe_stage(needing)) == ()
    assert not (tmp_path / "run" / "probes" / "fake.json").exists()
    assert run(probe_stage(needing), base=base) == FAKE


def test_a_second_model_counts_only_where_it_is_read(run, checkpoint_of):
    second, using = checkpoint_of(labels=3), fake(uses=("second",))
    assert (run(), run(second=second)) == (FAKE, ())
    assert (run(probe_stage(using)), run(probe_stage(using), second=second)) == (FAKE, FAKE)


@pytest.mark.parametrize("name", sorted(PROBE_FIELDS))
def test_a_probe_sees_no_input_that_it_does_not_declare(run, checkpoint_of, pair_file, name):
    values: dict[str, Any] = {
        "heads": "L0H0",
        "held_out": [pair_file],
        "held_out_columns": ["grade=grade"],
        "held_out_grades": ["1=1"],
        "treebank": [pair_file],
        "baseline_table": shipped(BASELINES),
    }
    folder = checkpoint_of(labels=3) if name in ("base", "second") else pair_file
    value, seen = values.get(name, folder), []

    def look(context: Context) -> Result:
        seen.append(getattr(context.request, name))
        return fake().run(context)

    for uses in ((), (name,)):
        run(probe_stage(fake(uses=uses, run=look)), **{name: value})
    assert seen == [getattr(Request(), name), value]


def test_sweeps_of_no_recorded_stage_are_removed(run, tmp_path):
    run(seed=5)
    path = tmp_path / "run" / "run.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"stages": {}}))
    assert run() == FAKE
    assert sweeps_run(tmp_path) == 1


def test_sweeps_of_a_killed_stage_are_gone_on_with(run, tmp_path):
    run(seed=5)
    stop = tmp_path / "run" / "sweeps" / "stop"
    stop.write_text("")
    with pytest.raises(KeyboardInterrupt):
        run()
    stop.unlink()
    assert run() == FAKE
    assert sweeps_run(tmp_path) == 2


def _reads(context: Context) -> Result:
    chosen = context.result_of("fake").sets["chosen"]
    return Result(sets={"read": list(map(Head.parse, chosen))})


READER = Probe(
    name="reader",
    order=4,
    title=Text("读取", "Reader"),
    question=Text("读到什么？", "What is read?"),
    run=_reads,
    quick_seconds=1,
    needs=("fake",),
)


def test_a_probe_follows_the_one_it_needs(run, tmp_path):
    both = [probe_stage(READER), probe_stage(fake())]
    assert run(*both) == ("probe:fake", "probe:reader")
    read = ProbeResult.read(tmp_path / "run" / "probes" / "reader.json")
    assert read.sets == {"read": ("L0H1",)}
    with pytest.raises(ArgumentError, match="comes no earlier"):
        run(replace(both[0], order=1), both[1])
    other = replace(READER, run=lambda context: context.result_of("order"))
    with pytest.raises(ArgumentError, match="'reader' does not declare that it needs 'order'"):
        run(probe_stage(other), both[1], seed=1)


def test_what_is_not_asked_for_stays_while_it_holds(run, tmp_path):
    both = [probe_stage(READER), probe_stage(fake())]
    run(*both)
    assert run(both[1], beside=both) == ()
    assert (tmp_path / "run" / "probes" / "reader.json").is_file()
    with pytest.raises(RunFolderError, match="holds probe:reader of another model, file, option"):
        run(both[1], beside=both, seed=1)
    assert (tmp_path / "run" / "probes" / "reader.json").is_file()


# The plan.


LEAST = Effort(profile="quick", choosing=12, measuring=12, heads=(0.5,), counts=1)


def test_the_plan_lies_in_the_run_and_is_drawn_from_it(run, more_pairs, tmp_path):
    stage = plan_stage(PlanOptions(budget="heads=0.5"), folder="plan", quick=LEAST)
    assert run(stage, pairs=more_pairs) == ("plan",)
    folder = RunFolder.read(tmp_path / "run")
    plan = Plan.read(tmp_path / "run" / "plan" / "plan.json")
    assert plan.evidence is not None and plan.evidence.profile == "quick"
    assert folder.record.guards["plan"]["unmasked"] <= folder.record.guards["plan"]["bound"]
    assert folder.record.stages["plan"].folders == ("sweeps/plan",)
    assert Stored(folder).plan
    assert run(stage, pairs=more_pairs) == ()
    assert run(stage, pairs=more_pairs, seed=1) == ("plan",)
    with pytest.raises(ArgumentError, match="are also in"):
        run(stage, pairs=more_pairs, discovery=more_pairs)


def test_the_frontier_lies_beside_the_plan_and_is_drawn_with_it(run, more_pairs, tmp_path):
    quick = replace(LEAST, requests=3, bulk=4, engines=0)
    options = FrontierOptions(in_report=True)
    stage = plan_stage(options, folder="plan", quick=quick)
    assert stage.reads == (TRAIN, BEHAVIOURS)
    assert run(stage, pairs=more_pairs) == ("frontier",)
    stored = Stored(RunFolder.read(tmp_path / "run"))
    assert stored.frontier.trial is None and stored.plan is None
    assert [section.name for section in sections(stored)].count("plan") == 1
    assert run(stage, pairs=more_pairs) == ()


def test_a_full_report_tries_shapes_on_the_pairs_that_ship(more_pairs):
    def files(**request):
        sources = FrontierOptions(in_report=True).sources(resolve(Request(**request)))
        return [source.file for source in sources]

    assert files(full=True) == [shipped(TRAIN)]
    assert files() == files(full=True, pairs=more_pairs) == []
    labels = "0=1,1=2,2=3,3=4,4=5"
    assert files(full=True, model_grades=labels) == []  # which no student would keep


def test_training_pairs_have_the_columns_and_grades_of_the_pairs_or_the_usual_columns(
    more_pairs, write
):
    reader = ReaderOptions(columns="query=q,title=t,grade=l", grades="1=1-3,2=4-5", limit=80)
    same = write("same.tsv", "q\tt\tl\n猫\t狗\t1\n")
    options = FrontierOptions(pairs_to_train=(same, more_pairs))
    first, second = options.sources(Request(reader=reader))
    assert first == PairSource(same, columns=reader.columns, grades=reader.grades)
    assert second == PairSource(more_pairs, grades=reader.grades)


# What a run reads, where nothing else is named.


def test_the_table_that_ships_goes_with_all_of_the_test_split_alone():
    assert resolve(Request(pairs=shipped(TEST))).baseline_table == shipped(BASELINES)
    some = Request(reader=ReaderOptions(limit=80))
    assert resolve(some).baseline_table is None
    named = replace(some, baseline_table=shipped(BASELINES))
    assert resolve(named).baseline_table == shipped(BASELINES)
