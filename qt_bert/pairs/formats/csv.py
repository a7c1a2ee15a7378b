"""CSV, read so that a stray quote costs nothing.

A field is quoted only where its quote opens the field and closes it on the same line, with `""`
for a quote inside; any other quote is a character, and no row spans lines. The standard library's
reader would swallow the following lines after a stray opening quote.
"""

from __future__ import annotations

import re

# Possessive: the text between the quotes is never given back, so a match is tried in linear time.
_QUOTED = re.compile(r'"((?:[^"]++|"")*+)"(?=,|\Z)')


def split_csv(line: str) -> list[str]:
    """The fields of one line."""
    if '"' not in line:
        return line.split(",")
    fields: list[str] = []
    at = 0
    while True:
        quoted = _QUOTED.match(line, at)
        if quoted:
            fields.append(quoted[1].replace('""', '"'))
            at = quoted.end()
        else:
            comma = line.find(",", at)
            end = len(line) if comma < 0 else comma
            fields.append(line[at:end])
            at = end
        if at == len(line):
            return fields
        at += 1
