"""A plan of any shape, and a frontier, with plausible figures."""

from typing import Any

from qt_bert.figures import Curve, HeatMap, Point, Series
from qt_bert.results.frontier import (
    Detail,
    Forecast,
    Frontier,
    FrontierRow,
    StudentShape,
    Timing,
    Trial,
    TrialRun,
)
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import (
    AtRisk,
    Budget,
    GridRow,
    MetricChange,
    Plan,
    PlanEvidence,
    PlanTest,
    Ratio,
    Size,
)
from qt_bert.results.probe import PairsRef
from qt_bert.stats.comparison import MetricDifference
from qt_bert.text import Text

PAIRS = PairsRef(name="test.tsv", sha256="a7" * 32, n_pairs=800, n_queries=160)


def measured(change: float = -0.011, half: float = 0.008) -> MetricChange:
    return MetricChange(
        base=0.774, value=0.774 + change, change=change, ci_low=change - half, ci_high=change + half
    )


def rows(layers: int, heads: int) -> tuple[GridRow, ...]:
    total = layers * heads
    size = Size(parameters=5_000_000, share=0.8, stored=10_000_000)
    by_heads = [
        GridRow(
            of="heads",
            kept=total - out,
            share=1 - out / total,
            removed=tuple(f"L0H{head}" for head in range(min(out, heads))),
            size=size,
            measured={"spearman": measured(-0.011 * out)},
        )
        for out in range(1, 3)
    ]
    by_layers = GridRow(
        of="layers",
        kept=1,
        share=1 / layers,
        removed=tuple(f"L{layer}" for layer in range(1, layers)),
        size=size,
        measured={"spearman": measured(-0.3)},
    )
    return (*by_heads, by_layers)


def figures(layers: int, heads: int) -> tuple[Curve | HeatMap, ...]:
    points = tuple(Point(x=10.0 * x, y=-0.1 + 0.01 * x, n=160) for x in range(3, 10))
    series = (Series(name="chosen", points=points),)
    labels = {"x_label": "x", "y_label": "y", "unit": ""}
    return (
        Curve(name="plan_heads_curve", title=Text("质量", "Quality"), series=series, **labels),
        HeatMap(
            name="plan_heads",
            title=Text("头", "Heads"),
            columns=tuple(f"H{head}" for head in range(heads)),
            rows=tuple(f"L{layer}" for layer in range(layers)),
            values=((None, *[0.1] * (heads - 1)),) * layers,
            **labels,
        ),
    )


def evidence(layers: int, heads: int, **changes: Any) -> PlanEvidence:
    facts: dict[str, Any] = {
        "profile": "quick",
        "dtype": "float32",
        "discovery": PairsRef(name="dev.tsv", sha256="b8" * 32, n_pairs=128, n_queries=120),
        "validation": PAIRS,
        "settings": {"seed": 0},
        "size": Size(parameters=6_000_000, share=6 / 7, stored=12_000_000),
        "cost": 2.6,
        "effects": {"L0H0": -0.001, "L0H1": 0.02},
        "grid": rows(layers, heads),
        "tests": (
            PlanTest(
                role="validation",
                pairs=PAIRS,
                coarse=False,
                measured={"spearman": measured(), "qwk": measured(-0.02)},
            ),
            PlanTest(
                role="held out",
                pairs=PairsRef(name="qbqtc <b>.jsonl", sha256="c9", n_pairs=5000, n_queries=900),
                coarse=True,
                measured={"spearman": measured(-0.05)},
            ),
        ),
        "functions": "run",
        "at_risk": (
            AtRisk(name="matching", heads=("L0H0", "L1H0"), lost=("L0H0",), measured=measured()),
            AtRisk(name="order", heads=("L1H1",), lost=()),
        ),
        "figures": figures(layers, heads),
    }
    return PlanEvidence(**(facts | changes))


def plan(layers: int = 12, heads: int = 12, **changes: Any) -> Plan:
    """A plan that takes the first head out of every layer."""
    kept = tuple(KeptLayer(layer=layer, heads=tuple(range(1, heads))) for layer in range(layers))
    return Plan(
        teacher=TeacherRef(name="graded", sha256="4f" * 32, layers=layers, heads=heads, units=768),
        budget=Budget(kind_of="heads", value=0.6, share=True, asked="heads=0.6"),
        kept=kept,
        evidence=evidence(layers, heads, **changes),
    )


def difference(change: float) -> MetricDifference:
    ends = {"ci_low": change - 0.01, "ci_high": change + 0.01, "n": 800, "n_queries": 160}
    return MetricDifference(value_a=0.8, value_b=0.8 + change, difference=change, **ends)


WHOLE, SMALL = StudentShape(layers=12), StudentShape(layers=4, units=0.5)


def frontier(trial: bool = True, **changes: Any) -> Frontier:
    """A teacher and one shape, by default with a trial that recommends it."""
    rows = [
        FrontierRow(
            shape=shape,
            kept=tuple(KeptLayer(layer=layer, heads=(0, 1)) for layer in range(shape.layers)),
            parameters=1_000_000 * shape.layers,
            milliseconds=2.5 * shape.layers,
            rate=6000 / shape.layers,
            latency=Ratio(value=shape.layers / 12, low=None, high=None),
            throughput=Ratio(value=12 / shape.layers, low=2.9, high=3.1),
            quality={"spearman": difference(-0.3 if shape == SMALL else 0.0)},
            trial=(TrialRun(steps=150, changes={"spearman": -0.1}),)
            if trial and shape == SMALL
            else (),
            forecast={"spearman": Forecast(value=-0.01, low=-0.04, high=0.02)}
            if trial and shape == SMALL
            else {},
            hours=1.5 if trial and shape == SMALL else None,
        )
        for shape in (WHOLE, SMALL)
    ]
    timings = {
        shape: tuple(
            Timing(shape=shape, engine=engine, titles=10, threads=1, p50=p50, p99=9.0, requests=5)
            for engine, p50 in (("torch float32", 6.0), ("ONNX int8", 1.5))
        )
        for shape in (WHOLE, SMALL)
    }
    facts: dict[str, Any] = {
        "teacher": TeacherRef(name="graded", sha256="4f" * 32, layers=12, heads=2, units=768),
        "profile": "quick",
        "dtype": "float32",
        "threads": 2,
        "discovery": PAIRS,
        "validation": PairsRef(name="qbqtc <b>.jsonl", sha256="c9", n_pairs=800, n_queries=160),
        "candidates": 36,
        "half_heads": Ratio(value=0.95, low=None, high=None),
        "rows": tuple(rows),
        "baseline": difference(-0.4),
        "baseline_ms": 0.1,
        "vocabulary": {"tokens": 21_000, "needed": 4_000, "saved": 6_500_000},
        "trial": Trial(steps=(150, 600), files=("train.tsv",), dev=PAIRS) if trial else None,
        "recommended": SMALL if trial else None,
        "details": tuple(
            Detail(shape=shape, trained=0, timings=timings[shape], worst_slice="negation")
            for shape in timings
        ),
    }
    return Frontier(**(facts | changes))
