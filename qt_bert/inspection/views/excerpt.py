"""What of a map is drawn: a part of it, and of a long pair a stretch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import FloatArray
from qt_bert.inspection.inspected import Inspected
from qt_bert.inspection.state import State
from qt_bert.inspection.views.map_parts import PARTS
from qt_bert.inspection.views.quantities import PERCENT
from qt_bert.pairs.tokenise import EncodedPair
from qt_bert.probes.common.maps import known
from qt_bert.results import Text

MOST_TOKENS = 48
"""Rows and columns of a map that are drawn: 128 of each are slow to draw and too small to read."""


@dataclass(frozen=True)
class Excerpt:
    """The tokens of a part that look and are looked at, and the stretch of them from `start` on."""

    encoded: EncodedPair
    tokens: tuple[str, ...]
    looking: tuple[int, ...]
    looked_at: tuple[int, ...]
    start: int

    @classmethod
    def of(cls, inspected: Inspected, state: State, part: str, start: int) -> Excerpt:
        """That of one of PARTS, of the state's pair."""
        encoded, chosen = inspected.encode(state.query, state.title), PARTS[part]
        tokens = inspected.tokens(encoded)
        return cls(encoded, tokens, chosen.rows(encoded), chosen.columns(encoded), start)

    @property
    def rows(self) -> tuple[int, ...]:
        """The tokens whose rows are drawn."""
        return self._stretch(self.looking)

    @property
    def columns(self) -> tuple[int, ...]:
        """The tokens whose columns are drawn."""
        return self._stretch(self.looked_at)

    @property
    def drawn(self) -> bool:
        """Whether there is anything to draw."""
        return bool(self.looking and self.looked_at)

    @property
    def longest(self) -> int:
        """Tokens of the longer side."""
        return max(len(self.looking), len(self.looked_at))

    def cut(self, values: FloatArray) -> FloatArray:
        """The drawn cells of a map [tokens, tokens]."""
        return values[list(self.rows)][:, list(self.columns)]

    def given(self, values: FloatArray) -> float | None:
        """What the tokens that look give to those looked at, on average, in %; all, drawn or not.

        None where there are none.
        """
        if not self.drawn:
            return None
        sums = values[list(self.looking)][:, list(self.looked_at)].sum(axis=1)
        return known(PERCENT * float(np.mean(sums)))

    def notes(self) -> Iterator[Text]:
        """That there is nothing to draw, or more than is drawn."""
        if not self.drawn:
            yield Text("这一对文本没有这样的词元。", "This pair has no such tokens.")
        elif self.longest > MOST_TOKENS:
            yield Text(
                f"每边最多画 {MOST_TOKENS} 个词元（这里长的一边有 {self.longest} 个）：画的是一段，"
                "数字按全部计算。",
                f"At most {MOST_TOKENS} tokens a side are drawn (the longer side has {self.longest}): "
                "this is a stretch; numbers are of all.",
            )

    def _stretch(self, places: tuple[int, ...]) -> tuple[int, ...]:
        start = min(self.start, max(len(places) - MOST_TOKENS, 0))
        return places[start : start + MOST_TOKENS]
