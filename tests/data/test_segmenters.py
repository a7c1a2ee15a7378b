import importlib
import stat
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qt_bert.data import segmenters
from qt_bert.data.segmenters import (
    Segmenter,
    check_segmenter,
    granularities,
    jieba_tagger,
    segmenter,
)
from qt_bert.errors import ArgumentError, QtBertError

TEXT = "我来到北京清华大学abc 12！"


@pytest.mark.parametrize("name", ["jieba", "rjieba"])
def test_precise(name):
    cut = segmenter(name)
    assert cut.name == name
    assert cut.words(TEXT) == ["我", "来到", "北京", "清华大学", "abc", " ", "12", "！"]
    assert cut.spans(TEXT)[:4] == [(0, 1), (1, 3), (3, 5), (5, 9)]


@pytest.mark.parametrize("name", ["jieba-search", "rjieba-search"])
def test_search_adds_the_words_inside_long_words(name):
    assert segmenter(name).spans("清华大学") == [(0, 2), (0, 4), (1, 3), (2, 4)]


@pytest.mark.parametrize(
    "text", [TEXT, "永和服装饰品有限公司", "北京大学生前来应聘", "乒乓球拍卖完了", "T恤iphone13"]
)
def test_full_gives_what_jieba_gives(text):
    jieba = importlib.import_module("jieba")
    assert segmenter("jieba-full").words(text) == [w for w in jieba.cut(text, cut_all=True) if w]


@pytest.mark.parametrize("name", ["jieba", "rjieba"])
@given(text=st.text(st.characters(codec="utf-8"), max_size=30))
def test_precise_words_join_to_the_text(name, text):
    assert "".join(segmenter(name).words(text)) == text


@pytest.mark.parametrize("name", ["jieba", "jieba-full", "rjieba-search"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ｉＰｈｏｎｅ１５手机", ["ｉＰｈｏｎｅ１５", "手机"]),
        ("Pokémon手机", ["Pokémon", "手机"]),
        ("Poke\u0301mon手机", ["Poke\u0301mon", "手机"]),
        ("Røde手机", ["Røde", "手机"]),
        ("привет手机", ["привет", "手机"]),
        ("５㎏手机", ["５㎏", "手机"]),
        ("手机，㈱１", ["手机", "，", "㈱", "１"]),
    ],
)
def test_words_of_other_letters_are_whole(name, text, words):
    assert segmenter(name).words(text) == words


def test_a_users_word_of_other_letters_is_found(write):
    path = write("words.txt", "Ｒøde麦 100 n\n")
    assert segmenter("jieba", userdict=path).words("买Ｒøde麦") == ["买", "Ｒøde麦"]
    assert [word.tag for word in jieba_tagger(path)("买Ｒøde麦")] == ["v", "n"]


@pytest.mark.parametrize("name", ["jieba", "rjieba"])
def test_a_user_dictionary_adds_words_to_this_segmenter_alone(write, name):
    path = write("words.txt", "\ufeff伊朗长大 1000 n\n\n石墨烯 \r\n")
    assert "伊朗长大" in segmenter(name, userdict=path).words("我在伊朗长大")
    assert "伊朗长大" not in segmenter(name).words("我在伊朗长大")


@pytest.mark.parametrize("name", ["jieba", "jieba-search"])
def test_a_word_of_frequency_0_is_split_by_this_segmenter_alone(write, name):
    text, path = "他来到了网易杭研大厦", write("words.txt", "杭研 0\n")
    assert "杭研" in segmenter(name).words(text)  # jieba's guess, of no dictionary
    assert segmenter(name, userdict=path).words(text)[-3:] == ["杭", "研", "大厦"]
    assert "杭研" in segmenter(name).words(text)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("好词\n坏词\t5\n".encode(), "line 2"),
        ("词 五\n".encode(), "line 1"),
        ("词 5 n x\n".encode(), "line 1"),
        ("机器 学习".encode(), "line 1"),
        ("好词\n".encode() + b"\xff\n", "line 2: undecodable bytes"),
        (b"\n \n", "holds no word"),
    ],
)
def test_bad_user_dictionaries(write, content, reason):
    with pytest.raises(QtBertError, match=reason):
        segmenter("jieba", userdict=write("words.txt", content))


def test_a_missing_rjieba_names_the_extra(monkeypatch):
    segmenters.tokenizer_of.cache_clear()
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(ArgumentError, match=r"qt-bert\[fast\]"):
        segmenter("rjieba")


def test_the_cache_is_private(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    segmenters._private_cache.cache_clear()
    folder = segmenters._private_cache("jieba-test")
    assert folder == tmp_path / "qt_bert" / "jieba-test"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_jieba_comes_up_without_a_word():
    code = (
        "import warnings; warnings.simplefilter('always')\n"
        "from qt_bert.data.segmenters import segmenter\n"
        "print(segmenter('jieba').words('北京大学'))\n"
        "assert warnings.filters[0][0] == 'always'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("['北京大学']", "")


@pytest.mark.parametrize("name", ["none", "jieba-none", "gold"])
def test_a_check_refuses_what_the_segmenter_refuses(name):
    with pytest.raises(ArgumentError):
        check_segmenter(name)


def test_three_granularities(monkeypatch):
    spans = [(0, 2), (0, 4), (2, 4), (4, 5)]
    overlapping = Segmenter("overlapping", lambda _: spans)
    monkeypatch.setattr(segmenters, "segmenter", lambda *_: overlapping)
    ends = granularities(Segmenter("jieba", lambda _: [(0, 4), (4, 5)]))
    assert {name: ends_of("一二三四五") for name, ends_of in ends.items()} == {
        "precise": {4, 5},
        "search": {0, 2, 4, 5},
        "full": {4, 5},
    }


def test_words_stand_in_their_places():
    text = "我不想去北京 iPhone15，3.5折"
    result = jieba_tagger()(text)
    assert "".join(text[start:end] for (start, end), _ in result) == text
    tags = {text[start:end]: tag for (start, end), tag in result}
    assert tags["我"] == "r" and tags["去"] == "v" and tags["北京"] == "ns" and tags["3.5"] == "m"


def test_a_users_word_has_the_users_tag(write):
    words = write("words.txt", "京东小哥 9999 nr\n")
    assert ((0, 4), "nr") in jieba_tagger(words)("京东小哥")
    assert ((0, 4), "nr") not in jieba_tagger()("京东小哥")
