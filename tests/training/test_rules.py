"""Each rule on bases of its own: what it changes, what it keeps, where it does not fit."""

from __future__ import annotations

from random import Random

import pytest

from qt_bert.pairs import GRADES, segmenter
from qt_bert.training.rules import RULES, Base, Draw, Made, describe_rules
from qt_bert.training.rules.related import RelatedTexts

TEXTS = (
    "阳台种番茄要多大的花盆",
    "番茄炒蛋先放哪个",
    "书架承重多少斤合适",
    "周末带孩子去湿地公园看鸟",
    "湿地公园停车收费",
    "旧毛衣拆线再织",
)


def draw(query: str, title: str | None = None, seed: int = 0) -> Draw:
    cutter = segmenter("rjieba")
    base = Base(query, query if title is None else title, (5,))
    return Draw(base, Random(seed), cutter, RelatedTexts(TEXTS, cutter))


def made(rule: str, query: str, title: str | None = None, seeds: int = 30) -> list[Made]:
    drawn = (RULES[rule].apply(draw(query, title, seed)) for seed in range(seeds))
    return [one for one in drawn if one is not None]


def some(rule: str, query: str, title: str | None = None, seeds: int = 30) -> list[Made]:
    pairs = made(rule, query, title, seeds)
    assert pairs, f"{rule} fits no draw of {query}"
    return pairs


def titles(rule: str, query: str, title: str | None = None) -> set[tuple[str, str]]:
    """What the rule answers to the unchanged query and to the changed one."""
    return {(one.query, one.title) for one in some(rule, query, title)}


def test_every_rule_is_declared_in_full() -> None:
    for name, rule in RULES.items():
        assert rule.name == name
        assert rule.zh and rule.en
        assert list(rule.grades) == list(range(rule.grades[0], rule.grades[-1] + 1))
        assert set(rule.grades) <= set(GRADES)


def test_description_has_a_row_for_every_rule() -> None:
    table = {row.name: row for row in describe_rules()}
    assert list(table) == list(RULES)
    assert table["direction"].grades == "2"
    assert table["constraint_dropped"].grades == "3-4"


def test_same_keeps_the_query_in_the_title() -> None:
    assert all("旧毛衣拆线再织" in one.title for one in some("same", "旧毛衣拆线再织"))


def test_synonym_replaces_a_whole_word() -> None:
    assert ("土豆发芽了", "马铃薯发芽了") in titles("synonym", "土豆发芽了")


def test_synonym_does_not_fit_without_a_known_word() -> None:
    assert made("synonym", "旧毛衣拆线再织") == []


def test_paraphrase_differs_from_its_query() -> None:
    pairs = made("paraphrase", "旧毛衣拆线再织")
    assert pairs and all(one.query != one.title for one in pairs)


def test_misspelling_changes_the_query_and_keeps_the_title() -> None:
    pairs = some("misspelling", "旧毛衣拆了怎么重新再织一件")
    assert all(one.query != one.title == "旧毛衣拆了怎么重新再织一件" for one in pairs)


def test_misspelling_spares_numbers_and_negations() -> None:
    for one in some("misspelling", "3岁宝宝不能坐的椅子有哪几种", seeds=80):
        assert "3" in one.query and "不" in one.query


def test_direction_exchanges_two_places() -> None:
    pairs = titles("direction", "成都到昆明怎么坐车")
    assert ("成都到昆明怎么坐车", "昆明到成都怎么坐车") in pairs


def test_direction_keeps_a_twin_in_the_same_direction() -> None:
    for one in some("direction", "旧毛衣拆线再织"):
        assert one.kept is not None
        assert one.kept != one.title


@pytest.mark.parametrize("query", ["成都和昆明哪个大", "成都到昆明多少公里"])
def test_direction_does_not_exchange_where_it_changes_nothing(query: str) -> None:
    assert all(one.query != query for one in made("direction", query))


def test_neutral_order_exchanges_what_is_compared() -> None:
    pairs = titles("neutral_order", "陶盆和瓷盆的区别")
    assert ("陶盆和瓷盆的区别", "瓷盆和陶盆的区别") in pairs


def test_neutral_order_moves_keywords() -> None:
    assert ("毛衣 手工", "手工 毛衣") in titles("neutral_order", "毛衣 手工")


def test_negation_affirms_and_denies_in_both_roles() -> None:
    affirmed, denied = "适合新手的花", "不适合新手的花"
    assert titles("negation", affirmed) == {(affirmed, denied), (denied, affirmed)}
    assert titles("negation", denied) == {(affirmed, denied), (denied, affirmed)}


@pytest.mark.parametrize(
    "query",
    ["狗能吃葡萄吗", "这桌布可以机洗么", "能不能用开水浇花", "功能齐全的书桌", "他还没有来"],
)
def test_negation_leaves_questions_and_bound_words_alone(query: str) -> None:
    assert made("negation", query) == []


def test_antonym_turns_in_both_roles() -> None:
    pairs = titles("antonym", "夏季裙子", "夏季裙子搭配")
    assert pairs == {("夏季裙子", "冬季裙子搭配"), ("冬季裙子", "夏季裙子搭配")}


@pytest.mark.parametrize("query", ["饭前饭后都能喝茶", "这种花有毒吗"])
def test_antonym_leaves_both_sides_and_questions_alone(query: str) -> None:
    assert made("antonym", query) == []


def test_opposite_has_a_twin_on_the_side_of_the_query() -> None:
    for one in some("opposite", "旧毛衣拆线再织"):
        assert one.kept is not None
        assert len({one.query, one.title, one.kept}) == 3
        assert "{X}" not in one.query + one.title + one.kept


def test_model_changes_the_number_of_a_model() -> None:
    pairs = {one.title for one in some("model", "蓝鸟K7音箱") if one.query == "蓝鸟K7音箱"}
    assert pairs <= {f"蓝鸟K{n}音箱" for n in (4, 5, 6, 8, 9, 10)}
    assert pairs


def test_model_changes_an_episode_numeral() -> None:
    pairs = {one.title for one in some("model", "山谷第三季") if one.query == "山谷第三季"}
    assert pairs <= {f"山谷第{n}季" for n in "一二四五"}
    assert pairs


def test_number_moves_a_round_amount_to_a_round_one() -> None:
    amounts = {one.title for one in some("number", "200元的键盘") if one.query == "200元的键盘"}
    assert amounts <= {f"{n}元的键盘" for n in (100, 300, 400, 500)}
    assert amounts


@pytest.mark.parametrize("query", ["二十三种花", "3-5个月开花", "四分之三的水", "花期很长"])
def test_number_leaves_parts_of_numbers_alone(query: str) -> None:
    assert made("number", query) == []


def test_year_moves_by_at_most_three() -> None:
    for one in some("year", "2019年花展"):
        years = sorted((int(one.query[:4]), int(one.title[:4])))
        assert 2019 in years
        assert 1 <= years[1] - years[0] <= 3


def test_number_rules_need_the_number_in_the_query() -> None:
    assert made("year", "花展", "2019年花展") == []


def test_subject_names_another_of_the_kind() -> None:
    for one in some("subject", "绿萝怎么养", "绿萝养护方法"):
        assert one.title.endswith("养护方法") and "绿萝" not in one.title


def test_entity_is_not_taken_from_a_site_name() -> None:
    assert made("entity", "优酷老电影", "老电影大全-优酷") == []


def test_place_leaves_other_things_alone() -> None:
    assert made("place", "绿萝怎么养") == []
    assert made("place", "绍兴黄酒作坊")


def test_intent_keeps_the_subject() -> None:
    pairs = some("intent", "绿萝怎么养")
    assert all("绿萝" in one.title and "怎么养" not in one.title for one in pairs)


def test_constraint_dropped_drops_it_from_the_title_alone() -> None:
    assert ("儿童的毛衣图样", "毛衣图样") in titles("constraint_dropped", "儿童的毛衣图样")


def test_constraint_changed_asks_for_one_and_gives_another() -> None:
    for one in some("constraint_changed", "绿萝怎么养", "绿萝养护方法"):
        assert one.kept is not None and one.kept != one.title
        assert one.query.removesuffix("绿萝怎么养") == one.kept.removesuffix("绿萝养护方法")


@pytest.mark.parametrize("rule", ["constraint_added", "audience_added"])
def test_constraint_added_narrows_the_title(rule: str) -> None:
    for one in some(rule, "鼻炎怎么办", "鼻炎怎么治疗"):
        assert one.title.endswith("鼻炎怎么治疗") and one.title != "鼻炎怎么治疗"


def test_audience_is_not_said_twice() -> None:
    pairs = some("audience_added", "绿茶的作用", "吃绿茶有什么好处")
    assert all(one.title.count("吃") == 1 for one in pairs)


def test_wider_holds_the_title_and_more() -> None:
    for one in some("wider", "绿萝怎么养"):
        assert one.title.startswith("绿萝怎么养") and len(one.title) > len("绿萝怎么养")


def test_part_gives_one_of_two_things_asked() -> None:
    for one in some("part", "绿萝怎么养", "绿萝养护方法"):
        assert one.title == "绿萝养护方法"
        assert one.kept is not None and one.kept.startswith(one.title)


def test_general_names_the_kind() -> None:
    pairs = some("general", "绿萝花期")
    assert all("植物" in one.query + one.title for one in pairs)


def test_other_need_shares_a_rare_word_and_no_more() -> None:
    pairs = made("other_need", "湿地公园水质监测")
    assert {one.title for one in pairs} <= {TEXTS[3], TEXTS[4]}


def test_random_shares_no_content_character() -> None:
    pairs = some("random", "湿地公园")
    assert not any(set("湿地公园") & set(one.title) for one in pairs)


def test_random_without_texts_does_not_fit() -> None:
    cutter = segmenter("rjieba")
    lonely = Draw(Base("湿地", "湿地", (5,)), Random(0), cutter, RelatedTexts((), cutter))
    assert RULES["random"].apply(lonely) is None


@pytest.mark.parametrize("rule", ["shuffled_characters", "shuffled_words", "reversed"])
def test_salad_has_the_characters_of_the_title(rule: str) -> None:
    title = "阳台上种的番茄为什么不开花"
    pairs = some(rule, title)
    assert all(sorted(one.title) == sorted(title) != list(title) for one in pairs)
    assert all(one.title != title == one.kept for one in pairs)


def test_shuffled_words_leaves_lists_of_keywords_alone() -> None:
    assert made("shuffled_words", "手工 毛衣 的 图样 大全 编织") == []


def test_stuffing_repeats_a_keyword() -> None:
    for one in some("stuffing", "旧毛衣拆线"):
        assert one.title.count("毛衣") + one.title.count("拆线") >= 3
