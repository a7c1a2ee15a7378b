"""`qt_bert.json` beside a checkpoint: which grades its logits mean, its length, its calibration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from qt_bert.errors import CheckpointError
from qt_bert.files import read_json, write_json
from qt_bert.pairs import GRADES, GradeMap, GradeSet

CARD = "qt_bert.json"
MAX_LENGTH = 128


@dataclass(frozen=True)
class ModelLabels:
    """What the logits of a classifier mean.

    `grades[i]` is the set of grades logit i stands for; `grades` is None for levels that are not
    grades (ordered, so called) and for one-logit models.
    """

    logits: int
    grades: tuple[GradeSet, ...] | None

    @property
    def exact(self) -> bool:
        """True where logit i is grade i + 1."""
        return self.grades == tuple((g,) for g in GRADES)

    @property
    def names(self) -> list[str]:
        """One short name a logit: `1` … `5` for grades, `0` … for levels."""
        if self.exact:
            return [str(g) for g in GRADES]
        return [str(i) for i in range(self.logits)]

    @property
    def values(self) -> list[float]:
        """The number each logit adds to the expected grade or level, weighted by its probability."""
        if self.grades is None:
            return [float(i) for i in range(self.logits)]
        return [sum(grades) / len(grades) for grades in self.grades]


@dataclass(frozen=True)
class ModelSettings:
    """The content of `qt_bert.json`."""

    labels: ModelLabels
    max_length: int = MAX_LENGTH
    calibration: Mapping[str, Any] | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        grades = self.labels.grades
        value: dict[str, Any] = {
            "schema": 1,
            "grades": None if grades is None else [list(g) for g in grades],
            "max_length": self.max_length,
            **self.rest,
        }
        if self.calibration:
            value["calibration"] = dict(self.calibration)
        write_json(folder / CARD, value)


def read_settings(
    folder: Path, logits: int, longest: int, model_grades: str | None = None
) -> ModelSettings:
    """Settings of a checkpoint folder with `logits` outputs and room for `longest` tokens.

    `model_grades` (`0=1-2,1=3-4,2=5`) overrides the file. Without either, five logits are the five
    grades and any other number are ordered levels. Raises CheckpointError where they do not fit.
    """
    stored: dict[str, Any] = {}
    path = folder / CARD
    if path.exists():
        try:
            stored = dict(read_json(path))
        except ValueError as error:
            raise CheckpointError(f"{path}: not valid JSON ({error})") from error
    grades = _grades(stored, model_grades, logits, path)
    stored.pop("schema", None)
    stored.pop("grades", None)
    wanted = int(stored.pop("max_length", MAX_LENGTH))
    calibration = stored.pop("calibration", None)
    return ModelSettings(ModelLabels(logits, grades), min(wanted, longest), calibration, stored)


def _grades(
    stored: Mapping[str, Any], asked: str | None, logits: int, path: Path
) -> tuple[GradeSet, ...] | None:
    where = str(path)
    if asked is not None:
        mapping = GradeMap.parse(asked)
        try:
            sets: tuple[GradeSet, ...] | None = tuple(
                mapping.grades_of(str(i)) for i in range(logits)
            )
        except ValueError as error:
            raise CheckpointError(
                f"--model-grades {asked!r} does not name each of the {logits} logits ({error})"
            ) from error
        if len(mapping.sets) != logits:
            raise CheckpointError(f"--model-grades {asked!r} names more than {logits} logits")
        return sets
    if stored.get("grades"):
        sets = tuple(tuple(int(g) for g in grades) for grades in stored["grades"])
        if len(sets) != logits or any(g not in GRADES for grades in sets for g in grades):
            raise CheckpointError(
                f"{where}: `grades` names {len(sets)} outputs, the model has {logits}"
            )
        return sets
    if logits == len(GRADES) and "grades" not in stored:
        return tuple((g,) for g in GRADES)
    return None
