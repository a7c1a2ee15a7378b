"""Results of two probes, with hostile texts and figures of one name, in a run folder."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.files import write_json
from qt_bert.probes.claims import POINTS, beyond, no_effect
from qt_bert.results import Curve, Finding, HeadScores, HeatMap, ProbeResult, Text
from qt_bert.results.figures import Point, Series
from qt_bert.results.probe import ModelRef, PairsRef, Source
from qt_bert.results.verdicts import settle
from qt_bert.study import RunFolder, RunInputs, Stage, StudyContext, run_study

LAYERS, HEADS = 6, 4
EFFECTS = np.random.default_rng(0).normal(0, 1.5, (LAYERS, HEADS)).round(3)


def source(section: str, value: float | str | None = None) -> Source:
    return Source(article="heads_of_query_title_bert", section=section, value=value)


def make_findings() -> tuple[Finding, ...]:
    return (
        beyond(
            "redundancy.low_half",
            Text("去掉低层的 80%，比去掉高层多损失 5 个百分点以上", "At 80 % of a half, the low half loses more than 5 points beyond the high half"),
            source("2.1", "低层损失更大"),
            18.25,
            (11.4, 25.1),
            p=0.0001,
            n_queries=160,
            margin=5.0,
            unit=POINTS,
            conclusions={"reproduced": Text("低层的头不可缺。", "The low heads cannot be spared.")},
        ),
        no_effect(
            "redundancy.random_10",
            Text("随机去掉 10% 的头没有影响", "10 % of the heads at random have no effect"),
            source("2.1", "+1 %"),
            -0.62,
            (-1.61, 0.35),
            n_queries=160,
            margin=2.0,
            unit=POINTS,
        ),
        beyond(
            "redundancy.layer_4",
            Text("去掉第 4 层，准确率上升", "Without layer 4 accuracy rises"),
            source("2.1", 2.3),
            -1.5,
            (-2.9, -0.1),
            p=0.97,
            n_queries=160,
            unit=POINTS,
        ),
        beyond(
            "redundancy.beside",
            Text("均值替换时的同一差别", "The same difference under mean contexts"),
            source("2.1"),
            7.0,
            (1.0, 13.0),
            p=0.02,
            n_queries=160,
            unit=POINTS,
            primary=False,
        ),
    )  # fmt: skip


def make_figures() -> tuple[Curve | HeatMap, ...]:
    steps = range(0, 60, 10)
    low = [0, -2.0, -6.5, -13.0, -21.0, -30.0]
    high = [0, -0.4, -0.9, -1.2, -2.2, -3.0]
    curve = Curve(
        name="effects",
        title=Text("低层与高层逐步去掉", "Low and high half, step by step"),
        x_label=Text("去掉的头", "heads left out"),
        y_label=Text("准确率的变化", "change of accuracy"),
        unit=POINTS,
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
        unit=POINTS,
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
        "findings": settle(make_findings()),
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
