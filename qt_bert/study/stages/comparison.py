"""Two models side by side: the other one's evaluation, and every difference with its interval."""

from __future__ import annotations

from qt_bert.files import write_json
from qt_bert.probes.registry import probes
from qt_bert.study.compared import (
    COMPARED_ARGUMENTS,
    COMPARISON,
    EVALUATION,
    compared_context,
    compared_stage,
    has_compared,
)
from qt_bert.study.context import StudyContext
from qt_bert.study.stage import STAGES, Stage
from qt_bert.study.stages.evaluation import ARGUMENTS, write_evaluation


def run(context: StudyContext) -> None:
    """Write the other model's evaluation, and `comparison.json`.

    Raises ArgumentError where the two models' outputs mean different things.
    """
    from qt_bert.scoring.compare import check_comparable, comparison_json
    from qt_bert.study.inputs import judged_by, scorer_of

    other = compared_context(context)
    scorers = scorer_of(context), scorer_of(other)
    check_comparable(*scorers)
    write_evaluation(other, EVALUATION)
    found = comparison_json(
        judged_by(context),
        judged_by(other),
        *scorers,
        resamples=context.argument("resamples"),
        seed=context.argument("seed"),
    )
    write_json(context.folder.file(COMPARISON), found)


STAGES.add(
    Stage(
        name="comparison",
        order=20,
        run=run,
        outputs=(EVALUATION, COMPARISON),
        arguments=(*ARGUMENTS, *COMPARED_ARGUMENTS),
        quick_seconds=30,
        applies=has_compared,
    )
)
for probe in probes():
    STAGES.add(compared_stage(probe))
