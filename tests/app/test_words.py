"""User text among markdown stays text."""

from __future__ import annotations

import pytest

from qt_bert.app.words import escaped


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("京东小哥", "京东小哥"),
        ("<b>a</b>", r"\<b\>a\<\/b\>"),
        ("[a](http)", r"\[a\]\(http\)"),
        (":red[x] $y$", r"\:red\[x\] \$y\$"),
        ("a\nb\x00", "a b\ufffd"),
    ],
)
def test_markup_is_escaped(text, shown):
    assert escaped(text) == shown
