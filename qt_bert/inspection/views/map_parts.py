"""Parts of an attention map: who looks at whom, in one text or from one to the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.evaluation.arrays import BoolArray
from qt_bert.pairs.tokenise import QUERY, SPECIAL, TITLE, EncodedPair
from qt_bert.results import Text

BOTH = (QUERY, TITLE)
ALL = (QUERY, TITLE, SPECIAL)


@dataclass(frozen=True)
class MapPart:
    """Rows of the sides `looking` and columns of the sides `looked_at`."""

    name: Text
    looking: tuple[int, ...]
    looked_at: tuple[int, ...]

    def rows(self, encoded: EncodedPair) -> tuple[int, ...]:
        """The places of the tokens that look."""
        return _places(encoded, self.looking)

    def columns(self, encoded: EncodedPair) -> tuple[int, ...]:
        """The places of the tokens that are looked at."""
        return _places(encoded, self.looked_at)


WHOLE = "all"
"""The part in which every row adds up to 1."""

PARTS: Mapping[str, MapPart] = {
    WHOLE: MapPart(Text("全部", "all"), ALL, ALL),
    "query_title": MapPart(Text("查询看标题", "query → title"), (QUERY,), (TITLE,)),
    "title_query": MapPart(Text("标题看查询", "title → query"), (TITLE,), (QUERY,)),
    "query": MapPart(Text("查询之内", "within query"), (QUERY,), (QUERY,)),
    "title": MapPart(Text("标题之内", "within title"), (TITLE,), (TITLE,)),
    "texts": MapPart(Text("不含 [CLS]、[SEP]", "without [CLS], [SEP]"), BOTH, BOTH),
}


def masks(encoded: EncodedPair, parts: Sequence[MapPart]) -> tuple[BoolArray, BoolArray]:
    """Which tokens look, and which are looked at, in each part: two matrices [parts, tokens]."""
    side = np.array(encoded.side)
    rows = [np.isin(side, part.looking) for part in parts]
    columns = [np.isin(side, part.looked_at) for part in parts]
    return np.stack(rows), np.stack(columns)


def _places(encoded: EncodedPair, sides: Sequence[int]) -> tuple[int, ...]:
    return tuple(np.flatnonzero(np.isin(encoded.side, sides)).tolist())
