"""`qt-bert explain`: a pair's grade, and the effect of each term of query and title on it.

A term's tokens are replaced by as many fillers, so that every other token keeps its position (as in
MechIR, Parry et al. 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from qt_bert.data.segmenters import Segmenter, Span
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair
from qt_bert.errors import CheckpointError
from qt_bert.models.checkpoint import Checkpoint
from qt_bert.scoring.bulk import LeftOut, Scorer
from qt_bert.scoring.judge import Outputs, read_outputs
from qt_bert.stats.arrays import FloatArray

LEAST_CHANGE, LEAST_TELLING = 0.005, 0.05
"""The least change of the expected grade (or the one logit) that counts, and the least that is
attributed to heads."""

Side = Literal["query", "title"]
_SIDES: dict[Side, int] = {"query": QUERY, "title": TITLE}


class Filler(NamedTuple):
    """The token that replaces a term's tokens."""

    token: str
    id: int


@dataclass(frozen=True)
class TermEffect:
    """The `change` of the expected grade (or the one logit) to `score` with fillers for one term.

    `moved`: whether it is at least `LEAST_CHANGE`.
    """

    side: Side
    start: int
    end: int
    term: str
    score: float
    change: float
    moved: bool


@dataclass(frozen=True)
class Explanation:
    """A pair's outputs and the effect of each of its terms, in text order."""

    query: str
    title: str
    outputs: Outputs
    score: float
    terms: list[TermEffect]
    filler: str
    left_out: LeftOut | None = None

    @property
    def most_telling(self) -> TermEffect | None:
        """The first term of the largest change; None where none reaches 0.05."""
        telling = [term for term in self.terms if abs(term.change) >= LEAST_TELLING]
        return max(telling, key=lambda term: abs(term.change), default=None)


@dataclass(frozen=True)
class FilledTerm:
    """A term, its characters in its text, and the pair's tokens with fillers for it."""

    side: Side
    start: int
    end: int
    term: str
    encoded: EncodedPair


def filled_terms(
    query: str, title: str, whole: EncodedPair, segmenter: Segmenter, filler: Filler
) -> list[FilledTerm]:
    """The pair with fillers for each of its terms, in text order.

    Terms are the segmenter's words with a letter or digit; words of the same tokens, or disjoint words
    that share a token, are one term. `whole` are the pair's tokens, with spans; truncated terms are
    omitted.
    """
    texts: dict[Side, str] = {"query": query, "title": title}
    terms = []
    for side, text in texts.items():
        words = [
            span for span in segmenter.spans(text) if any(map(str.isalnum, text[slice(*span)]))
        ]
        for start, end in _terms(words, whole, side):
            encoded = fill(whole, side, start, end, filler)
            if encoded is not None:
                terms.append(FilledTerm(side, start, end, text[start:end], encoded))
    return terms


def _terms(words: Sequence[Span], whole: EncodedPair, side: Side) -> list[Span]:
    """`words` in order, merged where they have equal tokens, or are disjoint and share one."""
    terms: dict[Span, set[int]] = {}

    def mergeable(span: Span, tokens: set[int]) -> Span | None:
        for term, others in terms.items():
            disjoint = term[1] <= span[0] or span[1] <= term[0]
            if tokens & others and (disjoint or tokens == others):
                return term
        return None

    for span in words:
        tokens = _tokens(whole, side, *span)
        while (term := mergeable(span, tokens)) is not None:
            tokens |= terms.pop(term)
            span = min(term[0], span[0]), max(term[1], span[1])
        terms[span] = tokens
    return sorted(terms)


def fill(
    whole: EncodedPair, side: Side, start: int, end: int, filler: Filler
) -> EncodedPair | None:
    """`whole` with fillers for tokens that touch characters [start, end); None for none."""
    tokens = _tokens(whole, side, start, end)
    ids = [filler.id if token in tokens else id for token, id in enumerate(whole.input_ids)]
    return replace(whole, input_ids=ids) if tokens else None


def _tokens(whole: EncodedPair, side: Side, start: int, end: int) -> set[int]:
    """The tokens that hold any of the characters [start, end) of a text."""
    tokens = enumerate(zip(whole.side, whole.spans, strict=True))
    text = _SIDES[side]
    return {i for i, (of, span) in tokens if of == text and span[0] < end and span[1] > start}


def effects_of(filled: Sequence[FilledTerm], scores: FloatArray) -> list[TermEffect]:
    """The terms' effects; `scores` are those of the pair, then with each term filled."""
    changes = np.asarray(scores[1:], np.float64) - scores[0]
    return [
        TermEffect(
            t.side, t.start, t.end, t.term, float(score), float(d), bool(abs(d) >= LEAST_CHANGE)
        )
        for t, score, d in zip(filled, scores[1:], changes, strict=True)
    ]


def filler_of(checkpoint: Checkpoint) -> Filler:
    """[MASK], which the model has seen in pretraining, else the unknown token, else `_`.

    Never the padding token, which ends a causal model's text. Raises CheckpointError for a tokenizer with
    none of them.
    """
    tokenizer = checkpoint.tokenizer
    for name in ("mask_token", "unk_token"):
        token = getattr(tokenizer, name, None)
        if token is not None:
            id = int(tokenizer.convert_tokens_to_ids(token))
            if id != checkpoint.pad:
                return Filler(str(token), id)
    ids = tokenizer("_", add_special_tokens=False)["input_ids"]
    if len(ids) == 1:
        return Filler("_", int(ids[0]))
    raise CheckpointError(
        f"{checkpoint.folder}: its tokenizer has neither a mask nor an unknown token to put in a "
        "term's place; add one to tokenizer_config.json"
    )


def explain_pair(query: str, title: str, scorer: Scorer, segmenter: Segmenter) -> Explanation:
    """Grade (query, title), then again with each term filled (`filled_terms`)."""
    labels, filler = scorer.checkpoint.settings.labels, filler_of(scorer.checkpoint)
    # Alone, so that the grade does not depend on other pairs of a batch.
    outputs = read_outputs(scorer.logits([(query, title)]), labels)
    (whole,) = scorer.tokenizer.encode([(query, title)])
    filled = filled_terms(query, title, whole, segmenter, filler)
    logits = scorer.logits_of([whole, *(term.encoded for term in filled)])
    terms = effects_of(filled, read_outputs(logits, labels).ranking_score)
    score = float(outputs.ranking_score[0])
    return Explanation(query, title, outputs, score, terms, filler.token, scorer.left_out)
