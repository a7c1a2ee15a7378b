"""What the stages of one run share, opened when the first of them asks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from qt_bert.files import sha256_file
from qt_bert.pairs.options import ReaderOptions
from qt_bert.results.kept import KeptFile
from qt_bert.results.probe import ModelRef, PairsRef
from qt_bert.study.context import StudyContext
from qt_bert.study.record import RunInputs

SPLIT_ARGUMENTS = (
    "reader",
    "dtype",
    "max_length",
    "model_grades",
    "resamples",
    "seed",
    "profile",
    "discovery",
)
"""What every stage depends on that chooses on discovery and tests on validation."""

HEADS_GONE = "heads_gone"
"""The argument that says whether heads were pruned from the model of the run."""

if TYPE_CHECKING:
    from qt_bert.scoring.bulk import Scorer
    from qt_bert.scoring.judge import Judged


def scorer_of(context: StudyContext) -> Scorer:
    """The run's checkpoint, ready to score."""

    def build() -> Scorer:
        from qt_bert.encoder import open_checkpoint
        from qt_bert.scoring.bulk import Scorer

        checkpoint = open_checkpoint(
            context.model,
            dtype=context.argument("dtype"),
            model_grades=context.argument("model_grades"),
        )
        return Scorer(checkpoint, max_length=context.argument("max_length"))

    return context.shared("scorer", build)


def judged_by(context: StudyContext) -> Judged:
    """All graded pairs of the run, judged by its checkpoint.

    Rows that are no pairs, if there are any, are listed in `rejects.tsv`.
    """

    def judge() -> Judged:
        from qt_bert.scoring.judge import judge_file

        rejects = context.folder.file("rejects.tsv")
        return judge_file(
            context.pairs, reader_options(context), scorer_of(context), rejects_path=rejects
        )

    return context.shared("judged", judge)


def reader_options(context: StudyContext) -> ReaderOptions:
    """The run's reader options."""
    return ReaderOptions(**context.argument("reader"))


def has_pruned_heads(model: Path) -> bool:
    """Whether heads are gone from the model in this folder. Raises RunFolderError for a damaged file."""
    kept = KeptFile.read(model)
    return kept is not None and not kept.whole_heads


def run_inputs(
    model: Path, pairs: Path, arguments: Mapping[str, Any], segmenter: str | None = None
) -> RunInputs:
    """What decides a run: hashes of model and pairs, and the command's arguments.

    The model's hash covers every file of its folder, so that another calibration, meaning of the
    logits or card never answers from an old run. Raises CheckpointError for a folder that is no model.
    """
    from qt_bert.encoder.manifest import folder_sha256
    from qt_bert.encoder.verify import verify_folder

    verify_folder(model)
    return RunInputs(
        model=ModelRef(name=model.name, sha256=folder_sha256(model)),
        pairs=PairsRef(name=pairs.name, sha256=sha256_file(pairs)),
        arguments=arguments,
        segmenter=segmenter,
    )
