"""Reading what a text asks of what, and saying it again."""

from __future__ import annotations

from random import Random

import pytest

from qt_bert.training.rules.needs import composed, other_aspects, other_form, other_need, read_need


@pytest.mark.parametrize(
    ("text", "subject"),
    [
        ("绿萝怎么养", "绿萝"),
        ("如何养好绿萝", "绿萝"),
        ("在招商银行贷款利息怎么算", "招商银行"),
        ("梦见老虎", "老虎"),
        ("星海公司官网", "星海公司"),
    ],
)
def test_reads_the_subject(text: str, subject: str) -> None:
    need = read_need(text)
    assert need is not None
    assert need.subject == subject


@pytest.mark.parametrize("text", ["", "春", "随便走走看看风景", "为什么价格", "绿萝汇率"])
def test_reads_no_need_where_no_form_fits(text: str) -> None:
    assert read_need(text) is None


def test_other_form_asks_the_same() -> None:
    need = read_need("绿萝怎么养")
    assert need is not None
    for seed in range(10):
        form = other_form(need, Random(seed))
        assert form is not None and form != "绿萝怎么养"
        again = read_need(form)
        assert again is not None and again.wording == need.wording


def test_other_need_asks_another_thing() -> None:
    need = read_need("绿萝怎么养")
    assert need is not None
    for seed in range(10):
        assert other_need(need, Random(seed)) not in need.wording.forms


def test_other_aspects_do_not_name_the_subject() -> None:
    need = read_need("绿萝怎么养")
    assert need is not None
    aspects = [part for seed in range(10) for part in other_aspects(need, 2, Random(seed))]
    assert aspects
    assert not any("绿萝" in part or "{X}" in part for part in aspects)


def test_composed_texts_share_one_need_in_different_words() -> None:
    for seed in range(50):
        query, title = composed(Random(seed))
        assert query != title
        assert "{" not in query + title
