"""How stable the named sets are, in tables."""

from __future__ import annotations

from typing import Literal

from qt_bert.report.blocks import Badge, Cell, Column, Interval
from qt_bert.results import Text
from qt_bert.results.stability import VERDICTS, Stability, StabilityVerdict, of_sources

_TONES: dict[StabilityVerdict, Literal["good", "bad", "open"]] = {
    "stable": "good",
    "not stable": "bad",
    "undecided": "open",
}
COLUMNS = (
    Column("stable", Text("稳定吗", "stable")),
    Column("overlap", Text("重抽查询后重合", "shared, queries resampled"), digits=2),
    Column("halves", Text("两半查询之间重合", "shared by two halves"), digits=2),
    Column("chance_95", Text("随机的 95% 分位", "95 % of chance"), digits=2),
    Column("elsewhere", Text("别处的重合", "shared elsewhere"), whole=True),
)
NOTE = Text(
    "稳定性：用同一规则重新打分，选出同样多的头，看与这一组重合的比例。“重抽查询”是在选头的查询上有放回地重抽"
    "（括号内为中间 95%）；同一批查询选出、又在其上重选，纯噪声也会重合，所以还把查询随机分成两半，各选一次。"
    "随机：每层取同样多的头。两者有一个不高于随机的 95% 分位，即“不稳定”；随机就能全部选中的（多为一两个头），"
    "若两者都过半，则无法判断。",
    "Stability: heads are scored again by the same rule, and as many of the best taken; what is shown "
    "is the share of the set among them. Queries are resampled from those that the set was chosen on "
    "(in brackets the middle 95 %). There noise comes back, too, so the queries are also parted at "
    "random and heads chosen on each half. Chance: as many random heads in each layer. A set is not "
    "stable where either share is at or below chance's 95th percentile; where chance alone can reach "
    "the whole set (mostly one or two heads) and both are above a half, it cannot be told.",
)


def stability_badge(found: Stability | None) -> Badge | None:
    """The verdict, framed; nothing for a set that was not scored again."""
    return None if found is None else Badge(VERDICTS[found.verdict], _TONES[found.verdict])


def stability_cells(found: Stability | None) -> tuple[Cell, ...]:
    """What `COLUMNS` shows of a set."""
    if found is None:
        return (None,) * len(COLUMNS)
    return (
        stability_badge(found),
        Interval(value=found.overlap, low=found.low, high=found.high, digits=2),
        found.halves,
        found.chance_95,
        of_sources(found),
    )
