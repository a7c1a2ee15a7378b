"""Characters of tokens, terms that both texts share, and the sample of a quick run."""

import pytest

from qt_bert.data.pairs import Pair
from qt_bert.data.segmenters import segmenter
from qt_bert.data.tokenise import QUERY, SPECIAL, TITLE, EncodedPair, PairTokenizer
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.streams import (
    Character,
    Shared,
    characters_of,
    coverage,
    for_model,
    is_content_word,
    is_han,
    is_punctuation,
    shared_terms,
    token_texts,
    tokens_within,
    uncut_tokens,
)
from tests.probes.pieces import byte_level, metaspace

JIEBA = segmenter("jieba")


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_characters_have_their_place_and_their_token(checkpoint_of, family):
    """A lone SentencePiece mark has a span of no character."""
    checkpoint = open_checkpoint(checkpoint_of(family))
    query, title = "狗追猫", "a猫 2狗"
    [encoded] = checkpoint.pair_tokenizer().encode([(query, title)])
    pieces = checkpoint.tokenizer.convert_ids_to_tokens(encoded.input_ids)
    of_none = [s >= 0 and a == b for s, (a, b) in zip(encoded.side, encoded.spans, strict=True)]
    assert of_none == [piece == "▁" for piece in pieces]
    assert any(of_none) == (family == "xlm-roberta")
    in_query = characters_of(encoded, query, title, QUERY)
    assert [(one.place, one.text) for one in in_query] == [(0, "狗"), (1, "追"), (2, "猫")]
    assert all(pieces[one.token] == one.text for one in in_query)
    assert [one.text for one in characters_of(encoded, query, title, TITLE)] == ["猫", "狗"]


def test_a_templates_prompt_is_no_separator():
    side = [SPECIAL, SPECIAL, QUERY, SPECIAL, TITLE, SPECIAL]
    spans = [(0, 0), (0, 0), (0, 1), (0, 0), (0, 1), (0, 0)]
    causal = EncodedPair([1] * 6, [0] * 6, side, spans, False, False, at=5)
    assert token_texts(causal, "狗", "猫") == ("…", "…", "狗", "[SEP]", "猫", "[CLS]")


def test_tokens_that_are_not_characters():
    """One of two characters, a character in two tokens, another that both halves share."""
    texts = "北京驿站", " 上站"
    tokenizer = byte_level(("北京", 6), ("站", 3), ("驿", 2), (" 上", 4))
    [one] = PairTokenizer(tokenizer, 64).encode([texts])
    # [CLS] 北京 驿 驿 站 [SEP] ␣上 站 [SEP]
    assert characters_of(one, *texts, QUERY) == [Character(4, 3, "站")]
    assert characters_of(one, *texts, TITLE) == [Character(6, 1, "上"), Character(7, 2, "站")]
    assert uncut_tokens(one, QUERY) == {1: (0, 2), 4: (3, 4)}
    assert tokens_within(one, QUERY, (1, 3)) == [1, 2, 3]
    assert tokens_within(one, TITLE, (0, 1)) == []
    assert " ".join(token_texts(one, *texts)) == "[CLS] 北京 驿 驿 站 [SEP] 上 站 [SEP]"
    # The last byte of 北 and all of 京: neither token is of whole characters.
    [one] = PairTokenizer(byte_level(("北", 2), ("京", 3)), 64).encode([("北京", "")])
    assert uncut_tokens(one, QUERY) == {3: (1, 2)}


def test_a_mark_that_is_glued_to_a_character_leaves_it_its_place():
    texts = "上海铁", "去 上"
    [one] = PairTokenizer(metaspace("▁上", "海铁", "去"), 64).encode([texts])
    # [CLS] ▁上 海铁 [SEP] ▁ 去 ▁上 [SEP]
    assert characters_of(one, *texts, QUERY) == [Character(1, 0, "上")]
    assert [(c.token, c.place) for c in characters_of(one, *texts, TITLE)] == [(5, 0), (6, 2)]
    assert token_texts(one, *texts)[4:7] == ("▁", "去", "上")


def test_han_characters():
    assert all(map(is_han, "狗〇㐀𠀀豈"))
    assert not any(map(is_han, "aａ1。、あ한 "))


def test_coverage_is_of_han_characters():
    assert coverage(["狗a", "猫狗"], 2) == pytest.approx(2 / 3)
    assert coverage(["abc"], 0) == 1.0


@pytest.mark.parametrize(
    ("query", "title", "shared"),
    [
        # 北京 is part of another word there, and 的 is a function word.
        ("北京的票", "北京大学的票", {"票": Shared([(3, 4)], [(5, 6)])}),
        ("EXCEL去重", "excel表格", {"excel": Shared([(0, 5)], [(0, 5)])}),
        ("Excel 的 狗", "EXCEL的", {"excel": Shared([(0, 5)], [(0, 5)])}),
        ("好吗？", "行吗？", {}),
        ("苹果手机", "苹果 苹果", {"苹果": Shared([(0, 2)], [(0, 2), (3, 5)])}),
    ],
)
def test_terms_are_whole_content_words_of_both_texts(query, title, shared):
    assert shared_terms(query, title, JIEBA) == shared


def test_terms_stand_in_the_order_of_the_query():
    found = shared_terms("我在伊朗长大", "假期电影《我在伊朗长大》", JIEBA)
    assert list(found) == ["我", "伊朗", "长大"]
    assert found["长大"] == Shared([(4, 6)], [(9, 11)])


def test_content_words():
    assert is_content_word("的票") and not is_content_word("的了") and not is_content_word("，。")
    assert is_punctuation("，") and not any(map(is_punctuation, "票a1 "))


@pytest.mark.parametrize(
    ("labels", "limit", "full", "pairs", "queries"),
    [
        (5, 5, False, 5, 5),  # of as many queries as there are
        (1, 8, False, 8, 2),  # one logit is judged by whole queries
        (5, 5, True, 20, 5),
    ],
)
def test_the_sample_of_a_run(context_of, checkpoint_of, labels, limit, full, pairs, queries):
    every = [Pair(f"q{n % 5}", f"t{n}", None, str(n), n, None, {}) for n in range(20)]
    found = for_model(every, limit, context_of(checkpoint_of(labels=labels), full=full))
    assert (len(found), len({pair.query for pair in found})) == (pairs, queries)
