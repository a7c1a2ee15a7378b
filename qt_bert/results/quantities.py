"""The quantities of the head atlas, declared in `quantities.toml`: a probe's score, its unit and scale."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from qt_bert.codec import decode
from qt_bert.figures import Scale
from qt_bert.text import Label, Text

SIGNIFICANT = 0.05
"""The q below which an effect is marked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """A score of every head, less the score `minus` where there is one, times `factor`.

    `means`: its meaning and direction in words. `ends`: the scores that hold its 95 % interval; `test`:
    that of its q over all heads. `marks`: the named sets to outline; without any, heads with q below
    0.05. `beside`: further scores on a head's card. `skewed`: outliers are large, so the colour scale
    ends at the 95th percentile.
    """

    name: str
    probe: str
    score: str
    title: Text
    unit: Label
    means: Text
    minus: str = ""
    factor: float = 1.0
    scale: Scale = "sequential"
    low: float | None = None
    high: float | None = None
    digits: int = 2
    ends: tuple[str, str] | None = None
    test: str = ""
    marks: tuple[str, ...] = ()
    beside: dict[str, Text] = field(default_factory=dict)
    skewed: bool = False

    @property
    def scores(self) -> tuple[str, ...]:
        """Every score that the quantity uses."""
        named = (self.score, self.minus, self.test, *(self.ends or ()), *self.beside)
        return tuple(name for name in named if name)

    def value(self, scores: Mapping[str, float | None]) -> float | None:
        """The quantity of a head with these scores; None where unknown."""
        score, subtrahend = scores.get(self.score), scores.get(self.minus) if self.minus else 0.0
        return None if score is None or subtrahend is None else (score - subtrahend) * self.factor

    def interval(self, scores: Mapping[str, float | None]) -> tuple[float, float] | None:
        """The 95 % interval of a head's quantity, where known."""
        if self.ends is None:
            return None
        low, high = (scores.get(name) for name in self.ends)
        if low is None or high is None:
            return None
        low, high = sorted((low * self.factor, high * self.factor))
        return low, high

    def q(self, scores: Mapping[str, float | None]) -> float | None:
        """The q of a head, where it was tested."""
        return scores.get(self.test) if self.test else None

    def stands_out(self, scores: Mapping[str, float | None]) -> bool:
        """Whether q is below 0.05. Of intervals of single heads one in twenty excludes 0 by chance."""
        q = self.q(scores)
        return q is not None and q < SIGNIFICANT


QUANTITIES: tuple[Quantity, ...] = tuple(
    decode(Quantity, {"name": name, **fields}, "quantities.toml")
    for name, fields in tomllib.loads(
        Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    ).items()
)
"""In display order."""


def kept_scores(probe: str) -> tuple[str, ...] | None:
    """The scores of a probe that quantities use; None (all) for a probe without quantities."""
    names = {name for quantity in QUANTITIES if quantity.probe == probe for name in quantity.scores}
    return tuple(sorted(names)) or None
