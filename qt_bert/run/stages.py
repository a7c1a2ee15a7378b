"""The stages of `qt-bert report`: evaluation, probes, plan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qt_bert.codec import encode
from qt_bert.errors import ArgumentError, QtBertError
from qt_bert.files import sha256_file, write_json
from qt_bert.planning.task import FULL, IN_REPORT, QUICK, Effort
from qt_bert.probes.base import Context, Probe, run_probe
from qt_bert.probes.registry import probe_named, probes
from qt_bert.probes.split import HeldOutFile, described
from qt_bert.progress import progress
from qt_bert.results.evaluation import CarryingHead, Reason, TermChange
from qt_bert.results.plan import MEANS, Plan
from qt_bert.results.probe import ProbeResult
from qt_bert.run.folder import RunFolder, RunInputs
from qt_bert.run.inputs import Gathered
from qt_bert.run.stage import (
    GRADING_ARGUMENTS,
    HEADS_GONE,
    SPLIT_ARGUMENTS,
    Stage,
    StudyContext,
    forecast,
    pair_files,
    reader_options,
    run_study,
    scorer_of,
    select,
    split_of,
)

if TYPE_CHECKING:
    from qt_bert.data.segmenters import Segmenter
    from qt_bert.planning.task import PlanTask, Sample
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.scoring.explain import Explanation


# Why the examples of an evaluation have their grades: what moves them, and which heads carry it.


EXPLAINED, WITH_HEADS = 12, 3
"""Examples whose terms are explained, and how many of them with their heads, each a sweep of all."""

HEADS = 3


def with_reasons(
    examples: Sequence[dict[str, Any]],
    scorer: Scorer,
    segmenter: Segmenter,
    guards: dict[str, Any],
) -> list[dict[str, Any]]:
    """The first examples with a `reason` each; the others as they are.

    The figures of the checks of what is patched go into `guards`.
    """
    from qt_bert.scoring.explain import explain_pair

    scorer = scorer.fresh()  # what it has to cut was counted before
    explained = [
        explain_pair(one["query"], one["title"], scorer, segmenter) for one in examples[:EXPLAINED]
    ]
    heads = _heads(explained, scorer, guards)
    reasons = [
        {**example, "reason": encode(_reason(found, heads.get(place, ())))}
        for place, (example, found) in enumerate(zip(examples, explained, strict=False))
    ]
    return [*reasons, *examples[EXPLAINED:]]


def _heads(
    explained: Sequence[Explanation], scorer: Scorer, guards: dict[str, Any]
) -> dict[int, tuple[CarryingHead, ...]]:
    """The heads that restore most of the first examples that some term moves, by their place."""
    from qt_bert.ablation.explain import check_patches, clean_and_corrupted, restoring_heads

    notify = [(place, one, one.most_telling) for place, one in enumerate(explained)]
    asked = [(place, one, term) for place, one, term in notify if term is not None][:WITH_HEADS]
    if not asked:
        return {}
    couples = [clean_and_corrupted(one.query, one.title, scorer, term) for _, one, term in asked]
    figures = check_patches(scorer, [text for couple in couples for text in couple])
    guards["examples"] = figures
    found = {}
    for place, one, term in asked:
        carried = restoring_heads(one.query, one.title, scorer, term, figures).heads[:HEADS]
        found[place] = tuple(CarryingHead(head=head.head, share=head.share) for head in carried)
    return found


def _reason(found: Explanation, heads: tuple[CarryingHead, ...]) -> Reason:
    telling = found.most_telling
    return Reason(
        filler=found.filler,
        terms=tuple(
            TermChange(side=one.side, term=one.term, change=one.change, moved=one.moved)
            for one in found.terms
        ),
        told_by=None if telling is None else found.terms.index(telling),
        carried_by=heads,
    )


# A probe as a stage of a run.


def probe_stage(probe: Probe) -> Stage:
    """The stage `probe:NAME`, which writes `probes/NAME.json`.

    A probe that needs a base belongs only to runs that have one.
    """
    return Stage(
        name=f"probe:{probe.name}",
        order=100 + probe.order,
        run=partial(_run_probe, probe),
        outputs=(f"probes/{probe.name}.json",),
        arguments=(*SPLIT_ARGUMENTS, *probe.inputs),
        needs=tuple(f"probe:{name}" for name in probe.needs),
        folders=(f"sweeps/{probe.name}",),
        reads=probe.reads,
        quick_seconds=probe.quick_seconds,
        applies=lambda inputs: not probe.needs_base or inputs.arguments["base"] is not None,
    )


def _run_probe(probe: Probe, context: StudyContext) -> None:
    def find(name: str) -> ProbeResult:
        if name not in probe.needs:
            raise ArgumentError(f"the probe {probe.name!r} does not say that it needs {name!r}")
        return ProbeResult.read(context.folder.file(f"probes/{name}.json"))

    given = Context(
        label=probe.name,
        files=pair_files(context),
        work=context.folder.work(f"sweeps/{probe.name}"),
        open_model=lambda: scorer_of(context),
        read_pairs=lambda labels: split_of(context),
        full=context.argument("profile") == "full",
        seed=context.argument("seed"),
        resamples=context.argument("resamples"),
        segmenter_name=context.folder.record.inputs.segmenter or "jieba",
        guards=context.guards,
        find=find,
        **{name: getattr(context.files, name) for name in probe.inputs},
    )
    run_probe(probe, given).write(context.folder.file(f"probes/{probe.name}.json"))


# A plan as a stage: of a whole run, or alone in a folder.


_WORK = "sweeps/plan"


@dataclass(frozen=True, kw_only=True)
class PlanRequest:
    """What `qt-bert plan` is asked for.

    `held_out`: files to test on, each with the way to read it. `limit`: about so many pairs of
    discovery and of validation. `run`: the folder of a run whose probes say what the heads do.
    """

    budget: str
    replacement: Literal["zero", "mean"] = "zero"
    held_out: Sequence[HeldOutFile] = ()
    limit: int | None = None
    run: Path | None = None

    def arguments(self, model: Path) -> dict[str, Any]:
        """As arguments of a run; what the heads do is among them, for it stands in the plan."""
        from qt_bert.models.folder import weights_sha256
        from qt_bert.planning.task import functions_of

        functions = functions_of(model, weights_sha256(model), self.run)
        return {
            "budget": self.budget,
            "replacement": self.replacement,
            "limit": self.limit,
            "held_out": [{**described(one.path), **asdict(one.reader)} for one in self.held_out],
            "functions": functions.source,
            "sets": dict(functions.sets),
            "unstable": sorted(functions.unstable),
        }


def plan_stage(
    asked: PlanRequest,
    *,
    folder: str = "",
    order: int = 10,
    needs: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
    quick: Effort = QUICK,
) -> Stage:
    """The stage that writes `plan.json`, and mean head outputs beside it where the plan uses them.

    `folder` is theirs in the run's; `quick` is what the profile of that name takes.
    """
    names = ("plan.json", *([MEANS] if asked.replacement == "mean" else []))
    outputs = tuple(f"{folder}/{name}" if folder else name for name in names)
    return Stage(
        name="plan",
        order=order,
        run=partial(_run_plan, asked, outputs, quick),
        outputs=outputs,
        arguments=(*SPLIT_ARGUMENTS, *arguments),
        needs=needs,
        folders=(_WORK,),
        quick_seconds=18,
        applies=_has_all_heads,
    )


def _has_all_heads(inputs: RunInputs) -> bool:
    """Of a model that lost heads there is no plan: plans are made from its teacher."""
    return not inputs.arguments.get(HEADS_GONE)


def _run_plan(
    asked: PlanRequest, outputs: Sequence[str], quick: Effort, context: StudyContext
) -> None:
    from qt_bert.ablation.folder import write_means
    from qt_bert.planning.make_plan import make_plan
    from qt_bert.planning.runs import check_removals

    task = _task(asked, quick, context)
    context.guards.update(check_removals(task.scorer, task.discovery.pairs[:64], task.mask))
    plan = make_plan(task)
    if task.means is not None:
        write_means(context.folder.file(outputs[1]), task.means)
    plan.write(context.folder.file(outputs[0]))


def _task(asked: PlanRequest, quick: Effort, context: StudyContext) -> PlanTask:
    from qt_bert.planning.budgets import parse_budget
    from qt_bert.planning.task import PlanTask, Sample, functions_of

    scorer = scorer_of(context)
    effort = FULL if context.argument("profile") == "full" else quick
    seed = context.argument("seed")
    discovery, validation = _both(context)
    labels = scorer.checkpoint.settings.labels
    held_out = [
        Sample.of(one.path.name, sha256_file(one.path), one.read(labels)) for one in asked.held_out
    ]
    for one in held_out:
        _check_apart(discovery, one)
    choosing = _fewer(asked.limit, effort.choosing)
    return PlanTask(
        scorer=scorer,
        budget=parse_budget(asked.budget),
        replacement=asked.replacement,
        discovery=discovery.smaller(choosing, whole_queries=labels.logits == 1, seed=seed),
        validation=validation.smaller(asked.limit, whole_queries=labels.logits == 1, seed=seed),
        held_out=held_out,
        functions=functions_of(context.model, scorer.checkpoint.sha256, asked.run),
        work=context.folder.work(_WORK),
        singles_work=_of_probes(asked, choosing, context),
        effort=effort,
        resamples=context.argument("resamples"),
        seed=seed,
    )


def _of_probes(asked: PlanRequest, choosing: int | None, context: StudyContext) -> Path | None:
    """Where `redundancy` of this very run leaves every head out on the same pairs, in the same way."""
    if asked.run != context.folder.path or choosing is not None or asked.replacement != "zero":
        return None
    return context.folder.work("sweeps/redundancy")


def _fewer(one: int | None, other: int | None) -> int | None:
    """The smaller number, where there is one."""
    return min((n for n in (one, other) if n is not None), default=None)


def _both(context: StudyContext) -> tuple[Sample, Sample]:
    """Discovery and validation, as the probes have them."""
    from qt_bert.planning.task import Sample

    files, split = pair_files(context), split_of(context)
    halves = (
        (files.discovery or files.pairs, split.discovery),
        (files.pairs, split.validation),
    )
    one, other = (Sample.of(path.name, sha256_file(path), pairs) for path, pairs in halves)
    _check_apart(one, other)
    return one, other


def _check_apart(discovery: Sample, tested: Sample) -> None:
    """Raise ArgumentError where a query to choose on is also one to test on."""
    both = {pair.query for pair in discovery.pairs} & {pair.query for pair in tested.pairs}
    if both:
        raise ArgumentError(
            f"{len(both):,} queries to choose on (of {discovery.ref.name}), such as {min(both)!r}, "
            f"are also in {tested.ref.name}: what is chosen on a query cannot be tested on it; "
            "give other pairs"
        )


# The first stage: how well the model grades the pairs, on all of them in every profile.


def write_evaluation(context: StudyContext) -> None:
    """Write `evaluation.json`: the figures, why the examples have their grades, card and learning curve.

    Rows that are no pairs, if there are any, are listed in `rejects.tsv`.
    """
    from qt_bert.data.segmenters import segmenter
    from qt_bert.scoring.evaluate import evaluation_json
    from qt_bert.scoring.judge import judge_file

    scorer, rejects = scorer_of(context), context.folder.file("rejects.tsv")
    judged = judge_file(context.pairs, reader_options(context), scorer, rejects_path=rejects)
    found = evaluation_json(
        judged,
        scorer,
        context.pairs,
        # Columns that cut the shipped set into slices; files without them have none.
        by=tuple(name for name in ("field", "tags") if name in judged.pairs[0].extra),
        resamples=context.argument("resamples"),
        seed=context.argument("seed"),
    )
    name_of_segmenter = context.folder.record.inputs.segmenter or "jieba"
    cut = segmenter(name_of_segmenter, userdict=context.files.userdict)
    found["examples"] = with_reasons(found["examples"], scorer, cut, context.guards)
    card = scorer.checkpoint.folder / "README.md"
    found["card"] = card.read_text(encoding="utf-8") if card.exists() else None
    write_json(context.folder.file("evaluation.json"), found)


# All stages of a report, and what runs them.


BUDGET = "heads=0.6"
"""Of the plan that a report holds."""


def stages() -> list[Stage]:
    """All stages of `qt-bert report`, in the order in which they run."""
    evaluation = Stage(
        name="evaluation",
        order=10,
        run=write_evaluation,
        outputs=("evaluation.json",),
        arguments=(*GRADING_ARGUMENTS, "userdict"),
        quick_seconds=4,
    )
    each = [probe_stage(probe) for probe in probes()]
    plan = replace(_plan_of_run(PlanRequest(budget=BUDGET)), run=_run_plan_of_run)
    return sorted([evaluation, *each, plan], key=lambda stage: stage.order)


def _plan_of_run(asked: PlanRequest) -> Stage:
    # Probes that need a base do not belong to every run, and a stage can only need what does.
    return plan_stage(
        asked,
        folder="plan",
        order=5_000,
        needs=tuple(f"probe:{probe.name}" for probe in probes() if not probe.needs_base),
        quick=IN_REPORT,
    )


def _run_plan_of_run(context: StudyContext) -> None:
    # Of a plan alone no probe has run: what the heads do is then known from the model's folder.
    probed = any(context.folder.file("probes").glob("*.json"))
    asked = PlanRequest(budget=BUDGET, run=context.folder.path if probed else None)
    _plan_of_run(asked).run(context)


def run_parts(
    gathered: Gathered,
    out: Path,
    only: Sequence[str] | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    notify: Callable[[str], None] = lambda line: None,
    stopped: Callable[[], None] = lambda: None,
) -> tuple[RunFolder, tuple[str, ...]]:
    """Run a report's stages, or `only` some, in the run folder `out`; the folder, and what had to run.

    `notify` hears the forecast; `stopped` is called where a stage does not come to its end. Raises
    RunFolderError where the flags do not fit what lies in `out`, or what lies there and is not asked for
    now would become stale; else as the stages do.
    """
    chosen = select(stages(), gathered.inputs, only)
    folder = RunFolder.open(out, gathered.inputs, resume=resume, overwrite=overwrite)
    context = gathered.context(folder)
    try:
        ahead = forecast(chosen, context)
        notify(ahead.text)
        with progress(ahead.runs or None, "report", "runs") as shown:
            beside = () if only is None else stages()
            return folder, run_study(chosen, context, shown, ahead.share, beside)
    except (QtBertError, KeyboardInterrupt):
        stopped()
        raise


def run_one_probe(
    name: str, gathered: Gathered, out: Path, *, resume: bool = False, overwrite: bool = False
) -> ProbeResult:
    """Run one probe, with those it needs, in the run folder `out`; its result, with its own q.

    Raises ArgumentError for a name that is no probe, and where it needs a base and there is none; else
    as `run_parts` does.
    """
    probe = probe_named(name)
    if probe.needs_base and gathered.files.base is None:
        raise ArgumentError(
            f"the probe {name!r} compares with the model before fine-tuning; give its folder with --base"
        )
    folder, _ = run_parts(gathered, out, [name], resume=resume, overwrite=overwrite)
    return ProbeResult.read(folder.file(f"probes/{name}.json"))


PAGE = "plan.html"
"""The plan to read, drawn once it is made."""


def run_plan(
    asked: PlanRequest,
    gathered: Gathered,
    out: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
) -> Plan:
    """Make the plan in the folder `out`, or under `resume` go on with it, and return it.

    The folder is a run of one stage: `run.json` says what it was made from, `sweeps/` holds what
    survives a kill. Raises RunFolderError where the flags do not fit what lies there, ArgumentError
    for a budget that is invalid or cannot be met, PairFileError for a file that cannot be read.
    """
    from qt_bert.models.loading import load_config
    from qt_bert.planning.budgets import count_kept, parse_budget

    # What cannot be met is refused before a folder is made.
    budget, config = parse_budget(asked.budget), load_config(gathered.model)
    layers, heads = int(config.num_hidden_layers), int(config.num_attention_heads)
    if budget.kind_of == "heads":
        groups = getattr(config, "num_key_value_heads", None) or heads
        count_kept(budget, layers * heads, heads // groups)
    if budget.kind_of == "layers":
        count_kept(budget, layers)
    stage = plan_stage(asked, arguments=("plan",))
    if not stage.applies(gathered.inputs):
        raise ArgumentError(f"{gathered.model} was pruned itself; make the plan from its teacher")
    arguments = {**gathered.inputs.arguments, "plan": asked.arguments(gathered.model)}
    inputs = replace(gathered.inputs, arguments=arguments)
    folder = RunFolder.open(out, inputs, resume=resume, overwrite=overwrite)
    # What is drawn there may be of another plan, and must not outlive this one's being stopped.
    folder.file(PAGE).unlink(missing_ok=True)
    run_study([stage], gathered.context(folder))
    return Plan.read(folder.file("plan.json"))
