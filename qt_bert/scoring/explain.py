"""`qt-bert explain`: one pair's grades, and what each term of query and title does to them.

A term is not cut out, for a shorter text is another text: its tokens are replaced by as many fillers,
so that every other token keeps its place (MechIR, Parry et al. 2025, fills for the same reason).
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
"""A term that changes the expected grade (or the one logit) by less has not moved it; by less than
the second, which heads carry it is not asked: the shares would be of next to nothing."""

Side = Literal["query", "title"]
_OWNERS: dict[Side, int] = {"query": QUERY, "title": TITLE}


class Filler(NamedTuple):
    """The token that stands in a term's place: its name and id."""

    token: str
    id: int


@dataclass(frozen=True)
class TermEffect:
    """What a filler in one term's place does: `change` of the expected grade (or the one logit).

    `moved` is False where that is next to nothing, as for a term that the model does not know.
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
    """One pair's outputs and the effect of each of its terms, in text order.

    `filler` is the token put in a term's place; `left_out` says which heads the model did without.
    """

    query: str
    title: str
    outputs: Outputs
    score: float
    terms: list[TermEffect]
    filler: str
    left_out: LeftOut | None = None

    @property
    def most_telling(self) -> TermEffect | None:
        """The term of the largest change, the first of equals; None where none reaches 0.05."""
        telling = [one for one in self.terms if abs(one.change) >= LEAST_TELLING]
        return max(telling, key=lambda one: abs(one.change), default=None)


@dataclass(frozen=True)
class FilledTerm:
    """A term, where it stands in its text, and the pair's tokens with fillers in its place."""

    side: Side
    start: int
    end: int
    term: str
    encoded: EncodedPair


def filled_terms(
    query: str, title: str, whole: EncodedPair, segmenter: Segmenter, filler: Filler
) -> list[FilledTerm]:
    """A pair with fillers in the place of each of its terms, in text order.

    Terms are the segmenter's words that hold a letter or digit; words that lie in the same tokens, or
    stand apart and share one, are one term: no token's effect is given twice. `whole` are the
    pair's tokens, with spans; a term that was cut off with the end of a long text has none, and is left out.
    """
    texts: dict[Side, str] = {"query": query, "title": title}
    found = []
    for side, text in texts.items():
        words = [
            span for span in segmenter.spans(text) if any(map(str.isalnum, text[slice(*span)]))
        ]
        for start, end in _parted(words, whole, side):
            encoded = fill(whole, side, start, end, filler)
            if encoded is not None:
                found.append(FilledTerm(side, start, end, text[start:end], encoded))
    return found


def _parted(words: Sequence[Span], whole: EncodedPair, side: Side) -> list[Span]:
    """`words` in order, those joined that tokens do not tell apart. Words within words stay apart."""
    terms: dict[Span, set[int]] = {}

    def near(span: Span, own: set[int]) -> Span | None:
        for one, tokens in terms.items():
            apart = one[1] <= span[0] or span[1] <= one[0]
            if own & tokens and (apart or own == tokens):
                return one
        return None

    for span in words:
        own = _tokens(whole, side, *span)
        while (one := near(span, own)) is not None:
            own |= terms.pop(one)
            span = min(one[0], span[0]), max(one[1], span[1])
        terms[span] = own
    return sorted(terms)


def fill(
    whole: EncodedPair, side: Side, start: int, end: int, filler: Filler
) -> EncodedPair | None:
    """`whole` with a filler for every token of characters [start, end) of one text; None for none.

    A token that spells more than these characters is filled with them.
    """
    own = _tokens(whole, side, start, end)
    ids = [filler.id if token in own else id for token, id in enumerate(whole.input_ids)]
    return replace(whole, input_ids=ids) if own else None


def _tokens(whole: EncodedPair, side: Side, start: int, end: int) -> set[int]:
    """The tokens of characters [start, end) of one text."""
    places = enumerate(zip(whole.side, whole.spans, strict=True))
    of = _OWNERS[side]
    return {at for at, (text, span) in places if text == of and span[0] < end and span[1] > start}


def effects_of(filled: Sequence[FilledTerm], scores: FloatArray) -> list[TermEffect]:
    """What the fillers do; `scores` are the whole pair's, then those with each term filled."""
    changes = np.asarray(scores[1:], np.float64) - scores[0]
    return [
        TermEffect(
            one.side,
            one.start,
            one.end,
            one.term,
            float(score),
            float(change),
            bool(abs(change) >= LEAST_CHANGE),
        )
        for one, score, change in zip(filled, scores[1:], changes, strict=True)
    ]


def filler_of(checkpoint: Checkpoint) -> Filler:
    """[MASK], which pretraining taught the model to read past, or else the unknown token, or else `_`.

    It is not the token of padding, which a causal model would take for the end of the text. Raises
    CheckpointError for a tokenizer with none of them.
    """
    tokenizer = checkpoint.tokenizer
    for name in ("mask_token", "unk_token"):
        token = getattr(tokenizer, name, None)
        if token is not None:
            found = int(tokenizer.convert_tokens_to_ids(token))
            if found != checkpoint.pad:
                return Filler(str(token), found)
    ids = tokenizer("_", add_special_tokens=False)["input_ids"]
    if len(ids) == 1:
        return Filler("_", int(ids[0]))
    raise CheckpointError(
        f"{checkpoint.folder}: its tokenizer has neither a mask nor an unknown token to put in a "
        "term's place; add one to tokenizer_config.json"
    )


def explain_pair(query: str, title: str, scorer: Scorer, segmenter: Segmenter) -> Explanation:
    """Grade (query, title), then once more with each term filled (see `filled_terms`)."""
    labels, filler = scorer.checkpoint.settings.labels, filler_of(scorer.checkpoint)
    # The pair runs alone, so that its grade does not depend on what else is in its batch.
    outputs = read_outputs(scorer.logits([(query, title)]), labels)
    (whole,) = scorer.tokenizer.encode([(query, title)])
    filled = filled_terms(query, title, whole, segmenter, filler)
    logits = scorer.logits_of([whole, *(one.encoded for one in filled)])
    terms = effects_of(filled, read_outputs(logits, labels).ranking_score)
    score = float(outputs.ranking_score[0])
    return Explanation(query, title, outputs, score, terms, filler.token, scorer.left_out)
