"""What a visitor types, clicks, uploads and links: numbers of the command line; hostile text stays text."""

import json
import subprocess

from apps.screens.evaluate import HEADLINES
from qt_bert.text import number
from tests.browser.driving.charts import click_head
from tests.browser.driving.explained import explained, grade
from tests.browser.driving.hostile import FILES, GOOD, IMAGE, TEXTS, TOO_LARGE
from tests.browser.driving.server import COMMAND
from tests.browser.driving.visitor import PAGES

QUERY, TITLE = "怎么去除衣服上的油渍", "衣服沾了油怎么洗掉"
HEADS = "L2H1 L3H7"
LINKED = 3_000
"""Characters of a text in a link: more than the page takes, less than the server reads of a line."""


def test_heads_left_out_in_every_way_give_the_command_lines_numbers(visitor):
    one = visitor()
    one.open()
    one.pair(QUERY, TITLE)
    one.leave_out("")
    assert one.metrics()[0] == grade(QUERY, TITLE)
    one.leave_out("l3h7, L2H1")
    assert one.state()["out"] == HEADS
    assert one.metrics()[0] == grade(QUERY, TITLE, HEADS) != grade(QUERY, TITLE)
    before, after = (explained(QUERY, TITLE, heads)["predicted_grade"] for heads in ("", HEADS))
    assert f"预测：{before} → {after}" in one.main.inner_text()
    for mode, name in (("uniform", "均匀"), ("mean", "均值"), ("zero", "零")):
        one.element("side-mode").get_by_text(name).click()
        one.settle()
        assert one.state()["mode"] == mode
        assert one.metrics()[0] == grade(QUERY, TITLE, HEADS, mode)
    for typed in ("L99H0", "L3", "<b>L3H7</b>", "L3H7" * 500):
        one.leave_out(typed)
        assert one.page.get_by_test_id("stSidebar").get_by_test_id("stAlert").count() == 1
        assert one.state()["out"] == HEADS
        assert one.metrics()[0] == grade(QUERY, TITLE, HEADS)
    one.choose("side-set", "匹配头")
    chosen = one.state()["out"]
    assert one.metrics()[0] == grade(QUERY, TITLE, chosen) and chosen != HEADS
    one.choose("side-set", "不去掉")
    assert one.state()["out"] == "none" and one.metrics()[0] == grade(QUERY, TITLE)
    one.leave_out("L2H1")
    one.element("side-grid-box").locator("summary").click()
    one.settle()
    click_head(one, one.element("side-grid"), 3, 7)
    assert one.state()["out"] == HEADS == one.field("side-out").input_value()
    assert one.metrics()[0] == grade(QUERY, TITLE, HEADS)
    click_head(one, one.element("side-grid"), 3, 7)
    assert one.state()["out"] == "L2H1"


def test_a_graded_file_gives_the_command_lines_figures(visitor, tmp_path):
    path = tmp_path / "good.tsv"
    path.write_text(GOOD, encoding="utf-8")
    command = [COMMAND, "evaluate", "--pairs", path, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    evaluated = json.loads(ended.stdout)
    one = visitor()
    one.open("evaluate", out="none")
    one.source("evaluate-source", "上传文件", then="evaluate-file")
    for name, content in {**FILES, "large.tsv": TOO_LARGE}.items():
        one.upload("evaluate-file", name, content)
        assert one.main.locator("[role=alert], [class*=Error]").count(), name
        assert one.element("evaluate-go").count() == 0
        assert nothing_ran(one), name
    one.upload("evaluate-file", "good.tsv", GOOD.encode())
    assert "不在链接里" in one.words()
    one.element("evaluate-go").get_by_role("button").click()
    one.page.get_by_role("tab").first.wait_for()
    one.settle()
    figures = (evaluated[name]["value"] for name in HEADLINES)
    assert one.metrics() == [number(value) for value in figures if value is not None] != []


def test_hostile_text_stays_text_on_every_page(visitor):
    one = visitor()
    one.open("focus")
    kinds = ("html", "markdown", "emoji", "control", "surrogate")
    text = " ".join(TEXTS[kind] for kind in kinds)
    one.pair(text, TEXTS["long"] + text)
    assert IMAGE in one.field("side-query").input_value()
    for name in (*PAGES[1:], PAGES[0]):
        one.go(name)
        assert one.faults() == [] and nothing_ran(one), name
    one.type("side-query", TEXTS["blank"])
    assert one.metrics() == [] and "不能为空" in one.main.inner_text()


def test_a_hostile_link(visitor):
    one = visitor()
    wrong = {"model": "/etc/passwd", "layer": "99", "head": "-1", "mode": "pickle", "seed": "1e9"}
    one.open("focus", q=QUERY, out="L1H2 L99H99", lang="xx", **wrong)
    assert one.main.get_by_test_id("stAlert").count() >= 5
    assert one.state()["q"] == QUERY and one.state()["model"] == "graded"
    assert one.metrics()
    for text in (TEXTS["html"] + TEXTS["markdown"] + TEXTS["control"], TEXTS["long"]):
        one.open(q=text[:LINKED], t=text[:LINKED], out=IMAGE)
        assert nothing_ran(one)
        assert len(one.state()["q"] + one.state()["t"]) <= 2_000


def nothing_ran(one):
    """No image, script or link of the visitor's text became an element."""
    made = "img[src='x'], a[href^='javascript'], [onerror], b:has-text('粗')"
    return one.page.locator(made).count() == 0 and one.watch.dialogs == []
