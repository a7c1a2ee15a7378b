"""What each term does to a score: for a toy that counts words, and for a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from qt_bert.data.segmenters import SpanSegmenter, segmenter
from qt_bert.data.tokenise import QUERY, TITLE, EncodedPair
from qt_bert.errors import CheckpointError
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.scoring.bulk import Scorer
from qt_bert.scoring.explain import (
    LEAST_CHANGE,
    LEAST_TELLING,
    Filler,
    OfModel,
    explain_pair,
    fill,
    filled_terms,
    filler_of,
    most_telling,
    term_effects,
)
from qt_bert.scoring.judge import read_outputs
from qt_bert.stats.arrays import FloatArray

UNKNOWN, FILLER = 1, 0
PAIR = ("京东小哥", "京东小哥，最近在干嘛")


def pieces(text: str) -> list[tuple[int, int]]:
    """Words parted by blanks."""
    spans, start = [], 0
    for word in text.split(" "):
        spans.append((start, start + len(word)))
        start += len(word) + 1
    return [(a, b) for a, b in spans if a < b]


BLANKS = SpanSegmenter("blanks", pieces)


@dataclass
class BagOfWords:
    """Scores a title by how many known words of the query it has; a token is a word."""

    weights: dict[str, float]
    filler: Filler = Filler("[MASK]", FILLER)
    asked: list[Sequence[EncodedPair]] = field(default_factory=list)

    def encode(self, query: str, title: str) -> EncodedPair:
        known = {word: place for place, word in enumerate(self.weights, 2)}
        ids, side, spans = [9000], [-1], [(0, 0)]
        for owner, text in ((QUERY, query), (TITLE, title)):
            for start, end in pieces(text):
                ids.append(known.get(text[start:end], UNKNOWN))
                side.append(owner)
                spans.append((start, end))
            ids.append(9001)
            side.append(-1)
            spans.append((0, 0))
        return EncodedPair(ids, [0] * len(ids), side, spans, False, False)

    def scores(self, encoded: Sequence[EncodedPair]) -> FloatArray:
        self.asked.append(encoded)
        worth = dict(enumerate(self.weights.values(), 2))
        texts = [
            [
                {t for t, s in zip(one.input_ids, one.side, strict=True) if s == side}
                for side in (0, 1)
            ]
            for one in encoded
        ]
        return np.array([sum(worth.get(token, 0.0) for token in q & t) for q, t in texts])


def test_a_toy_moves_by_what_its_words_are_worth() -> None:
    toy = BagOfWords({"高铁": 1.5, "票价": 0.25, "上海": 1.0})
    found = term_effects("高铁 票价 奇词", "奇词 高铁 的 票价", toy, BLANKS)
    assert [(one.side, one.term, one.change, one.score) for one in found] == [
        ("query", "高铁", -1.5, 0.25),
        ("query", "票价", -0.25, 1.5),
        ("query", "奇词", 0.0, 1.75),
        ("title", "奇词", 0.0, 1.75),
        ("title", "高铁", -1.5, 0.25),
        ("title", "的", 0.0, 1.75),
        ("title", "票价", -0.25, 1.5),
    ]
    assert [one.moved for one in found] == [True, True, False, False, True, False, True]
    best = most_telling(found)
    assert best is not None and (best.side, best.term) == ("query", "高铁")  # the first of equals
    (encoded,) = toy.asked
    assert {len(one) for one in encoded} == {len(encoded[0])}  # the length is kept


def test_where_nothing_is_known_nothing_tells() -> None:
    found = term_effects("奇词 怪字", "奇词", BagOfWords({"高铁": 1.0}), BLANKS)
    assert [one.change for one in found] == [0.0, 0.0, 0.0]
    assert most_telling(found) is None


def test_less_than_the_least_change_is_no_move() -> None:
    found = term_effects("高铁", "高铁", BagOfWords({"高铁": LEAST_CHANGE / 2}), BLANKS)
    assert [one.moved for one in found] == [False, False]
    found = term_effects("高铁", "高铁", BagOfWords({"高铁": LEAST_TELLING / 2}), BLANKS)
    assert [one.moved for one in found] == [True, True] and most_telling(found) is None


def test_all_tokens_of_a_term_are_filled_and_no_other() -> None:
    whole = EncodedPair(
        [101, 7, 8, 102, 7, 9, 102],
        [0] * 7,
        [-1, 0, 0, -1, 1, 1, -1],
        [(0, 0), (0, 1), (1, 3), (0, 0), (0, 2), (2, 3), (0, 0)],
        False,
        False,
    )
    filler = Filler("[MASK]", 103)
    assert fill(whole, "query", 1, 2, filler).input_ids == [101, 7, 103, 102, 7, 9, 102]
    assert fill(whole, "title", 1, 3, filler).input_ids == [101, 7, 8, 102, 103, 103, 102]
    assert fill(whole, "title", 3, 5, filler) is None  # cut off with the end of the text
    assert whole.input_ids == [101, 7, 8, 102, 7, 9, 102]


def test_a_checkpoint_reads_fillers_in_the_term_s_place(checkpoint_of: Callable[..., Path]) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    found = explain_pair(*PAIR, scorer, segmenter("jieba"))
    assert found.filler == "[MASK]" and scorer.counts.pairs == 1
    mask, labels = scorer.checkpoint.tokenizer.mask_token_id, scorer.checkpoint.settings.labels
    for term in found.terms:
        text = found.query if term.side == "query" else found.title
        assert text[term.start : term.end] == term.term
        (whole,) = scorer.tokenizer.encode([PAIR])
        first = 1 if term.side == "query" else 2 + len(found.query)  # a character is a token
        ids = list(whole.input_ids)
        ids[first + term.start : first + term.end] = [mask] * len(term.term)
        alone = read_outputs(scorer.logits_of([replace(whole, input_ids=ids)]), labels)
        assert term.score == pytest.approx(float(alone.expected[0]), abs=1e-5)
        assert term.change == pytest.approx(term.score - found.score, abs=1e-5)
    assert "，" not in [term.term for term in found.terms]
    assert [term.term for term in found.terms if term.side == "query"]


def test_a_text_of_one_term_is_filled_too(checkpoint_of: Callable[..., Path]) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of("electra", labels=1)))
    found = explain_pair("狗", "狗追猫", scorer, segmenter("jieba"))
    assert [one.term for one in found.terms if one.side == "query"] == ["狗"]
    largest = max(found.terms, key=lambda one: abs(one.change))
    assert found.most_telling == (largest if abs(largest.change) >= LEAST_TELLING else None)


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_terms_beyond_the_cut_are_left_out(checkpoint_of: Callable[..., Path], family: str) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of(family)), max_length=16)
    title = "最近在干嘛" * 10
    (whole,) = scorer.tokenizer.encode([("京东", title)])
    filler = filler_of(scorer.checkpoint)
    assert filler.token == ("[MASK]" if family == "bert" else "<mask>")
    found = filled_terms("京东", title, whole, segmenter("jieba"), filler)
    assert {one.side for one in found} == {"query", "title"}
    assert max(one.start for one in found) < max(end for _, end in whole.spans)
    assert all(filler.id in one.encoded.input_ids for one in found)


def test_of_model_is_the_scorer_that_explains(checkpoint_of: Callable[..., Path]) -> None:
    scorer = Scorer(open_checkpoint(checkpoint_of()))
    terms = term_effects(*PAIR, OfModel(scorer), segmenter("jieba"))
    assert terms == explain_pair(*PAIR, scorer, segmenter("jieba")).terms


def test_the_filler_depends_on_the_tokenizer() -> None:
    def of(**tokens: str) -> SimpleNamespace:
        ids = {"[MASK]": 4, "[UNK]": 1}
        tokenizer = SimpleNamespace(**tokens, convert_tokens_to_ids=ids.__getitem__)
        return SimpleNamespace(tokenizer=tokenizer, folder="m")

    both = {"mask_token": "[MASK]", "unk_token": "[UNK]"}
    assert filler_of(of(**both)) == ("[MASK]", 4)  # type: ignore[arg-type]
    assert filler_of(of(unk_token="[UNK]")) == ("[UNK]", 1)  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="neither a mask nor an unknown token"):
        filler_of(of())  # type: ignore[arg-type]
