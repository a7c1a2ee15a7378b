"""`kept.json`: the layers, heads and units that a smaller model keeps, and its heads' names in the teacher."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from qt_bert.codec import encode, read_result
from qt_bert.errors import ArgumentError
from qt_bert.files import write_json

KEPT = "kept.json"
"""The file beside a smaller model's weights."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptLayer:
    """One layer that stays: its number in the teacher, its heads, and how many feed-forward units.

    `heads` are the numbers of the heads kept, sorted; there may be none. `units` None keeps all.
    """

    layer: int
    heads: tuple[int, ...]
    units: int | None = None

    def __post_init__(self) -> None:
        if self.layer < 0 or list(self.heads) != sorted({h for h in self.heads if h >= 0}):
            raise ArgumentError(f"layer {self.layer} keeps the heads {self.heads}: give each once")
        if self.units is not None and self.units < 1:
            raise ArgumentError(
                f"layer {self.layer} keeps {self.units} units; at least 1 must stay"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class TeacherRef:
    """The model that was made smaller: its name, the hash of its weights, and its shape."""

    name: str
    sha256: str
    layers: int
    heads: int
    units: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptFile:
    """`kept.json`: layer i of the model beside it was `layers[i].layer` of the teacher.

    `names` maps each head's name to that in the teacher: heads keep their numbers, layers are
    renumbered.
    """

    kind: ClassVar[str] = "kept"
    schema: Literal[1] = 1
    teacher: TeacherRef
    layers: tuple[KeptLayer, ...]
    names: dict[str, str]

    @classmethod
    def of(cls, teacher: TeacherRef, layers: Sequence[KeptLayer]) -> KeptFile:
        """The file of what `layers` keep. Raises ArgumentError for what `teacher` does not have."""
        check_kept(layers, teacher)
        names = {
            f"L{place}H{head}": f"L{layer.layer}H{head}"
            for place, layer in enumerate(layers)
            for head in layer.heads
        }
        return cls(teacher=teacher, layers=tuple(layers), names=names)

    @property
    def whole_heads(self) -> bool:
        """Whether every layer that stays keeps all its heads."""
        return all(len(layer.heads) == self.teacher.heads for layer in self.layers)

    def write(self, folder: Path) -> None:
        """Store it in `folder`, atomically."""
        write_json(folder / KEPT, encode(self))

    @classmethod
    def read(cls, folder: Path) -> KeptFile | None:
        """That of `folder`, or None. Raises RunFolderError naming the key that does not fit."""
        path = folder / KEPT
        return read_result(cls, path) if path.exists() else None


def check_kept(layers: Sequence[KeptLayer], teacher: TeacherRef) -> None:
    """Raise ArgumentError where `layers` are not some of `teacher`'s, lowest first."""
    numbers = [layer.layer for layer in layers]
    if not numbers or numbers != sorted(set(numbers)) or numbers[-1] >= teacher.layers:
        raise ArgumentError(
            f"layers {numbers} cannot be kept: name some of 0 to {teacher.layers - 1}, lowest first"
        )
    for layer in layers:
        if layer.heads and layer.heads[-1] >= teacher.heads:
            raise ArgumentError(
                f"there is no head L{layer.layer}H{layer.heads[-1]}: layers of {teacher.name} have "
                f"{teacher.heads} heads"
            )
        if layer.units is not None and layer.units > teacher.units:
            raise ArgumentError(
                f"layer {layer.layer} cannot keep {layer.units} units of {teacher.units}"
            )
