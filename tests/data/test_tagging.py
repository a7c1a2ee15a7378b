"""jieba's tags: words in place, a user's words, odd text."""

from __future__ import annotations

from pathlib import Path

import pytest

from qt_bert.data.segmenters import jieba_tagger
from qt_bert.errors import ArgumentError


def test_words_stand_in_their_places() -> None:
    text = "我不想去北京 iPhone15，3.5折"
    found = jieba_tagger()(text)
    assert "".join(text[start:end] for (start, end), _ in found) == text
    tags = {text[start:end]: tag for (start, end), tag in found}
    assert tags["我"] == "r" and tags["去"] == "v" and tags["北京"] == "ns" and tags["3.5"] == "m"


@pytest.mark.parametrize("text", ["", " \n ", "😀😀", "\u200b的", "啊啊啊啊", "北京北京"])
def test_odd_text_keeps_every_character(text: str) -> None:
    spans = [span for span, _ in jieba_tagger()(text)]
    assert "".join(text[start:end] for start, end in spans) == text


def test_a_users_word_has_the_users_tag(tmp_path: Path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("京东小哥 9999 nr\n", encoding="utf-8")
    assert ((0, 4), "nr") in jieba_tagger(words)("京东小哥")
    assert ((0, 4), "nr") not in jieba_tagger()("京东小哥")


def test_a_bad_file_of_words_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="none.txt"):
        jieba_tagger(tmp_path / "none.txt")
