"""`qt-bert report`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.further import Further
from qt_bert.cli.gathering import gather
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.pairs.options import ReaderOptions


@app.command(rich_help_panel=options.STUDY)
def report(
    model: options.Model = None,
    pairs: options.Pairs = None,
    out: Annotated[Path, typer.Option(help="Run folder.")] = Path("report"),
    columns: options.Columns = None,
    no_header: options.NoHeader = False,
    grades: options.Grades = None,
    max_rejects: options.MaxRejects = 0.01,
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
    initialisations: options.Initialisations = None,
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
    save_heads: Annotated[
        Path | None,
        typer.Option(
            help="Also write the heads' named sets and scores to this small file; as heads.json in "
            "the model's folder the inspection page reads it."
        ),
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
        reader=ReaderOptions(columns, no_header, grades, max_rejects),
        further=Further(
            treebanks=treebank,
            texts=texts,
            held_out=held_out,
            held_out_columns=held_out_columns,
            held_out_grades=held_out_grades,
            initialisations=initialisations,
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
    from qt_bert.report import render
    from qt_bert.study import RunFolder, StudyContext, run_study
    from qt_bert.study.stages import stages

    run = RunFolder.open(out, gathered.inputs, resume=resume, overwrite=overwrite)
    context = StudyContext(
        folder=run, model=gathered.model, pairs=gathered.pairs, files=gathered.files
    )
    chosen = [stage for stage in stages() if stage.applies(gathered.inputs)]
    try:
        with opening.resumable(), progress(len(chosen), "report", "stages") as shown:
            ran = run_study(chosen, context, shown)
    except QtBertError:
        opening.say(f"a stage failed; what is done so far: {render(out).resolve()}")
        raise
    page = render(out)
    if save_heads is not None:
        from qt_bert.study.save_heads import save_heads as write_heads

        write_heads(run, save_heads)
    opening.say("nothing changed since the last run" if not ran else f"ran: {', '.join(ran)}")
    typer.echo(f"report: {page.resolve()}")
