"""`qt_bert.json` beside a checkpoint: what its logits mean, its calibration, how it reads texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from qt_bert.data.pairs import GRADES, GradeMap, GradeSet
from qt_bert.data.templates import Template
from qt_bert.errors import CheckpointError
from qt_bert.files import read_json, write_json

_PRUNED, _APART = "qt_bert-pruned-", "qt_bert-offline-"


def mark(folder: Path) -> None:
    """Mark the model in `folder` as pruned, by a `model_type` that transformers refuses: under the
    family's own it might open the folder, whose config does not describe its layers, and silently give
    other grades."""
    path = folder / "config.json"
    config = read_json(path)
    write_json(path, config | {"model_type": _PRUNED + config["model_type"]})


def unmarked(config: dict[str, Any]) -> dict[str, Any]:
    """A config.json with the family's own type."""
    marked = str(config.get("model_type"))
    if not marked.startswith(_PRUNED):
        return config
    return config | {"model_type": marked.removeprefix(_PRUNED)}


def check_readable(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise CheckpointError for a model of `qt-bert train --offline-layers`, an option of older versions."""
    block = _stored(folder / CARD).get("offline")
    if block is not None or str(config.get("model_type")).startswith(_APART):
        raise CheckpointError(
            f"{folder}: its lowest layers read query and title apart (titles computed ahead), which this "
            "version no longer does; train a four-layer student instead: `qt-bert distill --shape "
            "layers=4`"
        )


CARD = "qt_bert.json"
MAX_LENGTH = 128
TEMPLATE_LENGTH = 512
"""Default tokens of a pair in a template, which takes some hundred of them."""


@dataclass(frozen=True)
class ModelLabels:
    """The meaning of the logits of a classifier.

    `grades[i]` is the set of grades of logit i; `grades` is None for ordered levels that are not grades
    and for one-logit models. `order[i]` is the index of output i in the folder's classifier, where
    outputs are not stored from the lowest to the highest.

    >>> labels = ModelLabels(3, grades=((5,), (1, 2), (3, 4))).ascending()
    >>> labels.grades, labels.values, labels.order
    (((1, 2), (3, 4), (5,)), [1.5, 3.5, 5.0], (1, 2, 0))
    """

    logits: int
    grades: tuple[GradeSet, ...] | None
    order: tuple[int, ...] | None = field(default=None, compare=False)

    @property
    def exact(self) -> bool:
        """True where logit i is grade i + 1."""
        return self.grades == tuple((g,) for g in GRADES)

    @property
    def levels(self) -> bool:
        """True for ordered levels that are no grades: labels are 0, 1, …, which `Pair.grades` counts from 1."""
        return self.grades is None and self.logits > 1

    @property
    def grade_step(self) -> float:
        """How far apart two of five grades are on the scale of the outputs: K levels have (K − 1) / 4 of one."""
        return (self.logits - 1) / 4 if self.levels else 1.0

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

    def ascending(self) -> ModelLabels:
        """The same with grades from the lowest to the highest."""
        order = tuple(sorted(range(self.logits), key=self.values.__getitem__))
        if self.grades is None or order == tuple(range(self.logits)):
            return self
        return ModelLabels(self.logits, tuple(self.grades[i] for i in order), order)


@dataclass(frozen=True)
class Reading:
    """How a model reads texts, overriding its folder.

    `template` as in `data.templates`; `token_types`: whether the model gets token types, yes or no
    (None: as transformers does); `allow_unknown`: whether its vocabulary may lack most characters.
    """

    template: str | None = None
    token_types: str | None = None
    allow_unknown: bool = False


@dataclass(frozen=True)
class ModelSettings:
    """The content of `qt_bert.json`."""

    labels: ModelLabels
    max_length: int = MAX_LENGTH
    calibration: Mapping[str, Any] | None = None
    template: Template | None = None
    token_types: bool | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        grades = self.labels.grades
        value: dict[str, Any] = {
            "schema": 1,
            "grades": None if grades is None else [list(g) for g in grades],
            "max_length": self.max_length,
            **self.rest,
        }
        if self.template:
            value["template"] = asdict(self.template)
        if self.token_types is not None:
            value["token_types"] = self.token_types
        if self.calibration:
            value["calibration"] = dict(self.calibration)
        write_json(folder / CARD, value)


def read_settings(
    folder: Path,
    logits: int,
    longest: int,
    model_grades: str | None = None,
    reading: Reading = Reading(),
) -> ModelSettings:
    """Settings of a checkpoint folder with `logits` outputs and room for `longest` tokens.

    `model_grades` (`0=1-2,1=3-4,2=5`) and `reading` override the file. Without grades in either, five logits are
    the five grades and any other number are ordered levels. Raises CheckpointError for an invalid file, or one
    that does not fit the model.
    """
    path = folder / CARD
    stored = _stored(path)
    grades = (
        _stored_grades(stored, logits, path)
        if model_grades is None
        else _requested_grades(model_grades, logits)
    )
    stored.pop("schema", None)
    stored.pop("grades", None)
    prompt, types = _reads(stored, path, reading)
    limit = stored.pop("max_length", MAX_LENGTH if prompt is None else TEMPLATE_LENGTH)
    if type(limit) is not int or limit < 1:
        raise CheckpointError(f"{path}: `max_length` is {limit!r}, not a number of tokens")
    calibration = stored.pop("calibration", None)
    if not isinstance(calibration, dict | None):
        raise CheckpointError(
            f"{path}: `calibration` is {calibration!r}, not an object; run qt-bert calibrate again"
        )
    labels = ModelLabels(logits, grades)
    return ModelSettings(labels, min(limit, longest), calibration, prompt, types, stored)


def tuned_settings(
    base: Path, labels: ModelLabels, max_length: int, reading: Reading = Reading()
) -> ModelSettings:
    """Settings of a model that is trained from the one in `base`: it reads texts as that does.

    Raises CheckpointError where `qt_bert.json` cannot be read.
    """
    stored = _stored(base / CARD)
    template, types = _reads(stored, base / CARD, reading)
    rest = {"allow_unknown": True} if stored.get("allow_unknown") is True else {}
    return ModelSettings(labels, max_length, None, template, types, rest)


def _reads(
    stored: dict[str, Any], path: Path, reading: Reading
) -> tuple[Template | None, bool | None]:
    """The template and whether token types are sent, by `reading`, else as `stored`, from which both go."""
    template = Template.read(stored.pop("template", None), f"{path}: `template`")
    if reading.template is not None:
        template = Template.from_option(reading.template)
    types = stored.pop("token_types", None)
    if not isinstance(types, bool | None):
        raise CheckpointError(f"{path}: `token_types` is {types!r}, neither true nor false")
    if reading.token_types is not None:
        types = reading.token_types == "yes"
    if reading.allow_unknown:
        stored["allow_unknown"] = True
    return template, types


def allows_unknown(folder: Path) -> bool:
    """Whether the vocabulary of the model in `folder` may lack most characters."""
    return _stored(folder / CARD).get("allow_unknown") is True


def lists_grades(folder: Path) -> bool:
    """Whether `qt_bert.json` has the grades of the outputs. Raises CheckpointError where it cannot be read."""
    return _stored(folder / CARD).get("grades") is not None


def store_calibration(folder: Path, calibration: Mapping[str, Any]) -> None:
    """Put `calibration` into `qt_bert.json`. Raises CheckpointError where it is no object."""
    stored = _stored(folder / CARD) or {"schema": 1}
    write_json(folder / CARD, stored | {"calibration": dict(calibration)})


def _stored(path: Path) -> dict[str, Any]:
    """The file's JSON object; empty where there is no file."""
    if not path.exists():
        return {}
    try:
        value = read_json(path)
    except ValueError as error:
        raise CheckpointError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return value


def _requested_grades(requested: str, logits: int) -> tuple[GradeSet, ...]:
    mapping = GradeMap.parse(requested)
    try:
        sets = tuple(mapping.grades_of(str(i)) for i in range(logits))
    except ValueError as error:
        raise CheckpointError(
            f"--model-grades {requested!r} does not name each of the {logits} logits ({error})"
        ) from error
    if len(mapping.sets) != logits:
        raise CheckpointError(f"--model-grades {requested!r} names more than {logits} logits")
    return sets


def _stored_grades(
    stored: Mapping[str, Any], logits: int, path: Path
) -> tuple[GradeSet, ...] | None:
    if "grades" not in stored:
        return tuple((g,) for g in GRADES) if logits == len(GRADES) else None
    value = stored["grades"]
    if value is None:
        return None
    if not isinstance(value, list):
        raise CheckpointError(
            f"{path}: `grades` is {value!r}; it must list the grades of each output, or be null"
        )
    if len(value) != logits:
        raise CheckpointError(
            f"{path}: `grades` names {len(value)} outputs, the model has {logits}"
        )
    return tuple(
        _grade_set(grades, f"{path}: `grades` of output {i}") for i, grades in enumerate(value)
    )


def _grade_set(value: Any, where: str) -> GradeSet:
    if not isinstance(value, list) or not value:
        raise CheckpointError(f"{where} is {value!r}, not a list of at least one grade")
    for grade in value:
        if type(grade) is not int or grade not in GRADES:
            raise CheckpointError(f"{where}: {grade!r} is not a grade from 1 to 5")
    return tuple(sorted(set(value)))
