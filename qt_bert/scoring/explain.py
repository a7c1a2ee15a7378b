"""`qt-bert explain`: one pair's grades, and what each term of query and title does to them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from qt_bert.pairs.segmenters import Segmenter
from qt_bert.scoring.bulk import LeftOut, Scorer
from qt_bert.scoring.outputs import Outputs, read_outputs


@dataclass(frozen=True)
class TermEffect:
    """What leaving one term out does: `change` of the expected grade (or the one logit)."""

    side: str
    start: int
    end: int
    term: str
    score: float
    change: float


@dataclass(frozen=True)
class Explanation:
    """One pair's outputs and the effect of each of its terms, in text order.

    `left_out` says which heads the model did without.
    """

    query: str
    title: str
    outputs: Outputs
    score: float
    terms: list[TermEffect]
    left_out: LeftOut | None = None


@dataclass(frozen=True)
class TermPlace:
    """A term, where it stands in its text, and the pair (query, title) that is left without it."""

    side: str
    start: int
    end: int
    term: str
    rest: tuple[str, str]


def term_places(query: str, title: str, segmenter: Segmenter) -> list[TermPlace]:
    """The terms that can be left out of a pair, in text order.

    Terms are the segmenter's words that hold a letter or digit. A term whose removal would leave
    its text empty is left alone (there would be no pair to grade).
    """
    places = []
    for side, text in (("query", query), ("title", title)):
        for start, end in segmenter.spans(text):
            term, rest = text[start:end], text[:start] + text[end:]
            if any(c.isalnum() for c in term) and rest.strip():
                pair = (rest, title) if side == "query" else (query, rest)
                places.append(TermPlace(side, start, end, term, pair))
    return places


def term_effects(places: Sequence[TermPlace], outputs: Outputs) -> list[TermEffect]:
    """What leaving each term out does; `outputs` are the whole pair's, then those of each rest."""
    scores = outputs.ranking_score
    return [
        TermEffect(place.side, place.start, place.end, place.term, float(s), float(s - scores[0]))
        for place, s in zip(places, scores[1:], strict=True)
    ]


def explain_pair(query: str, title: str, scorer: Scorer, segmenter: Segmenter) -> Explanation:
    """Grade (query, title), then once more without each term (see `term_places`)."""
    places = term_places(query, title, segmenter)
    # The pair runs alone, so that its grade does not depend on what is padded to its length.
    logits = [scorer.logits([(query, title)]), scorer.logits([place.rest for place in places])]
    outputs = read_outputs(np.concatenate(logits), scorer.checkpoint.settings.labels)
    score = float(outputs.ranking_score[0])
    terms = term_effects(places, outputs)
    return Explanation(query, title, outputs, score, terms, scorer.left_out)
