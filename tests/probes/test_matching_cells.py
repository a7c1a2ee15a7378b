"""Cells of term matching by hand: own and other cells, replaced queries."""

from pathlib import Path

from qt_bert.data.tokenise import EncodedPair, PairTokenizer
from qt_bert.models.opening import open_checkpoint
from qt_bert.probes.matching_cells import (
    OTHER,
    OWN,
    QUERY_TO_TITLE,
    TITLE_TO_QUERY,
    Cells,
    Replacements,
    cells_of,
    channel_of,
)
from tests.probes.pieces import byte_level


def encoded(folder: Path, query: str, title: str) -> EncodedPair:
    return open_checkpoint(folder).pair_tokenizer(None).encode([(query, title)])[0]


def of_channel(cells: Cells, direction: int, part: int) -> set[tuple[int, int]]:
    chosen = cells.channel == channel_of(direction, part)
    return set(zip(cells.row[chosen].tolist(), cells.column[chosen].tolist(), strict=True))


def test_cells_of_characters(checkpoint_of):
    # [CLS] 苹 果 的 [SEP] 果 的 苹 手 [SEP]: tokens 0 … 9
    pair = "苹果的", "果的苹手"
    cells = cells_of(encoded(checkpoint_of(), *pair), *pair)
    assert of_channel(cells, QUERY_TO_TITLE, OWN) == {(1, 7), (2, 5)}
    assert of_channel(cells, QUERY_TO_TITLE, OTHER) == {
        *((1, at) for at in (5, 6, 8)),
        *((2, at) for at in (6, 7, 8)),
    }
    assert of_channel(cells, TITLE_TO_QUERY, OWN) == {(5, 2), (7, 1)}
    assert 3 not in cells.row and 6 not in cells.row  # a function character is no match
    assert cells.rows.tolist() == [2, 2]
    assert cells.counts.tolist() == [[2, 4], [2, 6]]


def test_matching_goes_by_the_characters_of_tokens():
    """A token of two characters matches a token of one of them, and a cut one with all its parts."""
    tokenizer = byte_level(("北京", 6), ("北", 3), ("站", 3), ("驿", 2), ("abc", 3))
    pair = "北京驿a", "驿北abc站"
    (one,) = PairTokenizer(tokenizer, 64).encode([pair])
    # [CLS] 北京 驿 驿 a [SEP] 驿 驿 北 abc 站 [SEP]
    cells = cells_of(one, *pair)
    assert of_channel(cells, QUERY_TO_TITLE, OWN) == {*((1, 8), (2, 6), (2, 7), (3, 6), (3, 7))}
    # abc spells no single character, so that its a is none of theirs.
    assert of_channel(cells, QUERY_TO_TITLE, OTHER) == {
        *((1, at) for at in (6, 7, 10)),
        *((row, at) for row in (2, 3) for at in (8, 10)),
    }
    assert of_channel(cells, TITLE_TO_QUERY, OWN) == {*((6, 2), (6, 3), (7, 2), (7, 3), (8, 1))}


def test_a_causal_model_has_rows_of_the_title_only(checkpoint_of):
    pair = "苹果的", "果的苹手"
    cells = cells_of(encoded(checkpoint_of(), *pair), *pair, causal=True)
    assert cells.counts.tolist() == [[2, 4], [0, 0]]
    assert cells.comparable and cells.rows.tolist() == [2, 0]


def test_replacements_are_as_long_and_share_nothing(checkpoint_of):
    tokenizer = open_checkpoint(checkpoint_of()).pair_tokenizer(None)
    pool = Replacements(tokenizer, ["北京", "上海", "手机", "苹果", "红烧肉", "手机"])
    assert sorted(pool.draw("北京的手", 2, 9, (0, 0))) == ["上海", "苹果"]
    assert len(pool.draw("北京的手", 2, 1, (0, 0))) == 1
    assert pool.draw("北京的手", 4, 3, (0, 0)) == []


def test_word_marks_stand_for_no_character(checkpoint_of):
    # <s> ▁ 手 机 </s> </s> ▁ 北 京 手 机 </s>: the marks are tokens 1 and 6
    pair = "手机", "北京手机"
    cells = cells_of(encoded(checkpoint_of("xlm-roberta"), *pair), *pair)
    assert not {1, 6} & {*cells.row.tolist(), *cells.column.tolist()}
    assert of_channel(cells, TITLE_TO_QUERY, OWN) == {(9, 2), (10, 3)}
