"""Numbers of things, in words."""

from __future__ import annotations

from qt_bert.text import counted


def test_one_thing_has_no_plural_s() -> None:
    assert [counted(n, "pair") for n in (0, 1, 1200)] == ["0 pairs", "1 pair", "1,200 pairs"]
    assert [counted(n, "query", "queries") for n in (1, 2)] == ["1 query", "2 queries"]
