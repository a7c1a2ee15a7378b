"""Run folders of an evaluation and of probes, with plausible numbers and hostile texts."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from qt_bert.results.probe import HeadScores, ModelRef, PairsRef, ProbeResult, SourcedClaim
from qt_bert.run.folder import RunInputs
from qt_bert.text import Text
from tests.figures.examples import CURVE, HEAT_MAP
from tests.results.made_claims import FACTS, claim, measurement, source, undecided, untestable
from tests.results.made_heads import write_run

HOSTILE_IMAGE = "<img src=x onerror=alert(1)>"
HOSTILE_SCRIPT = "</script><script>alert('x')</script>"

PAIRS = [
    ("阳台能种什么蔬菜", "适合阳台种植的十种蔬菜", 5, (0.01, 0.03, 0.11, 0.26, 0.59)),
    ("阳台能种什么蔬菜", "家庭园艺入门：从阳台到花园", 4, (0.02, 0.08, 0.22, 0.49, 0.19)),
    ("阳台能种什么蔬菜", "阳台封窗要多少钱一平米", 2, (0.22, 0.51, 0.18, 0.06, 0.03)),
    ("蓝牙耳机一只没声音", "蓝牙耳机单边没声音怎么修复", 5, (0.01, 0.02, 0.08, 0.22, 0.67)),
    (HOSTILE_IMAGE, HOSTILE_SCRIPT, 3, (0.2, 0.2, 0.2, 0.2, 0.2)),
    ('=HYPERLINK("a")', "{{ 7*7 }} & <b>粗体</b> \x00\x1b\u202e", 1, (0.4, 0.3, 0.1, 0.1, 0.1)),
    ("蓝牙耳机一只没声音", "有线耳机一边没声音的原因", 3, (0.03, 0.16, 0.42, 0.28, 0.11)),
    ("蓝牙耳机一只没声音", "春季养兰花的浇水方法", 1, (0.91, 0.06, 0.02, 0.01, 0.0)),
    ("广州飞成都机票", "成都飞广州特价机票查询", 2, (0.03, 0.17, 0.21, 0.31, 0.28)),
    ("Switch OLED 屏幕多大", "Switch Lite 屏幕尺寸与续航", 2, (0.05, 0.38, 0.34, 0.17, 0.06)),
    ("孕妇可以吃榴莲吗", "怀孕期间能不能吃榴莲？医生这样说", 5, (0.0, 0.01, 0.04, 0.17, 0.78)),
    ("公积金贷款计算器", "住房公积金提取条件", 3, (0.06, 0.27, 0.39, 0.21, 0.07)),
    ("第十三个样例", "不会显示", 1, (1.0, 0.0, 0.0, 0.0, 0.0)),
]


def graded_pair(index: int) -> dict[str, Any]:
    query, title, grade, p = PAIRS[index % len(PAIRS)]
    return {
        "id": f"p{index}",
        "query": query,
        "title": title,
        "grade": grade,
        "p": list(p),
        "predicted_grade": max(range(5), key=p.__getitem__) + 1,
        "expected_grade": sum((i + 1) * share for i, share in enumerate(p)),
    }


def metric(value: float, half: float, **more: Any) -> dict[str, Any]:
    return {"value": value, "ci_low": value - half, "ci_high": value + half, "n": 800, **more}


def metrics() -> dict[str, Any]:
    ranked = {"n_eligible": 158, "n_queries": 160}
    values = {
        "accuracy": metric(0.523, 0.034),
        "macro_f1": metric(0.517, 0.035),
        "qwk": metric(0.768, 0.028),
        "mae": metric(0.591, 0.05),
        "macro_mae": metric(0.591, 0.05),
        "within_one": metric(0.894, 0.02),
        "bias": metric(-0.041, 0.06),
        "far_errors": metric(0.106, 0.02),
        "pairwise_accuracy": metric(0.861, 0.02, **ranked),
        "pnr": {"value": None, "n": 800, **ranked, "reason": f"nothing {HOSTILE_IMAGE}"},
        "auc": metric(0.902, 0.02),
        "spearman": metric(0.774, 0.027),
        "ece": metric(0.062, 0.02),
        "brier": metric(0.581, 0.03),
        "nll": metric(1.112, 0.07),
        "home_made": metric(0.5, 0.1),
    }
    for k in (1, 3, 5, 10):
        values[f"ndcg_at_{k}"] = metric(0.9 - 0.01 * k, 0.02, **ranked)
        values[f"ndcg_linear_at_{k}"] = metric(0.93 - 0.01 * k, 0.02, **ranked)
    return values


@pytest.fixture
def evaluation() -> dict[str, Any]:
    values = metrics()
    return {
        "schema": 1,
        "model": {"name": f"graded {HOSTILE_IMAGE}", "sha256": "4f" * 32, "parameters": 9_473_285}
        | {"layers": 12, "heads": 12, "hidden": 192, "max_length": 128, "dtype": "float32"},
        "pairs": {"name": "test.tsv", "sha256": "a7" * 32, "n_pairs": 800, "n_queries": 160},
        "outputs": ["1", "2", "3", "4", "5"],
        "levels": ["1", "2", "3", "4", "5"],
        "metrics": values,
        "descriptions": {
            name: {"zh": "比例。", "en": "The share of pairs.", "direction": "higher"}
            for name in values
        }
        | {
            "mae": {"zh": "等级差的平均绝对值。", "en": "Mean difference.", "direction": "lower"}
            | {"title": {"zh": "平均绝对误差", "en": "Mean absolute error"}}
        },
        "confusion": [
            [112, 38, 8, 2, 0],
            [29, 71, 41, 16, 3],
            [7, 37, 67, 38, 11],
            [1, 12, 35, 70, 42],
            [0, 3, 15, 44, 98],
        ],
        "per_grade": [
            {"level": str(i), "precision": 0.5, "recall": 0.45, "f1": 0.47}
            | {"support": 160, "predicted": 150}
            for i in range(1, 6)
        ],
        "pnr_counts": {"concordant": 1376, "discordant": 204, "tied": 0},
        "reliability": [
            {"low": i / 9, "high": (i + 1) / 9, "count": 40 + 20 * i}
            | {"confidence": 0.25 + 0.1 * i, "accuracy": 0.2 + 0.09 * i}
            for i in range(8)
        ]
        + [{"low": 8 / 9, "high": 1.0, "confidence": None, "accuracy": None, "count": 0}],
        "slices": {
            "field": {
                field: {
                    name: metric(values[name]["value"], 0.09) | {"n": 40}
                    for name in ("accuracy", "qwk", "spearman", "ndcg_at_5")
                }
                for field in ("医疗", "旅游", "数码", HOSTILE_IMAGE)
            }
        },
        "errors": [graded_pair(i) for i in range(30)],
        "examples": [graded_pair(i) for i in range(13)],
        "truncated_titles": 3,
        "card": f"# 模型卡片\n\n演示与研究用途。\n\n- 数据：自建五级数据\n\n{HOSTILE_SCRIPT}",
    }


INPUTS = RunInputs(
    model=ModelRef(name=f"graded {HOSTILE_IMAGE}", sha256="4f" * 32),
    pairs=PairsRef(name="test.tsv", sha256="a7" * 32),
    arguments={"full": False, "max_length": 128},
)


@pytest.fixture
def hostile() -> tuple[str, str]:
    """Texts that a careless page would run."""
    return HOSTILE_IMAGE, HOSTILE_SCRIPT


@pytest.fixture
def build_run(tmp_path) -> Callable[[dict[str, Any]], Path]:
    """A complete run folder around any evaluation."""
    return lambda evaluation: write_run(
        tmp_path / "run", INPUTS, {"evaluation|evaluation.json": evaluation}
    )


@pytest.fixture
def run(build_run, evaluation) -> Path:
    return build_run(evaluation)


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


def make_result(name: str, order: int, **changes: Any) -> ProbeResult:
    facts: dict[str, Any] = {
        "title": Text("冗余 <b>", "Redundancy <b>"),
        "settings": {
            "profile": "quick",
            "discovery": {"name": "dev.tsv", "n_pairs": 600},
            "draws": 5,
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
        "figures": (CURVE, HEAT_MAP),
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
def run_of(tmp_path, evaluation) -> Callable[..., Path]:
    """A complete run with an evaluation and these results of probes."""

    def build(*results):
        files = {"evaluation|evaluation.json": evaluation} | {
            f"probe:{result.probe}|probes/{result.probe}.json": result.to_json()
            for result in results
        }
        return write_run(tmp_path / "probed", INPUTS, files)

    return build
