"""Do the heads of a model pretrained for minutes cut words and match terms? Its best head of each kind."""

from __future__ import annotations

import numpy as np

from qt_bert.encoder.heads import Head
from qt_bert.pairs import segmenter
from qt_bert.pairs.sample import spread_over_queries
from qt_bert.probes.split import Split
from qt_bert.probes.term_matching.cells import CHARACTERS
from qt_bert.probes.term_matching.scores import score_heads
from qt_bert.probes.word_ends.calibrate import calibrate
from qt_bert.probes.word_ends.decisions import asked_of, decisions_of
from qt_bert.probes.word_ends.judge import auc
from qt_bert.probes.word_ends.references import ends_of
from qt_bert.probes.word_ends.union import LEAST_DECISIONS
from qt_bert.probes.word_ends.weights import weights_of
from qt_bert.results.baselines import BoundaryOutputs, HeadRead, MatchingOutputs
from qt_bert.scoring.bulk import Scorer
from qt_bert.study.baselines.folder import Arrays

MATCHED_PAIRS = 200
"""Pairs of each half that matching is scored on."""
LEAST_COVERAGE = 0.5
"""With fewer of the characters as tokens of their own, a model cannot be asked."""
OF_WORDS = "words"
"""The reason why it cannot: its tokens are words."""


def boundary(scorer: Scorer, halves: Split, seed: int) -> Arrays:
    """The head with the largest AUC on discovery, and what it gives the decisions of validation.

    A head is read by the number and on the side that tell word ends best on discovery
    (`probes.word_ends`); words are jieba's.
    """
    words = segmenter("jieba")
    known_texts = asked_of(halves.discovery)
    asked = asked_of(halves.validation, {one.text for one in known_texts})
    known = decisions_of(scorer.tokenizer, known_texts, least=LEAST_DECISIONS)
    other = decisions_of(scorer.tokenizer, asked)
    if min(known.coverage, other.coverage) < LEAST_COVERAGE:
        return {}
    labels = known.labels(lambda text: ends_of(words.spans(text)))
    weights = weights_of(scorer, known)
    calibrated = calibrate(weights, known, labels, shifts=0, seed=seed)
    reached = auc(calibrated.values(weights), labels)
    best = Head(*map(int, np.unravel_index(np.nanargmax(reached), reached.shape)))
    return {
        "head": np.array(str(best)),
        "discovery": np.array(reached[best]),
        "values": calibrated.values(weights_of(scorer, other))[best],
        "labels": other.labels(lambda text: ends_of(words.spans(text))),
        "queries": other.query,
    }


def matching(scorer: Scorer, halves: Split, seed: int) -> Arrays:
    """The head with the largest score on discovery, and its sums by query on validation."""
    words = segmenter("jieba")
    queries = {pair.query for pair in (*halves.discovery, *halves.validation)}
    known, other = (
        score_heads(
            scorer, spread_over_queries(pairs, MATCHED_PAIRS, seed), words, queries, seed=seed
        )
        for pairs in (halves.discovery, halves.validation)
    )
    best = known.best(1)
    if not best or min(known.sample.coverage, other.sample.coverage) < LEAST_COVERAGE:
        return {}
    (head,) = best
    toward = int(known.direction[head])
    place = (slice(None), CHARACTERS, *head, toward)
    return {
        "head": np.array(str(head)),
        "discovery": np.array(known.score[head]),
        "original": other.sums.original[place],
        "replaced": other.sums.replaced[place],
        "counts": other.sums.counts[:, CHARACTERS, toward],
    }


def head_read(model: str, arrays: Arrays) -> HeadRead:
    """What the record says of a head, or why there is none."""
    if not arrays:
        return HeadRead(model=model, head=None, discovery=None, reason=OF_WORDS)
    return HeadRead(model=model, head=str(arrays["head"]), discovery=float(arrays["discovery"]))


def boundary_outputs(arrays: Arrays) -> BoundaryOutputs:
    """The arrays that the probe reads."""
    return BoundaryOutputs(arrays["values"], arrays["labels"], arrays["queries"])


def matching_outputs(arrays: Arrays) -> MatchingOutputs:
    """The arrays that the probe reads."""
    return MatchingOutputs(arrays["original"], arrays["replaced"], arrays["counts"])
