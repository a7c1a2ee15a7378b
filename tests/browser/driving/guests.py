"""Ten guests whom nobody can take for another, and what the page has to show them."""

from dataclasses import dataclass

from tests.browser.driving.explained import explained, grade

PAIRS = (
    ("紫熨斗", "紫熨斗好用吗"),
    ("京东小哥", "京东小哥最近在干嘛"),
    ("怎么去除衣服上的油渍", "衣服沾了油怎么洗掉"),
    ("怎么去除衣服上的油渍", "红烧排骨的家常做法"),
    ("北京到上海高铁票价", "北京到上海高铁时刻表查询"),
    ("北京到上海高铁票价", "上海到北京高铁票价"),
    ("苹果多少钱一斤", "苹果手机多少钱"),
    ("苹果多少钱一斤", "今天苹果的价格是多少"),
    ("狗追猫", "猫追狗"),
    ("伊朗长假", "长假期去看电影"),
)


@dataclass(frozen=True)
class Guest:
    """A pair, and the heads left out in turn."""

    query: str
    title: str
    heads: tuple[str, ...]


Expected = dict[tuple[Guest, str], tuple[str, str]]


def guest(place: int) -> Guest:
    """The guest of this number: nobody else has this pair, or leaves these heads out."""
    heads = (f"L{turn}H{place} L{turn + 3}H{(place + turn) % 10}" for turn in range(3))
    return Guest(*PAIRS[place], tuple(heads))


def expected(guests: list[Guest]) -> Expected:
    """The grade and the words that each of them must see, with each of their heads left out."""
    return {
        (one, heads): (grade(one.query, one.title, heads), predicted(one, heads))
        for one in guests
        for heads in one.heads
    }


def predicted(one: Guest, heads: str) -> str:
    """The page's words on the likeliest grade, before and after."""
    before = explained(one.query, one.title)["predicted_grade"]
    return f"预测：{before} → {explained(one.query, one.title, heads)['predicted_grade']}"
