"""Making pairs: every rule, numbers, seeds, what is barred, what contradicts, the file."""

from collections import Counter
from random import Random

import pytest

from experiments.make_pairs.language import Base, Draw, Made, RelatedTexts
from experiments.make_pairs.run import RULES, Gate, MadePair, barrier, folded, main, make_pairs
from qt_bert.data.segmenters import segmenter
from qt_bert.errors import ArgumentError
from qt_bert.training.recipes import PairSource
from tests.conftest import write_pairs

TEXTS = ["适合新手的花", "夏季裙子怎么洗", "旧毛衣拆线再织", "成都到昆明怎么坐车"]
TEXTS += ["2019年花展在哪里", "阳台上种的番茄为什么不开花"]
GOOD = [("阳台种菜", "阳台上种菜的五个窍门")]


def made(**changes: object) -> list[MadePair]:
    arguments: dict[str, object] = {"per_rule": 5, "seed": 3, **changes}
    return list(make_pairs(TEXTS, GOOD, **arguments))


def applied(rule: str, query: str, title: str | None = None, seeds: int = 30) -> list[Made]:
    """What a rule makes of one base under several seeds."""
    cutter = segmenter("rjieba")
    base, related = Base(query, title or query, (5,)), RelatedTexts(TEXTS, cutter)
    drawn = (RULES[rule].apply(Draw(base, Random(s), cutter, related)) for s in range(seeds))
    return [pair for pair in drawn if pair is not None]


@pytest.mark.parametrize(
    ("rule", "query", "pair"),
    [
        ("synonym", "土豆发芽了", ("土豆发芽了", "马铃薯发芽了")),
        ("direction", "成都到昆明怎么坐车", ("成都到昆明怎么坐车", "昆明到成都怎么坐车")),
        ("neutral_order", "陶盆和瓷盆的区别", ("陶盆和瓷盆的区别", "瓷盆和陶盆的区别")),
        ("negation", "适合新手的花", ("适合新手的花", "不适合新手的花")),
        ("negation", "不适合新手的花", ("适合新手的花", "不适合新手的花")),
        ("constraint_dropped", "儿童的毛衣图样", ("儿童的毛衣图样", "毛衣图样")),
    ],
)
def test_a_rule_makes_what_it_says(rule, query, pair):
    assert pair in {(result.query, result.title) for result in applied(rule, query)}


@pytest.mark.parametrize(
    ("rule", "query"),
    [
        ("synonym", "旧毛衣拆线再织"),
        ("negation", "狗能吃葡萄吗"),
        ("antonym", "饭前饭后都能喝茶"),
        ("number", "3-5个月开花"),
        ("place", "绿萝怎么养"),
        ("shuffled_words", "手工 毛衣 的 图样 大全 编织"),
    ],
)
def test_a_rule_leaves_alone_what_it_would_not_change(rule, query):
    assert applied(rule, query) == []


def test_the_seed_and_the_numbers_are_kept():
    assert made() == made() != made(seed=4)
    pairs = made(per_rule={"direction": 3, "paraphrase": 2}, rules=["direction", "paraphrase"])
    names = Counter(pair.rule for pair in pairs)
    assert (names["direction"], names["paraphrase"]) == (3, 2)
    many = [(pair.query, pair.title) for pair in made(per_rule=50)]
    assert len(set(many)) == len(many)
    assert made(per_rule=0) == []


def test_a_twin_follows_its_pair_with_the_same_query():
    pairs = made(rules=["opposite"], per_rule=20)
    for pair, twin in zip(pairs[::2], pairs[1::2], strict=True):
        assert (pair.rule, twin.rule) == ("opposite", "opposite:kept")
        assert pair.query == twin.query
        assert (pair.grades, twin.grades) == ((2,), (5,))


def test_forbidden_queries_are_neither_used_nor_made():
    assert any("适合新手的花" in pair.query for pair in made())
    for pair in made(forbidden={"适合 新手的花！"}):
        assert folded(pair.query) != "适合新手的花"
        assert "适合新手的花" not in pair.title


def test_the_gate_refuses_what_contradicts():
    gate = Gate(barrier(frozenset()), [("花展", "花展时间")])
    assert not gate.admits(Made("花展", "花展 时间"), (2,))
    assert not gate.admits(Made("花展", "花展！"), (1, 2))
    assert gate.admits(Made("花展", "花展门票"), (3,))
    assert not gate.admits(Made("花展", "赛马", "花展门票"), (1,))


def test_the_command_writes_a_file_that_training_reads(tmp_path, capsys):
    write_pairs(tmp_path / "good.tsv", [(line, f"{line}介绍", 5) for line in TEXTS])
    write_pairs(tmp_path / "held.tsv", [("适合新手的花", "x")])
    (tmp_path / "lines.txt").write_text("湿地公园停车收费\n绿萝怎么养\n", encoding="utf-8")
    recipe = tmp_path / "recipe.toml"
    settings = '[settings]\nforbidden = ["held.tsv"]\nper_rule = 20\n'
    text = f'text = ["lines.txt"]\n{settings}[[pairs]]\nfile = "good.tsv"\n'
    recipe.write_text(text, encoding="utf-8")
    out = tmp_path / "made.tsv"
    command = ["--recipe", str(recipe), "--data", str(tmp_path), "--seed", "1", "--out"]
    main([*command, str(out)])
    assert "pairs made" in capsys.readouterr().out
    read = PairSource(out).read(labelled=True)
    assert len(read) > 100 and "适合新手的花" not in {pair.query for pair in read}
    main([*command, str(tmp_path / "again.tsv")])
    assert (tmp_path / "again.tsv").read_bytes() == out.read_bytes()
    with pytest.raises(SystemExit):
        main([*command, str(out)])
    main(["--list"])
    assert "constraint_dropped   3-4" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rules": ["sme"], "per_rule": 1}, "no rule 'sme'; there are same, synonym"),
        ({"per_rule": {"same": -1}}, "-1 pairs of 'same'"),
    ],
)
def test_what_cannot_be_made_is_refused(changes, message):
    with pytest.raises(ArgumentError, match=message):
        made(**changes)
