"""A plan of any shape with plausible figures."""

from typing import Any

from qt_bert.figures import Curve, HeatMap, Point, Series
from qt_bert.results.kept import KeptLayer, TeacherRef
from qt_bert.results.plan import (
    AtRisk,
    Budget,
    Expected,
    GridRow,
    MetricChange,
    Plan,
    PlanEvidence,
    PlanTest,
    Ratio,
    Size,
    Speed,
    layer_map,
)
from qt_bert.results.probe import PairsRef
from qt_bert.text import Text

PAIRS = PairsRef(name="test.tsv", sha256="a7" * 32, n_pairs=800, n_queries=160)


def measured(change: float = -0.011, half: float = 0.008) -> MetricChange:
    return MetricChange(
        base=0.774, value=0.774 + change, change=change, ci_low=change - half, ci_high=change + half
    )


def expected(value: float = -0.012, half: float = 0.02) -> Expected:
    ends = {"ci_low": value - half / 2, "ci_high": value + half / 2}
    return Expected(value=value, **ends, pi_low=value - half, pi_high=value + half)


SPEED = Speed(
    latency=Ratio(value=0.81, low=0.78, high=0.85),
    throughput=Ratio(value=1.31, low=1.2, high=1.4),
    teacher_ms=4.2,
    pairs=32,
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
            speed=SPEED,
            expected={"spearman": expected(-0.01 * out)},
            measured={"spearman": measured(-0.011 * out)},
        )
        for out in range(1, 3)
    ]
    outside = GridRow(  # of the predicted interval
        of="layers",
        kept=1,
        share=1 / layers,
        removed=tuple(f"L{layer}" for layer in range(1, layers)),
        size=size,
        expected={"spearman": expected(-0.1)},
        measured={"spearman": measured(-0.3)},
    )
    return (*by_heads, outside)


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
        "teacher_size": Size(parameters=7_000_000, share=1.0, stored=14_000_000),
        "size": Size(parameters=6_000_000, share=6 / 7, stored=12_000_000),
        "speed": SPEED,
        "expected": {"spearman": expected()},
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
        replacement="zero",
        kept=kept,
        layer_map=layer_map(kept, layers),
        evidence=evidence(layers, heads, **changes),
    )
