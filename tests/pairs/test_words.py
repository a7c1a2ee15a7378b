"""Pairs as words: places in the text, rarer words, cut texts, and the tokenizer that travels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from qt_bert.encoder import open_tokenizer
from qt_bert.errors import ArgumentError
from qt_bert.pairs import PairTokenizer
from qt_bert.pairs.words import folder_is_of_words, is_of_words
from qt_bert.training.word_vocabulary import common_words, word_tokenizer, word_tokenizer_folder
from tests.conftest import CHARACTERS, wordpiece

TEXTS = [
    "北京到上海高铁票价",
    "北京到上海高铁时刻表查询",
    "上海高铁票价查询",
    "苹果手机多少钱",
    "苹果",
]


@pytest.fixture(scope="module")
def characters(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("characters")
    wordpiece(folder)
    (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def words(characters: Path) -> Any:
    return word_tokenizer(open_tokenizer(characters), TEXTS, 5)


def spelled(tokenizer: Any, encoded: Any) -> list[str]:
    return list(tokenizer.convert_ids_to_tokens(encoded.input_ids))


def test_a_common_word_is_one_token_and_a_rarer_one_its_characters(words: Any) -> None:
    # 上海 3 and 高铁 3 times; 北京, 到, 查询, 票价 and 苹果 twice: the first three by code point
    (encoded,) = PairTokenizer(words, 32).encode([("北京到上海高铁", "手机 ABC")])
    assert spelled(words, encoded) == (
        ["[CLS]", "北京", "到", "上海", "高铁", "[SEP]", "手", "机", "a", "b", "c", "[SEP]"]
    )
    assert encoded.spans == (
        [(0, 0), (0, 2), (2, 3), (3, 5), (5, 7), (0, 0)]
        + [(0, 1), (1, 2), (3, 4), (4, 5), (5, 6), (0, 0)]
    )
    assert encoded.side == [-1, 0, 0, 0, 0, -1, 1, 1, 1, 1, 1, -1]
    assert encoded.token_type_ids == [0] * 6 + [1] * 6


def test_the_vocabulary_holds_the_characters_and_the_commonest_words(words: Any) -> None:
    vocabulary = words.get_vocab()
    assert set(CHARACTERS) <= set(vocabulary)
    assert {word for word in vocabulary if len(word) == 2} == {"上海", "北京", "高铁", "查询"}
    assert words.pad_token_id == 0 and len(words) == len(vocabulary)


def test_equally_common_words_come_by_code_point_whatever_their_order() -> None:
    from tokenizers.normalizers import BertNormalizer

    whole = BertNormalizer(handle_chinese_chars=False)
    forward = common_words(TEXTS, 5, whole)
    assert forward == common_words(reversed(TEXTS), 5, whole)
    assert forward == ["上海", "高铁", "到", "北京", "查询"]


def test_unknown_characters_and_blanks(words: Any) -> None:
    tokenizer = PairTokenizer(words, 32)
    blank, unknown, special = tokenizer.encode([("", " \u3000 "), ("鑫", "龘龘"), ("[SEP]", "a")])
    assert spelled(words, blank) == ["[CLS]", "[SEP]", "[SEP]"]
    assert spelled(words, unknown) == ["[CLS]", "[UNK]", "[SEP]", "[UNK]", "[UNK]", "[SEP]"]
    assert unknown.spans == [(0, 0), (0, 1), (0, 0), (0, 1), (1, 2), (0, 0)]
    assert spelled(words, special).count("[SEP]") == 2  # a text that spells one stays text


def test_a_long_title_is_cut_at_a_token(words: Any) -> None:
    tokenizer = PairTokenizer(words, 8)
    (encoded,) = tokenizer.encode([("北京到上海", "高铁票价查询北京")])
    assert spelled(words, encoded) == [
        "[CLS]",
        "北京",
        "到",
        "上海",
        "[SEP]",
        "高铁",
        "票",
        "[SEP]",
    ]
    assert encoded.title_truncated and not encoded.query_truncated
    (long,) = tokenizer.encode([("北京", "高铁" * 5_000)])
    assert spelled(words, long)[3:7] == ["高铁"] * 4 and long.title_truncated


def test_without_offsets_the_same_tokens(words: Any) -> None:
    tokenizer = PairTokenizer(words, 32)
    pairs = [("北京到上海高铁票价", "苹果手机"), ("苹果", "")]
    fast, exact = tokenizer.encode(pairs, offsets=False), tokenizer.encode(pairs)
    assert [one.input_ids for one in fast] == [one.input_ids for one in exact]
    assert all(one.spans == [] for one in fast)


def test_a_lone_surrogate_is_refused(words: Any) -> None:
    with pytest.raises(ArgumentError, match="lone surrogate"):
        PairTokenizer(words, 32).encode([("北京", "a\ud800")])


def test_what_is_saved_is_opened_as_a_tokenizer_of_words(characters: Path, tmp_path: Path) -> None:
    folder = word_tokenizer_folder(characters, TEXTS, 5, tmp_path / "words", "texts")
    (folder / "config.json").write_text('{"model_type": "bert"}', encoding="utf-8")
    opened = open_tokenizer(folder)
    assert is_of_words(opened) and folder_is_of_words(folder)
    assert not is_of_words(open_tokenizer(characters)) and not folder_is_of_words(characters)
    again = tmp_path / "again"
    opened.save_pretrained(again)
    assert folder_is_of_words(again)
    pair = [("北京到上海", "高铁")]
    raw = PairTokenizer(opened.backend_tokenizer, 32, words=True).encode(pair)
    assert raw == PairTokenizer(opened, 32).encode(pair)


def test_the_folder_is_made_anew_only_for_other_inputs(characters: Path, tmp_path: Path) -> None:
    def made(size: int, key: str) -> tuple[bytes, bool]:
        read: list[str] = []
        texts = (read.append(text) or text for text in TEXTS)
        folder = word_tokenizer_folder(characters, texts, size, tmp_path / "words", key)
        return (folder / "tokenizer.json").read_bytes(), bool(read)

    first, counted = made(5, "a")
    assert counted
    assert made(5, "a") == (first, False)
    smaller, counted = made(3, "a")
    assert counted and len(smaller) < len(first)
    assert made(5, "b") == (first, True)


def test_no_word_is_no_vocabulary(characters: Path, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="--words 0"):
        word_tokenizer_folder(characters, TEXTS, 0, tmp_path / "words", "a")
