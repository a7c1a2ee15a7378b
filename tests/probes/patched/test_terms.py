"""Terms as whole tokens, by hand; words that can stand in for them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from transformers import AutoTokenizer

from qt_bert.pairs import Pair, PairTokenizer, segmenter
from qt_bert.pairs.tokenise import QUERY, TITLE, EncodedPair
from qt_bert.probes.patched.terms import (
    Donors,
    document_frequency,
    occurrences,
    usable_terms,
    whole_tokens,
)
from tests.conftest import sentencepiece, wordpiece

JIEBA = segmenter("jieba")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> AutoTokenizer:
    folder = tmp_path_factory.mktemp("wordpiece")
    wordpiece(folder)
    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def tokenizer(backend: AutoTokenizer) -> PairTokenizer:
    return PairTokenizer(backend, 64)


def encoded(tokenizer: PairTokenizer, query: str, title: str) -> EncodedPair:
    (one,) = tokenizer.encode([(query, title)])
    return one


def words(tokenizer: PairTokenizer, query: str, title: str, special: set[int] = frozenset()):
    found = usable_terms(encoded(tokenizer, query, title), query, title, JIEBA, special)
    return [one.word for one in found]


def test_a_term_has_its_tokens_in_both_texts(tokenizer: PairTokenizer) -> None:
    # [CLS] 苹 果 多 少 钱 [SEP] 北 京 苹 果 和 苹 果 [SEP]
    query, title = "苹果多少钱", "北京苹果和苹果"
    (term,) = usable_terms(encoded(tokenizer, query, title), query, title, JIEBA, set())
    assert (term.word, term.length) == ("苹果", 2)
    assert term.query == (1, 2) and term.title == (9, 10, 12, 13)


def test_occurrences_within_longer_words_count() -> None:
    assert occurrences("苹果手机苹果汁", [(0, 2)]) == [(0, 2), (4, 6)]
    assert occurrences("Apple apples", [(0, 5)]) == [(0, 5), (6, 11)]
    assert occurrences("a.b axb", [(0, 3)]) == [(0, 3)]


def test_words_that_are_no_terms(tokenizer: PairTokenizer, backend: AutoTokenizer) -> None:
    assert words(tokenizer, "北京电影", "上海高铁") == []
    assert words(tokenizer, "去北京", "去上海") == []  # a single character of a longer query
    assert words(tokenizer, "吃", "能吃") == ["吃"]
    # 鹦鹉 is not in the vocabulary: what is unknown may be anything, and is not matched.
    unknown = {int(backend.unk_token_id)}
    assert words(tokenizer, "鹦鹉北京", "北京鹦鹉") == ["鹦鹉", "北京"]
    assert words(tokenizer, "鹦鹉北京", "北京鹦鹉", unknown) == ["北京"]


def test_only_whole_tokens_spell_a_term(tokenizer: PairTokenizer) -> None:
    # WordPiece parts the word into a ##b ##c: `ab` ends within it, but where a token ends.
    one = encoded(tokenizer, "abc", "北京")
    assert whole_tokens(one, QUERY, (0, 2)) == (1, 2)
    assert whole_tokens(one, QUERY, (0, 4)) == ()
    assert whole_tokens(one, TITLE, (0, 1)) == (5,)
    whole = EncodedPair(
        [2, 9, 3, 8, 3],
        [0] * 5,
        [-1, 0, -1, 1, -1],
        [(0, 0), (0, 3), (0, 0), (0, 1), (0, 0)],
        False,
        False,
    )
    assert whole_tokens(whole, QUERY, (0, 2)) == ()


def test_a_title_cut_off_before_its_term(backend: AutoTokenizer) -> None:
    short = PairTokenizer(backend, 8)  # [CLS] 北 京 [SEP] 电 影 北 [SEP]
    assert words(short, "北京", "电影北京") == []


def test_a_mark_of_a_word_s_start_stays(tmp_path: Path) -> None:
    sentencepiece(tmp_path)
    tokenizer = PairTokenizer(AutoTokenizer.from_pretrained(tmp_path), 64)
    # <s> ▁ 北 京 </s> </s> ▁ 北 京 电 影 </s>
    (term,) = usable_terms(encoded(tokenizer, "北京", "北京电影"), "北京", "北京电影", JIEBA, set())
    assert (term.query, term.title) == ((2, 3), (7, 8))


def test_texts_are_counted_once() -> None:
    pairs = [
        Pair("北京电影", title, None, "", 0, None, {})
        for title in ("北京北京", "Apple", "北京电影")
    ]
    found = document_frequency(pairs, JIEBA)
    assert (found["北京"], found["电影"], found["apple"], found["上海"]) == (2, 1, 1, 0)


def test_donors_share_no_token_and_are_as_long(tokenizer: PairTokenizer) -> None:
    donors = Donors(tokenizer, JIEBA, ["北京电影", "京东手机", "苹果"], set())
    ids = {word: tuple(encoded(tokenizer, word, "").input_ids[1:3]) for word in ("苹果", "手机")}
    rng = np.random.default_rng(0)
    taken = set(encoded(tokenizer, "北京电影", "东").input_ids)
    drawn = {donors.draw(2, taken, ("北京电影", "东"), rng) for _ in range(40)}
    assert drawn == set(ids.values())
    assert donors.draw(2, taken | set(ids["苹果"]), ("",), rng) == ids["手机"]
    assert donors.draw(2, set(), ("苹果手机北京电影京东",), rng) is None
    assert donors.draw(3, set(), ("",), rng) is None
    assert Donors(tokenizer, JIEBA, ["苹果"], set(ids["苹果"])).draw(2, set(), (), rng) is None
