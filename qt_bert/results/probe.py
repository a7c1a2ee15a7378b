"""A probe's result: claims, measurements, scores of heads, named sets and their stability, figures."""

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
from qt_bert.stats.estimate import query_key
from qt_bert.stats.verdict import Claim
from qt_bert.text import Label, Text

StabilityVerdict = Literal["stable", "not stable", "undecided"]

VERDICTS: dict[StabilityVerdict, Text] = {
    "stable": Text("稳定", "stable"),
    "not stable": Text("不稳定", "not stable"),
    "undecided": Text("无法判断", "cannot be told"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnSource:
    """The share of a set that is among the k best heads on another `source`."""

    source: Text
    overlap: float
    n_queries: int

    def __post_init__(self) -> None:
        _check_shares(self.overlap)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stability:
    """How much of a set of `k` heads is selected again when heads are scored anew by the same rule.

    All but counts are shares of the set. `overlap` is the mean over `resamples` of the discovery
    queries, `low` and `high` the ends of their middle 95 %. `halves` is the mean share of the k best
    that two random halves of the queries have in common, None for a single query. `chance_mean` and
    `chance_95` (95th percentile) are those of layer-matched random heads. `sources`: other data or
    models.
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

    The resampled queries are those that the heads were chosen on, so even noise selects some again: a
    third of 5 of 144, half of 20. Two halves share no query. Undecided without halves, and where chance
    alone reaches the whole set (one head of a layer of twelve) and most of the set is selected again.
    """
    if halves is None:
        return "undecided"
    least = min(overlap, halves)
    if least > chance_95:
        return "stable"
    return "undecided" if chance_95 >= 1 and least > 0.5 else "not stable"


def is_unstable(stability: Mapping[str, Stability], name: str) -> bool:
    """Whether the set `name` is not stable; False where unknown."""
    stability_of_set = stability.get(name)
    return stability_of_set is not None and stability_of_set.verdict == "not stable"


def set_label(name: str, stability: Mapping[str, Stability]) -> Text:
    """The name of a set, marked where it is not stable."""
    return label_of(name, unstable=is_unstable(stability, name))


def label_of(name: str, *, unstable: bool) -> Text:
    """The name of a set, marked where it is `unstable`."""
    label = set_words(name).name
    if not unstable:
        return label
    word = VERDICTS["not stable"]
    return Text(f"{label.zh}（{word.zh}）", f"{label.en} ({word.en})")


def instability_note(stability: Mapping[str, Stability]) -> Text | None:
    """A sentence on the sets that are not stable; None if all are."""
    names = [set_words(name).name for name in stability if is_unstable(stability, name)]
    if not names:
        return None
    return Text(
        f"不稳定：{'、'.join(name.zh for name in names)}（换一批查询，选出的头与随机难以区分）。",
        f"Not stable: {', '.join(name.en for name in names)} (on other queries hardly more of their "
        "heads are selected again than by chance).",
    )


def _check_shares(*values: float) -> None:
    wrong = [value for value in values if not 0 <= value <= 1]
    if wrong:
        raise ArgumentError(f"an overlap of heads is a share from 0 to 1, not {wrong[0]}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The source of a claim, and the figure published there (a number, a text, or none)."""

    article: str
    section: str
    value: float | str | Text | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourcedClaim(Claim):
    """A judged claim with its source. Its texts are in the probe's TOML, under its id."""

    source: Source


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimValues:
    """The values per query that a claim was judged by, each list in one order of queries.

    `target`: of the claim's estimate, their mean its value (pseudo-values where it is no mean over queries).
    `whole`: of what a share is of. `sets`: of each random set of a contest, `enumerated` where there are no
    others. `reach`: the half-width that a draw of heads adds to the interval of a difference.
    """

    target: tuple[float | None, ...]
    whole: tuple[float | None, ...] | None = None
    sets: tuple[tuple[float | None, ...], ...] = ()
    enumerated: bool = False
    reach: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A value with its 95 % interval over queries, without a verdict, and the source's figure.

    `unit` is an id (`points`, `share`, …); `n_queries` is 0 for a number that is not resampled.
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
    """A model's name and the SHA-256 of its weights."""

    name: str
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PairsRef:
    """A file of pairs, its SHA-256, and the numbers of pairs and queries used."""

    name: str
    sha256: str
    n_pairs: int | None = None
    n_queries: int | None = None

    @classmethod
    def of(cls, name: str, sha256: str, pairs: Sequence[Pair]) -> PairsRef:
        """The reference with the counts of `pairs`; a query spelled in several ways is one."""
        queries = {query_key(pair.query) for pair in pairs}
        return cls(name=name, sha256=sha256, n_pairs=len(pairs), n_queries=len(queries))


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadScores:
    """One head (`L3H7`, both numbers from 0), its scores by name, and whether it was selected.

    `shown`: whether a head of the sets is named and passes on validation, too; None where that was not tested.
    `teacher` is its name in the teacher, if the model has one.
    """

    head: str
    scores: dict[str, float | None]
    selected: bool = False
    shown: bool | None = None
    teacher: str | None = None

    def __post_init__(self) -> None:
        Head.parse(self.head)


@dataclass(frozen=True, slots=True)
class Value:
    """A number of a table, with its 95 % interval where it has one."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A table's row: texts for its first columns, numbers for the others."""

    labels: tuple[Label, ...]
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultTable:
    """A table of a probe: its columns (id → heading) and rows; title and note come from the probe's TOML."""

    name: str
    title: Text = Text("", "")
    note: Text | None = None
    columns: Mapping[str, Label]
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResult(ResultFile):
    """`probes/NAME.json`: the result of one probe.

    `sets` maps a name (`matching`) to heads, `stability` some of these names to their stability;
    `settings` are those of the run. `claims` are judged, by the `values` of each id, `measurements` are not;
    the texts of both are in the probe's TOML and filled from `facts`. `title` and `order` are those of its
    section of the report.
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
    values: dict[str, ClaimValues] = field(default_factory=dict)
    heads: tuple[HeadScores, ...] = ()
    sets: dict[str, tuple[str, ...]]
    stability: dict[str, Stability] = field(default_factory=dict)
    figures: tuple[Figure, ...] = ()
    tables: tuple[ResultTable, ...] = ()

    @property
    def heading(self) -> Text:
        """The title, or the probe's name."""
        return self.title or Text(self.probe, self.probe)

    def __post_init__(self) -> None:
        for heads in self.sets.values():
            for head in heads:
                Head.parse(head)
        if strange := set(self.stability) - set(self.sets):
            raise ArgumentError(f"the stability of {min(strange)!r}, which is none of the sets")

    def to_json(self) -> dict[str, Any]:
        """Plain data; `ProbeResult.read` checks it against this class again."""
        return encode(self)  # type: ignore[no-any-return]
