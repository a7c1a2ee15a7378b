"""Which token stands for which single character."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from qt_bert.data.tokenise import QUERY, TITLE
from qt_bert.models.checkpoint import open_checkpoint
from qt_bert.probes.streams import characters_of, coverage, is_han, is_marker


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_characters_have_their_place_and_their_token(
    checkpoint_of: Callable[..., Path], family: str
) -> None:
    """A lone SentencePiece mark has the first character's span and is not it."""
    checkpoint = open_checkpoint(checkpoint_of(family))
    query, title = "狗追猫", "a猫 2狗"
    [encoded] = checkpoint.pair_tokenizer().encode([(query, title)])
    in_query = characters_of(encoded, query, title, QUERY)
    assert [(one.place, one.text) for one in in_query] == [(0, "狗"), (1, "追"), (2, "猫")]
    for one in in_query:
        piece = checkpoint.tokenizer.convert_ids_to_tokens(encoded.input_ids[one.token])
        assert piece == one.text
    assert [one.text for one in characters_of(encoded, query, title, TITLE)] == ["猫", "狗"]


def test_other_characters_count_on_request(checkpoint_of: Callable[..., Path]) -> None:
    checkpoint = open_checkpoint(checkpoint_of())
    [encoded] = checkpoint.pair_tokenizer().encode([("狗", "a 猫 2")])
    found = characters_of(encoded, "狗", "a 猫 2", TITLE, han=False)
    assert [one.text for one in found] == ["a", "猫", "2"]


@pytest.mark.parametrize("family", ["bert", "xlm-roberta"])
def test_a_marker_spells_nothing(checkpoint_of: Callable[..., Path], family: str) -> None:
    checkpoint = open_checkpoint(checkpoint_of(family))
    [encoded] = checkpoint.pair_tokenizer().encode([("狗追猫", "a猫2狗")])
    pieces = checkpoint.tokenizer.convert_ids_to_tokens(encoded.input_ids)
    assert [is_marker(encoded, token) for token in range(len(encoded))] == [
        piece == "▁" for piece in pieces
    ]
    assert ("▁" in pieces) == (family == "xlm-roberta")


def test_han_characters() -> None:
    assert all(map(is_han, "狗〇㐀𠀀豈"))
    assert not any(map(is_han, "aａ1。、あ한 "))


def test_coverage_is_of_han_characters() -> None:
    assert coverage(["狗a", "猫狗"], 2) == pytest.approx(2 / 3)
    assert coverage(["abc"], 0) == 1.0
