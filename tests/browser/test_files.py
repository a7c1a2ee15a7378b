"""Files: a good one is read and evaluated, a broken one refused in plain words."""

from __future__ import annotations

import json
import subprocess

import pytest

from apps.screens.evaluate import HEADLINES
from qt_bert.text import number
from tests.browser.driving.hostile import FILES, GOOD, TOO_LARGE
from tests.browser.driving.server import COMMAND


@pytest.fixture
def evaluated(tmp_path):
    """`qt-bert evaluate` of the good file."""
    path = tmp_path / "good.tsv"
    path.write_text(GOOD, encoding="utf-8")
    ended = subprocess.run(
        [COMMAND, "evaluate", "--pairs", path, "--json"],
        capture_output=True, text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    return json.loads(ended.stdout)


def choose_file(one):
    """Open the sidebar's fold and choose a file as the source of pairs."""
    one.element("side-pair-box").locator("summary").click()
    one.source("side-source", "文件", then="side-file")


def test_a_row_of_an_uploaded_file_becomes_the_pair(visitor):
    one = visitor()
    one.open("focus", out="none")
    choose_file(one)
    one.upload("side-file", "pairs.tsv", GOOD.encode())
    assert "读到 7 对" in one.words()
    assert "文件本身不在链接里" in one.words()
    before = one.metrics()
    picker = one.element("side-pair-box").get_by_role("combobox").last
    picker.click()
    one.page.get_by_role("option", name="苹果手机多少钱").click()
    one.settle()
    assert one.state()["t"] == "苹果手机多少钱"
    assert one.metrics() != before


@pytest.mark.parametrize("name", [*FILES, "large.tsv"])
def test_a_broken_file_is_refused_in_plain_words_on_the_left(visitor, name):
    one = visitor()
    one.open("focus", out="none")
    before = one.metrics()
    choose_file(one)
    one.upload("side-file", name, FILES.get(name, TOO_LARGE))
    if name not in ("unlabelled.tsv", "html.tsv", "one_line.tsv"):
        assert one.element("side-pair-box").locator("[role=alert], [class*=Error]").count()
    assert one.metrics() == before


def test_a_graded_file_gives_the_command_lines_figures(visitor, evaluated):
    one = visitor()
    one.open("evaluate", out="none")
    one.source("evaluate-source", "上传文件", then="evaluate-file")
    one.upload("evaluate-file", "good.tsv", GOOD.encode())
    assert "不在链接里" in one.words()
    one.element("evaluate-go").get_by_role("button").click()
    one.page.get_by_role("tab").first.wait_for()
    one.settle()
    figures = (evaluated[name]["value"] for name in HEADLINES)
    assert one.metrics() == [number(value) for value in figures if value is not None] != []


@pytest.mark.parametrize("name", [*FILES, "large.tsv"])
def test_a_broken_graded_file_is_refused_in_plain_words(visitor, name):
    one = visitor()
    one.open("evaluate", out="none")
    one.source("evaluate-source", "上传文件", then="evaluate-file")
    one.upload("evaluate-file", name, FILES.get(name, TOO_LARGE))
    assert one.main.locator("[role=alert], [class*=Error]").count()
    assert one.element("evaluate-go").count() == 0
