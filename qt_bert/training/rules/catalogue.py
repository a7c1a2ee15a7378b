"""All rules by name, and the table of them for a model card."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from qt_bert.pairs import GradeSet
from qt_bert.training.rules.numbers import NUMBERS
from qt_bert.training.rules.order import ORDER
from qt_bert.training.rules.others import OTHERS
from qt_bert.training.rules.polarity import POLARITY
from qt_bert.training.rules.rule import Rule
from qt_bert.training.rules.salad import SALAD
from qt_bert.training.rules.sameness import SAMENESS
from qt_bert.training.rules.scope import SCOPE
from qt_bert.training.rules.things import THINGS

RULES: Mapping[str, Rule] = {
    rule.name: rule
    for room in (SAMENESS, ORDER, POLARITY, NUMBERS, THINGS, SCOPE, OTHERS, SALAD)
    for rule in room
}
"""Every rule by its name."""


class RuleRow(NamedTuple):
    """One line of the table of rules: name, label of its grades, and what it does."""

    name: str
    grades: str
    zh: str
    en: str


def grade_label(grades: GradeSet) -> str:
    """`2`, or `1-2` for neighbouring grades: the label written for a set of grades."""
    return str(grades[0]) if len(grades) == 1 else f"{grades[0]}-{grades[-1]}"


def describe_rules() -> list[RuleRow]:
    """The rules in order, for a card."""
    return [RuleRow(r.name, grade_label(r.grades), r.zh, r.en) for r in RULES.values()]
