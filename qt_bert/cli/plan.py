"""`qt-bert plan`: which heads and layers a smaller model keeps, and what that will cost."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.further import held_out_files
from qt_bert.cli.gathering import gather
from qt_bert.cli.show import figure, interval, table
from qt_bert.pairs.options import ReaderOptions

if TYPE_CHECKING:
    from qt_bert.results.plan import Plan
    from qt_bert.results.plan_evidence import PlanTest


class Replace(StrEnum):
    """What stands in for a head that goes."""

    zero = "zero"
    mean = "mean"


@app.command(rich_help_panel=options.SMALLER)
def plan(
    budget: Annotated[
        str,
        typer.Option(
            help="What may stay: heads=, layers=, latency= or params=. With a point the share "
            "(heads=0.6, latency=0.5), without one the number (layers=6, params=4M)."
        ),
    ],
    out: Annotated[Path, typer.Option(help="Folder for plan.json and plan.html.")],
    model: options.Model = None,
    pairs: options.Pairs = None,
    discovery: Annotated[
        Path | None,
        typer.Option(
            help="Graded pairs to choose on, in the columns of --pairs. [default: the dev split that "
            "ships, or the discovery half of --pairs]"
        ),
    ] = None,
    held_out: options.HeldOut = None,
    held_out_columns: options.HeldOutColumns = None,
    held_out_grades: options.HeldOutGrades = None,
    replace: Annotated[
        Replace, typer.Option(help="What stands in for a head: nothing, or its mean context.")
    ] = Replace.zero,
    run: Annotated[
        Path | None,
        typer.Option(
            help="Run folder of `qt-bert report` whose probes say what the heads do. [default: "
            "heads.json beside the model]"
        ),
    ] = None,
    offline: Annotated[
        Path | None,
        typer.Option(
            help="Retrained offline model (`qt-bert train --offline-layers`) to compare with its control."
        ),
    ] = None,
    offline_control: Annotated[
        Path | None,
        typer.Option(
            help="The control of --offline: trained by the same command without --offline-layers."
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Take about so many pairs of discovery and of validation."),
    ] = None,
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    full: options.Full = False,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of queries.")] = 2000,
    seed: options.Seed = 0,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Say which heads and layers may go under a budget, what that costs with intervals, and what is at risk;
    and which layers may read titles before the query comes."""
    reader = ReaderOptions(columns, no_header, grades, max_rejects)
    others = held_out_files(held_out, held_out_columns, held_out_grades, max_rejects)
    gathered = gather(
        model=model,
        pairs=pairs,
        discovery=discovery,
        base=None,
        reader=reader,
        segmenter="jieba",
        full=full,
        dtype=dtype,
        max_length=max_length,
        model_grades=model_grades,
        resamples=resamples,
        seed=seed,
    )
    from qt_bert.report.plan.page import render_plan
    from qt_bert.study.plan_alone import run_plan
    from qt_bert.study.plan_stage import PlanAsked

    asked = PlanAsked(
        budget=budget,
        replacement=replace.value,
        held_out=others,
        limit=limit,
        run=run,
        offline=offline,
        control=offline_control,
    )
    with opening.resumable():
        made = run_plan(
            asked,
            out,
            gathered.inputs,
            model=gathered.model,
            pairs=gathered.pairs,
            files=gathered.files,
            resume=resume,
            overwrite=overwrite,
        )
    page = render_plan(out)
    opening.say(f"plan: {out / 'plan.json'}, to read: {page}")
    typer.echo((out / "plan.json").read_text(encoding="utf-8") if as_json else _as_text(made))


def _as_text(made: Plan) -> str:
    """What stays, how it does on other pairs, and what it takes."""
    evidence = made.evidence
    heads = sum(len(one.heads) for one in made.kept)
    teacher = made.teacher
    lines = [
        f"{teacher.name}, {made.budget.asked}: {len(made.kept)} of {teacher.layers} layers and "
        f"{heads} of {teacher.layers * teacher.heads} heads stay"
    ]
    if evidence is None:
        return lines[0]
    lines.append(f"{evidence.size.parameters:,} parameters ({evidence.size.share:.0%})")
    if evidence.speed is not None:
        speed = evidence.speed
        lines.append(
            f"latency × {speed.latency.value:.2f}, throughput × {speed.throughput.value:.2f}"
        )
    rows: list[tuple[str, ...]] = [
        ("tested on", "pairs", "metric", "whole", "change", "95 % interval", "")
    ]
    for test in evidence.tests:
        rows += _rows(test)
    return "\n".join([*lines, "", table(rows), *_offline(made)])


def _offline(made: Plan) -> list[str]:
    """What the plan says of reading titles before the query comes."""
    from qt_bert.report.plan.offline_words import recommendation

    return [] if made.offline is None else ["", recommendation(made.offline).en]


def _rows(test: PlanTest) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for place, (metric, one) in enumerate(test.measured.items()):
        name = (test.pairs.name, f"{test.pairs.n_pairs:,}") if place == 0 else ("", "")
        ends = interval({"ci_low": one.ci_low, "ci_high": one.ci_high})
        verdict = (test.verdict or "") if metric == "spearman" else ""
        found.append((*name, metric, figure(one.base), figure(one.change), ends, verdict))
    return found
