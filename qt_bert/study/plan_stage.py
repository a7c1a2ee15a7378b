"""A plan as a stage: of a whole run, or alone in a folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from qt_bert.errors import ArgumentError
from qt_bert.files import sha256_file
from qt_bert.pairs import ReaderOptions
from qt_bert.planning.effort import FULL, QUICK, Effort
from qt_bert.probes.split import PairFiles
from qt_bert.results.plan import MEANS
from qt_bert.study.context import StudyContext
from qt_bert.study.inputs import HEADS_GONE, SPLIT_ARGUMENTS, reader_options, scorer_of
from qt_bert.study.record import RunInputs
from qt_bert.study.stage import Stage

if TYPE_CHECKING:
    from qt_bert.pairs import Pair
    from qt_bert.planning.task import PlanTask, Sample
    from qt_bert.scoring.bulk import Scorer

NAME = "plan"
ASKED = "plan"
"""The argument that holds what else a plan alone was asked."""

_WORK = "sweeps/plan"


@dataclass(frozen=True, kw_only=True)
class PlanAsked:
    """What `qt-bert plan` is asked for.

    `held_out`: files to test on, each with the way to read it. `limit`: about so many pairs of
    discovery and of validation. `run`: the folder of a run whose probes say what the heads do.
    `offline` and `control`: folders of a retrained offline model and of its control, or neither.
    """

    budget: str
    replacement: Literal["zero", "mean"] = "zero"
    held_out: Sequence[tuple[Path, ReaderOptions]] = ()
    limit: int | None = None
    run: Path | None = None
    offline: Path | None = None
    control: Path | None = None

    @property
    def retrained(self) -> tuple[Path, Path] | None:
        """Both folders. Raises ArgumentError where one is given without the other."""
        if self.offline is None and self.control is None:
            return None
        if self.offline is None or self.control is None:
            raise ArgumentError(
                "--offline and --offline-control go together: a model and its control"
            )
        return self.offline, self.control

    def arguments(self, model: Path) -> dict[str, Any]:
        """As arguments of a run; what the heads do is among them, for it stands in the plan."""
        from qt_bert.encoder.manifest import folder_sha256, weights_sha256
        from qt_bert.planning.functions import functions_of

        functions = functions_of(model, weights_sha256(model), self.run)
        return {
            "budget": self.budget,
            "replacement": self.replacement,
            "limit": self.limit,
            "held_out": [
                {"name": path.name, "sha256": sha256_file(path), **asdict(reader)}
                for path, reader in self.held_out
            ],
            "functions": functions.source,
            "sets": dict(functions.sets),
            "unstable": sorted(functions.unstable),
            "retrained": [
                {"name": folder.name, "sha256": folder_sha256(folder)}
                for folder in self.retrained or ()
            ],
        }


def plan_stage(
    asked: PlanAsked,
    *,
    folder: str = "",
    order: int = 10,
    needs: tuple[str, ...] = (),
    arguments: tuple[str, ...] = (),
    quick: Effort = QUICK,
) -> Stage:
    """The stage that writes `plan.json`, and mean contexts beside it where the plan uses them.

    `folder` is theirs in the run's; `quick` is what the profile of that name takes.
    """
    names = ("plan.json", *([MEANS] if asked.replacement == "mean" else []))
    outputs = tuple(f"{folder}/{name}" if folder else name for name in names)
    return Stage(
        name=NAME,
        order=order,
        run=partial(_run, asked, outputs, quick),
        outputs=outputs,
        arguments=(*SPLIT_ARGUMENTS, *arguments),
        needs=needs,
        folders=(_WORK,),
        quick_seconds=60,
        applies=_has_all_heads,
    )


def _has_all_heads(inputs: RunInputs) -> bool:
    """Of a model that lost heads there is no plan: plans are made from its teacher."""
    return not inputs.arguments.get(HEADS_GONE)


def _run(asked: PlanAsked, outputs: Sequence[str], quick: Effort, context: StudyContext) -> None:
    from qt_bert.ablation.means import write_means
    from qt_bert.planning.choice.runs import check_removals
    from qt_bert.planning.make_plan import make_plan

    task = _task(asked, quick, context)
    context.guards.update(check_removals(task.scorer, task.discovery.pairs[:64], task.mask))
    plan = make_plan(task)
    if plan.offline is not None and plan.offline.guards:
        context.guards["offline"] = plan.offline.guards
    if task.means is not None:
        write_means(context.folder.file(outputs[1]), task.means)
    plan.write(context.folder.file(outputs[0]))


def _task(asked: PlanAsked, quick: Effort, context: StudyContext) -> PlanTask:
    from qt_bert.planning.budget import parse_budget
    from qt_bert.planning.functions import functions_of
    from qt_bert.planning.task import PlanTask, RetrainedPair

    scorer = scorer_of(context)
    effort = FULL if context.argument("profile") == "full" else quick
    seed = context.argument("seed")
    one_logit = scorer.checkpoint.settings.labels.logits == 1
    discovery, validation = _both(context, scorer)
    held_out = [_held_out(path, reader, scorer) for path, reader in asked.held_out]
    for one in held_out:
        _check_apart(discovery, one)
    choosing = _fewer(asked.limit, effort.choosing)
    return PlanTask(
        scorer=scorer,
        budget=parse_budget(asked.budget),
        replacement=asked.replacement,
        discovery=discovery.smaller(choosing, whole_queries=one_logit, seed=seed),
        all_discovery=discovery.smaller(asked.limit, whole_queries=one_logit, seed=seed),
        validation=validation.smaller(asked.limit, whole_queries=one_logit, seed=seed),
        held_out=held_out,
        retrained=RetrainedPair(*asked.retrained) if asked.retrained else None,
        functions=functions_of(context.model, scorer.checkpoint.sha256, asked.run),
        work=context.folder.work(_WORK),
        effort=effort,
        resamples=context.argument("resamples"),
        seed=seed,
    )


def _fewer(one: int | None, other: int | None) -> int | None:
    """The smaller number, where there is one."""
    return min((n for n in (one, other) if n is not None), default=None)


def _both(context: StudyContext, scorer: Scorer) -> tuple[Sample, Sample]:
    """Discovery and validation, as the probes have them."""
    from qt_bert.planning.task import Sample

    files = PairFiles(
        pairs=context.pairs, reader=reader_options(context), discovery=context.files.discovery
    )
    labels = scorer.checkpoint.settings.labels
    split = context.shared("split", lambda: files.read(labels))
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


def _held_out(path: Path, reader: ReaderOptions, scorer: Scorer) -> Sample:
    from qt_bert.planning.task import Sample
    from qt_bert.scoring.judge import graded_pairs

    pairs: list[Pair]
    pairs, _ = graded_pairs(path, reader, scorer.checkpoint.settings.labels)
    return Sample.of(path.name, sha256_file(path), pairs)
