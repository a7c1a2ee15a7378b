"""`qt-bert plan`, `prune`, `export` and `distill`."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterable
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from qt_bert.cli import options, terminal
from qt_bert.cli.terminal import differences_table, figure, interval, table
from qt_bert.cli.train import tune
from qt_bert.data.reader import ReaderOptions
from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.progress import progress
from qt_bert.request import NOT_OF_A_PLAN, Request, pairs_or_test, resolve
from qt_bert.shipped import DEV, GRADED, shipped
from qt_bert.training.recipes import LossOptions, TrainingFiles, TuningOptions

if TYPE_CHECKING:
    from qt_bert.data.pairs import Pair
    from qt_bert.models.checkpoint import Checkpoint
    from qt_bert.planning.prune import Pruned
    from qt_bert.results.frontier import Frontier
    from qt_bert.results.plan import ExportFile, Plan, PlanTest


@options.command(options.SMALLER)
def plan(
    out: Annotated[
        Path, typer.Option(help="Folder for frontier.json or plan.json, and plan.html.")
    ],
    request: Annotated[Request, options.Without(NOT_OF_A_PLAN)],
    budget: Annotated[
        str | None,
        typer.Option(
            help="Instead of the frontier: how redundant heads or layers are. With a point the share that "
            "is kept (heads=0.6), without one the number (layers=6)."
        ),
    ] = None,
    pairs_to_train: Annotated[
        list[Path] | None,
        typer.Option(
            help="Without --budget: graded pairs of other queries, in the columns and grades of --pairs, for a "
            "trial: short trainings of every shape, which forecast its quality after a full one (repeatable)."
        ),
    ] = None,
    trial: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Steps of the trial; the best three shapes get four times as many. [default: 150]",
        ),
    ] = None,
    run: Annotated[
        Path | None,
        typer.Option(
            help="With --budget: run folder of `qt-bert report` whose probes name the functions of heads. "
            "[default: heads.json beside the model]"
        ),
    ] = None,
    limit: Annotated[
        int | None,
        typer.Option(min=1, help="Use about this many pairs of discovery and of validation."),
    ] = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Which smaller shapes are worth it: how fast and how good each is now and, with --pairs-to-train, after
    training; or, with --budget, which heads or layers can go."""
    of_trial = {"--pairs-to-train": pairs_to_train, "--trial": trial}
    of_budget = {
        "--run": run,
        "--held-out": request.held_out,
        "--held-out-columns": request.held_out_columns,
        "--held-out-grades": request.held_out_grades,
    }
    others, rule = (
        (of_budget, "goes with --budget") if budget is None else (of_trial, "goes without --budget")
    )
    if wrong := [name for name, value in others.items() if value]:
        raise ArgumentError(f"{wrong[0]} {rule}")
    request = resolve(request)
    from qt_bert.report.frontier import render_plan
    from qt_bert.results.frontier import FRONTIER
    from qt_bert.run.study import FrontierOptions, PlanOptions, run_frontier, run_plan

    with terminal.resumable(out):
        if budget is None:
            frontier = run_frontier(
                FrontierOptions(
                    limit=limit, trial=trial, pairs_to_train=tuple(pairs_to_train or ())
                ),
                request,
                out,
                resume=resume,
                overwrite=overwrite,
            )
            text, file = _frontier_as_text(frontier, out / FRONTIER, request), out / FRONTIER
        else:
            how = PlanOptions(budget=budget, limit=limit, run=run)
            chosen = run_plan(how, request, out, resume=resume, overwrite=overwrite)
            text, file = _as_text(chosen), out / "plan.json"
    terminal.note(f"plan: {file}, to read: {render_plan(out)}")
    typer.echo(file.read_text(encoding="utf-8") if as_json else text)


def _frontier_as_text(frontier: Frontier, path: Path, request: Request) -> str:
    """What they were measured on, the shapes, the recommendation, and the next commands with the user's paths."""
    from qt_bert.report.frontier import next_commands, recommendation

    metrics, ahead = list(frontier.rows[0].quality), list(frontier.rows[-1].forecast)
    trials = frontier.trial.steps if frontier.trial is not None else ()
    after = [*(f"{name} after training" for name in ahead), *(f"ρ, {n} steps" for n in trials)]
    rows = [("shape", "M", "ms", "pairs/s", "×", *metrics, *after)]
    for row in frontier.rows:
        size = (figure(row.parameters / 1e6, 1), figure(row.milliseconds, 1), f"{row.rate:,.0f}")
        now = (figure(row.quality[name].value_b) for name in metrics)
        forecasts = (row.forecast.get(name) for name in ahead)
        changes = (
            "–" if c is None else f"{c.value:+.3f} [{c.low:+.3f}, {c.high:+.3f}]" for c in forecasts
        )
        tried = {run.steps: run.changes.get("spearman") for run in row.trial}
        trial = (figure(tried.get(steps)) for steps in trials)
        rows.append(
            (str(row.shape), *size, figure(row.throughput.value, 2), *now, *changes, *trial)
        )
    chosen, measured = (
        f"{ref.n_pairs:,} pairs of {ref.n_queries:,} queries of {ref.name}"
        for ref in (frontier.discovery, frontier.validation)
    )
    part = " (--full takes all)" if frontier.profile == "quick" else ""
    reader = request.reader

    def given(option: str, value: object) -> list[str]:
        return [] if value is None else [option, str(value)]

    of_model = (
        given("--model-grades", request.model_grades),
        given("--max-length", request.max_length),
        given("--token-types", request.token_types),
    )
    model = [str(request.model), *chain(*of_model)]
    pairs = [str(request.validation_file), *(["--no-header"] if reader.no_header else [])]
    pairs += given("--columns", reader.columns) + given("--grades", reader.grades)
    commands = next_commands(frontier, str(path), *map(shlex.join, (model, pairs)))
    listed = "\n".join(_runnable(command.en, of_model) for command in commands)
    head = f"chosen on {chosen}, measured on {measured}{part}"
    return f"{head}\n\n{table(rows)}\n\n{recommendation(frontier).en}\n\n{listed}"


def _runnable(text: str, of_model: Iterable[list[str]]) -> str:
    """A comment and a command, without the options of a model that the command does not have."""
    known = typer.main.get_command(options.app).commands  # type: ignore[attr-defined]
    command = known[text.splitlines()[1].split()[1]]
    has = {name for option in command.params for name in option.opts}
    for words in of_model:
        if words and words[0] not in has:
            text = text.replace(f" {shlex.join(words)}", "")
    return text


def _as_text(plan: Plan) -> str:
    """The kept heads and layers, their size and speed, and the tests on other pairs."""
    evidence = plan.evidence
    heads = sum(len(layer.heads) for layer in plan.kept)
    teacher = plan.teacher
    lines = [
        f"{teacher.name}, {plan.budget.asked}: {len(plan.kept)} of {teacher.layers} layers and "
        f"{heads} of {teacher.layers * teacher.heads} heads stay"
    ]
    if evidence is None:
        return lines[0]
    lines.append(f"{evidence.size.parameters:,} parameters ({evidence.size.share:.0%})")
    rows: list[tuple[str, ...]] = [
        ("tested on", "pairs", "metric", "whole", "change", "95 % interval", "")
    ]
    for test in evidence.tests:
        rows += _rows(test)
    return "\n".join([*lines, "", table(rows)])


def _rows(test: PlanTest) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for place, (metric, change) in enumerate(test.measured.items()):
        name = (test.pairs.name, f"{test.pairs.n_pairs:,}") if place == 0 else ("", "")
        ends = interval({"ci_low": change.ci_low, "ci_high": change.ci_high})
        verdict = (test.verdict or "") if metric == "spearman" else ""
        rows.append((*name, metric, figure(change.base), figure(change.change), ends, verdict))
    return rows


@options.command(options.SMALLER)
def prune(
    out: Annotated[Path, typer.Option(help="Folder of the smaller model.")],
    model: options.Model,
    reader: options.Reader,
    plan: options.PlanFile = None,
    shape: options.OfFrontier = None,
    vocabulary: Annotated[
        Path | None,
        typer.Option(
            help="Instead of --plan: keep the tokens of these texts (a line each, or pairs)."
        ),
    ] = None,
    keep: Annotated[
        int | None, typer.Option(min=1, help="Keep at most this many tokens, the most frequent.")
    ] = None,
    min_count: Annotated[int, typer.Option(min=1, help="Drop tokens that fewer texts have.")] = 1,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Graded pairs to weigh feed-forward units and to compare the pruned model with the masked "
            "one, or to measure a cut vocabulary's loss. [default: the dev split that ships]"
        ),
    ] = None,
    rejects: options.Rejects = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Save the smaller model of a plan, equal to the masked one; or the model with the vocabulary of your
    texts alone, equal on them."""
    path = pairs if pairs is not None else shipped(DEV)
    folder = model.model if model.model is not None else shipped(GRADED)
    if (plan is None) == (vocabulary is None):
        raise ArgumentError("give --plan PLAN.json, or --vocabulary TEXTS")
    if shape if plan is None else keep or min_count > 1:
        raise ArgumentError("--shape goes with --plan; --keep and --min-count go with --vocabulary")
    if vocabulary is not None:
        from qt_bert.models.opening import open_checkpoint
        from qt_bert.planning.vocabulary import prune_vocabulary

        small = prune_vocabulary(
            open_checkpoint(folder, device=model.device, reading=model.reading, compact=True),
            vocabulary,
            out,
            keep=keep,
            min_count=min_count,
            pairs=pairs,
            reader=reader,
            rejects=rejects,
            overwrite=overwrite,
        )
        terminal.note_rejects(small["rejected"], rejects)
        typer.echo(json.dumps(small) if as_json else _cut_as_text(small))
        return
    assert plan is not None
    reader.open(path)
    from qt_bert.planning.prune import CHECKED, open_teacher
    from qt_bert.planning.prune import prune as prune_model
    from qt_bert.results.frontier import read_plan

    chosen = read_plan(plan, shape)
    teacher = open_teacher(chosen, folder, model.device, model.reading)
    weighs = any(layer.units is not None for layer in chosen.kept) and not chosen.units
    if weighs:
        read = _graded(path, reader, teacher, rejects)
    else:  # a few pairs for the check, graded or not
        read = list(islice(reader.open(path), CHECKED))
    with progress(len(read), "weighing units", "pairs", quiet=not weighs) as shown:
        pruned = prune_model(teacher, chosen, read, out, overwrite=overwrite, shown=shown)
    typer.echo(json.dumps(asdict(pruned), default=str) if as_json else _pruned_as_text(pruned))


def _graded(
    path: Path, reader: ReaderOptions, checkpoint: Checkpoint, rejects: Path | None
) -> list[Pair]:
    """The graded pairs of a file; rejects are printed."""
    from qt_bert.scoring.judge import graded_pairs

    pairs, rejected = graded_pairs(path, reader, checkpoint.settings.labels, rejects_path=rejects)
    terminal.note_rejects(rejected, rejects)
    return pairs


def _pruned_as_text(pruned: Pruned) -> str:
    before, after = pruned.parameters
    opened = "qt_bert and plain transformers" if pruned.plain else "qt_bert"
    return (
        f"{pruned.folder}: {after:,} of {before:,} parameters ({after / before:.0%}), opened by "
        f"{opened}; logits within {pruned.difference:.1e} of the masked model's"
    )


def _cut_as_text(cut: dict[str, Any]) -> str:
    (tokens, left), (before, after), lost = cut["tokens"], cut["weights"], cut["lost"]
    lines = [
        f"{cut['folder']}: {tokens:,} → {left:,} tokens; {before:,} → {after:,} bytes "
        f"({after / before:.0%}); logits of texts that keep all theirs within {cut['difference']:.1e}",
        *(
            f"{name}: {{changed:,}} of {{pairs:,}} change, {{unknown:,}} more unknown tokens".format(
                **cut[name]
            )
            for name in ("texts", "others")
        ),
    ]
    return "\n".join([*lines, differences_table(lost["metrics"], "whole", "cut")])


@options.command(options.SMALLER)
def export(
    out: Annotated[Path, typer.Option(help="Folder of the exported model.")],
    model: options.ModelWithGrades,
    reader: options.Reader,
    onnx: Annotated[bool, typer.Option("--onnx", help="As ONNX, unless --transformers.")] = True,
    transformers: Annotated[
        bool,
        typer.Option(
            "--transformers",
            help="As a folder that plain transformers opens, with zeros for what was pruned.",
        ),
    ] = False,
    int8: Annotated[
        bool,
        typer.Option("--int8", help="Also with weights in eight bits; their loss is measured."),
    ] = False,
    pairs: Annotated[
        Path | None,
        typer.Option(
            help="Graded pairs to measure --int8 on. [default: the test split that ships]"
        ),
    ] = None,
    rejects: options.Rejects = None,
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Write a model (whole, pruned or distilled) as ONNX or as a plain transformers folder, after a check
    against its own logits."""
    if int8 and transformers:
        raise ArgumentError("--int8 goes with --onnx; --transformers keeps the model's number type")
    if pairs is not None and not int8:
        raise ArgumentError("--pairs goes with --int8, whose loss is measured on them")
    path = pairs_or_test(pairs) if int8 else None
    if path is not None:
        reader.open(path)
    from qt_bert.codec import encode
    from qt_bert.models.checkpoint import check_place
    from qt_bert.models.opening import open_checkpoint
    from qt_bert.planning.export import check_ready, export_onnx, export_transformers
    from qt_bert.planning.task import Sample

    (check_place if transformers else check_ready)(out, overwrite)
    checkpoint = open_checkpoint(
        model.model if model.model is not None else shipped(GRADED),
        device=model.device,
        model_grades=model.model_grades,
        reading=model.reading,
        compact=True,
    )
    terminal.note(
        f"it reads {checkpoint.settings.max_length} tokens of a pair, the title cut first"
    )
    if transformers:
        plain = export_transformers(checkpoint, out, overwrite=overwrite)
        before, after = plain["weights"]
        line = f"{out}: {before:,} → {after:,} bytes; logits within {plain['difference']:.1e}"
        typer.echo(json.dumps(plain) if as_json else line)
        return
    graded = None
    if path is not None:
        graded = Sample.of(path.name, sha256_file(path), _graded(path, reader, checkpoint, rejects))
    terminal.note(f"{checkpoint.name}: tracing, then checking against torch")
    exported = export_onnx(checkpoint, out, int8_on=graded, overwrite=overwrite)
    if as_json:
        typer.echo(json.dumps({"out": str(out)} | encode(exported), ensure_ascii=False))
    else:
        typer.echo(_exported_as_text(exported, out))


def _exported_as_text(exported: ExportFile, out: Path) -> str:
    check = exported.check
    limits = f"{check.cases[0].length} to {check.cases[-1].length} tokens"
    lines = [
        f"{file.name}: {file.stat().st_size / 1e6:,.1f} MB" for file in sorted(out.glob("*.onnx*"))
    ]
    lines += [
        f"largest difference from torch in a new process, {limits}, with padding: "
        f"{check.largest:.1e} (at most {check.bound:g})",
        f"inputs {', '.join(exported.inputs)}; opset {exported.opset}; in {out}",
    ]
    if (loss := exported.int8) is not None:
        lines += [
            f"\nint8 on {loss.pairs.name}: {loss.pairs.n_pairs:,} pairs, {loss.pairs.n_queries:,} "
            f"queries; largest change of a logit {loss.largest:.2g}",
            differences_table(loss.metrics, "float32", "int8"),
        ]
    return "\n".join(lines)


@options.command(options.SMALLER)
def distill(
    out: Annotated[Path, typer.Option(help="Folder of the finished student.")],
    files: TrainingFiles,
    how: TuningOptions,
    what: LossOptions,
    types: options.TokenTypes,
    plan: options.PlanFile = None,
    shape: Annotated[
        str | None,
        typer.Option(
            help="Shape of the student, layers=4 or layers=4,units=0.5: of --plan, else chosen on the dev "
            "pairs (--dev, or the dev split that ships)."
        ),
    ] = None,
    unlabelled: options.Unlabelled = None,
    model: Annotated[
        str | None, typer.Option(help="The teacher's folder. [default: the checkpoint that ships]")
    ] = None,
    steps: Annotated[
        int | None,
        typer.Option(help="Steps, over any number of epochs. [default: 2000, unless --epochs]"),
    ] = None,
    stop_on: Annotated[
        str | None, typer.Option(help="Metric of the dev file. [qwk; of one output, spearman]")
    ] = None,
    max_length: options.MaxLength = None,
    resume: options.Resume = False,
    overwrite: options.Overwrite = False,
) -> None:
    """Train a smaller model to imitate its teacher, by a shape or a plan; resumes after a kill."""
    if plan is None and shape is None:
        raise ArgumentError("give --shape layers=4, or --plan of `qt-bert plan`")
    from qt_bert.results.frontier import StudentShape, read_plan

    StudentShape.parse(shape or "layers=1")  # a bad one is refused before PyTorch is loaded
    from qt_bert.models.folder import resolve_folder
    from qt_bert.planning.distill import DistillJob, Student, student_of_shape

    folder = resolve_folder(model if model is not None else shipped(GRADED))
    tune(
        DistillJob,
        out,
        files,
        how,
        what,
        unlabelled,
        student=Student(folder, read_plan(plan, shape))
        if plan is not None
        else student_of_shape(shape or "", folder, files.judge(files.stored()), types.reading),
        reading=types.reading,
        stop_on=stop_on,
        max_length=max_length,
        steps=steps,
        resume=resume,
        overwrite=overwrite,
    )
