"""The one plan on pairs that took no part in choosing it."""

from __future__ import annotations

from collections.abc import Iterator

from qt_bert.report.blocks import Block, Cell, Column, Table
from qt_bert.report.plan.words import VERDICTS, change, metric_name
from qt_bert.results import Text
from qt_bert.results.numbers import number
from qt_bert.results.plan_evidence import MARGIN, TESTED, PlanEvidence, PlanTest
from qt_bert.results.text import joined

_ROLES = {
    "validation": Text("验证集", "validation"),
    "held out": Text("另备的文件", "held out"),
}
_ONE_LOGIT = Text(
    "这个模型只有一个输出：ρ 是与原模型分数的等级相关，不是与标签的。",
    "This model has one output: ρ is the rank correlation with the whole model's score, not with labels.",
)
_COARSE = Text("（粗标签）", " (coarse labels)")


def tests(evidence: PlanEvidence) -> tuple[Block, ...]:
    """Every metric on every file, and the verdict of the test."""
    if not evidence.tests:
        return ()
    return (
        Table(
            name="plan_tests",
            title=Text("这一个计划的检验", "The one plan, tested"),
            columns=(
                Column("file", Text("文件", "file")),
                Column("metric", Text("指标", "metric")),
                Column("whole", Text("原模型", "whole model")),
                Column("smaller", Text("小模型", "smaller")),
                Column("change", Text("变化 [95% 区间]", "change [95 % interval]")),
                Column("verdict", Text("判定", "verdict")),
                Column("pairs", Text("对数", "pairs")),
                Column("queries", Text("查询数", "queries")),
            ),
            rows=tuple(row for test in evidence.tests for row in _rows(test)),
            note=_note(evidence),
            grouped=True,
        ),
    )


def _note(evidence: PlanEvidence) -> Text:
    """How to read the tests, with what ρ means of one logit and the least loss that would show."""
    one_logit = any("pairwise_accuracy" in test.measured for test in evidence.tests)
    return joined(
        (
            Text(
                "在发现集上选，在这里只检验选定的一个；权重已真正去掉，未重新训练。判定看 Spearman ρ：变化的"
                f"区间下端高于 −{MARGIN} 为不差于原模型，整个区间低于它为变差。其余指标仅供对照。",
                "Chosen on discovery; here only the one plan is tested, its weights really removed, "
                "without training. The verdict is that of Spearman's ρ: no worse where the lower end "
                f"of the interval lies above −{MARGIN}, worse where all of it lies below. The other "
                "metrics stand beside it.",
            ),
            *(_reach(test) for test in evidence.tests[:1]),
            *([_ONE_LOGIT] if one_logit else []),
        )
    )


def _reach(test: PlanTest) -> Text:
    """Which change of ρ the first file could tell from none; see half its interval."""
    found = test.measured.get(TESTED)
    if found is None or found.ci_low is None or found.ci_high is None:
        return Text("", "")
    half = number((found.ci_high - found.ci_low) / 2)
    return Text(
        f"在 {test.pairs.name} 上，ρ 的变化要超过约 {half} 才看得出来（区间的半宽）。",
        f"On {test.pairs.name} a change of ρ must exceed about {half} to be seen (half the interval).",
    )


def _rows(test: PlanTest) -> Iterator[tuple[Cell, ...]]:
    role, coarse = _ROLES[test.role], _COARSE if test.coarse else Text("", "")
    name = Text(
        f"{test.pairs.name} · {role.zh}{coarse.zh}", f"{test.pairs.name} · {role.en}{coarse.en}"
    )
    for metric, one in test.measured.items():
        verdict = test.verdict if metric == TESTED else None
        yield (
            name,
            metric_name(metric),
            one.base,
            one.value,
            change(one),
            None if verdict is None else VERDICTS[verdict],
            test.pairs.n_pairs,
            test.pairs.n_queries,
        )
