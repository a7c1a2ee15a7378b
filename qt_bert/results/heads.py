"""The probes' results for every head: the table of a probe, `heads.json`, the head atlas."""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import ClassVar, Literal

from qt_bert.codec import decode, encode
from qt_bert.errors import ArgumentError, RunFolderError
from qt_bert.figures import HeatMap, colour_end, head_map
from qt_bert.files import atomic_write
from qt_bert.heads import Head
from qt_bert.results import ResultFile
from qt_bert.results.probe import (
    ModelRef,
    PairsRef,
    ProbeResult,
    Stability,
    set_label,
)
from qt_bert.results.quantities import QUANTITIES, SIGNIFICANT, Quantity, kept_scores
from qt_bert.text import Text, sentences

DIGITS = 4
"""Significant digits of a stored score."""

_SCORED_ON = {
    "boundary": ("texts", "validation"),
    "matching": ("scored", "validation"),
    "order": ("scored", "validation"),
    "redundancy": ("scored", "discovery"),
}
"""Where the settings of a probe hold the sample that its heads were scored on, if not that of its
claims; of `matching` only the pairs `used` share something to match."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadTable:
    """One probe's named sets, their stability and its scores, `values[head][score]`, measured on `pairs`.

    `windows`: how many tokens each layer sees to either side (None: all), where layers differ. `unshown`:
    heads of the sets that are not named, or fail on validation.
    """

    probe: str
    title: Text
    profile: str
    pairs: PairsRef
    sets: dict[str, tuple[str, ...]]
    unshown: tuple[str, ...] = ()
    stability: dict[str, Stability] = field(default_factory=dict)
    scores: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    values: tuple[tuple[float | None, ...], ...] = ()
    windows: tuple[int | None, ...] = ()

    def __post_init__(self) -> None:
        for head in self.every:
            Head.parse(head)
        if len(set(self.heads)) != len(self.heads):
            raise ArgumentError(f"the table of {self.probe!r} names a head twice")
        if self.windows and any(Head.parse(h).layer >= len(self.windows) for h in self.heads):
            raise ArgumentError(
                f"the table of {self.probe!r} has windows of {len(self.windows)} layers, and heads of more"
            )
        widths = {len(row) for row in self.values}
        if len(self.values) != len(self.heads) or widths - {len(self.scores)}:
            raise ArgumentError(
                f"the table of {self.probe!r} does not hold {len(self.scores)} scores of each of "
                f"{len(self.heads)} heads"
            )

    @property
    def every(self) -> tuple[str, ...]:
        """The heads with scores, then those of the sets."""
        return (*self.heads, *chain.from_iterable(self.sets.values()))

    @property
    def shown_sets(self) -> dict[str, tuple[str, ...]]:
        """The sets as they are displayed: without `unshown`, and without empty ones."""
        shown = {
            name: tuple(head for head in heads if head not in self.unshown)
            for name, heads in self.sets.items()
        }
        return {name: heads for name, heads in shown.items() if heads}

    def rows(self) -> dict[str, dict[str, float | None]]:
        """Head → score → value."""
        pairs = zip(self.heads, self.values, strict=True)
        return {head: dict(zip(self.scores, row, strict=True)) for head, row in pairs}


def table_of(result: ProbeResult, keep: Collection[str] | None = None) -> HeadTable:
    """The table of a probe's result, with the scores named in `keep`, or all of them."""
    names = dict.fromkeys(name for head in result.heads for name in head.scores)
    scores = tuple(name for name in names if keep is None or name in keep)
    return HeadTable(
        probe=result.probe,
        title=result.heading,
        profile=str(result.settings.get("profile", "")),
        pairs=_scored_on(result),
        sets={name: tuple(heads) for name, heads in sorted(result.sets.items())},
        unshown=tuple(row.head for row in result.heads if row.shown is False),
        stability=dict(sorted(result.stability.items())),
        scores=scores,
        heads=tuple(row.head for row in result.heads),
        values=tuple(
            tuple(rounded(row.scores.get(name)) for name in scores) for row in result.heads
        ),
        windows=tuple(result.settings.get("windows", ())),
    )


def rounded(value: float | None) -> float | None:
    """`value` rounded to DIGITS significant digits."""
    return None if value is None else float(f"{value:.{DIGITS}g}")


def _scored_on(result: ProbeResult) -> PairsRef:
    """The file and the sample that heads were scored on."""
    if result.probe not in _SCORED_ON:
        return result.pairs
    part, half = _SCORED_ON[result.probe]
    discovery = _discovery(result) if half == "discovery" else None
    whole, sample = discovery or result.pairs, result.settings.get(part)
    counts = sample.get(half) if isinstance(sample, Mapping) else None
    if not isinstance(counts, Mapping):
        return whole
    pairs, queries = counts.get("used", counts.get("pairs")), counts.get("queries")
    if not isinstance(pairs, int) or not isinstance(queries, int):
        return whole
    return replace(whole, n_pairs=pairs, n_queries=queries)


def _discovery(result: ProbeResult) -> PairsRef | None:
    try:
        return decode(PairsRef, result.settings.get("discovery"))  # type: ignore[no-any-return]
    except RunFolderError:  # settings are free: a probe need not name it
        return None


_NUMBERS = re.compile(r"\[\n[\s\d.,eE+\-nul]*\]")
"""A list of numbers in indented JSON, where texts hold no line breaks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadsFile(ResultFile):
    """The results of a run's probes for every head of a model; `model.sha256` is that of its weights."""

    kind: ClassVar[str] = "heads"
    schema: Literal[1] = 1
    model: ModelRef
    versions: dict[str, str]
    probes: tuple[HeadTable, ...]

    def write(self, path: Path) -> None:
        """Store the file, atomically; the same figures give the same bytes."""
        text = json.dumps(encode(self), ensure_ascii=False, indent=0, allow_nan=False)
        with atomic_write(path) as temporary:
            temporary.write_text(
                _NUMBERS.sub(lambda match: "".join(match[0].split()), text) + "\n", encoding="utf-8"
            )


def heads_file(results: Sequence[ProbeResult], versions: Mapping[str, str]) -> HeadsFile:
    """A run's scores as a file. Raises ArgumentError for no results, or of unlike weights."""
    if not results:
        raise ArgumentError("no probe of this run is finished, so there are no heads to save")
    models = {result.model.sha256 for result in results}
    if len(models) > 1:
        raise ArgumentError("the results are of different models; save the heads of one run")
    return HeadsFile(
        model=results[0].model,
        versions=dict(sorted(versions.items())),
        probes=tuple(head_tables(results)),
    )


def head_tables(results: Iterable[ProbeResult]) -> list[HeadTable]:
    """The results' tables in the order of the report, with the scores that quantities use."""
    ordered = sorted(results, key=lambda result: (result.order, result.probe))
    return [table_of(result, kept_scores(result.probe)) for result in ordered]


WINDOWS = Text(
    "±n：这一层的词元只看得见两侧各 n 个词元。",
    "±n: tokens of this layer see n tokens to either side.",
)
"""The note where layers have windows."""


def atlas_figures(tables: Iterable[HeadTable]) -> list[HeatMap]:
    """The head atlas: a map of layers × heads for each quantity in the tables, named `atlas_NAME`."""
    return [atlas_figure(quantity, table) for quantity, table in offered(tables)]


def offered(tables: Iterable[HeadTable]) -> list[tuple[Quantity, HeadTable]]:
    """The quantities with values in these tables, each with its table."""
    by_probe = {table.probe: table for table in tables}
    known = (
        (quantity, by_probe[quantity.probe])
        for quantity in QUANTITIES
        if quantity.probe in by_probe
    )
    return [(quantity, table) for quantity, table in known if values_of(quantity, table)]


def atlas_figure(quantity: Quantity, table: HeadTable) -> HeatMap:
    """Layers × heads of one quantity, with a note on its base and on what is outlined."""
    values = values_of(quantity, table)
    places = list(map(Head.parse, table.every))
    layers, heads = (1 + max((head[axis] for head in places), default=0) for axis in (0, 1))
    low, high = quantity.low, quantity.high
    if quantity.skewed:
        high = colour_end(values.values()) or high
        low = -high if high and quantity.scale == "diverging" else low
    return head_map(
        f"atlas_{quantity.name}",
        [[values.get(Head(layer, head)) for head in range(heads)] for layer in range(layers)],
        title=quantity.title,
        unit=quantity.unit,
        rows=tuple(layer_name(layer, table.windows) for layer in range(layers)),
        marked=sorted(marked(quantity, table)),
        scale=quantity.scale,
        low=low,
        high=high,
        digits=quantity.digits,
        note=sentences(_note(quantity, table, high)),
    )


def layer_name(layer: int, windows: Sequence[int | None]) -> str:
    """`L3`, or `L3 ±64` where its tokens see 64 to either side."""
    window = windows[layer] if windows else None
    return f"L{layer}" if window is None else f"L{layer} ±{window}"


def values_of(quantity: Quantity, table: HeadTable) -> dict[Head, float]:
    """Head → the quantity, where known."""
    values = {Head.parse(head): quantity.value(scores) for head, scores in table.rows().items()}
    return {key: value for key, value in values.items() if value is not None}


def marked(quantity: Quantity, table: HeadTable) -> set[Head]:
    """The heads to outline: those of the quantity's sets, or those whose effect is significant."""
    if quantity.marks:
        sets = table.shown_sets
        return {Head.parse(head) for name in quantity.marks for head in sets.get(name, ())}
    rows = table.rows().items()
    return {Head.parse(head) for head, scores in rows if quantity.stands_out(scores)}


def base_of(table: HeadTable) -> Text:
    """The pairs behind the numbers, in words."""
    pairs = table.pairs
    if pairs.n_pairs is None or pairs.n_queries is None:
        return Text(f"依据：{pairs.name}。", f"Base: {pairs.name}.")
    return Text(
        f"依据：{pairs.name} 的 {pairs.n_pairs:,} 对、{pairs.n_queries:,} 个查询。",
        f"Base: {pairs.n_pairs:,} pairs of {pairs.n_queries:,} queries of {pairs.name}.",
    )


def _note(quantity: Quantity, table: HeadTable, high: float | None) -> Iterator[Text]:
    yield quantity.means
    yield base_of(table)
    yield _outlined(quantity, table)
    if table.windows:
        yield WINDOWS
    if high is not None and any(abs(value) > high for value in values_of(quantity, table).values()):
        end = f"{'±' if quantity.scale == 'diverging' else ''}{high:.3g}"
        yield Text(
            f"颜色到 {end} 为止，更远的同色。", f"Colours end at {end}; beyond it is the same."
        )


def _outlined(quantity: Quantity, table: HeadTable) -> Text:
    if not quantity.marks:
        if not quantity.test:
            return Text("", "")
        return Text(
            f"粗框：q < {SIGNIFICANT}（在全部头上校正）。",
            f"Outlined: q < {SIGNIFICANT}, over all heads.",
        )
    marks = (name for name in quantity.marks if name in table.shown_sets)
    names = [set_label(name, table.stability) for name in marks]
    if not names:
        return Text("没有选出的头。", "No head was named.")
    return Text(
        f"粗框：{'、'.join(name.zh for name in names)}。",
        f"Outlined: {', '.join(name.en for name in names)}.",
    )
