"""What `matching` would have found of a model, made by hand: for probes that read its result."""

from __future__ import annotations

from collections.abc import Callable

from qt_bert.heads import Shape
from qt_bert.results.probe import HeadScores, ModelRef, PairsRef, ProbeResult
from qt_bert.text import Text


def matching_found(
    shape: Shape, best: tuple[str, ...] = (), named: tuple[str, ...] = (), *, scored: bool = True
) -> Callable[[str], ProbeResult]:
    """`result_of` of a context: all heads have a score of 1, read from title to query; the `best` ones,
    of which some are `named`, have 3, read from query to title."""

    def scores(head: str) -> dict[str, float | None]:
        if not scored:
            return {"score": None, "title_to_query": None, "query_to_title": None}
        score = 3.0 if head in best else 1.0
        return {"score": score, "title_to_query": 1.0, "query_to_title": 3.0}

    result = ProbeResult(
        probe="matching",
        model=ModelRef(name="model", sha256="0"),
        pairs=PairsRef(name="pairs", sha256="0"),
        settings={},
        summary=Text("", ""),
        heads=tuple(HeadScores(head=str(one), scores=scores(str(one))) for one in shape.all_heads),
        sets={"matching": best, "named": named},
    )
    return lambda name: {"matching": result}[name]
