"""Pairs cut apart: each text between the special tokens of its tokenizer."""

from __future__ import annotations

import pytest
import torch

from qt_bert.encoder import open_tokenizer
from qt_bert.encoder.architectures.texts import PaddedTexts, apart
from qt_bert.encoder.batches import to_batch
from qt_bert.pairs import PairTokenizer


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_each_text_is_what_the_tokenizer_makes_of_it_alone(checkpoint_of, family):
    tokenizer = open_tokenizer(checkpoint_of(family))
    (pair,) = PairTokenizer(tokenizer, 48).encode([("狗追猫", "京东小哥最近")])
    query, title = apart(pair)
    assert query == tokenizer("狗追猫")["input_ids"]
    assert title == tokenizer("京东小哥最近")["input_ids"]


def test_a_title_that_was_cut_away_is_still_a_text(checkpoint_of):
    tokenizer = open_tokenizer(checkpoint_of())
    (pair,) = PairTokenizer(tokenizer, 5).encode([("狗追猫", "京东小哥")])
    query, title = apart(pair)
    assert len(query) == 4 and title == [tokenizer.cls_token_id, tokenizer.sep_token_id]


def test_sides_are_padded_with_the_tokenizers_own_padding(checkpoint_of):
    tokenizer = open_tokenizer(checkpoint_of("xlm-roberta"))
    encoded = PairTokenizer(tokenizer, 48).encode([("狗", "猫追狗"), ("狗追猫", "猫")])
    pad = tokenizer.pad_token_id
    texts = PaddedTexts.of(to_batch([0, 1], encoded, pad=pad), lambda side: side.ids, pad=pad)
    assert texts.query.lengths.tolist() == [
        len(tokenizer(q)["input_ids"]) for q in ("狗", "狗追猫")
    ]
    assert (texts.title.ids[~texts.title.real] == pad).all()
    assert torch.equal(texts.first_tokens()[0], texts.query.ids)
