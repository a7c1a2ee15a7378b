"""The stages of a run, their folder, reuse and resume."""

from qt_bert.sources import source_hash
from qt_bert.study.context import StudyContext
from qt_bert.study.record import RunInputs, RunRecord, StageRecord
from qt_bert.study.run_folder import RunFolder
from qt_bert.study.stage import STAGES, Stage, StageRegistry
from qt_bert.study.study import run_study

__all__ = [
    "STAGES",
    "RunFolder",
    "RunInputs",
    "RunRecord",
    "Stage",
    "StageRecord",
    "StageRegistry",
    "StudyContext",
    "run_study",
    "source_hash",
]
