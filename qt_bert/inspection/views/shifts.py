"""What leaving heads out moves, in numbers: before, after, and with random heads instead."""

from __future__ import annotations

from dataclasses import dataclass

from qt_bert.encoder.heads import Head
from qt_bert.inspection.views.cls_rows import ClsRows, Grades, Spread
from qt_bert.inspection.views.quantities import MEASURED
from qt_bert.inspection.views.units import score_name, score_unit
from qt_bert.probes.common.maps import known
from qt_bert.results import Text
from qt_bert.results.text import Label

SCORE_DIGITS = 4


@dataclass(frozen=True)
class Range:
    """The mean over random draws, their least and largest."""

    mean: float | None
    low: float | None
    high: float | None

    @classmethod
    def of(cls, spread: Spread, *at: int) -> Range:
        """The spread at one place."""
        return cls(known(spread.mean[at]), known(spread.low[at]), known(spread.high[at]))


@dataclass(frozen=True)
class Shift:
    """One quantity in `unit`: `before`, `after`, and with random heads left out; None: no number."""

    name: Text
    unit: Label
    before: float | None
    after: float | None
    random: Range | None
    digits: int = 1
    about: Text | None = None

    @property
    def change(self) -> float | None:
        """After less before."""
        return _less(self.after, self.before)

    @property
    def random_change(self) -> float | None:
        """The mean without random heads less before."""
        return _less(self.random.mean if self.random else None, self.before)


def shifts(rows: ClsRows, head: Head) -> tuple[Shift, ...]:
    """What is measured of one head's row, in the order of `MEASURED`."""
    return tuple(
        Shift(
            one.name,
            one.unit,
            known(rows.measured_before[*head, place]),
            None if rows.measured_after is None else known(rows.measured_after[*head, place]),
            None if rows.random is None else Range.of(rows.random, *head, place),
            one.digits,
            one.about,
        )
        for place, one in enumerate(MEASURED)
    )


def score_shift(grades: Grades) -> Shift:
    """The expected grade (or level), or the one logit of a model that has one."""
    before, after, random = grades.before, grades.after, grades.random
    return Shift(
        score_name(before.labels),
        score_unit(before.labels),
        float(before.ranking_score[0]),
        None if after is None else float(after.ranking_score[0]),
        None if random is None else Range.of(Spread.of(random.ranking_score)),
        SCORE_DIGITS,
    )


def _less(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one - other
