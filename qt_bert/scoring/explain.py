"""`qt-bert explain`: one pair's grades, and what each term of query and title does to them."""

from __future__ import annotations

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


def explain_pair(query: str, title: str, scorer: Scorer, segmenter: Segmenter) -> Explanation:
    """Grade (query, title), then once more without each term.

    Terms are the segmenter's words that hold a letter or digit. A term whose removal would leave
    its text empty is left alone (there would be no pair to grade).
    """
    places = [
        (side, start, end)
        for side, text in (("query", query), ("title", title))
        for start, end in segmenter.spans(text)
        if any(c.isalnum() for c in text[start:end])
    ]
    variants = [(query, title)]
    kept = []
    for side, start, end in places:
        text = query if side == "query" else title
        rest = text[:start] + text[end:]
        if rest.strip():
            kept.append((side, start, end, text[start:end]))
            variants.append((rest, title) if side == "query" else (query, rest))
    outputs = read_outputs(scorer.logits(variants), scorer.checkpoint.settings.labels)
    scores = np.asarray(outputs.expected if outputs.score is None else outputs.score, np.float64)
    terms = [
        TermEffect(*place, score=float(s), change=float(s - scores[0]))
        for place, s in zip(kept, scores[1:], strict=True)
    ]
    return Explanation(query, title, outputs, float(scores[0]), terms, scorer.left_out)
