from pathlib import Path

import pytest

from qt_bert.data.splits import half_of
from qt_bert.data.treebank import Word, halves, read_treebank
from qt_bert.errors import PairFileError

SECOND = """\
# sent_id = a-1
# text = 我买iPhone 6。
1\t我\t我\tPRON\t_\t_\t2\tnsubj\t_\tSpaceAfter=No
2-3\t买iPhone\t_\t_\t_\t_\t_\t_\t_\t_
2\t买\t买\tVERB\t_\t_\t0\troot\t_\t_
3\tiPhone\t_\tPROPN\t_\t_\t2\tobj\t_\t_
3.1\t了\t_\tAUX\t_\t_\t_\t_\t_\t_
4\t6\t6\t_\t_\t_\t3\tnmod:tmod\t_\t_
5\t。\t。\tPUNCT\t_\t_\t2\t_\t_\t_

1\t走\t走\tVERB\t_\t_\t0\troot\t_\t_
"""


def _file(folder: Path, *rows: str) -> Path:
    path = folder / "bank.conllu"
    path.write_text("\n".join(rows) + "\n", encoding="utf-8")
    return path


def _row(number: int | str, form: str, head: int | str, label: str) -> str:
    return f"{number}\t{form}\t_\tNOUN\t_\t_\t{head}\t{label}\t_\t_"


def test_words_heads_labels_and_where_they_stand(tmp_path):
    first, other = read_treebank(_file(tmp_path, SECOND))
    assert (first.id, other.id) == ("a-1", "line 11")
    assert first.words == (
        Word("我", "PRON", 1, "nsubj"),
        Word("买", "VERB", -1, "root"),
        Word("iPhone", "PROPN", 1, "obj"),
        Word("6", None, 2, "nmod:tmod"),
        Word("。", "PUNCT", 1, None),
    )
    assert first.text == "我买iPhone 6。"
    assert first.spans == ((0, 1), (1, 2), (2, 8), (9, 10), (10, 11))


def test_of_version_1_only_what_means_the_same_keeps_its_label(tmp_path):
    labels = ["dobj", "nsubjpass", "auxpass", "nmod:tmod", "nsubj", "neg", "nmod", "det"]
    rows = [_row(at, "字", 9, label) for at, label in enumerate(labels, 1)]
    (sentence,) = read_treebank(_file(tmp_path, *rows, _row(9, "在", 0, "root")))
    kept = ["obj", "nsubj:pass", "aux:pass", "nmod:tmod", "nsubj", None, None, None, None]
    assert [word.relation for word in sentence.words] == kept
    assert [word.head for word in sentence.words] == [8] * 8 + [-1]
    assert {word.upos for word in sentence.words} == {None}


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["1\t走\t_"], "line 1: 3 columns, not 10"),
        ([_row(1, "走", 2, "root")], "line 1: head 2 of word 1"),
        ([_row(1, "走", 1, "root")], "line 1: head 1 of word 1"),
        ([_row(1, "走", "x", "root")], "line 1: Failed parsing field 'head'"),
        ([_row(1, "走", "_", "root")], "line 1: word 1 has no head"),
        ([_row(1, "走", "9" * 5_000, "root")], "line 1: Exceeds the limit"),
        ([_row(1, "", 0, "root")], "line 1: word 1 has no form"),
        ([_row("one", "走", 0, "root")], "line 1: Failed parsing field 'id'"),
        ([_row(1, "走", 0, "root"), _row(3, "了", 1, "dep")], "line 2: word 3 follows word 1"),
        ([_row("1.1", "走", "_", "_")], "line 1: a sentence without a word"),
        (["# text = 走"], "no sentence in it"),
    ],
)
def test_what_is_broken_is_named_with_its_line(tmp_path, rows, message):
    path = _file(tmp_path, *rows)
    with pytest.raises(PairFileError, match=message) as raised:
        read_treebank(path)
    assert str(path) in str(raised.value)


def test_a_missing_file_and_bytes_that_are_no_text(tmp_path):
    with pytest.raises(PairFileError, match="cannot be read"):
        read_treebank(tmp_path / "none.conllu")
    path = tmp_path / "bad.conllu"
    path.write_bytes(_row(1, "走", 0, "root").encode() + b"\n" + b"2\t\xff\xff\t_\n")
    with pytest.raises(PairFileError, match="line 2: undecodable bytes"):
        read_treebank(path)


def test_sentences_fall_to_the_half_of_their_text_once(tmp_path):
    path = _file(tmp_path, *(_row(1, f"{n}号", 0, "root") + "\n" for n in range(40)))
    result = halves([path, path])
    assert result.discovery and result.validation
    assert {half_of(sentence.text) for sentence in result.discovery} == {"discovery"}
    assert {half_of(sentence.text) for sentence in result.validation} == {"validation"}
    assert len(result.discovery) + len(result.validation) == 40
