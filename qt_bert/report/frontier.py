"""The frontier of smaller shapes: its part of the report's section, and its page."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path

from qt_bert.files import atomic_write
from qt_bert.report.blocks import (
    Block,
    Cell,
    Column,
    FigureBlock,
    Folded,
    Interval,
    Prose,
    Section,
    Table,
    columns,
    filled,
    wording,
)
from qt_bert.report.page import page
from qt_bert.report.plan import in_words, metric_name, named, of_pairs, plan_blocks, redundant
from qt_bert.results.frontier import FRONTIER, TESTED_STEPS, Detail, Forecast, Frontier, FrontierRow
from qt_bert.results.plan import MARGIN, PAGE, Plan, Ratio
from qt_bert.run.folder import RunFolder
from qt_bert.stats.comparison import MetricDifference
from qt_bert.text import Text, join, number, sentences

MILLION = 1_000_000
TITLE = wording("plan_section")


def render_plan(out: Path) -> Path:
    """Draw `plan.html` beside the `plan.json` or `frontier.json` of the folder `out`; return its path.

    Raises RunFolderError where the folder holds none of this program.
    """
    folder = RunFolder.read(out)
    file = folder.file(FRONTIER)
    frontier = Frontier.read(file) if file.exists() else None
    plan = None if frontier else Plan.read(folder.file("plan.json"))
    section = smaller_section(frontier, plan, str(out / FRONTIER))
    heading = wording("plan_heading")
    drawn = page(folder.record, (), [section] if section else [], heading=heading, tables=False)
    with atomic_write(folder.file(PAGE)) as temporary:
        temporary.write_text(drawn, encoding="utf-8")
    return folder.file(PAGE)


def smaller_section(frontier: Frontier | None, plan: Plan | None, path: str) -> Section | None:
    """What may go: the answer, the curve, the shapes, the engines, the next commands for the frontier in the
    file at `path`; behind them, folded, the plan under a budget."""
    blocks: tuple[Block, ...] = () if plan is None else plan_blocks(plan)
    if frontier is not None:
        blocks = filled(
            Prose(body=recommendation(frontier)),
            *(FigureBlock(figure=figure) for figure in frontier.figures),
            _shapes(frontier),
            _engines(frontier),
            Prose(
                title=wording("frontier_commands"),
                body=join(next_commands(frontier, path), "\n", "\n"),
                preformatted=True,
            ),
            Folded(title=wording("how_redundant"), blocks=blocks) if blocks else None,
        )
    return Section(name="plan", title=TITLE, blocks=blocks) if blocks else None


def in_one_sentence(frontier: Frontier | None, plan: Plan | None) -> Iterator[Text]:
    """The frontier's recommendation, and how redundant heads or layers are."""
    if frontier is not None:
        yield recommendation(frontier)
    if plan is not None and plan.evidence is not None:
        yield redundant(plan, plan.evidence)


def recommendation(frontier: Frontier) -> Text:
    """The shape that the forecasts recommend, a safer one where their intervals reach below the margin; or why
    none is recommended, and how to get one."""
    if (row := frontier.row_of(frontier.recommended)) is not None:
        ahead = join(
            named(name, in_words(change.value, change.low, change.high))
            for name, change in row.forecast.items()
        )
        rate, hours = number(row.throughput.value, 1), number(row.hours, 1)
        said = {"shape": row.shape, "rate": rate, "ahead": ahead, "MARGIN": MARGIN}
        assert frontier.trial is not None
        dev, steps = frontier.trial.dev, frontier.trial.steps[-1]
        said |= {"queries": dev.n_queries, "pairs": dev.name}
        texts = [wording("frontier_recommended", **said)]
        if steps != TESTED_STEPS:
            texts.append(wording("frontier_short", steps=steps, tested=TESTED_STEPS))
        if any(change.low < -MARGIN for change in row.forecast.values()):
            texts.append(wording("frontier_unsure"))
            if safer := [other for other in frontier.rows if _is_safer(other, row)]:
                times = number(safer[-1].throughput.value, 1)
                texts.append(wording("frontier_safer", shape=safer[-1].shape, rate=times))
        return sentences((*texts, wording("frontier_takes", hours=hours)))
    if frontier.trial is None:
        return wording("frontier_untried")
    return wording("frontier_none", MARGIN=MARGIN)


def _is_safer(other: FrontierRow, row: FrontierRow) -> bool:
    """Whether a slower shape, after a long trial, has a higher lower end in every forecast."""
    if other.latency.value <= row.latency.value or len(other.trial) < 2:
        return False
    return all(
        name in other.forecast and other.forecast[name].low > ahead.low
        for name, ahead in row.forecast.items()
    )


def next_commands(
    frontier: Frontier, path: str, model: str = "MODEL", pairs: str = "pairs.tsv"
) -> Iterator[Text]:
    """The commands that make, distil, export and gate the recommended shape, each behind what it is for; none
    without a faster one. Before all stands the teacher in eight bits, which needs no training.

    Without a trial there is none: its command comes next, and SHAPE stands for what it recommends. A trial
    that recommends none leaves the shape of the details. `path` is that of the frontier, `model` and `pairs`
    are words of a shell.
    """
    eight = f"export --onnx --int8 --model {model} --pairs {pairs} --out runs/teacher_onnx"
    yield _command("frontier_int8", eight)
    if len(frontier.rows) == 1:
        return
    if frontier.trial is None:
        ask = f"plan --model {model} --pairs {pairs} --pairs-to-train train.tsv --out runs/trial"
        yield _command("frontier_try", ask)
        path, shape = "runs/trial/frontier.json", "SHAPE"
    else:
        last = frontier.details[-1].shape if frontier.details else frontier.rows[-1].shape
        shape = str(frontier.recommended or last)
    of = f"--plan {shlex.quote(path)} --shape {shape} --model {model}"
    texts = "--pairs train.tsv --dev dev.tsv --unlabelled traffic.tsv"
    both = f"{model} runs/onnx/model.int8.onnx --pairs {pairs} --unlabelled other_traffic.tsv"
    yield _command("frontier_make", f"prune {of} --out runs/small")
    yield _command("frontier_distil", f"distill {of} {texts} --out runs/student")
    onnx = f"--onnx --int8 --model runs/student --pairs {pairs} --out runs/onnx"
    yield _command("frontier_export", f"export {onnx}")
    yield _command("frontier_gate", f"compare {both} --gate gate.toml")


def _command(purpose: str, command: str) -> Text:
    why = wording(purpose)
    return Text(*(f"# {text}\nqt-bert {command}" for text in (why.zh, why.en)))


def _shapes(frontier: Frontier) -> Table:
    """A row a shape; what was not tried has no column on the page."""
    rows = [list(_cells(frontier, row)) for row in frontier.rows]
    return Table(
        name="plan_frontier",
        title=wording("frontier_shapes"),
        columns=tuple(column for column, _ in rows[0]),
        rows=tuple(tuple(cell for _, cell in row) for row in rows),
        note=sentences(_notes(frontier)),
    )


def _cells(frontier: Frontier, row: FrontierRow) -> Iterator[tuple[Column, Cell]]:
    """The columns of a shape, each with its cell, what decides first; the same columns for all shapes."""
    millions = row.parameters / MILLION
    yield Column("shape", wording("frontier_shape"), whole=True), str(row.shape)
    yield Column("throughput", wording("throughput")), _ends(row.throughput, 2)
    for name in frontier.rows[-1].forecast:
        title = wording("frontier_after", metric=metric_name(name))
        yield Column(f"after_{name}", title), _ends(row.forecast.get(name))
    longest = row.trial[-1] if row.trial else None
    if frontier.trial:
        title = wording("frontier_from")
        yield Column("trial", title, 0), longest.steps if longest else None
    yield Column("hours", wording("frontier_hours"), 1, optional=True), row.hours
    yield Column("milliseconds", wording("frontier_ms"), 1), row.milliseconds
    yield Column("rate", wording("frontier_rate"), 0), row.rate
    yield Column("millions", wording("frontier_millions"), 1), millions
    yield Column("disk", wording("frontier_disk"), 1), 2 * millions
    yield Column("memory", wording("frontier_memory"), 1), 4 * millions
    for name in frontier.rows[0].quality:
        title = wording("frontier_now", metric=metric_name(name))
        yield Column(name, title), _now(row.quality[name])
    for name in frontier.rows[-1].forecast:
        title = wording("frontier_tried", metric=metric_name(name))
        yield Column(f"tried_{name}", title), longest.changes.get(name) if longest else None


def _ends(measured: Ratio | Forecast | None, digits: int | None = None) -> Interval | None:
    if measured is None:
        return None
    return Interval(value=measured.value, low=measured.low, high=measured.high, digits=digits)


def _now(of: MetricDifference) -> Interval:
    """The untrained shape's value, with the interval of its change around the teacher's."""
    base, low, high = of.value_a, of.ci_low, of.ci_high
    if base is None or low is None or high is None or low == high:  # the teacher itself
        return Interval(value=of.value_b, low=None, high=None)
    return Interval(value=of.value_b, low=base + low, high=base + high)


def _notes(frontier: Frontier) -> Iterator[Text]:
    """How the shapes were found and measured; heads, the vocabulary, and the trial."""
    yield wording(
        "frontier_measured",
        kept=len(frontier.rows),
        candidates=frontier.candidates,
        threads=frontier.threads,
        dtype=frontier.dtype,
        discovery=of_pairs(frontier.discovery),
        validation=of_pairs(frontier.validation),
    )
    if frontier.half_heads is not None and all(row.shape.heads == 1 for row in frontier.rows):
        yield wording("frontier_heads", ratio=number(frontier.half_heads.value, 2))
    if cut := frontier.vocabulary:
        saved = number(cut["saved"] / MILLION, 1)
        yield wording("frontier_vocabulary", **cut | {"saved": saved})
    if (trial := frontier.trial) is not None:
        short, long = trial.steps
        yield wording(
            "frontier_trials",
            short=short,
            long=long,
            dev=trial.dev.name,
            files=", ".join(trial.files),
            students=trial.students,
            teachers=trial.teachers,
        )


def _engines(frontier: Frontier) -> Table | None:
    """A row an engine of the teacher and of one shape: p50 / p99 by titles and threads."""
    if not frontier.details:
        return None
    places = {(t.titles, t.threads): t.requests for t in frontier.details[0].timings}
    cells: dict[tuple[str, str], list[str]] = {}
    whole: dict[tuple[int, int], float] = {}
    for timing in (timing for detail in frontier.details for timing in detail.timings):
        times = whole.setdefault((timing.titles, timing.threads), timing.p50) / timing.p50
        shown = f"{timing.p50:.1f} / {timing.p99:.1f} ({times:.1f}×)"
        cells.setdefault((str(timing.shape), timing.engine), []).append(shown)
    settings = [
        wording("frontier_setting", titles=n, threads=threads, queries=queries)
        for (n, threads), queries in places.items()
    ]
    return Table(
        name="plan_engines",
        title=wording("frontier_engines"),
        columns=(
            *columns(shape="frontier_shape", engine="frontier_engine"),
            *(
                Column(f"titles{n}_threads{m}", s)
                for (n, m), s in zip(places, settings, strict=True)
            ),
        ),
        rows=tuple((*engine, *times) for engine, times in cells.items()),
        note=sentences(map(_behaves, frontier.details)),
        grouped=True,
    )


def _behaves(detail: Detail) -> Text:
    trained = wording(
        "frontier_trained" if detail.trained else "frontier_as_cut", steps=detail.trained
    )
    return wording(
        "frontier_behaves",
        shape=detail.shape,
        trained=trained,
        behaviour=number(detail.behaviour),
        slice=detail.worst_slice or "—",
        errors=number(detail.slice_errors),
    )
