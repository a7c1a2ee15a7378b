"""One title of a ranking."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class RankedTitle:
    """One title: its score and place, and both without the heads left out (None: none are).

    `predicted` is None for a model of one logit. Places count from 1; equal scores share one.
    """

    title: str
    label: str | None
    score: float
    place: int
    predicted: str | None
    score_without: float | None = None
    place_without: int | None = None

    @property
    def moved(self) -> int | None:
        """Places up (positive) or down without the heads."""
        return None if self.place_without is None else self.place - self.place_without
