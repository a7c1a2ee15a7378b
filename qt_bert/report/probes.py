"""What the probes found: a section each, headlines, the head atlas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal
from weakref import WeakKeyDictionary

from qt_bert.probes.wording import (
    ClaimInWords,
    MeasurementInWords,
    claims_in_words,
    measurements_in_words,
)
from qt_bert.report.blocks import (
    Badge,
    Block,
    Cell,
    Column,
    FigureBlock,
    Folded,
    Interval,
    Prose,
    Table,
)
from qt_bert.report.words import say
from qt_bert.results.head_sets import set_words
from qt_bert.results.heads import HeadTable, atlas_figures, offered, place_of, table_of
from qt_bert.results.probe import (
    VERDICTS,
    ProbeResult,
    Source,
    Stability,
    StabilityVerdict,
    of_sources,
)
from qt_bert.results.quantities import QUANTITIES, Quantity
from qt_bert.run import folder as run_folder
from qt_bert.run.folder import RunFolder
from qt_bert.stats.verdict import Verdict
from qt_bert.text import Label, Text, counted, digits_for, joined, plain, shortest

# Several sections of one drawing ask for the same; a folder is opened anew for each drawing.
_read: WeakKeyDictionary[RunFolder, dict[str, tuple[ProbeResult, ...]]] = WeakKeyDictionary()


def read_probes(folder: RunFolder, where: str = "probes") -> tuple[ProbeResult, ...]:
    """The results of the run's finished probes, read once a drawing.

    Raises RunFolderError for a damaged result.
    """
    known = _read.setdefault(folder, {})
    if where not in known:
        known[where] = run_folder.read_probes(folder, where)
    return known[where]


def title_of(result: ProbeResult) -> Text:
    """The probe's title, or its name where the file gives none."""
    return result.title or Text(result.probe, result.probe)


def anchor_of(result: ProbeResult) -> str:
    """The anchor of the probe's section."""
    return f"probe-{result.probe}"


# Verdicts, values and sources as cells.


TONES: dict[Verdict, Literal["good", "bad", "open"]] = {
    "reproduced": "good",
    "not reproduced": "bad",
    "inconclusive": "open",
    "not testable": "open",
}


def badge(said: ClaimInWords) -> Badge:
    """The verdict, framed."""
    return Badge(said.verdict, TONES[said.claim.verdict])


def measured(said: ClaimInWords | MeasurementInWords) -> Interval:
    """A value with its interval, in its unit."""
    found = said.claim if isinstance(said, ClaimInWords) else said
    low, high = found.ci_low, found.ci_high
    digits = digits_for(found.value, low, high)
    return Interval(value=found.value, low=low, high=high, unit=said.unit, digits=digits)


def source_value(source: Source) -> Label | None:
    """The source's figure, where it gives one."""
    return shortest(source.value) if isinstance(source.value, float) else source.value


def source_place(source: Source) -> str:
    """The article and the section, by its number or its heading; empty for what has no source."""
    if not source.article:
        return ""
    mark = " §" if source.section[:1].isdigit() else ": "
    return f"{source.article.replace('_', ' ')}{mark}{source.section}"


# How stable the named sets are, in tables.


_TONES: dict[StabilityVerdict, Literal["good", "bad", "open"]] = {
    "stable": "good",
    "not stable": "bad",
    "undecided": "open",
}
COLUMNS = (
    Column("stable", say("stable")),
    Column("overlap", say("shared_queries_resampled"), digits=2),
    Column("halves", say("shared_two_halves"), digits=2),
    Column("chance_95", say("95_chance"), digits=2),
    Column("elsewhere", say("shared_elsewhere"), whole=True),
)
NOTE = say("stability_heads_scored_again")


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


# The head atlas: what is known of every head, on one page.


_INTRO = say("one_cell_head_rows")


_MOST_HEADS = 12
"""Heads of a set in the atlas; all of them stand in the probe's section."""


def atlas(results: Sequence[ProbeResult], suffix: str = "", whose: str = "") -> tuple[Block, ...]:
    """The named sets, a map of each quantity, and every head of the sets with what it does.

    `suffix` and `whose` tell a second model's tables and figures from the first one's.
    """
    tables = [table_of(result) for result in results]
    figures = [
        replace(one, name=one.name + suffix, title=_of(one.title, whose))
        for one in atlas_figures(tables)
    ]
    if not figures:
        return ()
    return (
        *(() if whose else (Prose(body=_INTRO),)),
        *_sets(tables, suffix, whose),
        *(FigureBlock(figure=figure) for figure in figures),
        *_heads(tables, suffix, whose),
    )


def _of(title: Text, whose: str) -> Text:
    return say("title_of_model", title=title, whose=whose) if whose else title


def _sets(tables: Sequence[HeadTable], suffix: str, whose: str) -> tuple[Block, ...]:
    rows = [
        (
            table.title,
            set_words(name).name,
            set_words(name).does,
            len(heads),
            " ".join(heads[:_MOST_HEADS]) + (" …" if len(heads) > _MOST_HEADS else ""),
            stability_badge(table.stability.get(name)),
        )
        for table in tables
        for name, heads in table.sets.items()
        if heads
    ]
    if not rows:
        return ()
    return (
        Table(
            name=f"atlas_sets{suffix}",
            title=_of(say("which_heads_do_what"), whose),
            columns=(
                Column("probe", say("probe")),
                Column("set", say("set_of_heads")),
                Column("does", say("what_they_do")),
                Column("n", say("how_many")),
                Column("heads", say("which"), whole=True),
                Column("stable", say("stable")),
            ),
            rows=tuple(rows),
            grouped=True,
        ),
    )


def _heads(tables: Sequence[HeadTable], suffix: str, whose: str) -> tuple[Block, ...]:
    """Head by head, those of the sets alone."""
    named: dict[str, list[str]] = {}
    for table in tables:
        for name, heads in table.sets.items():
            for head in heads:
                named.setdefault(head, []).append(name)
    if not named:
        return ()
    shown = offered(tables)
    scores = [table.rows() for _, table in shown]
    return (
        Table(
            name=f"atlas_heads{suffix}",
            title=_of(say("every_head_chosen"), whose),
            columns=(
                Column("head", say("head")),
                Column("does", say("what_does")),
                *(Column(one.name, one.title, digits=one.digits) for one, _ in shown),
            ),
            rows=tuple(
                (
                    head,
                    _does(named[head]),
                    *(
                        _cell(quantity, rows.get(head, {}))
                        for (quantity, _), rows in zip(shown, scores, strict=True)
                    ),
                )
                for head in sorted(named, key=place_of)
            ),
            folded=True,
        ),
    )


def _does(sets: Sequence[str]) -> Text:
    """What its sets say of a head, each thing once."""
    return joined(dict.fromkeys(set_words(name).does for name in sets))


def _cell(quantity: Quantity, scores: dict[str, float | None]) -> Cell:
    low, high = quantity.interval(scores) or (None, None)
    return Interval(
        value=quantity.value(scores), low=low, high=high, unit=quantity.unit, digits=quantity.digits
    )


# The section of one probe.


_DETAILS = say("all_measurements_heads_chosen")

_SOURCE = Column("source", say("place"))
_THERE = Column("there", say("article_s_figure"), optional=True)
_VALUE = Column("value", say("measured_interval"))
_QUERIES = Column("n_queries", say("queries"))
_CLAIMS = (
    _SOURCE,
    Column("claim", say("claim")),
    Column("verdict", say("verdict")),
    _VALUE,
    _THERE,
    Column("conclusion", say("what_follows"), whole=True),
    Column("margin", say("margin"), filed=True),
    Column("p", "p", digits=4, least=True, filed=True),
    Column("q", "q", digits=4, least=True, filed=True),
    Column("n_queries", say("queries"), filed=True),
)
_MEASUREMENTS = (
    _SOURCE,
    Column("measurement", say("measurement")),
    _VALUE,
    _THERE,
    _QUERIES,
)


def probe_blocks(result: ProbeResult, question: Text | None = None) -> tuple[Block, ...]:
    """Question, summary and sample; claims, figures; folded: measurements, heads, settings."""
    figures = [replace(one, name=_unique(result.probe, one.name)) for one in result.figures]
    details = (
        *_measurements(result),
        *_set_blocks(result),
        *_head_blocks(result),
        _settings(result),
    )
    return (
        Prose(title=question, body=joined([result.summary, _sample(result)])),
        *_claims(result),
        *(FigureBlock(figure=figure) for figure in figures),
        Folded(title=_DETAILS, blocks=details),
    )


def _unique(probe: str, name: str) -> str:
    """A figure's name in the page; in its file it is unique, and may begin with the probe's."""
    return name if name.startswith(f"{probe}_") else f"{probe}_{name}"


def _claims(result: ProbeResult) -> tuple[Block, ...]:
    claims = claims_in_words(result)
    if not claims:
        return ()
    return (
        Table(
            name=f"{result.probe}_claims",
            title=say("claims_verdicts"),
            columns=_CLAIMS,
            rows=tuple(map(_claim, claims)),
            grouped=True,
        ),
    )


def _claim(said: ClaimInWords) -> tuple[Cell, ...]:
    found = said.claim
    return (
        source_place(found.source) or say("no_source"),
        said.text,
        badge(said),
        measured(said),
        source_value(found.source),
        said.conclusion,
        said.margin,
        found.p,
        found.q,
        found.n_queries,
    )


def _measurements(result: ProbeResult) -> tuple[Block, ...]:
    rows = [
        (
            source_place(said.source) or say("no_source"),
            said.text,
            measured(said),
            source_value(said.source),
            said.n_queries or None,
        )
        for said in measurements_in_words(result)
    ]
    if not rows:
        return ()
    return (
        Table(
            name=f"{result.probe}_measurements",
            title=say("measurements_not_judged"),
            columns=_MEASUREMENTS,
            rows=tuple(rows),
            grouped=True,
            folded=True,
        ),
    )


def _sample(result: ProbeResult) -> Text:
    pairs, queries = result.pairs.n_pairs, result.pairs.n_queries
    name = result.pairs.name
    said = [say("validation_file", name=name)]
    if pairs is not None and queries is not None:
        said = [
            say(
                "validation_pairs",
                name=name,
                pairs=pairs,
                queries=queries,
                n_pair=counted(pairs, "pair"),
                n_query=counted(queries, "query", "queries"),
            )
        ]
    resolution = result.settings.get("resolution")
    if isinstance(resolution, Mapping):
        said.append(Text(*(str(resolution.get(one, "")).rstrip() for one in ("zh", "en"))))
    return joined(said)


def _set_blocks(result: ProbeResult) -> tuple[Block, ...]:
    if not result.sets:
        return ()
    teachers = {one.head: f"{one.head}({one.teacher})" for one in result.heads if one.teacher}
    return (
        Table(
            name=f"{result.probe}_sets",
            title=say("heads_chosen"),
            columns=(
                Column("set", say("set")),
                Column("what", say("set_of_heads")),
                Column("n", say("how_many")),
                Column("heads", say("which"), whole=True),
                *(COLUMNS if result.stability else ()),
            ),
            rows=tuple(
                (
                    name,
                    set_words(name).name,
                    len(heads),
                    " ".join(teachers.get(head, head) for head in heads) or None,
                    *(stability_cells(result.stability.get(name)) if result.stability else ()),
                )
                for name, heads in result.sets.items()
            ),
            note=NOTE if result.stability else None,
        ),
    )


def _score_column(probe: str, name: str) -> Column:
    """A score's column, titled in words where the atlas has them."""
    if name in ("p", "q"):
        return Column(name, name, digits=4, least=True)
    titles: dict[str, Label] = {}
    for one in QUANTITIES:
        if one.probe == probe:
            titles |= one.beside if one.minus else {one.score: one.title, **one.beside}
    return Column(name, titles.get(name, name))


def _head_blocks(result: ProbeResult) -> tuple[Block, ...]:
    if not result.heads:
        return ()
    scores = list(dict.fromkeys(name for head in result.heads for name in head.scores))
    selected = say("selected")
    taught = any(one.teacher for one in result.heads)
    return (
        Table(
            name=f"{result.probe}_heads",
            title=say("scores_every_head"),
            columns=(
                Column("head", say("head")),
                Column("selected", selected),
                *((Column("teacher", say("teacher")),) if taught else ()),
                *(_score_column(result.probe, name) for name in scores),
            ),
            rows=tuple(
                (
                    one.head,
                    selected if one.selected else "",
                    *((one.teacher,) if taught else ()),
                    *map(one.scores.get, scores),
                )
                for one in sorted(result.heads, key=lambda one: not one.selected)
            ),
            folded=True,
            shown=max(_MOST_HEADS, sum(one.selected for one in result.heads)),
        ),
    )


def _settings(result: ProbeResult) -> Table:
    return Table(
        name=f"{result.probe}_settings",
        title=say("settings_this_probe"),
        columns=(Column("name", say("name")), Column("value", say("value_cell"))),
        rows=tuple((name, plain(value)) for name, value in _flat(result.settings)),
        folded=True,
    )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
