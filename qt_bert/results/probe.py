"""What a probe found: claims, measurements, scores of heads, named sets and how stable they are, figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from qt_bert.codec import encode
from qt_bert.data.pairs import Pair
from qt_bert.errors import ArgumentError
from qt_bert.figures import Figure
from qt_bert.heads import Head
from qt_bert.results import ResultFile
from qt_bert.results.head_sets import set_words
from qt_bert.stats.verdict import Claim
from qt_bert.text import Text

# Whether the same heads would be named again: how much of a set comes back, beside chance.


StabilityVerdict = Literal["stable", "not stable", "undecided"]

VERDICTS: dict[StabilityVerdict, Text] = {
    "stable": Text("稳定", "stable"),
    "not stable": Text("不稳定", "not stable"),
    "undecided": Text("无法判断", "cannot be told"),
}


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
    return "undecided" if chance_95 >= 1 and least > 0.5 else "not stable"


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
    if not unstable:
        return label
    word = VERDICTS["not stable"]
    return Text(f"{label.zh}（{word.zh}）", f"{label.en} ({word.en})")


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


def _check_shares(*values: float) -> None:
    wrong = [value for value in values if not 0 <= value <= 1]
    if wrong:
        raise ArgumentError(f"an overlap of heads is a share from 0 to 1, not {wrong[0]}")


# What a probe found: judged claims, measurements, scores of heads, named sets, figures.


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where a claim comes from, and the figure given there (a number, a text, or none)."""

    article: str
    section: str
    value: float | str | Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedClaim(Claim):
    """A judged claim with its source. Its texts stand in the probe's TOML, under its id."""

    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A value with its 95 % interval over queries, and no verdict; the source's figure beside it.

    `unit` is an id (`points`, `share`, …); `n_queries` is 0 for a number without resamples.
    """

    id: str
    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None
    n_queries: int = 0
    unit: str = ""
    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRef:
    """Which model: its name, and the SHA-256 of its weights."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRef:
    """Which pairs: the file's name and SHA-256, and how many pairs and queries were used."""

    name: str
    sha256: str
    n_pairs: int | None = None
    n_queries: int | None = None

    @classmethod
    def of(cls, name: str, sha256: str, pairs: Sequence[Pair]) -> PairsRef:
        """With the numbers of `pairs` and of their queries."""
        queries = {pair.query for pair in pairs}
        return cls(name=name, sha256=sha256, n_pairs=len(pairs), n_queries=len(queries))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadScores:
    """One head (`L3H7`, both numbers from 0), its scores by name, and whether it was selected.

    `teacher` is its name in the model that this one was made smaller from, where there is one.
    """

    head: str
    scores: dict[str, float | None]
    selected: bool = False
    teacher: str | None = None

    def __post_init__(self) -> None:
        Head.parse(self.head)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult(ResultFile):
    """The whole answer of one probe, as it stands in `probes/NAME.json`.

    `sets` maps a name (`matching`) to heads, and `stability` says of some how much of them comes
    back; `settings` holds what the probe was run with. `claims` are judged,
    `measurements` are not; the texts of both stand in the probe's TOML and are filled from `facts`.
    `title` and `order` are the name and the place of its section of the report.
    """

    schema: Literal[1, 2] = 2
    probe: str
    title: Text | None = None
    order: int = 1000
    model: ModelRef
    pairs: PairsRef
    settings: Mapping[str, Any]
    facts: Mapping[str, Any] = field(default_factory=dict)
    summary: Text
    claims: tuple[SourcedClaim, ...] = ()
    measurements: tuple[Measurement, ...] = ()
    heads: tuple[HeadScores, ...] = ()
    sets: dict[str, tuple[str, ...]]
    stability: dict[str, Stability] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()

    def __post_init__(self) -> None:
        for heads in self.sets.values():
            for head in heads:
                Head.parse(head)
        if strange := set(self.stability) - set(self.sets):
            raise ArgumentError(f"the stability of {min(strange)!r}, which is none of the sets")

    def to_json(self) -> dict[str, Any]:
        """Plain data; `ProbeResult.read` checks it against this class again."""
        return encode(self)  # type: ignore[no-any-return]
