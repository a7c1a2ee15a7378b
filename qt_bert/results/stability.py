"""Whether the same heads would be named again: how much of a set comes back, beside chance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from qt_bert.errors import ArgumentError
from qt_bert.results.head_sets import set_words
from qt_bert.results.numbers import number
from qt_bert.results.text import Text

StabilityVerdict = Literal["stable", "not stable", "undecided"]

VERDICTS: dict[StabilityVerdict, Text] = {
    "stable": Text("稳定", "stable"),
    "not stable": Text("不稳定", "not stable"),
    "undecided": Text("无法判断", "cannot be told"),
}
NOT_STABLE = VERDICTS["not stable"]
_THESE = Text(f"所选的头：{NOT_STABLE.zh}", f"heads chosen: {NOT_STABLE.en}")
MOST = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSource:
    """The share of a set that is among the k best elsewhere: `source` says where, in words."""

    source: Text
    overlap: float
    n_queries: int

    def __post_init__(self) -> None:
        _check_shares(self.overlap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """How much of a set of `k` heads comes back when heads are scored again by the same rule.

    All but counts are shares of the set. `overlap` is the mean over `resamples` of the queries that
    the set was chosen on, `low` and `high` hold the middle 95 % of them. `halves` is what the k best
    of two random halves of the queries share on average, None for a single query. `chance_mean` and
    `chance_95` (the 95th percentile) are those of random sets with as many heads in each layer.
    `sources`: other data, or another model, where there was any.
    """

    overlap: float
    low: float
    high: float
    halves: float | None
    chance_mean: float
    chance_95: float
    k: int
    n_queries: int
    resamples: int
    verdict: StabilityVerdict
    sources: tuple[OnSource, ...] = ()

    def __post_init__(self) -> None:
        halves = 0.0 if self.halves is None else self.halves
        ends = (self.low, self.high, self.chance_mean, self.chance_95)
        _check_shares(self.overlap, halves, *ends)


def verdict_of(overlap: float, halves: float | None, chance_95: float) -> StabilityVerdict:
    """Stable where both overlaps lie above chance's 95th percentile.

    Heads were chosen on the very queries that are resampled, so that of pure noise some heads come
    back, too: of 5 of 144 a third, of 20 half. Two halves have no query in common. Where chance alone
    reaches the whole set (one head of a layer of twelve), no overlap can lie above it: undecided if
    most of the set comes back all the same, as without halves.
    """
    if halves is None:
        return "undecided"
    least = min(overlap, halves)
    if least > chance_95:
        return "stable"
    return "undecided" if chance_95 >= 1 and least > MOST else "not stable"


def is_unstable(stability: Mapping[str, Stability], name: str) -> bool:
    """Whether the set `name` was found not to be stable; False where nothing is known of it."""
    found = stability.get(name)
    return found is not None and found.verdict == "not stable"


def set_label(name: str, stability: Mapping[str, Stability]) -> Text:
    """What a set is called, with a word where it is not stable."""
    return label_of(name, unstable=is_unstable(stability, name))


def label_of(name: str, *, unstable: bool) -> Text:
    """What a set is called, with a word where it is `unstable`."""
    label = set_words(name).name
    return _behind(label, NOT_STABLE) if unstable else label


def said_of(said: Text, sets: Iterable[str], stability: Mapping[str, Stability]) -> Text:
    """What is `said` of the heads of some sets, with a word where one of these is not stable."""
    return _behind(said, _THESE) if any(is_unstable(stability, name) for name in sets) else said


def said_not_stable(stability: Mapping[str, Stability]) -> Text | None:
    """A sentence on the sets that are not stable; None where there is none."""
    names = [set_words(name).name for name in stability if is_unstable(stability, name)]
    if not names:
        return None
    return Text(
        f"不稳定：{'、'.join(one.zh for one in names)}（换一批查询，选出的头与随机难以区分）。",
        f"Not stable: {', '.join(one.en for one in names)} (of other queries, hardly more of the "
        "heads come back than by chance).",
    )


def of_sources(found: Stability) -> Text | None:
    """The overlap on each further source in one line; None where there is none."""
    if not found.sources:
        return None
    shown = [(one.source, number(one.overlap, 2)) for one in found.sources]
    return Text(
        "；".join(f"{source.zh} {value}" for source, value in shown),
        "; ".join(f"{source.en} {value}" for source, value in shown),
    )


def _behind(said: Text, word: Text) -> Text:
    return Text(f"{said.zh}（{word.zh}）", f"{said.en} ({word.en})")


def _check_shares(*values: float) -> None:
    wrong = [value for value in values if not 0 <= value <= 1]
    if wrong:
        raise ArgumentError(f"an overlap of heads is a share from 0 to 1, not {wrong[0]}")
