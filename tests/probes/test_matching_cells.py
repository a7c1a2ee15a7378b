"""Cells of term matching by hand: which token looks at which, and replaced queries."""

from __future__ import annotations

from pathlib import Path

from qt_bert.data.segmenters import segmenter
from qt_bert.data.tokenise import EncodedPair
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.matching_cells import (
    CHARACTERS,
    OTHER,
    OWN,
    QUERY_TO_TITLE,
    SYNONYMS,
    TERMS,
    TITLE_TO_QUERY,
    Aligned,
    Cells,
    Replacements,
    alignments,
    cells_of,
    channel_of,
)
from qt_bert.probes.streams import is_marker


def encoded(folder: Path, query: str, title: str) -> EncodedPair:
    return open_checkpoint(folder).pair_tokenizer(None).encode([(query, title)])[0]


def of_channel(cells: Cells, kind: int, direction: int, part: int) -> set[tuple[int, int]]:
    chosen = cells.channel == channel_of(kind, direction, part)
    return set(zip(cells.row[chosen].tolist(), cells.column[chosen].tolist(), strict=True))


def test_cells_of_characters(checkpoint_of):
    # [CLS] 苹 果 的 [SEP] 果 的 苹 手 [SEP]: tokens 0 … 9
    pair = "苹果的", "果的苹手"
    cells = cells_of(encoded(checkpoint_of(), *pair), *pair, segmenter("jieba"), ())
    assert of_channel(cells, CHARACTERS, QUERY_TO_TITLE, OWN) == {(1, 7), (2, 5)}
    assert of_channel(cells, CHARACTERS, QUERY_TO_TITLE, OTHER) == {
        *((1, at) for at in (5, 6, 8)),
        *((2, at) for at in (6, 7, 8)),
    }
    assert of_channel(cells, CHARACTERS, TITLE_TO_QUERY, OWN) == {(5, 2), (7, 1)}
    assert 3 not in cells.row and 6 not in cells.row  # a function character is no match
    assert cells.rows[CHARACTERS].tolist() == [2, 2]
    assert cells.counts[CHARACTERS].tolist() == [[2, 4], [2, 6]]


def test_cells_of_words_and_synonyms(checkpoint_of):
    # [CLS] 手 机 , [SEP] 北 京 手 机 , [SEP]
    pair = "手机,", "北京手机,"
    aligned = Aligned(0, 2, 0, 2)
    cells = cells_of(encoded(checkpoint_of(), *pair), *pair, segmenter("jieba"), [aligned])
    assert of_channel(cells, TERMS, QUERY_TO_TITLE, OWN) == {(1, 7), (1, 8), (2, 7), (2, 8)}
    assert of_channel(cells, TERMS, QUERY_TO_TITLE, OTHER) == {
        (row, at) for row in (1, 2) for at in (5, 6, 9)
    }
    assert of_channel(cells, SYNONYMS, TITLE_TO_QUERY, OWN) == {(5, 1), (5, 2), (6, 1), (6, 2)}
    assert 3 not in cells.row and 9 not in cells.row  # nor is punctuation


def test_shipped_alignments_are_found_by_text():
    found = alignments()["跑步膝盖疼", "一跑起来膝关节就痛，是怎么搞的？"]
    assert found == (Aligned(2, 4, 4, 7), Aligned(4, 5, 8, 9))


def test_replacements_are_as_long_and_share_nothing(checkpoint_of):
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(None)
    pool = Replacements(tokenizer, ["北京", "上海", "手机", "苹果", "红烧肉", "手机"])
    assert sorted(pool.draw("北京的手", 2, 9, (0, 0))) == ["上海", "苹果"]
    assert len(pool.draw("北京的手", 2, 1, (0, 0))) == 1
    assert pool.draw("北京的手", 4, 3, (0, 0)) == []


def test_word_marks_stand_for_no_character(checkpoint_of):
    # <s> ▁ 手 机 </s> </s> ▁ 北 京 手 机 </s>: the marks are tokens 1 and 6
    pair = "手机", "北京手机"
    one = encoded(checkpoint_of("xlm-roberta"), *pair)
    assert [at for at in range(len(one)) if is_marker(one, at)] == [1, 6]
    cells = cells_of(one, *pair, segmenter("jieba"), [Aligned(0, 2, 2, 4)])
    assert not {1, 6} & {*cells.row.tolist(), *cells.column.tolist()}
    assert of_channel(cells, TERMS, TITLE_TO_QUERY, OWN) == {(9, 2), (9, 3), (10, 2), (10, 3)}
    assert of_channel(cells, TERMS, QUERY_TO_TITLE, OTHER) == {(2, 7), (2, 8), (3, 7), (3, 8)}
    assert of_channel(cells, SYNONYMS, QUERY_TO_TITLE, OWN) == {(2, 9), (2, 10), (3, 9), (3, 10)}
