"""Rules that make training pairs of known grades from texts, good pairs and tables of words."""

from qt_bert.training.rules.catalogue import RULES, RuleRow, describe_rules
from qt_bert.training.rules.gate import MadePair
from qt_bert.training.rules.make import make_pairs
from qt_bert.training.rules.rule import Base, Draw, Made, Rule
from qt_bert.training.rules.written import MADE_GRADES, write_made

__all__ = [
    "MADE_GRADES",
    "RULES",
    "Base",
    "Draw",
    "Made",
    "MadePair",
    "Rule",
    "RuleRow",
    "describe_rules",
    "make_pairs",
    "write_made",
]
