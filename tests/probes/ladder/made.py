"""Losses of a ladder whose rungs grade a known number of pairs wrong."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np

from qt_bert.data.pairs import Pair
from qt_bert.models.card import ModelLabels
from qt_bert.probes.ladder.losses import Losses
from qt_bert.probes.ladder.rungs import ALL, Ladder, ladders
from qt_bert.text import Text

GRADES = ModelLabels(5, tuple((grade,) for grade in range(1, 6)))
PAIRS = 100


def climbed(layers: int) -> Ladder:
    """The ladder of *all* of a model of so many layers."""
    return ladders(layers, full=False)[ALL, "before"]


def made_losses(wrong: Sequence[int], *, queries: int = PAIRS, resamples: int = 400) -> Losses:
    """A hundred pairs of grades 1 to 4 in this order, all graded right uncut; rung l turns the grade of
    the first `wrong[l − 1]` round (1 for 4, 2 for 3)."""
    pairs = [
        Pair(f"q{i % queries}", "t", (1 + i // 25,), str(i), i + 1, "", {}) for i in range(PAIRS)
    ]
    said = np.tile([pair.grades[0] - 1 for pair in pairs], (1 + len(wrong), 1))
    for rung, count in enumerate(wrong, 1):
        said[rung, :count] = 3 - said[rung, :count]
    logits = np.full((*said.shape, 5), -4.0, np.float32)
    np.put_along_axis(logits, said[..., None], 4.0, axis=2)
    names = ["none", *(one.name for one in climbed(len(wrong)).rungs.values())]
    folder = SimpleNamespace(logits=logits, pairs=pairs, row=names.index)
    name = Text("样本", "sample")
    return Losses(folder, GRADES, resamples, 0, name, 999)  # type: ignore[arg-type]
