"""What is true of whole pairs: length and order of recombined ones, the grade of those of the file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from qt_bert.data.tokenise import QUERY, TITLE, PairTokenizer
from qt_bert.probes.layers.examples import Described, Examples, Places, Task, task_of
from qt_bert.probes.layers.property import GRADE, LENGTH, ORDER
from qt_bert.probes.layers.samples import Natural, Recombined, Texts
from qt_bert.stats.arrays import IntArray
from qt_bert.text import Text

OF_FIRST = "_cls"
"""What the names of properties read from [CLS] end in."""


def recombined_tasks(fit: Recombined, check: Recombined, tokenizer: PairTokenizer) -> list[Task]:
    """Length and order, at the same places."""
    lengths, orders = [], []
    for half in (fit, check):
        places, sizes = _whole(half.texts, half.groups, tokenizer)
        lengths.append(Described(places, sizes))
        orders.append(Described(places, ["shuffled" if one else "kept" for one in half.shuffled]))
    tasks = (task_of(LENGTH, *lengths), task_of(ORDER, *orders))
    return [task for task in tasks if task is not None]


def grade_tasks(fit: Natural, check: Natural, tokenizer: PairTokenizer) -> list[Task]:
    """The grade, of the pairs that have one."""
    halves = []
    for half in (fit, check):
        places, _ = _whole(half.texts, half.groups, tokenizer)
        graded = [row for row, grade in enumerate(half.grades) if grade is not None]
        of_graded = Places(
            "text", half.texts, places.text[graded], places.spans[graded], half.groups
        )
        halves.append(Described(of_graded, [grade for grade in half.grades if grade is not None]))
    task = task_of(GRADE, *halves)
    return [] if task is None else [task]


def first_token(task: Task) -> Task:
    """The same asked of [CLS] alone, under a name of its own."""
    about = replace(
        task.about,
        name=f"{task.about.name}{OF_FIRST}",
        title=Text(f"{task.about.title.zh}（[CLS]）", f"{task.about.title.en} ([CLS])"),
    )

    def at_first(one: Examples) -> Examples:
        spans = np.zeros_like(one.places.spans)
        spans[:, 0, 1] = 1
        return replace(one, about=about, places=replace(one.places, spans=spans))

    return Task(at_first(task.fit), at_first(task.check))


def _whole(
    texts: Sequence[Texts], groups: IntArray, tokenizer: PairTokenizer
) -> tuple[Places, list[float]]:
    """Query and title of every text, and how many tokens the pair has."""
    encoded = tokenizer.encode(texts, offsets=False)
    spans = [[_span(one.side, side) for side in (QUERY, TITLE)] for one in encoded]
    text = np.arange(len(texts), dtype=np.int64)
    places = Places("text", tuple(texts), text, np.array(spans, np.int64), groups)
    return places, [float(len(one)) for one in encoded]


def _span(sides: Sequence[int], side: int) -> tuple[int, int]:
    """The tokens [start, end) of one side; empty where all of it was cut off."""
    count = sides.count(side)
    start = sides.index(side) if count else 0
    return start, start + count
