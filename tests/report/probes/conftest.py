"""Results of two probes, with hostile texts and figures of one name, in a run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.figures import Curve, HeatMap, Point, Series
from qt_bert.files import write_json
from qt_bert.results.probe import HeadScores, ModelRef, PairsRef, ProbeResult, SourcedClaim
from qt_bert.run.folder import RunFolder, RunInputs
from qt_bert.run.stage import Stage, StudyContext, run_study
from qt_bert.text import Text
from tests.results.made_claims import FACTS, claim, measurement, source, undecided, untestable

LAYERS, HEADS = 6, 4
EFFECTS = np.random.default_rng(0).normal(0, 1.5, (LAYERS, HEADS)).round(3)


def make_claims(probe: str) -> tuple[SourcedClaim, ...]:
    """One of every verdict; of `boundary` the first has a text."""
    return (
        claim(f"{probe}.beyond_characters"),
        claim(f"{probe}.beside", verdict="not reproduced", value=-1.5, ci_low=-2.9, ci_high=-0.1),
        undecided(f"{probe}.open", source=source(2.3)),
        untestable(f"{probe}.untestable", reason="few_sets"),
    )


def make_figures() -> tuple[Curve | HeatMap, ...]:
    steps = range(0, 60, 10)
    low = [0, -2.0, -6.5, -13.0, -21.0, -30.0]
    high = [0, -0.4, -0.9, -1.2, -2.2, -3.0]
    curve = Curve(
        name="effects",
        title=Text("低层与高层逐步去掉", "Low and high half, step by step"),
        x_label=Text("去掉的头", "heads left out"),
        y_label=Text("准确率的变化", "change of accuracy"),
        unit=Text("个百分点", "points"),
        x_unit="%",
        series=tuple(
            Series(
                name=name,
                points=tuple(
                    Point(x=x, y=y, low=y - 1.5, high=y + 1.5)
                    for x, y in zip(steps, values, strict=True)
                ),
            )
            for name, values in ((Text("低层", "low"), low), (Text("高层", "high"), high))
        ),
    )
    heat = HeatMap(
        name="heads",
        title=Text("逐个去掉每个头", "Each head left out"),
        x_label=Text("头", "head"),
        y_label=Text("层", "layer"),
        unit=Text("个百分点", "points"),
        columns=tuple(f"H{head}" for head in range(HEADS)),
        rows=tuple(f"L{layer}" for layer in range(LAYERS)),
        values=tuple(tuple(row) for row in EFFECTS.tolist()),
        marked=((1, 2), (4, 0)),
        scale="diverging",
        note=Text("方框：q < 0.05。", "Framed: q < 0.05."),
    )
    return curve, heat


def make_result(name: str, order: int, **changes: Any) -> ProbeResult:
    facts: dict[str, Any] = {
        "title": Text("冗余 <b>", "Redundancy <b>"),
        "settings": {
            "profile": "quick",
            "discovery": {"name": "dev.tsv", "n_pairs": 600},
            "draws": 5,
            "resolution": {
                "zh": "能看出 2.1 个百分点以上的变化。",
                "en": "It can show 2.1 points.",
            },
        },
        "summary": Text("随机去掉几个头几乎没有影响。", "A few heads at random hardly matter."),
        "facts": FACTS,
        "claims": make_claims(name),
        "measurements": (
            measurement(),
            measurement("unknown", value=None, n_queries=0, ci_low=None, ci_high=None),
        ),
        "heads": tuple(
            HeadScores(
                head=f"L{layer}H{head}",
                scores={"effect": float(EFFECTS[layer, head]), "importance": None},
                selected=(layer, head) == (1, 2),
            )
            for layer in range(LAYERS)
            for head in range(HEADS)
        ),
        "sets": {"harmful": ("L1H2", "L4H0"), "none": ()},
        "figures": make_figures(),
    }
    return ProbeResult(
        probe=name,
        order=order,
        model=ModelRef(name="graded", sha256="4f" * 32),
        pairs=PairsRef(name="test.tsv", sha256="a7" * 32, n_pairs=800, n_queries=160),
        **(facts | changes),
    )


@pytest.fixture
def result_of() -> Callable[..., ProbeResult]:
    """`result_of("redundancy", 10, title=None)`: a result, any of its fields changed."""
    return make_result


@pytest.fixture
def run_of(tmp_path: Path, evaluation: dict[str, Any]) -> Callable[..., Path]:
    """A complete run with an evaluation and these results of probes."""

    def write(value: Any, name: str) -> Callable[[StudyContext], None]:
        return lambda context: write_json(context.folder.file(name), value)

    def build(*results: ProbeResult) -> Path:
        files = {"evaluation": ("evaluation.json", evaluation)} | {
            f"probe:{one.probe}": (f"probes/{one.probe}.json", one.to_json()) for one in results
        }
        stages = [
            Stage(name=name, order=1, run=write(value, file), outputs=(file,), quick_seconds=1)
            for name, (file, value) in files.items()
        ]
        inputs = RunInputs(
            model=ModelRef(name="graded", sha256="4f" * 32),
            pairs=PairsRef(name="test.tsv", sha256="a7" * 32),
            segmenter="jieba",
        )
        path = tmp_path / "probed"
        context = StudyContext(folder=RunFolder.open(path, inputs), model=path, pairs=path)
        run_study(stages, context)
        return path

    return build
