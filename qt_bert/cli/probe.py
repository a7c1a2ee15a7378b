"""`qt-bert probe`: one question about the model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import app, opening, options
from qt_bert.cli.further import Further
from qt_bert.cli.gathering import gather
from qt_bert.cli.show import findings_table, table
from qt_bert.errors import ArgumentError
from qt_bert.pairs.options import ReaderOptions

if TYPE_CHECKING:
    from qt_bert.results import ProbeResult


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
    initialisations: options.Initialisations = None,
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
    dtype: options.Dtype = "float32",
    max_length: options.MaxLength = None,
    model_grades: options.ModelGrades = None,
    segmenter: options.Segmenter = "jieba",
    userdict: Annotated[
        Path | None, typer.Option(help="Further words for the segmenter, one a line.")
    ] = None,
    gold: Annotated[Path | None, typer.Option(help="Segmented texts to compare with.")] = None,
    reference: Annotated[
        Path | None, typer.Option(help="Pairs for mean contexts. [default: the discovery pairs]")
    ] = None,
    full: options.Full = False,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples of queries.")] = 2000,
    seed: options.Seed = 0,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
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
        userdict=userdict,
        gold=gold,
        reference=reference,
    )
    from qt_bert.study.alone import run_alone

    with opening.resumable():
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
    parts = [found.summary.zh, found.summary.en]
    if found.findings:
        parts += ["", findings_table(found.findings)]
    return "\n".join(parts)
