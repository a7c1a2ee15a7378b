"""What the arms found, in words and as a table."""

from __future__ import annotations

from collections.abc import Sequence

from qt_bert.planning.distilling.arms import WORDS
from qt_bert.results.arms import ArmDifference, ArmsFile, Outcome
from qt_bert.results.text import Text, joined

OUTCOMES: dict[Outcome, Text] = {
    "better": Text("方案更好", "the plan is better"),
    "worse": Text("方案更差", "the plan is worse"),
    "undecided": Text("分不出高下", "no difference is shown"),
}


PAIRS = {"dev": Text("开发集", "dev"), "validation": Text("验证集", "validation")}
"""What the files of pairs are called."""


def summary_of(differences: Sequence[ArmDifference]) -> Text:
    """A sentence for each rival and metric, on the pairs judged last; either way it went."""
    if not differences:
        return Text("没有可比较的指标。", "No metric could be compared.")
    last = differences[-1].on
    return joined(_sentence(one) for one in differences if one.on == last)


def _sentence(one: ArmDifference) -> Text:
    low, high = (_signed(end) for end in (one.ci_low, one.ci_high))
    found = f"{_signed(one.difference)} [{low}, {high}]"
    name = {"spearman": "Spearman ρ", "qwk": "QWK"}[one.metric]
    rival, outcome = WORDS[one.rival], OUTCOMES[one.outcome]
    seeds = f"{one.seeds} paired seed{'' if one.seeds == 1 else 's'}"
    return Text(
        f"与“{rival.zh}”相比，{PAIRS[one.on].zh} {name} 相差 {found}"
        f"（{one.seeds} 个成对种子）：{outcome.zh}。",
        f"Against “{rival.en}”, {name} on {PAIRS[one.on].en}: {found} ({seeds}): {outcome.en}.",
    )


def rows_of(file: ArmsFile) -> list[tuple[str, ...]]:
    """The differences as rows of a table, its heading first."""
    rows: list[tuple[str, ...]] = [
        ("on", "rival", "metric", "plan", "rival's", "difference", "95 % interval", "")
    ]
    for one in file.differences:
        ends = "" if one.ci_low is None else f"[{_signed(one.ci_low)}, {_signed(one.ci_high)}]"
        values = (f"{one.plan_value:.3f}", f"{one.rival_value:.3f}", _signed(one.difference))
        rows.append((one.on, one.rival, one.metric, *values, ends, OUTCOMES[one.outcome].en))
    return rows


def _signed(value: float | None) -> str:
    return "–" if value is None else f"{value:+.3f}"
