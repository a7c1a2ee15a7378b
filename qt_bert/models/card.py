"""`qt_bert.json` beside a checkpoint: what its logits mean, calibration, offline layers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from qt_bert.data.pairs import GRADES, GradeMap, GradeSet
from qt_bert.data.templates import Template
from qt_bert.errors import ArgumentError, CheckpointError
from qt_bert.files import read_json, write_json

# A cross-encoder whose lower layers read the texts apart, so that a title's half is computed once.
#
# In the layers below `Offline.layers` no row sees the other text (MICE, Vast et al. 2026, keeps the
# same rows apart), and a title's positions do not move with the query's length: what these layers
# make of a title is the same whatever the query. What it does to tensors stands in
# `models.batches`.


LEAST = {"layers": 0, "title_start": 3, "title_tokens": 1}
"""The least numbers: before a title stand the first token, one of the query, and a separator."""


@dataclass(frozen=True)
class Offline:
    """The block of an offline model.

    The layers 0 … `layers` − 1 read the texts apart (0: none does, and the positions alone are
    moved); a title begins at position `title_start`, or behind its query where that is longer, and is
    cut to `title_tokens` tokens, separators not counted.
    """

    layers: int
    title_start: int
    title_tokens: int

    @classmethod
    def read(cls, value: Any, path: Path) -> Offline | None:
        """From the object in `qt_bert.json`, the file `path`; None where there is none.

        Raises CheckpointError for what is no such object.
        """
        if value is None:
            return None
        if not isinstance(value, Mapping) or set(value) != set(LEAST):
            raise CheckpointError(
                f"{path}: `offline` is {value!r}, not an object of {', '.join(LEAST)}"
            )
        for name, least in LEAST.items():
            if type(value[name]) is not int or value[name] < least:
                raise CheckpointError(
                    f"{path}: `offline` has {name} {value[name]!r}, not a number from {least}"
                )
        return cls(**value)

    def checked(self, layers: int, where: str) -> Offline:
        """Itself. Raises ArgumentError where a model of `layers` layers has none left above."""
        if self.layers >= layers:
            raise ArgumentError(
                f"{where}: {self.layers} offline layers of {layers} leave no layer in which the "
                "texts meet"
            )
        return self

    def of_kept(self, layers: Sequence[int], where: str) -> Offline:
        """The block of a model that keeps these of the layers. Raises ArgumentError as `checked`."""
        below = sum(layer < self.layers for layer in layers)
        return Offline(below, self.title_start, self.title_tokens).checked(len(layers), where)

    def check_room(self, max_length: int, separators: int, name: str) -> None:
        """Raise ArgumentError where pairs of `max_length` tokens would cut titles query by query.

        `separators` are those of the title; `name` is the model's.
        """
        needed = self.title_start + self.title_tokens + separators
        if max_length < needed:
            raise ArgumentError(
                f"--max-length {max_length}: titles of {name} begin at position {self.title_start} "
                f"and have up to {self.title_tokens} tokens, whatever the query; give {needed} or "
                "more"
            )

    def describe(self) -> dict[str, int]:
        """The object in `qt_bert.json`."""
        return {name: getattr(self, name) for name in LEAST}


def layers_apart(offline: Offline | None) -> int:
    """How many layers read the texts apart; in a model without such a block none does."""
    return 0 if offline is None else offline.layers


# The type that a model has in its config.json by which no other library opens it.
#
# transformers knows neither the layers of an offline model that read the texts apart nor where titles
# begin, and of a pruned model's layers no more than the config says: under the family's own
# `model_type` it might open the folder and give other grades without a word. A type that it does not
# know it refuses, by name.


Mark = Literal["offline", "pruned"]
_MARKED = re.compile(r"qt_bert-(offline|pruned)-")


def mark(folder: Path, kind: Mark) -> None:
    """Give the model in `folder`, saved as its family's, the type of such a model."""
    path = folder / "config.json"
    config = read_json(path)
    write_json(path, config | {"model_type": f"qt_bert-{kind}-{config['model_type']}"})


def mark_of(config: dict[str, Any]) -> Mark | None:
    """What a config.json is marked as."""
    found = _MARKED.match(str(config.get("model_type")))
    return found[1] if found else None  # type: ignore[return-value]


def unmarked(config: dict[str, Any]) -> dict[str, Any]:
    """A config.json as its family has it."""
    if mark_of(config) is None:
        return config
    return config | {"model_type": _MARKED.sub("", config["model_type"])}


# `qt_bert.json` beside a checkpoint: which grades its logits mean, its length, its calibration.


CARD = "qt_bert.json"
MAX_LENGTH = 128
TEMPLATE_LENGTH = 512
"""Tokens of a pair by default, of a model that is asked in a template: some hundred are the template's."""


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
    offline: Offline | None = None
    template: Template | None = None
    rest: Mapping[str, Any] = field(default_factory=dict)

    def write(self, folder: Path) -> None:
        grades = self.labels.grades
        value: dict[str, Any] = {
            "schema": 1,
            "grades": None if grades is None else [list(g) for g in grades],
            "max_length": self.max_length,
            **self.rest,
        }
        if self.offline:
            value["offline"] = self.offline.describe()
        if self.template:
            value["template"] = asdict(self.template)
        if self.calibration:
            value["calibration"] = dict(self.calibration)
        write_json(folder / CARD, value)


def read_settings(
    folder: Path,
    logits: int,
    longest: int,
    model_grades: str | None = None,
    template: str | None = None,
) -> ModelSettings:
    """Settings of a checkpoint folder with `logits` outputs and room for `longest` tokens.

    `model_grades` (`0=1-2,1=3-4,2=5`) and `template` (a known name or a JSON file) override the file.
    Without either, five logits are the five grades and any other number are ordered levels. Raises CheckpointError where the file is not
    what it should be, or does not fit the model.
    """
    path = folder / CARD
    stored = _stored(path)
    grades = (
        _stored_grades(stored, logits, path)
        if model_grades is None
        else _asked_grades(model_grades, logits)
    )
    stored.pop("schema", None)
    stored.pop("grades", None)
    asking = Template.read(stored.pop("template", None), f"{path}: `template`")
    if template is not None:
        asking = Template.asked(template)
    wanted = stored.pop("max_length", MAX_LENGTH if asking is None else TEMPLATE_LENGTH)
    if type(wanted) is not int or wanted < 1:
        raise CheckpointError(f"{path}: `max_length` is {wanted!r}, not a number of tokens")
    calibration = stored.pop("calibration", None)
    if not isinstance(calibration, dict | None):
        raise CheckpointError(
            f"{path}: `calibration` is {calibration!r}, not an object; run qt-bert calibrate again"
        )
    offline = Offline.read(stored.pop("offline", None), path)
    labels = ModelLabels(logits, grades)
    return ModelSettings(labels, min(wanted, longest), calibration, offline, asking, stored)


def stored_block(folder: Path) -> Offline | None:
    """The block of the offline model in `folder`; None for any other.

    Raises CheckpointError where `qt_bert.json` or its block cannot be read.
    """
    path = folder / CARD
    return Offline.read(_stored(path).get("offline"), path)


def stored_template(folder: Path) -> Template | None:
    """How the model in `folder` is asked. Raises CheckpointError as `stored_block` does."""
    path = folder / CARD
    return Template.read(_stored(path).get("template"), f"{path}: `template`")


def store_calibration(folder: Path, calibration: Mapping[str, Any]) -> None:
    """Write `calibration` into the folder's `qt_bert.json`; all else in it stays as it is.

    Raises CheckpointError where the file is no JSON object.
    """
    stored = _stored(folder / CARD) or {"schema": 1}
    write_json(folder / CARD, stored | {"calibration": dict(calibration)})


def _stored(path: Path) -> dict[str, Any]:
    """The file's JSON object; empty where there is no file."""
    if not path.exists():
        return {}
    try:
        value = read_json(path)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not valid JSON ({error})") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path}: not a JSON object")
    return value


def _asked_grades(asked: str, logits: int) -> tuple[GradeSet, ...]:
    mapping = GradeMap.parse(asked)
    try:
        sets = tuple(mapping.grades_of(str(i)) for i in range(logits))
    except ValueError as error:
        raise CheckpointError(
            f"--model-grades {asked!r} does not name each of the {logits} logits ({error})"
        ) from error
    if len(mapping.sets) != logits:
        raise CheckpointError(f"--model-grades {asked!r} names more than {logits} logits")
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
    return tuple(_grade_set(one, f"{path}: `grades` of output {i}") for i, one in enumerate(value))


def _grade_set(value: Any, where: str) -> GradeSet:
    if not isinstance(value, list) or not value:
        raise CheckpointError(f"{where} is {value!r}, not a list of at least one grade")
    for grade in value:
        if type(grade) is not int or grade not in GRADES:
            raise CheckpointError(f"{where}: {grade!r} is not a grade from 1 to 5")
    return tuple(sorted(set(value)))
