"""Numbers and texts as the report shows them: those of `results.numbers`."""

from qt_bert.results.numbers import MISSING, clip, interval, number, plain, printable, shortest

__all__ = ["MISSING", "clip", "interval", "number", "plain", "printable", "shortest"]
