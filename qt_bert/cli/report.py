"""`qt-bert report` and `qt-bert probe`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from qt_bert.cli import options, terminal
from qt_bert.cli.terminal import claims_table, measurements_table, table
from qt_bert.errors import ArgumentError
from qt_bert.request import Request, resolve

if TYPE_CHECKING:
    from qt_bert.results.probe import ProbeResult


StudyRequest = Annotated[Request, options.Without(("discovery",))]


@options.command(options.STUDY)
def report(
    request: StudyRequest,
    out: Annotated[Path, typer.Option(help="Run folder.")] = Path("report"),
    only: Annotated[
        str | None,
        typer.Option(
            help="Run only the evaluation and these parts: matching,patch,plan. --resume adds others."
        ),
    ] = None,
    save_heads: Annotated[
        Path | None,
        typer.Option(
            help="Also write the heads' named sets and scores to this file; the inspection page reads it as "
            "heads.json in the model's folder."
        ),
    ] = None,
    save_results: Annotated[
        Path | None,
        typer.Option(
            help="Also write the results to results.md and results.zh-CN.md in this folder."
        ),
    ] = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Evaluate and probe a model on graded pairs, and draw the report: report.html, report.json, tables."""
    if save_heads is not None and save_heads.is_dir():
        raise ArgumentError(f"--save-heads {save_heads} is a folder; give a file in it: heads.json")
    if save_results is not None and save_results.is_file():
        raise ArgumentError(f"--save-results {save_results} is a file; give a folder")
    request = resolve(request)
    from qt_bert.report.render import render
    from qt_bert.run.study import run_report

    with terminal.resumable(out):
        page, ran = run_report(
            request,
            out,
            None if only is None else only.split(","),
            draw=render,
            resume=resume,
            overwrite=overwrite,
            notify=terminal.note,
        )
    from qt_bert.run.folder import RunFolder, read_probes

    folder = RunFolder.read(out)
    if save_heads is not None:
        from qt_bert.results.heads import heads_file

        heads_file(read_probes(folder), folder.record.versions).write(save_heads)
    if save_results is not None:
        from qt_bert.report.markdown import save_results as write_results

        write_results(folder, save_results)
    terminal.note("nothing changed since the last run" if not ran else f"ran: {', '.join(ran)}")
    typer.echo(f"report: {page.resolve()}")


@options.command(options.STUDY)
def probe(
    request: StudyRequest,
    name: Annotated[str | None, typer.Argument(help="Which probe; --list names them.")] = None,
    listed: Annotated[bool, typer.Option("--list", help="List the probes and stop.")] = False,
    out: Annotated[
        Path, typer.Option(help="Run folder, which may be a report's; writes OUT/probes/NAME.json.")
    ] = Path("probe"),
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    html: Annotated[bool, typer.Option("--html", help="Also draw OUT/probes/NAME.html.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Run one probe: heads are chosen on one half of the queries, claims tested on the other."""
    if listed:
        typer.echo(_listing(as_json))
        return
    if name is None:
        raise ArgumentError("which probe? `qt-bert probe --list` names them")
    from qt_bert.probes.base import probe_named

    probe_named(name)  # an unknown name is an error before any file is read
    request = resolve(request)
    from qt_bert.run.study import note_rejected, run_one_probe

    with terminal.resumable(out):
        result, inputs = run_one_probe(name, request, out, resume=resume, overwrite=overwrite)
    note_rejected(result.settings.get("rejected", 0))
    terminal.note(f"result: {out / 'probes' / name}.json")
    if html:
        from qt_bert.report.render import render_probe

        terminal.note(f"page: {render_probe(result, inputs, out / 'probes').resolve()}")
    typer.echo(json.dumps(result.to_json(), ensure_ascii=False) if as_json else _as_text(result))


def _listing(as_json: bool) -> str:
    from qt_bert.probes.base import probes

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


def _as_text(result: ProbeResult) -> str:
    from qt_bert.probes.wording import claims_in_words, measurements_in_words

    parts = [result.summary.zh, result.summary.en]
    if claims := claims_in_words(result):
        parts += ["", claims_table(claims)]
    if measurements := measurements_in_words(result):
        parts += ["", measurements_table(measurements)]
    return "\n".join(parts)
