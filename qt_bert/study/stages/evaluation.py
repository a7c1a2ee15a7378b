"""The first stage: how well the model grades the pairs, on all of them in every profile."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from qt_bert.files import write_json
from qt_bert.study.context import StudyContext
from qt_bert.study.stage import STAGES, Stage


def write_evaluation(context: StudyContext, name: str) -> None:
    """Write the file `name`: the figures, why the examples have their grades, card and learning curve."""
    from qt_bert.pairs import segmenter
    from qt_bert.scoring.evaluate import evaluation_json
    from qt_bert.study.inputs import judged_by, scorer_of
    from qt_bert.study.reasons import with_reasons
    from qt_bert.training.runlog import read_log

    scorer = scorer_of(context)
    judged = judged_by(context)
    found = evaluation_json(
        judged,
        scorer,
        context.pairs,
        by=_columns(judged.pairs[0].extra),
        resamples=context.argument("resamples"),
        seed=context.argument("seed"),
    )
    name_of_segmenter = context.folder.record.inputs.segmenter or "jieba"
    cut = segmenter(name_of_segmenter, userdict=context.files.userdict)
    found["examples"] = with_reasons(found["examples"], scorer, cut, context.guards)
    folder = scorer.checkpoint.folder
    found["card"] = _card(folder)
    found["learning_curve"] = read_log(folder / "training_log.jsonl") or None
    write_json(context.folder.file(name), found)


def _columns(extra: Any) -> tuple[str, ...]:
    """Columns that cut the shipped set into slices; files without them have none."""
    return tuple(name for name in ("field", "tags") if name in extra)


def _card(folder: Path) -> str | None:
    path = folder / "README.md"
    return path.read_text(encoding="utf-8") if path.exists() else None


ARGUMENTS = ("reader", "dtype", "max_length", "model_grades", "resamples", "seed", "userdict")
"""What an evaluation depends on, beside model and pairs."""

STAGES.add(
    Stage(
        name="evaluation",
        order=10,
        run=partial(write_evaluation, name="evaluation.json"),
        outputs=("evaluation.json",),
        arguments=ARGUMENTS,
        quick_seconds=15,
    )
)
