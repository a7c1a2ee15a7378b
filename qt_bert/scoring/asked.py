"""What `qt-bert calibrate` is asked for; the fields' docs are the help."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from qt_bert.errors import ArgumentError


@dataclass(frozen=True, kw_only=True)
class CalibrateOptions:
    """What is fitted, how it is shown, and where it goes. Raises ArgumentError for what cannot be meant."""

    method: str = "platt"
    """One logit: platt, a logistic curve; or isotonic, any rising one (some thousand pairs)."""
    relevant: int | None = None
    """One logit: the lowest grade that counts as relevant. [default: 4, or the first label above the
    middle]"""
    precision: float | None = None
    """One logit: the lowest cut with this precision. [default: the cut of the best F1]"""
    recall: float | None = None
    """One logit: the highest cut with this recall."""
    by: list[str] | None = None
    """Also by the values of this column, of one logit with a cut of its own (repeatable)."""
    test: Path | None = None
    """Graded pairs of other queries to show before and after on, read as --pairs. [default: half of the
    queries of --pairs, which then take no part in the fit]"""
    out: Path | None = None
    """Write the calibration and what was measured to this JSON file, for --calibration."""
    save: bool = False
    """Write it into the model's own qt_bert.json, for --calibrated."""
    resamples: int = 2000
    """Bootstrap resamples of queries."""
    seed: int = field(default=0, metadata={"min": 0})
    """Seed of every random draw."""

    def __post_init__(self) -> None:
        if self.method not in ("platt", "isotonic"):
            raise ArgumentError(f"--method {self.method!r}: choose from platt, isotonic")
        if self.precision is not None and self.recall is not None:
            raise ArgumentError(
                "--precision and --recall: a cut is chosen by one of them; give one"
            )
        if self.least is not None and not 0 < self.least <= 1:
            raise ArgumentError(f"--{self.aim} {self.least:g}: give a share above 0 and up to 1")
        if self.out is not None and self.out.exists():
            raise ArgumentError(
                f"--out {self.out} is there already; name another file or remove it"
            )

    @property
    def aim(self) -> str:
        """What the cut is chosen by: `precision`, `recall` or `f1`."""
        named = {"precision": self.precision, "recall": self.recall}
        return next((name for name, least in named.items() if least is not None), "f1")

    @property
    def least(self) -> float | None:
        """The precision or recall that is wanted."""
        return self.recall if self.precision is None else self.precision
