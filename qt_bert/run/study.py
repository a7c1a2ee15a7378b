"""The stages of a study (evaluation, probes, plan), run as a report, as one probe or as a plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qt_bert.errors import ArgumentError, QtBertError, RunFolderError
from qt_bert.files import sha256_file, write_json
from qt_bert.planning.task import FRONTIER_IN_REPORT, FULL, IN_REPORT, QUICK, Effort
from qt_bert.probes.base import Context, Probe, probe_named, probes, read_held_out, run_probe
from qt_bert.progress import note_once, progress
from qt_bert.request import EVALUATION_FIELDS, SELECTION_FIELDS, Request, is_shipped
from qt_bert.results.frontier import FRONTIER, Frontier
from qt_bert.results.kept import KeptFile
from qt_bert.results.plan import PAGE, Plan
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import (
    RunFolder,
    RunInputs,
    Stage,
    StageContext,
    forecast,
    probe_file,
    run_inputs,
    run_stages,
    scorer_of,
    select,
    split_of,
)
from qt_bert.shipped import BEHAVIOURS, TEST, TRAIN, shipped, ships
from qt_bert.text import counted

if TYPE_CHECKING:
    from qt_bert.planning.task import PlanTask, Sample
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.training.recipes import PairSource


# A probe as a stage of a run.


def probe_stage(probe: Probe) -> Stage:
    """The stage that writes `probes/NAME.json`, left out where it needs a base and has none."""
    return Stage(
        name=f"probe:{probe.name}",
        order=100 + probe.order,
        run=partial(_run_probe, probe),
        outputs=(probe_file(probe.name),),
        arguments=(*SELECTION_FIELDS, *probe.inputs),
        needs=tuple(f"probe:{name}" for name in probe.needs),
        folders=(f"sweeps/{probe.name}",),
        reads=probe.reads,
        quick_seconds=probe.quick_seconds,
        applies=lambda request: not probe.needs_base or request.base is not None,
        only_full=probe.only_full,
    )


def _run_probe(probe: Probe, context: StageContext) -> None:
    def result_of(name: str) -> ProbeResult:
        if name not in probe.needs:
            raise ArgumentError(f"the probe {probe.name!r} does not declare that it needs {name!r}")
        return ProbeResult.read(context.folder.file(probe_file(name)))

    probe_context = Context(
        label=probe.name,
        request=context.request,
        work=context.folder.work(f"sweeps/{probe.name}"),
        open_model=lambda: scorer_of(context),
        read_pairs=lambda labels: split_of(context),
        guards=context.guards,
        result_of=result_of,
    )
    # A page of another result must not outlive it.
    context.folder.file(probe_file(probe.name)).with_suffix(".html").unlink(missing_ok=True)
    run_probe(probe, probe_context).write(context.folder.file(probe_file(probe.name)))


# A plan as a stage: of a whole run, or alone in a folder.


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The options of a plan beside the request.

    `limit`: about so many pairs of discovery and of validation. `run`: the folder of a run whose probes
    name the functions of heads.
    """

    budget: str
    limit: int | None = None
    run: Path | None = None

    def arguments(self, model: Path) -> dict[str, Any]:
        """As arguments of a run, with the functions of heads, which are part of the plan."""
        from qt_bert.models.folder import weights_sha256
        from qt_bert.planning.task import functions_of

        functions = functions_of(model, weights_sha256(model), self.run)
        return {
            "budget": self.budget,
            "limit": self.limit,
            "functions": functions.source,
            "sets": dict(functions.sets),
            "unstable": sorted(functions.unstable),
        }


def plan_stage(
    options: PlanOptions | FrontierOptions,
    *,
    folder: str = "",
    order: int = 10,
    needs: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
    quick: Effort = QUICK,
) -> Stage:
    """The stage that writes `plan.json` or `frontier.json`.

    `folder`: its folder below the run's; `quick`: the effort of the profile of that name.
    """
    if isinstance(options, PlanOptions):
        name, seconds, run, file = "plan", 23, partial(_run_plan, options), "plan.json"
    else:
        name, seconds, run, file = "frontier", 72, partial(_run_frontier, options), FRONTIER
    output = f"{folder}/{file}" if folder else file
    return Stage(
        name=name,
        order=order,
        run=partial(run, output, quick),
        outputs=(output,),
        arguments=(*SELECTION_FIELDS, *arguments),
        needs=needs,
        folders=(f"sweeps/{name}",),
        reads=(TRAIN, BEHAVIOURS) if name == "frontier" else (),
        quick_seconds=seconds,
        applies=_is_whole,
    )


def _is_whole(request: Request) -> bool:
    """A plan for a model from which heads were pruned is made from its teacher."""
    kept = KeptFile.read(_model_folder(request))
    return kept is None or kept.whole_heads


def _model_folder(request: Request) -> Path:
    assert request.model is not None  # `resolve` filled it in
    return Path(request.model)


def _run_plan(options: PlanOptions, output: str, quick: Effort, context: StageContext) -> None:
    from qt_bert.planning.budgets import parse_budget
    from qt_bert.planning.make_plan import make_plan
    from qt_bert.planning.runs import check_removals
    from qt_bert.planning.task import Functions, Sample, functions_of

    record, request = context.folder.record, context.request
    task, functions = _task(context, quick, options.limit, "sweeps/plan"), Functions("none")
    labels, model = task.scorer.checkpoint.settings.labels, _model_folder(request)
    # The probes of the same run that the plan needs name the functions of heads; `redundancy` left every
    # head out on the same pairs.
    if needs := record.stages["plan"].needs:
        names = [name.removeprefix("probe:") for name in needs]
        functions = functions_of(model, task.teacher.sha256, context.folder.path, names)
    elif "plan" in record.inputs.arguments:  # alone in its folder, whose key has the functions
        functions = functions_of(model, task.teacher.sha256, options.run)
    task = replace(
        task,
        functions=functions,
        held_out=[
            Sample.of(path.name, sha256_file(path), pairs)
            for path, pairs in read_held_out(request, labels, split_of(context).discovery)
        ],
    )
    chosen_on_all = options.limit is None and task.effort.choosing is None
    if "probe:redundancy" in needs and chosen_on_all:
        task.singles_work = context.folder.work("sweeps/redundancy")
        if not request.full:
            from qt_bert.probes.contests import quick_pairs

            ref, taken = task.discovery.ref, quick_pairs(task.discovery.pairs, labels)
            task.discovery = Sample.of(ref.name, ref.sha256, taken)
    context.guards.update(check_removals(task.scorer, task.discovery.pairs[:64]))
    make_plan(task, parse_budget(options.budget)).write(context.folder.file(output))


def _task(context: StageContext, quick: Effort, limit: int | None, work: str) -> PlanTask:
    """The model, and discovery and validation cut to the effort and to `limit`."""
    from qt_bert.planning.task import PlanTask

    scorer, request = scorer_of(context), context.request
    effort, seed = FULL if request.full else quick, request.seed
    discovery, validation = _both(context)
    whole = scorer.checkpoint.settings.labels.logits == 1
    choosing, testing = (
        min((most for most in (limit, own) if most is not None), default=None)
        for own in (effort.choosing, effort.testing)
    )
    return PlanTask(
        scorer=scorer,
        discovery=discovery.smaller(choosing, whole_queries=whole, seed=seed),
        validation=validation.smaller(
            testing, whole_queries=whole or effort.testing is not None, seed=seed
        ),
        work=context.folder.work(work),
        effort=effort,
        resamples=request.resamples,
        seed=seed,
    )


@dataclass(frozen=True, kw_only=True)
class FrontierOptions:
    """The options of a frontier beside the request.

    `limit` as of a plan. Each shape is trained for `trial` steps on `pairs_to_train`, without files for none.
    `in_report`: under `full` the trial is on the pairs that ship, where the run's own pairs ship.
    """

    limit: int | None = None
    trial: int | None = None
    pairs_to_train: tuple[Path, ...] = ()
    in_report: bool = False

    def __post_init__(self) -> None:
        if not self.pairs_to_train and self.trial is not None:
            raise ArgumentError("--trial goes with --pairs-to-train FILE, which names no file")
        if missing := next((path for path in self.pairs_to_train if not path.is_file()), None):
            raise ArgumentError(f"--pairs-to-train {missing}: no such file")

    def sources(self, request: Request) -> tuple[PairSource, ...]:
        """The training pairs of the trial, read as the request's pairs are; none without a trial."""
        from qt_bert.training.recipes import PairSource

        files = self.pairs_to_train
        if self.in_report:
            # A student keeps the labels of its teacher's folder, so that others cannot be tried.
            tried = request.full and not request.model_grades
            on_shipped = tried and is_shipped(request.validation_file, TEST) and ships(TRAIN)
            files = (shipped(TRAIN),) if on_shipped else ()
        readers = (replace(request.reader, limit=None).beside(file) for file in files)
        hows = ({k: v for k, v in asdict(how).items() if v is not None} for how in readers)
        return tuple(PairSource(file, **how) for file, how in zip(files, hows, strict=True))

    def arguments(self) -> dict[str, Any]:
        """As arguments of a run."""
        return {
            "limit": self.limit,
            "trial": self.trial,
            "pairs_to_train": [sha256_file(path) for path in self.pairs_to_train],
        }


def _run_frontier(
    options: FrontierOptions, output: str, quick: Effort, context: StageContext
) -> None:
    from qt_bert.planning.frontier import make_frontier
    from qt_bert.planning.runs import check_removals
    from qt_bert.planning.trial import STEPS, TrialOptions

    request = context.request
    task = _task(context, quick, options.limit, "sweeps/frontier")
    context.guards.update(check_removals(task.scorer, task.discovery.pairs[:64]))
    trial = None
    if sources := options.sources(request):
        dev, _ = _both(context)
        trial = TrialOptions(
            steps=options.trial or STEPS,
            sources=sources,
            dev=dev.smaller(options.limit, whole_queries=True, seed=request.seed),
        )
    make_frontier(task, trial).write(context.folder.file(output))


def _both(context: StageContext) -> tuple[Sample, Sample]:
    """Discovery and validation, as the probes have them."""
    from qt_bert.planning.task import Sample

    request, split = context.request, split_of(context)
    files = (request.discovery_file, request.validation_file)
    note_rejected(split.rejected)
    discovery, validation = (
        Sample.of(path.name, sha256_file(path), pairs)
        for path, pairs in zip(files, split[:2], strict=True)
    )
    return discovery, validation


def note_rejected(rejected: int) -> None:
    """Print how many rows were rejected, where no list of them is written."""
    if rejected:
        note_once(f"{counted(rejected, 'row')} rejected; `qt-bert check --rejects` lists them")


# The first stage: the model's quality, on all pairs in every profile.


def write_evaluation(context: StageContext) -> None:
    """Write `evaluation.json`: the figures, the reasons of the examples, card and learning curve.

    Rows that are no pairs, if there are any, are listed in `rejects.tsv`.
    """
    from qt_bert.ablation.explain import with_reasons
    from qt_bert.data.segmenters import segmenter
    from qt_bert.scoring.evaluate import SLICE_COLUMNS, evaluation_json
    from qt_bert.scoring.judge import judge_file

    request, scorer = context.request, scorer_of(context)
    rejects = context.folder.file("rejects.tsv")
    judged = judge_file(request.validation_file, request.reader, scorer, rejects_path=rejects)
    result = evaluation_json(
        judged,
        scorer,
        request.validation_file,
        by=tuple(name for name in SLICE_COLUMNS if name in judged.pairs[0].extra),
        resamples=request.resamples,
        seed=request.seed,
    )
    cut = segmenter(request.segmenter, userdict=request.userdict)
    result["examples"] = with_reasons(result["examples"], scorer, cut, context.guards)
    card = scorer.checkpoint.folder / "README.md"
    result["card"] = card.read_text("utf-8", errors="replace") if card.is_file() else None
    write_json(context.folder.file("evaluation.json"), result)


# All stages of a report.


BUDGET = "heads=0.6"
"""Of the plan in a report."""


def stages() -> list[Stage]:
    """All stages of `qt-bert report`, in the order in which they run."""
    evaluation = Stage(
        name="evaluation",
        order=10,
        run=write_evaluation,
        outputs=("evaluation.json",),
        arguments=EVALUATION_FIELDS,
        quick_seconds=12,
    )
    each = [probe_stage(probe) for probe in probes()]
    plan = plan_stage(
        PlanOptions(budget=BUDGET),
        folder="plan",
        order=5_000,
        # A stage can only need stages that every run has.
        needs=tuple(
            f"probe:{probe.name}" for probe in probes() if not (probe.needs_base or probe.only_full)
        ),
        quick=IN_REPORT,
    )
    of_report = FrontierOptions(in_report=True)
    frontier = plan_stage(of_report, folder="plan", order=5_010, quick=FRONTIER_IN_REPORT)
    return sorted([evaluation, *each, plan, frontier], key=lambda stage: stage.order)


# Running them: a report, one probe, a plan or a frontier.


def run_report(
    request: Request,
    out: Path,
    only: Sequence[str] | None = None,
    *,
    draw: Callable[[Path], Path],
    scorer: Scorer | None = None,
    resume: bool = False,
    overwrite: bool = False,
    notify: Callable[[str], None] = lambda line: None,
) -> tuple[Path, tuple[str, ...]]:
    """Run a report's stages, or the evaluation and `only` some, in the run folder `out`; the page that `draw`
    makes of the folder, and the names of the stages that had to run.

    `request` is resolved; `scorer` is its model, if that is open already. `notify` gets the forecast, what
    is left out without a base, and the page so far when a stage fails. Raises RunFolderError where the flags
    do not fit what lies in `out`, or a result there that is not requested would become stale; else as the
    stages do.
    """
    names = None if only is None else ["evaluation", *only]
    if names is None and request.base is None:
        left_out = ", ".join(probe.name for probe in probes() if probe.needs_base)
        notify(
            f"left out: {left_out}: a comparison with the model before fine-tuning (--base FOLDER)"
        )
    _, ran = _run_requested(
        request,
        out,
        names,
        scorer,
        resume=resume,
        overwrite=overwrite,
        notify=notify,
        failed=lambda: notify(f"what is done so far: {draw(out).resolve()}"),
    )
    return draw(out), ran


def run_one_probe(
    name: str,
    request: Request,
    out: Path,
    *,
    scorer: Scorer | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> tuple[ProbeResult, RunInputs]:
    """Run one probe, with those it needs, in the run folder `out`; its result, with its own q, and the inputs.

    Raises ArgumentError for a name that is no probe, and where it needs a base and there is none; else
    as `run_report` does.
    """
    probe = probe_named(name)
    if probe.needs_base and request.base is None:
        raise ArgumentError(
            f"the probe {name!r} compares with the model before fine-tuning; give its folder with --base"
        )
    folder, _ = _run_requested(request, out, [name], scorer, resume=resume, overwrite=overwrite)
    return ProbeResult.read(folder.file(probe_file(name))), folder.record.inputs


def _run_requested(
    request: Request,
    out: Path,
    names: Sequence[str] | None,
    scorer: Scorer | None,
    *,
    resume: bool,
    overwrite: bool,
    notify: Callable[[str], None] = lambda line: None,
    failed: Callable[[], None] = lambda: None,
) -> tuple[RunFolder, tuple[str, ...]]:
    """The run folder, and the names of the stages that had to run; `failed` is called when one fails."""
    chosen = select(stages(), request, names)
    folder = RunFolder.open(out, run_inputs(request), resume=resume, overwrite=overwrite)
    context = _context(folder, request, scorer)
    try:
        ahead = forecast(chosen, context)
        notify(ahead.text)
        label = names[0] if names is not None and len(names) == 1 else "report"
        with progress(ahead.runs or None, label, "runs") as shown:
            return folder, run_stages(chosen, context, shown, ahead.share, stages())
    except (QtBertError, KeyboardInterrupt):
        # A page that cannot be drawn must not hide what stopped the run.
        with suppress(QtBertError):
            failed()
        raise


def _context(folder: RunFolder, request: Request, scorer: Scorer | None) -> StageContext:
    """The context of a run; the counts of an open `scorer` start from 0."""
    shared = {} if scorer is None else {"scorer": scorer.fresh()}
    return StageContext(folder=folder, request=request, shared=shared)


def run_plan(
    options: PlanOptions,
    request: Request,
    out: Path,
    *,
    scorer: Scorer | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Plan:
    """Make the plan in the folder `out`, or resume it under `resume`, and return it.

    The folder is a run of one stage: `run.json` holds its inputs, `sweeps/` what survives a kill. `request`
    and `scorer` as for `run_report`. Raises RunFolderError where the flags do not fit what lies there,
    ArgumentError for a budget that is invalid or cannot be met, PairFileError for a file that cannot be read.
    """
    from qt_bert.models.loading import load_config
    from qt_bert.planning.budgets import count_kept, parse_budget

    model = _model_folder(request)
    # A budget that cannot be met is refused before a folder is made.
    budget, config = parse_budget(options.budget), load_config(model)
    layers, heads = int(config.num_hidden_layers), int(config.num_attention_heads)
    if budget.kind_of == "heads":
        groups = getattr(config, "num_key_value_heads", None) or heads
        count_kept(budget, layers * heads, heads // groups)
    else:
        count_kept(budget, layers)
    held_out = ("held_out", "held_out_columns", "held_out_grades")
    stage = plan_stage(options, arguments=("plan", *held_out))
    folder = _run_alone(stage, options.arguments(model), request, out, scorer, resume, overwrite)
    return Plan.read(folder.file("plan.json"))


def run_frontier(
    options: FrontierOptions,
    request: Request,
    out: Path,
    *,
    scorer: Scorer | None = None,
    resume: bool = False,
    overwrite: bool = False,
) -> Frontier:
    """Measure the frontier in the folder `out`, or resume it, and return it; as `run_plan` does."""
    stage = plan_stage(options, arguments=("frontier",))
    folder = _run_alone(stage, options.arguments(), request, out, scorer, resume, overwrite)
    return Frontier.read(folder.file(FRONTIER))


def _run_alone(
    stage: Stage,
    arguments: dict[str, Any],
    request: Request,
    out: Path,
    scorer: Scorer | None,
    resume: bool,
    overwrite: bool,
) -> RunFolder:
    """The folder of a run of one stage, whose own `arguments` are the run's argument of its name."""
    if not stage.applies(request):
        raise ArgumentError(f"{request.model} was pruned itself; make the plan from its teacher")
    inputs = run_inputs(request.only(stage.arguments))
    inputs = replace(inputs, arguments={**inputs.arguments, stage.name: arguments})
    folder = RunFolder.open(out, inputs, resume=resume, overwrite=overwrite)
    if others := sorted(folder.record.stages.keys() - {stage.name}):
        raise RunFolderError(
            f"{out} holds {', '.join(others)} of another run; choose another --out, or remove it first"
        )
    # A page of another plan must not outlive this one's being stopped.
    folder.file(PAGE).unlink(missing_ok=True)
    run_stages([stage], _context(folder, request, scorer))
    return folder
