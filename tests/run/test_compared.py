"""A second model in a run: evaluated, compared, probed, and known by its own key."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.probes.base import Probe
from qt_bert.probes.registry import probe_named
from qt_bert.results.evaluation import ComparisonResult, EvaluationResult
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import ProbeFiles, RunFolder
from qt_bert.run.stage import Stage, StudyContext, run_inputs, run_study
from qt_bert.run.stages import compared_stage, probe_stage, stages

Run = Callable[..., tuple[str, ...]]
NAMES = ("evaluation", "comparison", "probe:fake", "compare:fake")


@pytest.fixture
def run(
    fake_probe: None, checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path
) -> Run:
    """Evaluate, compare and probe in one folder, always going on; the names of what ran."""
    common = {stage.name: stage for stage in stages()}

    def go(
        compared: Path | None, probe: Probe | None = None, base: Path | None = None, **changes: Any
    ) -> tuple[str, ...]:
        files = ProbeFiles(compared=compared, base=base)
        arguments = {
            "reader": asdict(ReaderOptions()),
            "dtype": "float32",
            "max_length": None,
            "model_grades": None,
            "compared_grades": None,
            "resamples": 20,
            "seed": 0,
            "profile": "quick",
            **files.arguments(),
            **changes,
        }
        inputs = run_inputs(checkpoint_of(), pair_file, arguments, "jieba")
        folder = RunFolder.open(tmp_path / "run", inputs, resume=True)
        context = StudyContext(folder=folder, model=checkpoint_of(), pairs=pair_file, files=files)
        fake = probe or probe_named("fake")
        chosen: list[Stage] = [common["evaluation"], common["comparison"]]
        return run_study([*chosen, probe_stage(fake), compared_stage(fake)], context)

    return go


@pytest.fixture
def other(checkpoint_of: Callable[..., Path]) -> Path:
    """A model of another family and another shape."""
    return checkpoint_of("electra", layers=3, heads=4)


def test_two_models_of_different_shapes(run: Run, other: Path, tmp_path: Path) -> None:
    assert run(other) == NAMES
    out = tmp_path / "run"
    found = ComparisonResult.read(out / "comparison.json")
    assert [(one.layers, one.heads) for one in (found.a, found.b)] == [(2, 2), (3, 4)]
    assert found.n_pairs == 8
    accuracy = found.metrics["accuracy"]
    own = [
        EvaluationResult.read(out / name).metrics["accuracy"].value
        for name in ("evaluation.json", "compared_evaluation.json")
    ]
    assert [accuracy.value_a, accuracy.value_b] == own
    one, two = (ProbeResult.read(out / name / "fake.json") for name in ("probes", "compare"))
    assert one.model.sha256 != two.model.sha256
    assert (out / "sweeps" / "compare" / "fake").is_dir()


def test_it_agrees_with_the_command_compare(
    run: Run, other: Path, checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path
) -> None:
    from qt_bert.models.checkpoint import open_checkpoint
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.scoring.evaluate import compare_models

    run(other, resamples=2000)
    scorers = [Scorer(open_checkpoint(folder)) for folder in (checkpoint_of(), other)]
    expected = compare_models(pair_file, ReaderOptions(), *scorers)
    stored = json.loads((tmp_path / "run" / "comparison.json").read_text())
    assert stored["metrics"] == json.loads(json.dumps(expected["metrics"]))
    assert stored["most_different"] == expected["most_different"]


def test_both_models_are_in_the_key(
    run: Run, other: Path, checkpoint_of: Callable[..., Path]
) -> None:
    assert (run(other), run(other)) == (NAMES, ())
    assert run(checkpoint_of("electra", layers=3, heads=2)) == ("comparison", "compare:fake")
    assert run(other, compared_grades="0=1,1=2,2=3,3=4,4=5") == ("comparison", "compare:fake")


def test_without_it_its_results_are_forgotten(run: Run, other: Path, tmp_path: Path) -> None:
    run(other)
    assert run(None) == ()
    left = {path.name for path in (tmp_path / "run").rglob("*") if path.is_file()}
    assert not left & {"comparison.json", "compared_evaluation.json"}
    assert not (tmp_path / "run" / "compare" / "fake.json").exists()
    assert not (tmp_path / "run" / "sweeps" / "compare" / "fake").exists()


def test_a_probe_that_needs_a_base_runs_on_the_first_model_alone(
    run: Run, other: Path, checkpoint_of: Callable[..., Path]
) -> None:
    needing = replace(probe_named("fake"), needs_base=True)
    ran = run(other, needing, checkpoint_of(labels=3))
    assert ran == ("evaluation", "comparison", "probe:fake")


def test_the_first_models_base_is_not_the_other_ones(
    run: Run, other: Path, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    seen: dict[str, Path | None] = {}
    fake = probe_named("fake")

    def look(context: Any) -> ProbeResult:
        seen[context.model_ref.sha256] = context.base
        return fake.run(context)

    base = checkpoint_of(labels=3)
    run(other, replace(fake, run=look, uses=("base",)), base)
    assert sorted(seen.values(), key=str) == sorted([base, None], key=str)


def test_outputs_of_different_kinds_are_refused(
    run: Run, checkpoint_of: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(ArgumentError, match="outputs of different kinds"):
        run(checkpoint_of(labels=3))
    assert (tmp_path / "run" / "evaluation.json").is_file()
    assert not (tmp_path / "run" / "compared_evaluation.json").exists()
