from dataclasses import replace
from xml.etree import ElementTree

import pytest

from qt_bert.figures import Token, TokenLine
from qt_bert.results.palette import EITHER, LIGHT, VARIABLES
from qt_bert.token_rows import token_rows
from tests.figures.examples import HOSTILE, TOKENS


def spans(figure, language="zh", palette=LIGHT):
    root = ElementTree.fromstring(token_rows(figure, language, palette))
    return [span for span in root.iter("span") if span.get("title")]


def line(*tokens: Token):
    return replace(TOKENS, lines=(TokenLine(name="", tokens=tokens),))


@pytest.mark.parametrize("palette", [LIGHT, EITHER, VARIABLES])
def test_tokens_stand_in_order_with_their_values(palette):
    tokens, long = spans(TOKENS, "en", palette), "a" * 90
    assert [token.text for token in tokens] == ["京", "[SEP]", long]
    titles = ["京: 0.50 share", "[SEP]: — share", f"{long}: 0.10 share · n"]
    assert [token.get("title") for token in tokens] == titles
    assert f"outline:2px solid {palette.ink}" in tokens[0].get("style")
    assert f"outline:1px solid {palette.grid}" in tokens[1].get("style")


def test_a_token_is_on_the_colour_of_its_value():
    (none, half, full) = spans(line(*(Token(text="a", value=v) for v in (0.0, 0.5, 1.0))))
    for span, share in ((none, "0.0"), (half, "50.0"), (full, "100.0")):
        assert f"color-mix(in srgb, {LIGHT.heat} {share}%, {LIGHT.surface})" in span.get("style")
    assert f"color:{LIGHT.on_heat}" in full.get("style")


def test_words_end_with_a_stroke():
    stroke = f"border-left:2px solid {LIGHT.positive}"
    assert token_rows(TOKENS, "zh").count(stroke) == 1
    assert stroke not in token_rows(line(Token(text="京")), "zh")


def test_hostile_texts_stay_texts():
    bad = '"><script>alert(1)</script>\x00\ud800'
    figure = replace(TOKENS, unit=bad, lines=(TokenLine(name=bad, tokens=(Token(text=bad),)),))
    markup = token_rows(figure, "zh")
    root = ElementTree.fromstring(markup)
    assert {element.tag for element in root.iter()} == {"div", "span"}
    assert "<script" not in markup and "&lt;img" in token_rows(TOKENS, "zh")
    assert HOSTILE not in token_rows(TOKENS, "zh")


def test_lines_without_values_have_no_legend():
    assert "color-mix" in token_rows(TOKENS, "zh") and "0.50" in token_rows(TOKENS, "zh")
    assert "<span>" not in token_rows(line(Token(text="京")), "zh")
    assert token_rows(replace(TOKENS, lines=()), "zh") == '<div class="tokens"></div>'
