"""`qt-bert report` and `qt-bert probe`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.opening import claims_table, measurements_table, table
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.run.inputs import Further, gather

if TYPE_CHECKING:
    from qt_bert.results.probe import ProbeResult


# `qt-bert report`: the main job.


@app.command(rich_help_panel=options.STUDY)
def report(
    model: options.Model = None,
    pairs: options.Pairs = None,
    out: Annotated[Path, typer.Option(help="Run folder.")] = Path("report"),
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    limit: options.Limit = None,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    base: options.Base = None,
    second: options.Second = None,
    treebank: options.Treebanks = None,
    texts: options.Texts = None,
    held_out: options.HeldOut = None,
    held_out_columns: options.HeldOutColumns = None,
    held_out_grades: options.HeldOutGrades = None,
    baseline_table: options.BaselineTable = None,
    heads: options.FunctionHeads = None,
    cases: options.Cases = None,
    band_from: options.BandFrom = None,
    corpus: options.CorpusFile = None,
    compare: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL_B",
            help="Set this model beside it: both evaluated, compared and probed on the same pairs "
            "(takes twice the time).",
        ),
    ] = None,
    model_grades_b: Annotated[
        str | None, typer.Option(help="Which grades each logit of MODEL_B means.")
    ] = None,
    segmenter: options.Segmenter = "jieba",
    full: options.Full = False,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of queries.")] = 2000,
    seed: options.Seed = 0,
    only: Annotated[
        str | None,
        typer.Option(
            help="Run these parts alone, beside the evaluation: matching,patch,plan. --resume adds others."
        ),
    ] = None,
    save_heads: Annotated[
        Path | None,
        typer.Option(
            help="Also write the heads' named sets and scores to this small file; as heads.json in "
            "the model's folder the inspection page reads it."
        ),
    ] = None,
    save_results: Annotated[
        Path | None,
        typer.Option(help="Also write what was found to results.md and results.zh-CN.md there."),
    ] = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Evaluate and probe a model on graded pairs, and draw the report: report.html, report.json, tables."""
    if model_grades_b is not None and compare is None:
        raise ArgumentError("--model-grades-b goes with --compare MODEL_B, which names no model")
    if save_heads is not None and save_heads.is_dir():
        raise ArgumentError(f"--save-heads {save_heads} is a folder; give a file in it: heads.json")
    gathered = gather(
        model=model,
        pairs=pairs,
        base=base,
        second=second,
        compared=compare,
        compared_grades=model_grades_b,
        reader=ReaderOptions(columns, no_header, grades, max_rejects, limit),
        further=Further(
            treebanks=treebank,
            texts=texts,
            held_out=held_out,
            held_out_columns=held_out_columns,
            held_out_grades=held_out_grades,
            baseline_table=baseline_table,
            heads=heads,
            cases=cases,
            band_from=band_from,
            corpus=corpus,
        ),
        segmenter=segmenter,
        full=full,
        dtype=dtype,
        max_length=max_length,
        model_grades=model_grades,
        resamples=resamples,
        seed=seed,
    )
    from qt_bert.progress import progress
    from qt_bert.report.render import render
    from qt_bert.run.folder import RunFolder
    from qt_bert.run.stage import StudyContext, forecast, run_study, select
    from qt_bert.run.stages import stages

    chosen = select(stages(), gathered.inputs, None if only is None else only.split(","))
    with opening.resumable(out):
        run = RunFolder.open(out, gathered.inputs, resume=resume, overwrite=overwrite)
        context = StudyContext(
            folder=run, model=gathered.model, pairs=gathered.pairs, files=gathered.files
        )
        try:
            ahead = forecast(chosen, context)
            opening.say(ahead.text)
            with progress(ahead.runs or None, "report", "runs") as shown:
                ran = run_study(chosen, context, shown, ahead.share)
        except (QtBertError, KeyboardInterrupt):
            opening.say(f"what is done so far: {render(out).resolve()}")
            raise
    page = render(out)
    if save_heads is not None:
        from qt_bert.run.alone import save_heads as write_heads

        write_heads(run, save_heads)
    if save_results is not None:
        from qt_bert.report.markdown import save_results as write_results

        write_results(RunFolder.read(out), save_results)
    opening.say("nothing changed since the last run" if not ran else f"ran: {', '.join(ran)}")
    typer.echo(f"report: {page.resolve()}")


# `qt-bert probe`: one question about the model.


@app.command(rich_help_panel=options.STUDY)
def probe(
    name: Annotated[str | None, typer.Argument(help="Which question; --list names them.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the probes and stop.")] = False,
    model: options.Model = None,
    base: options.Base = None,
    second: options.Second = None,
    treebank: options.Treebanks = None,
    texts: options.Texts = None,
    held_out: options.HeldOut = None,
    held_out_columns: options.HeldOutColumns = None,
    held_out_grades: options.HeldOutGrades = None,
    baseline_table: options.BaselineTable = None,
    heads: options.FunctionHeads = None,
    cases: options.Cases = None,
    band_from: options.BandFrom = None,
    corpus: options.CorpusFile = None,
    pairs: options.Pairs = None,
    out: Annotated[Path, typer.Option(help="Folder for NAME.json.")] = Path("probes"),
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
    limit: options.Limit = None,
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    segmenter: options.Segmenter = "jieba",
    userdict: Annotated[
        Path | None, typer.Option(help="Further words for the segmenter, one a line.")
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="Segmented texts to compare with.")] = None,
    full: options.Full = False,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of queries.")] = 2000,
    seed: options.Seed = 0,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    html: Annotated[
        bool, typer.Option("--html", help="Also draw NAME.html beside NAME.json.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Ask one question about the model's heads; heads are chosen on one half of the queries, claims tested on the other."""
    from qt_bert.probes.registry import probe_named

    if listed:
        typer.echo(_listing(as_json))
        return
    if name is None:
        raise ArgumentError("which probe? `qt-bert probe --list` names them")
    chosen = probe_named(name)
    gathered = gather(
        model=model,
        pairs=pairs,
        base=base,
        second=second,
        reader=ReaderOptions(columns, no_header, grades, max_rejects, limit),
        further=Further(
            treebanks=treebank,
            texts=texts,
            held_out=held_out,
            held_out_columns=held_out_columns,
            held_out_grades=held_out_grades,
            baseline_table=baseline_table,
            heads=heads,
            cases=cases,
            band_from=band_from,
            corpus=corpus,
        ),
        segmenter=segmenter,
        full=full,
        dtype=dtype,
        max_length=max_length,
        model_grades=model_grades,
        resamples=resamples,
        seed=seed,
        userdict=userdict,
        gold=gold,
    )
    from qt_bert.run.alone import run_alone

    with opening.resumable(out):
        found = run_alone(
            chosen,
            out,
            gathered.inputs,
            model=gathered.model,
            pairs=gathered.pairs,
            files=gathered.files,
            resume=resume,
            overwrite=overwrite,
        )
    if rejected := found.settings.get("rejected"):
        opening.say(f"{rejected:,} rows rejected; `qt-bert check --rejects` lists them")
    opening.say(f"result: {out / chosen.name}.json")
    if html:
        from qt_bert.report.render import render_probe

        opening.say(f"page: {render_probe(found, gathered.inputs, out).resolve()}")
    typer.echo(json.dumps(found.to_json(), ensure_ascii=False) if as_json else _as_text(found))


def _listing(as_json: bool) -> str:
    from qt_bert.probes.registry import probes

    if as_json:
        facts = [
            {
                "name": probe.name,
                "title": {"zh": probe.title.zh, "en": probe.title.en},
                "question": {"zh": probe.question.zh, "en": probe.question.en},
                "quick_seconds": probe.quick_seconds,
                "needs_base": probe.needs_base,
            }
            for probe in probes()
        ]
        return json.dumps(facts, ensure_ascii=False)
    rows = [(probe.name, probe.question.zh, probe.question.en) for probe in probes()]
    return table([("name", "问题", "question"), *rows], left=3)


def _as_text(found: ProbeResult) -> str:
    from qt_bert.probes.wording import claims_in_words, measurements_in_words

    parts = [found.summary.zh, found.summary.en]
    if claims := claims_in_words(found):
        parts += ["", claims_table(claims)]
    if measurements := measurements_in_words(found):
        parts += ["", measurements_table(measurements)]
    return "\n".join(parts)
