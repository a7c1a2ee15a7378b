"""The behaviour card as rows of tables: by phenomenon, and case by case."""

from __future__ import annotations

from collections.abc import Iterable

from qt_bert.inspection.views.behaviour import Both, Card, Line
from qt_bert.inspection.views.behaviour_words import OUTCOMES, RELATIONS
from qt_bert.probes.behaving.cases import BETTER
from qt_bert.probes.behaving.estimates import Mean
from qt_bert.results import Text
from qt_bert.results.numbers import interval
from qt_bert.results.phenomena import phenomenon_name

Row = dict[str, str | int | float | Text | None]
DIGITS = 2
DIGITS_OF = dict.fromkeys(("score", "delta", "without", "change"), DIGITS)
SIGNED = ("score", "delta", "without", "change", "delta_without")


def line_rows(card: Card) -> list[Row]:
    """A row for each phenomenon, by the keys of `LINE_COLUMNS`."""
    return [_line(one) for one in card.lines.values()]


def case_rows(both: Both, order: Iterable[int]) -> list[Row]:
    """A row for each case at `order`, by the keys of `case_columns`."""
    return [_case(both, int(place)) for place in order]


def shown_interval(found: Mean | None) -> str | None:
    """`[−0.10, 0.42]`; None where there is none."""
    if found is None or found.interval is None:
        return None
    return interval(*found.interval, DIGITS)


def _line(line: Line) -> Row:
    one = line.whole
    return {
        "phenomenon": phenomenon_name(one.phenomenon),
        "relation": RELATIONS[one.relation],
        "n": one.n,
        "right": one.right,
        "undecided": one.undecided if one.relation == BETTER else None,
        "wrong": one.wrong,
        "score": one.score.value,
        "interval": shown_interval(one.score),
        "delta": one.delta.value,
        "without": None if line.without is None else line.without.score.value,
        "change": None if line.change is None else line.change.value,
        "change_interval": shown_interval(line.change),
    }


def _case(both: Both, place: int) -> Row:
    whole, without = both.whole, both.without
    case = whole.cases[place]
    return {
        "id": case.id,
        "relation": RELATIONS[case.relation],
        "query": case.query,
        "title": case.title,
        "other": case.other,
        "first": float(whole.titles[place]),
        "second": float(whole.others[place]),
        "delta": float(whole.deltas[place]),
        "outcome": OUTCOMES[int(whole.outcomes[place])],
        "delta_without": None if without is None else float(without.deltas[place]),
        "outcome_without": None if without is None else OUTCOMES[int(without.outcomes[place])],
    }
