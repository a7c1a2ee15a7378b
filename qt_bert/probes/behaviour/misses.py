"""The worst misses: cases in which the worse title scores far higher."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

import numpy as np

from qt_bert.figures import Token, TokenLine, Tokens
from qt_bert.probes.behaviour.bands import Band
from qt_bert.probes.behaviour.cases import BETTER, Case
from qt_bert.probes.behaviour.scores import WRONG
from qt_bert.probes.behaviour.study import Study
from qt_bert.results.head_sets import phenomenon_name
from qt_bert.text import Text

SHOWN = 2


def misses(study: Study) -> Iterator[Tokens]:
    """The wrong `better` cases of validation with the lowest Δ, at most two."""
    judged = study.validation.judged.of_relation(BETTER)
    order = np.argsort(judged.deltas, kind="stable")
    wrong = [int(row) for row in order if judged.outcomes[row] == WRONG]
    for number, row in enumerate(wrong[:SHOWN]):
        scores = float(judged.titles[row]), float(judged.others[row])
        yield miss(f"miss_{number}", judged.cases[row], scores, study.band)


def miss(name: str, case: Case, scores: tuple[float, float], band: Band) -> Tokens:
    """One case: its texts, each title coloured by its score, outlined where the two differ."""
    about, unit = phenomenon_name(case.phenomenon), band.unit
    better, worse = runs(case.title, case.other)
    names = (
        Text(f"更好的标题：{scores[0]:.2f} {unit.zh}", f"better title: {scores[0]:.2f} {unit.en}"),
        Text(f"另一标题：{scores[1]:.2f} {unit.zh}", f"other title: {scores[1]:.2f} {unit.en}"),
    )
    return Tokens(
        name=name,
        title=Text(f"判错的例子：{about.zh}", f"A miss: {about.en}"),
        unit=unit,
        lines=(
            TokenLine(name=Text("查询", "query"), tokens=(Token(text=case.query),)),
            *(
                TokenLine(
                    name=label,
                    tokens=tuple(
                        Token(text=text, value=score, marked=differs) for text, differs in parts
                    ),
                )
                for label, parts, score in zip(names, (better, worse), scores, strict=True)
            ),
        ),
        note=Text(
            f"案例 {case.id}。颜色为模型给整个标题的分；加框处两个标题不同。",
            f"Case {case.id}. Colours are the score of the whole title; outlined where the two differ.",
        ),
    )


Run = tuple[str, bool]
"""A run of characters, and whether it stands in one of the two texts alone."""


def runs(one: str, other: str) -> tuple[list[Run], list[Run]]:
    """Both texts cut where they begin and cease to differ."""
    first: list[Run] = []
    second: list[Run] = []
    matched = SequenceMatcher(None, one, other, autojunk=False)
    for kind, start, end, from_, to in matched.get_opcodes():
        if end > start:
            first.append((one[start:end], kind != "equal"))
        if to > from_:
            second.append((other[from_:to], kind != "equal"))
    return first, second
