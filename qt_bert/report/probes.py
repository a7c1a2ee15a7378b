"""The results of the probes: a section each, and the head atlas."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from qt_bert.heads import Head
from qt_bert.probes.wording import (
    ClaimInWords,
    MeasurementInWords,
    claims_in_words,
    measurements_in_words,
    question_of,
)
from qt_bert.report.blocks import (
    Badge,
    Cell,
    Column,
    FigureBlock,
    Folded,
    Interval,
    Prose,
    Section,
    Table,
    Tone,
    columns,
    filled,
    wording,
)
from qt_bert.report.stored import anchor_of
from qt_bert.results.head_sets import set_words
from qt_bert.results.heads import HeadTable, atlas_figures, offered, table_of
from qt_bert.results.probe import (
    VERDICTS,
    HeadScores,
    ProbeResult,
    ResultTable,
    Source,
    Stability,
    StabilityVerdict,
    Value,
)
from qt_bert.results.quantities import QUANTITIES
from qt_bert.stats.verdict import Verdict
from qt_bert.text import Label, Text, digits_for, plain, sentences, shortest

TONES: dict[Verdict, Tone] = {
    "reproduced": "good",
    "not reproduced": "bad",
    "inconclusive": "open",
    "not testable": "open",
}
_STABLE: dict[StabilityVerdict, Tone] = {
    "stable": "good",
    "not stable": "bad",
    "undecided": "open",
}


def badge(worded: ClaimInWords) -> Badge:
    """The verdict as a badge."""
    return Badge(worded.verdict, TONES[worded.claim.verdict])


def measured(worded: ClaimInWords | MeasurementInWords) -> Interval:
    """A value with its interval, in its unit."""
    figures = worded.claim if isinstance(worded, ClaimInWords) else worded.measurement
    low, high = figures.ci_low, figures.ci_high
    digits = digits_for(figures.value, low, high)
    return Interval(value=figures.value, low=low, high=high, unit=worded.unit, digits=digits)


def source_value(source: Source) -> Label | None:
    """The source's figure, if any."""
    return shortest(source.value) if isinstance(source.value, float) else source.value


def source_place(source: Source) -> str:
    """The article and its section (number or heading); empty without a source."""
    if not source.article:
        return ""
    mark = " §" if source.section[:1].isdigit() else ": "
    return f"{source.article.replace('_', ' ')}{mark}{source.section}"


def _stable(stability: Stability | None) -> Badge | None:
    if stability is None:
        return None
    return Badge(VERDICTS[stability.verdict], _STABLE[stability.verdict])


_MOST_HEADS = 12
"""Heads of a set in the atlas; the probe's section lists all."""


def atlas_section(results: Sequence[ProbeResult]) -> Section | None:
    """The named sets, a map of each quantity, and every head of the sets; None without scores of heads."""
    tables = [table_of(result) for result in results]
    figures = [FigureBlock(figure=figure) for figure in atlas_figures(tables)]
    if not figures:
        return None
    blocks = filled(
        Prose(body=wording("atlas_note")),
        Table(
            name="atlas_sets",
            title=wording("heads"),
            columns=(
                *columns(probe="probe", set="set_of_heads", does="what_they_do", n="how_many"),
                Column("heads", wording("which"), whole=True),
                *columns(stable="stable"),
            ),
            rows=tuple(_atlas_sets(tables)),
            grouped=True,
        ),
        *figures,
        _atlas_heads(tables),
    )
    return Section(name="atlas", title=wording("head_atlas"), blocks=blocks)


def _atlas_sets(tables: Sequence[HeadTable]) -> Iterator[tuple[Cell, ...]]:
    for table in tables:
        for name, heads in table.shown_sets.items():
            words, more = set_words(name), " …" if len(heads) > _MOST_HEADS else ""
            shown = " ".join(heads[:_MOST_HEADS]) + more
            stable = _stable(table.stability.get(name))
            yield table.title, words.name, words.does, len(heads), shown, stable


def _atlas_heads(tables: Sequence[HeadTable]) -> Table:
    """A row for each head of the sets: its functions (each sentence once), and its quantities."""
    does: dict[str, list[Text]] = {}
    for table in tables:
        for set_name, heads in table.shown_sets.items():
            for head in heads:
                does.setdefault(head, []).append(set_words(set_name).does)
    shown = [(quantity, table.rows()) for quantity, table in offered(tables)]
    rows = []
    for head in sorted(does, key=Head.parse):
        cells: list[Cell] = []
        for quantity, scores in shown:
            of_head = scores.get(head, {})
            low, high = quantity.interval(of_head) or (None, None)
            value, digits = quantity.value(of_head), quantity.digits
            unit = quantity.unit
            cells.append(Interval(value=value, low=low, high=high, unit=unit, digits=digits))
        rows.append((head, sentences(dict.fromkeys(does[head])), *cells))
    return Table(
        name="atlas_heads",
        title=wording("atlas_heads"),
        columns=(
            *columns(head="head", does="what_they_do"),
            *(
                Column(quantity.name, quantity.title, digits=quantity.digits)
                for quantity, _ in shown
            ),
        ),
        rows=tuple(rows),
        folded=True,
    )


_THERE = Column("there", wording("source_figure"), optional=True)
FILED = (
    Column("margin", wording("margin"), filed=True),
    Column("p", "p", filed=True),
    Column("q", "q", filed=True),
    Column("n_queries", wording("queries"), filed=True),
)
"""What the CSV file of claims alone holds; its cells are `filed`."""
_CLAIMS = (
    *columns(source="place", claim="claim", verdict="verdict", value="measured_interval"),
    _THERE,
    Column("conclusion", wording("what_follows"), whole=True),
    *FILED,
)
_MEASUREMENTS = (
    *columns(source="place", measurement="measurement", value="measured_interval"),
    _THERE,
    *columns(n_queries="queries"),
)


def probe_section(result: ProbeResult) -> Section:
    """Question, summary, sample; claims, figures; folded: the rest. Without claims, in the appendix."""
    details = filled(_measurements(result), _sets(result), _heads(result), _settings(result))
    # A figure's name is unique in its file, and may begin with the probe's.
    prefix = f"{result.probe}_"
    figures = [
        replace(figure, name=prefix + figure.name.removeprefix(prefix)) for figure in result.figures
    ]
    blocks = filled(
        Prose(title=question_of(result.probe), body=sentences([result.summary, *_sample(result)])),
        Table(
            name=f"{prefix}claims",
            title=wording("claims_judged"),
            columns=_CLAIMS,
            rows=tuple(map(_claim, claims_in_words(result))),
            grouped=True,
        ),
        *(FigureBlock(figure=figure) for figure in figures),
        *(_table(table, prefix) for table in result.tables),
        Folded(title=wording("probe_details"), blocks=details),
    )
    name, appendix = anchor_of(result), not result.claims
    return Section(name=name, title=result.heading, blocks=blocks, appendix=appendix)


def _claim(worded: ClaimInWords) -> tuple[Cell, ...]:
    claim = worded.claim
    return (
        source_place(claim.source) or wording("no_source"),
        worded.text,
        badge(worded),
        measured(worded),
        source_value(claim.source),
        worded.conclusion,
        *filed(worded),
    )


def _table(table: ResultTable, prefix: str) -> Table:
    """A probe's own table."""
    return Table(
        name=prefix + table.name,
        title=table.title,
        note=table.note,
        columns=tuple(Column(name, title) for name, title in table.columns.items()),
        rows=tuple((*row.labels, *map(_cell, row.values)) for row in table.rows),
        grouped=len({row.labels[0] for row in table.rows}) < len(table.rows),
    )


def _cell(cell: Value) -> Interval:
    low, high = cell.ci_low, cell.ci_high
    return Interval(value=cell.value, low=low, high=high, digits=digits_for(cell.value, low, high))


def filed(worded: ClaimInWords) -> tuple[Cell, ...]:
    """The cells of `FILED`: margin, p, q and the number of queries."""
    return (worded.margin, worded.claim.p, worded.claim.q, worded.claim.n_queries)


def _measurements(result: ProbeResult) -> Table:
    return Table(
        name=f"{result.probe}_measurements",
        title=wording("measurements"),
        columns=_MEASUREMENTS,
        rows=tuple(
            (
                source_place(worded.measurement.source) or wording("no_source"),
                worded.text,
                measured(worded),
                source_value(worded.measurement.source),
                worded.measurement.n_queries or None,
            )
            for worded in measurements_in_words(result)
        ),
        grouped=True,
        folded=True,
    )


def _sample(result: ProbeResult) -> Iterator[Text]:
    pairs = result.pairs
    if "cases" in result.settings:  # no pairs of the run: the summary counts them
        return
    if pairs.n_pairs is None or pairs.n_queries is None:
        yield wording("validation_file", name=pairs.name)
    else:
        counts = {"pairs": pairs.n_pairs, "queries": pairs.n_queries}
        yield wording("validation_pairs", name=pairs.name, **counts)


def _sets(result: ProbeResult) -> Table:
    """Each set with its stability, compared with chance."""
    teachers = {head.head: f"{head.head}({head.teacher})" for head in result.heads if head.teacher}
    stability_columns = (
        *columns(stable="stable"),
        Column("overlap", wording("overlap"), digits=2),
        Column("halves", wording("overlap_of_halves"), digits=2),
        Column("chance_95", wording("chance_95"), digits=2),
    )
    rows: list[tuple[Cell, ...]] = []
    for name, heads in result.sets.items():
        stability = result.stability.get(name)
        shown = " ".join(teachers.get(head, head) for head in heads) or None
        cells: list[Cell] = [name, set_words(name).name, len(heads), shown]
        if stability is not None:
            low, high = stability.low, stability.high
            overlap = Interval(value=stability.overlap, low=low, high=high, digits=2)
            cells += [_stable(stability), overlap, stability.halves, stability.chance_95]
        elif result.stability:
            cells += [None] * len(stability_columns)
        rows.append(tuple(cells))
    return Table(
        name=f"{result.probe}_sets",
        title=wording("heads_chosen"),
        columns=(
            *columns(set="set", what="set_of_heads", n="how_many"),
            Column("heads", wording("which"), whole=True),
            *(stability_columns if result.stability else ()),
        ),
        rows=tuple(rows),
        note=wording("stability_note") if result.stability else None,
    )


def _score_column(probe: str, name: str) -> Column:
    """A score's column, with the atlas' title if there is one; scores are stored without its factor."""
    if name in ("p", "q"):
        return Column(name, name, digits=4, least=True)
    titles: dict[str, Label] = {}
    for quantity in QUANTITIES:
        if quantity.probe == probe:
            title = quantity.title
            if quantity.factor != 1:  # points or percent in the atlas, where a change may be a loss
                sign = "−" if quantity.factor < 0 else ""
                title = Text(f"{title.zh}（1 = {sign}100%）", f"{title.en} (1 = {sign}100 %)")
            titles |= {} if quantity.minus else {quantity.score: title}
            titles |= quantity.beside
    return Column(name, titles.get(name, name))


def _heads(result: ProbeResult) -> Table:
    """Every head's scores, selected heads first; the page shows few others."""
    scores = list(dict.fromkeys(name for head in result.heads for name in head.scores))
    has_teacher = any(head.teacher for head in result.heads)

    def row(head: HeadScores) -> tuple[Cell, ...]:
        teacher = (head.teacher,) if has_teacher else ()
        selected = wording("selected") if head.selected else ""
        return (head.head, selected, *teacher, *map(head.scores.get, scores))

    return Table(
        name=f"{result.probe}_heads",
        title=wording("head_scores"),
        columns=(
            *columns(head="head", selected="selected"),
            *(columns(teacher="teacher") if has_teacher else ()),
            *(_score_column(result.probe, name) for name in scores),
        ),
        rows=tuple(map(row, sorted(result.heads, key=lambda head: not head.selected))),
        folded=True,
        shown=max(_MOST_HEADS, sum(head.selected for head in result.heads)),
    )


def _settings(result: ProbeResult) -> Table:
    return Table(
        name=f"{result.probe}_settings",
        title=wording("probe_settings"),
        columns=columns(name="name", value="value_cell"),
        rows=tuple((name, plain(value)) for name, value in _flat(result.settings)),
        folded=True,
    )


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
