"""Results of a few probes on a model of two layers of two heads."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from qt_bert.files import write_json
from qt_bert.request import Request
from qt_bert.results.probe import HeadScores, ModelRef, PairsRef, ProbeResult
from qt_bert.run.folder import RunFolder, RunInputs, Stage, StageContext, run_stages
from qt_bert.text import Text

HEADS = ("L0H0", "L0H1", "L1H0", "L1H1")
CHANGES = (-0.0138888, 0.0, 0.0555555, None)


GRADED = ModelRef(name="graded", sha256="4f")


def redundancy(**changes: Any) -> ProbeResult:
    def scores(change: float | None) -> dict[str, float | None]:
        ends = (None, None) if change is None else (change - 0.01, change + 0.01)
        rest = {"q": 0.2, "kl": 0.00012345678, "qwk_change": 0.5}
        return {"change": change, "ci_low": ends[0], "ci_high": ends[1]} | rest

    facts: dict[str, Any] = {
        "probe": "redundancy",
        "title": Text("冗余", "Redundancy"),
        "order": 10,
        "model": GRADED,
        "pairs": PairsRef(name="test.tsv", sha256="a7", n_pairs=72, n_queries=70),
        "settings": {
            "profile": "quick",
            "discovery": {"name": "dev.tsv", "sha256": "b8", "n_pairs": 40, "n_queries": 39},
        },
        "summary": Text("很冗余。", "Very redundant."),
        "heads": tuple(
            HeadScores(head=head, scores=scores(change))
            for head, change in zip(HEADS, CHANGES, strict=True)
        ),
        "sets": {"harmful": ("L1H0",), "harmful_candidates": ()},
    }
    return ProbeResult(**(facts | changes))


def matching(**changes: Any) -> ProbeResult:
    facts: dict[str, Any] = {
        "probe": "matching",
        "title": None,
        "order": 40,
        "model": GRADED,
        "pairs": PairsRef(name="test.tsv", sha256="a7", n_pairs=30, n_queries=30),
        "settings": {
            "profile": "quick",
            "scored": {"validation": {"pairs": 80, "used": 78, "queries": 77}},
        },
        "summary": Text("有匹配头。", "There are matching heads."),
        "heads": tuple(
            HeadScores(head=head, scores={"score": score, "q": 0.001, "sink_free": 1.0})
            for head, score in zip(HEADS, (1.0, 9.0, 2.5, 1.1), strict=True)
        ),
        "sets": {"matching": ("L0H1",), "named": ("L0H1", "L1H0")},
    }
    return ProbeResult(**(facts | changes))


def run_of(path: Path, inputs: RunInputs, *results: ProbeResult) -> Path:
    """A complete run folder at `path` that holds these results."""
    files = {f"{r.probe}|probes/{r.probe}.json": r.to_json() for r in results}
    return write_run(path, inputs, files)


def write_run(path: Path, inputs: RunInputs, files: Mapping[str, Any]) -> Path:
    """A complete run folder of these files, each the output of the stage before the `|`."""

    def stage(name: str, file: str, value: Any) -> Stage:
        def run(context: StageContext) -> None:
            context.guards["difference"] = 1e-6
            write_json(context.folder.file(file), value)

        return Stage(name=name, order=1, run=run, outputs=(file,), quick_seconds=1)

    stages = [stage(*key.split("|"), value) for key, value in files.items()]
    folder = RunFolder.open(path, inputs, resume=True)
    run_stages(stages, StageContext(folder=folder, request=Request()))
    return path
