"""A probe that reads what another found: in a run, alone, and gone on with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.probes.base import Context, Probe
from qt_bert.probes.registry import probe_named
from qt_bert.results.probe import ProbeResult
from qt_bert.run.alone import run_alone
from qt_bert.run.folder import ProbeFiles, RunFolder, RunInputs
from qt_bert.run.stage import StudyContext, run_inputs, run_study
from qt_bert.run.stages import probe_stage
from qt_bert.text import Text


def _reads(context: Context) -> ProbeResult:
    found = context.found("fake")
    return replace(found, probe="reader", sets={"read": found.sets["chosen"]}, summary=Text("", ""))


READER = Probe(
    name="reader",
    order=4,
    title=Text("读取", "Reader"),
    question=Text("读到什么？", "What is read?"),
    run=_reads,
    quick_seconds=1,
    needs=("fake",),
)


@pytest.fixture
def inputs(fake_probe: None, checkpoint_of: Callable[..., Path], pair_file: Path) -> RunInputs:
    arguments = {
        "reader": asdict(ReaderOptions()),
        "dtype": "float32",
        "max_length": None,
        "model_grades": None,
        "resamples": 20,
        "seed": 0,
        "profile": "quick",
        **ProbeFiles().arguments(),
    }
    return run_inputs(checkpoint_of(), pair_file, arguments, "jieba")


def test_in_a_run_it_follows_the_probe_it_needs(
    inputs: RunInputs, checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path
) -> None:
    folder = RunFolder.open(tmp_path / "run", inputs, resume=True)
    context = StudyContext(folder=folder, model=checkpoint_of(), pairs=pair_file)
    stages = [probe_stage(READER), probe_stage(probe_named("fake"))]
    assert run_study(stages, context) == ("probe:fake", "probe:reader")
    read = ProbeResult.read(tmp_path / "run" / "probes" / "reader.json")
    assert read.sets == {"read": ("L0H1",)}
    with pytest.raises(ArgumentError, match="comes no earlier"):
        run_study([replace(stages[0], order=1), stages[1]], context)


def test_alone_it_runs_the_probe_it_needs_once(
    inputs: RunInputs, checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def run(**flags: bool) -> ProbeResult:
        return run_alone(
            READER,
            out,
            inputs,
            model=checkpoint_of(),
            pairs=pair_file,
            files=ProbeFiles(),
            **flags,
        )

    assert run().sets == {"read": ("L0H1",)}
    assert not (out / "fake.json").exists()  # a result of its own would have another key
    runs = out / "sweeps" / "reader" / "needed" / "fake" / "runs.txt"
    (out / "reader.json").unlink()  # as if it had been killed behind the probe it needs
    assert run(resume=True).probe == "reader"
    assert runs.read_text().count("run") == 1
    assert run(overwrite=True).probe == "reader"
    assert runs.read_text().count("run") == 1  # begun anew, with the sweeps of before gone


def test_what_lies_beside_it_of_the_same_inputs_is_taken(
    inputs: RunInputs, checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"

    def run(probe: Probe, asked: RunInputs) -> ProbeResult:
        return run_alone(
            probe,
            out,
            asked,
            model=checkpoint_of(),
            pairs=pair_file,
            files=ProbeFiles(),
            overwrite=True,
        )

    run(probe_named("fake"), inputs)
    run(READER, inputs)
    assert not (out / "sweeps" / "reader" / "needed").exists()
    run(READER, replace(inputs, arguments={**inputs.arguments, "seed": 1}))
    assert (out / "sweeps" / "reader" / "needed" / "fake" / "fake.json").is_file()


def test_what_is_not_needed_is_not_to_be_had(
    inputs: RunInputs, checkpoint_of: Callable[..., Path], pair_file: Path, tmp_path: Path
) -> None:
    other = replace(READER, run=lambda context: context.found("order"))
    with pytest.raises(ArgumentError, match="'reader' does not say that it needs 'order'"):
        run_alone(
            other,
            tmp_path / "out",
            inputs,
            model=checkpoint_of(),
            pairs=pair_file,
            files=ProbeFiles(),
        )


def test_its_inputs_are_those_of_both(fake_probe: None) -> None:
    matching = replace(READER, needs=("matching",), uses=("heads",))
    assert {"heads", *probe_named("matching").inputs} <= set(probe_stage(matching).arguments)
    assert probe_stage(matching).needs == ("probe:matching",)
